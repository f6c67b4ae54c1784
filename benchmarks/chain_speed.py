"""What the hash chain costs on a large log: migrating it, verifying it, taking it out and verifying the file.

    python benchmarks/chain_speed.py [--answers 1000000] [--url postgresql+psycopg://…/empty]

Seconds are processor time. The ratio beside each figure is against SHA-256 of the same rows' bytes alone: what no program could save.
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import tempfile
import time
from pathlib import Path

import sqlalchemy as sa

from steelyard.store import schema
from steelyard.store.database import make_engine, read_url
from steelyard.store.evidence import verify
from steelyard.store.logfile import verify_log
from steelyard.store.opening import upgrade
from steelyard.store.store import Store


def fill(url: str, n: int) -> None:
    """A study as it was before there was a chain, with `n` answers."""
    engine = make_engine(read_url(url))
    with engine.connect() as connection:
        connection.execution_options(writing=True)
        with connection.begin():
            upgrade(connection, "0004")
            images = [{"row": k, "id": f"{k:032x}", "path": f"{k}.png"} for k in range(2)]
            connection.execute(sa.insert(schema.images), images)
            connection.execute(sa.text("INSERT INTO annotators (name, created) VALUES ('kt', 1.0)"))
            pair = {"strategy": "epig", "reason": "", "created": 1.0, "reserved": False, "raters": n}
            pair |= {"first_row": 0, "second_row": 1, "repeat": 0, "round": 0, "answers": n, "open": False}
            connection.execute(sa.insert(schema.pairs), pair)
            for start in range(0, n, 10_000):
                rows = [
                    {
                        "id": f"a5b1c0de-0000-4000-8000-{k:012x}",
                        "pair": 1,
                        "annotator": "kt",
                        "answer": "left",
                        "left_row": 0,
                        "right_row": 1,
                        "shown_at": 1.7e9 + k,
                        "answered_at": 1.7e9 + k + 0.3,
                        "received_at": 1.7e9 + k + 0.4,
                        "note": "",
                        "source": "page",
                    }
                    for k in range(start, min(n, start + 10_000))
                ]
                connection.execute(sa.insert(schema.comparisons), rows)
    engine.dispose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=1_000_000)
    parser.add_argument("--url", default="", help="URL of an empty PostgreSQL database instead of SQLite")
    options = parser.parse_args()
    n = options.answers
    with tempfile.TemporaryDirectory() as folder:
        url = options.url or f"sqlite:///{folder}/study.db"
        fill(url, n)
        row = b"x" * 330
        start = time.process_time()
        for _ in range(n):
            hashlib.sha256(row).hexdigest()
        plain = time.process_time() - start
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        def tell(what: str, seconds: float) -> None:
            print(
                f"{what:32} {seconds:6.1f} s, {n / seconds:9,.0f} rows/s ({seconds / plain:.0f}× the hashing alone)"
            )

        start = time.process_time()
        store = Store.open(url)
        tell("migrating (backup included)", time.process_time() - start)
        with store.database.reading() as connection:
            start = time.process_time()
            assert verify(connection) == []
            tell("verifying", time.process_time() - start)
        file = Path(folder) / "log.jsonl"
        start = time.process_time()
        store.audit.export(file)
        tell("writing the log to a file", time.process_time() - start)
        start = time.process_time()
        assert verify_log(file).problems == []
        tell("verifying the file", time.process_time() - start)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"memory: at most {(peak - before) / 1024:.0f} MB more than before")
        store.close()


if __name__ == "__main__":
    main()
