"""What an answer costs on PostgreSQL: processor time of our process and of the server's, and how long one waits.

    python benchmarks/answer_cost.py --url postgresql+psycopg://…/empty [--answers 900]

Run it on two versions in one session, by turns: processor time hardly depends on who else uses the machine.
"""

from __future__ import annotations

import argparse
import inspect
import statistics
import time

import numpy as np
import psutil
import sqlalchemy as sa

from steelyard.pairs import Answer
from steelyard.store.records import NewComparison, NewImage, NewPair
from steelyard.store.store import Store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True, help="an empty PostgreSQL database on this machine")
    parser.add_argument("--answers", type=int, default=900)
    options = parser.parse_args()
    n, rng = options.answers, np.random.default_rng(0)
    with Store.open(options.url) as store:
        store.images.add_all([NewImage(k, f"{k:032x}") for k in range(n + 101)])
        store.pairs.add_all([NewPair(k, k + 1) for k in range(n + 100)])

        def server_seconds() -> float:
            with store.database.reading() as connection:
                pids = connection.execute(
                    sa.text("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
                ).scalars()
                return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids if psutil.pid_exists(pid))

        kept = "since" in inspect.signature(store.answers.count).parameters  # not in versions before

        def work(answers: int) -> tuple[list[float], list[float]]:
            asked, told = [], []
            while len(told) < answers:
                start = time.perf_counter()
                held = store.pairs.lease("kt", 6, seconds=900, rng=rng)
                asked.append(time.perf_counter() - start)
                for one in held:
                    start = time.perf_counter()
                    said = NewComparison(one.pair, "kt", Answer.LEFT, one.left, one.right)
                    recorded = store.answers.add(said, require_lease=True)
                    store.answers.count(**({"since": recorded.seq} if kept else {}))
                    told.append(time.perf_counter() - start)
            return asked, told

        work(60)
        server, own = server_seconds(), time.process_time()
        asked, told = work(n)
        own, server = time.process_time() - own, server_seconds() - server
    print(f"processor time an answer: ours {1e3 * own / n:.2f} ms, the server's {1e3 * server / n:.2f} ms")
    for what, seconds in (("an answer and the count", told), ("six pairs", asked)):
        print(
            f"{what}: at best {1e3 * min(seconds):.1f} ms, median {1e3 * statistics.median(seconds):.1f} ms"
        )


if __name__ == "__main__":
    main()
