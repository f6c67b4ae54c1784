"""1,000 annotators at one server on PostgreSQL, simulated on service times that are measured in the same run.

    python benchmarks/annotator_queue.py [--images 20000] [--validate 50 200] [--choose-images 100000] [--fit SECONDS]
                                         [--times FILE | --keep FILE]

1. A real server process and a PostgreSQL of its own, one person: processor time of both for a request, how much requests scatter, what
   batches of answers cost, and how long the log's lock is held (looked at from a second connection at random moments).
2. With `--validate`, that many people of server_load.py for real, and the same crowd simulated, side by side.
3. The simulation (`_annotators.py`): 50 … 2,000 people; 1, 2 and 4 web processes, with as many cores for the database.
4. The chooser: seconds of EPIG by batch, measured; whether it keeps 1,000 people busy; how stale the model is (`--fit`: seconds of a fit).

`--keep` writes what was measured, `--times` takes it from there. Nobody publishes how long people look at a pair here: the seconds from
pair to answer are log-normal with σ = 0.6 about the means given by `--think`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import threading
import time
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
from _annotators import Found, Site, Times, thinking
from _cost_model import CostModel, Point
from _cost_steps import database_seconds

from steelyard.loop.policy import AT_ONCE

PEOPLE = (50, 200, 1_000, 2_000)
PROCESSES = (1, 2, 4)
BATCHES = (1, 4, 16, 64)
CHOSEN = (6, 100, 1_000, 2_000)


def measure(images: int, rounds: int) -> Times:
    """Part 1."""
    import psycopg
    import web_study
    from _crowd import ANSWER, LEASE, Person
    from server_load import new_postgres

    from steelyard.study import Study
    from steelyard.web.auth import digest, new_secret

    url, end = new_postgres()
    place = Path(tempfile.mkdtemp(prefix="steelyard-queue-"))
    try:
        folder = web_study.make(place, n=images, store=url)
        token = new_secret()
        with Study.open(folder) as study:
            study.store.people.add("one")
            study.store.people.tokens.add(digest(token), "one", "queue", mode="local")
            study.propose(6 * rounds + 40)
        with psycopg.connect(url.replace("+psycopg", "")) as connection:
            postmaster = psutil.Process(psutil.Process(connection.info.backend_pid).ppid())
        with web_study.Server(folder) as server:
            web = psutil.Process(server.pid)
            person = Person(0, server.url.removeprefix("http://"), token, threading.Event())

            def spent() -> np.ndarray:
                return np.array([sum(web.cpu_times()[:2]), database_seconds(postmaster)])

            def cycle(count: int) -> None:
                for _ in range(count):
                    reply = person._post(LEASE, {"count": 6})
                    for pair in (reply or {})["pairs"]:
                        now = time.time()
                        body = {"id": str(uuid.uuid4()), "pair": pair["id"], "left": pair["left"], "right": pair["right"],
                                "answer": "left", "shown_at": now - 2, "answered_at": now}  # fmt: skip
                        person._post(ANSWER, body)

            cycle(4)
            for values in person.shares.values():
                values.clear()
            before = spent()
            cycle(rounds)
            both, before = spent() - before, spent()
            answers, leases = np.array(person.shares[ANSWER]), np.array(person.shares[LEASE])
            for _ in range(4 * rounds):
                person._post(LEASE, {"count": 6})
            taken = (spent() - before) / (4 * rounds)
            answer = np.maximum((both - len(leases) * taken) / len(answers), 1e-5)
        more, alone, held, call = _batches(folder, postmaster, url)
    finally:
        end()
        shutil.rmtree(place, ignore_errors=True)
    # What is neither our processor's nor the database's of an answer at its median is the disk's, and the way there and back.
    commit = max(float(np.median(answers)) / 1e3 - answer[0] - answer[1], 0.0)
    print(
        f"one person, {images:,} images, {len(answers)} answers: an answer takes {1e3 * answer[0]:.2f} ms of the web process and "
        f"{1e3 * answer[1]:.2f} ms of the database, {np.median(answers):.1f} ms by the server's clock (p99 {np.percentile(answers, 99):.1f}); "
        f"six pairs {1e3 * taken[0]:.2f}, {1e3 * taken[1]:.2f} and {np.median(leases):.1f} ms\n"
        f"writing alone takes {1e3 * alone:.2f} ms of the database and {1e3 * call:.2f} ms by the clock, each further answer of a batch "
        f"{1e3 * more:.2f} ms of the database; the log's lock is held for {1e3 * held:.2f} ms"
    )
    return Times(
        float(answer[0]), float(taken[0]), float(answer[1]), more, float(taken[1]), commit, max(held, commit),
        np.clip(answers / answers.mean(), 0, 20), np.clip(leases / leases.mean(), 0, 20),
    )  # fmt: skip


def _batches(folder: Path, postmaster: psutil.Process, url: str) -> tuple[float, float, float, float]:
    """Database seconds of a further answer of a batch and of one alone, seconds that the lock is held, seconds of a call."""
    from steelyard.pairs import Answer
    from steelyard.store.records import NewComparison
    from steelyard.study import Study

    rng, points, held, calls = np.random.default_rng(0), [], 0.0, 0.0
    with Study.open(folder) as study:
        store = study.store
        for k in BATCHES:
            times = 320 // k
            study.propose(times * k + 10)
            new: list[NewComparison] = []
            while len(new) < times * k:
                leased = store.pairs.lease(f"batch-{k}-{len(new)}", k, seconds=900, rng=rng)
                new += [
                    NewComparison(one.pair, f"batch-{k}-{len(new)}", Answer.LEFT, one.left, one.right)
                    for one in leased
                ]
            watch = _Lock(url) if k == 1 else None
            before, started = database_seconds(postmaster), time.perf_counter()
            for at in range(0, times * k, k):
                store.answers.add_all(new[at : at + k], require_lease=True)
            took = (time.perf_counter() - started) / times
            if watch is not None:
                held, calls = watch.stop() * took, took
            else:
                points.append(
                    Point({"answers": float(k)}, max((database_seconds(postmaster) - before) / times, 1e-6))
                )
    model = CostModel.fit(["answers"], points)
    return model.slopes[0], model.at({"answers": 1.0}), held, calls


class _Lock:
    """Looks at random moments whether somebody holds an advisory lock."""

    def __init__(self, url: str) -> None:
        self._url, self._over, self._seen = url.replace("+psycopg", ""), threading.Event(), list[bool]()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        import psycopg

        rng = np.random.default_rng(1)
        query = (
            "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted "
            "AND pid IN (SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'))"
        )
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._over.wait(float(rng.exponential(0.004))):
                found = connection.execute(query).fetchone()
                self._seen.append(bool(found and found[0]))

    def stop(self) -> float:
        """Share of the moments at which it was held."""
        self._over.set()
        self._thread.join()
        return statistics.fmean(self._seen) if self._seen else 0.0


def quantiles(values: list[float]) -> str:
    """The middle and the slow end, in milliseconds."""
    if not values:
        return "–"
    p50, p95, p99 = np.percentile(values, [50, 95, 99])
    return f"{p50:8.1f} /{p95:9.1f} /{p99:9.1f}"


def validate(times: Times, people: int, seconds: int, images: int) -> None:
    """Part 2."""
    import server_load

    store, end = server_load.new_postgres()
    folder = Path(tempfile.mkdtemp(prefix="steelyard-queue-load-"))
    try:
        found, _ = server_load.run(
            SimpleNamespace(images=images, people=people, folder=folder), store, seconds
        )  # type: ignore[arg-type]
    finally:
        end()
        shutil.rmtree(folder, ignore_errors=True)
    real: dict[str, list[float]] = found["shares"]
    client = found["cpu"] / max(found["requests"], 1)
    used = {**vars(times), "client": client}
    crowd = Site(Times(**used), people, lambda rng: 1.0, processes=1, cores=2, shared=True, steady=True)
    told = crowd.run(float(seconds))
    answered = len(found["acknowledged"]) / seconds
    print(
        f"{people} people, {seconds} s, 2 cores for everything (load {os.getloadavg()[0]:.0f}), client {1e3 * client:.2f} ms a request; p50 / p95 / p99, ms"
    )
    for path, simulated in (("/api/v1/comparisons", told.answers), ("/api/v1/pairs/lease", told.leases)):
        print(f"  {path:22} measured {quantiles(real[path])}   simulated {quantiles(simulated)}")
    busy = ", ".join(f"{name} {share:.0%}" for name, share in told.busy.items())
    print(
        f"  answers a second: measured {answered:.1f} ({found['failures']} failed), simulated {told.rate:.1f}; {busy}"
    )


def table(times: Times, seconds: float, think: list[float]) -> None:
    """Part 3."""
    print(
        "people  think  web = database  answers/s  busy: web, database, log lock   batch  answer p50 / p95 / p99 ms           waiting"
    )
    rows = [(people, think[0], n) for people in PEOPLE for n in PROCESSES]
    rows += [(1_000, other, n) for other in think[1:] for n in PROCESSES]
    for people, mean, n in rows:
        found = Site(times, people, thinking(mean), processes=n, cores=n).run(seconds)
        print(line(people, mean, n, found), flush=True)


def line(people: int, think: float, processes: int, found: Found) -> str:
    """One line of the table."""
    busy = "".join(f"{share:8.0%}" for share in found.busy.values())
    waiting = np.mean(found.answers) - found.alone
    return (
        f"{people:6,} {think:5.1f}s {processes:10}       {found.rate:9.1f} {busy:>30} {found.batch:10.1f} "
        f"{quantiles(found.answers)} {waiting:12.1f}"
    )


def chooser(images: int) -> CostModel:
    """Part 4: processor seconds of EPIG by the number of pairs."""
    from costs import run

    with tempfile.TemporaryDirectory() as name:
        points = [
            Point({"pairs": float(m)}, run("choose", Path(name), {"images": images, "pairs": m})["ours"])
            for m in CHOSEN
        ]
    model = CostModel.fit(["pairs", "pairs²"], points)
    told = ", ".join(f"{point.sizes['pairs']:,.0f}: {point.cost:.2f} s" for point in points)
    print(f"EPIG among {images:,} images, one thread: {told}; model {model}")
    return model


def refill(times: Times, draft: CostModel, think: float, fit: float, seconds: float) -> None:
    """Part 4: people, chooser and trainer together; as it is, and if it chose all that is missing at once."""
    print(
        "people  at most  answers/s  found no pair  pairs of a draft: mean, most  seconds of the largest  answers during a fit"
    )
    for people in (50, 200, 500, 1_000, 2_000):
        for most in (AT_ONCE, 0):
            site = Site(
                times, people, thinking(think), processes=4, cores=4, most=most,
                draft=lambda n: draft.at({"pairs": float(n)}),
            )  # fmt: skip
            found = site.run(seconds, start=300.0)
            drafts = found.drafts or [0]  # one that began before may not have ended
            print(
                f"{people:6,} {most or '–':>8} {found.rate:10.1f} {found.starved:14.1%} {np.mean(drafts):15,.0f} {max(drafts):10,} "
                f"{draft.at({'pairs': float(max(drafts))}):24.1f} {found.rate * fit:21,.0f}",
                flush=True,
            )


def main() -> None:
    """All parts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--images",
        type=int,
        default=20_000,
        help="of the study: so many answers are planned, and 200 people give 12,000 a minute",
    )
    parser.add_argument("--rounds", type=int, default=100, help="times that one person takes six pairs")
    parser.add_argument("--validate", type=int, nargs="*", default=[], help="people of server_load.py")
    parser.add_argument("--load-seconds", type=int, default=60)
    parser.add_argument("--choose-images", type=int, default=100_000)
    parser.add_argument("--fit", type=float, default=10.0, help="seconds of a fit, from costs.py")
    parser.add_argument(
        "--think", type=float, nargs="+", default=[3.0, 1.0, 10.0], help="mean seconds an answer"
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="of a simulation")
    parser.add_argument("--times", type=Path, help="measured before, see --keep")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    if options.times:
        kept: dict[str, Any] = json.loads(options.times.read_text(encoding="utf-8"))
        times = Times(**{k: np.array(v) if isinstance(v, list) else v for k, v in kept.items()})
    else:
        times = measure(options.images, options.rounds)
    if options.keep:
        plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in vars(times).items()}
        options.keep.write_text(json.dumps(plain), encoding="utf-8")
    for people in options.validate:
        validate(times, people, options.load_seconds, options.images)
    table(times, options.seconds, options.think)
    refill(times, chooser(options.choose_images), options.think[0], options.fit, options.seconds)


if __name__ == "__main__":
    main()
