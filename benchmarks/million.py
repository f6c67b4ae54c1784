"""A study of a million images and a million answers: what every request and every command takes, and by which plan.

    python benchmarks/million.py [--images 1000000] [--answers 1000000] [--stores sqlite postgresql] [--plans FILE]

Without a folder it makes the study in a temporary one, on SQLite and on a PostgreSQL that it starts itself; `--folder DIR`
(with `--url` for PostgreSQL) keeps it for the next run, `--only fit ask` runs some steps. Each step runs in a process of its own, so
that its memory is its own. Prints seconds of a whole step, milliseconds (median, 99th percentile) of single requests, the
processor time and the peak memory; `--plans` writes the slowest statement of each step with the plan the database has for it.

The images are rows of features without pictures: what pictures cost is in page_latency.py and score_many.py.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

import steelyard as sy
from steelyard.pairs import PairSet, random_pairs
from steelyard.store.records import NewComparison, NewPair
from steelyard.study import Study

WIDTH = 64
PEOPLE = 50
BLOCK = 10_000


def build(folder: Path, images: int, answers: int, store: str) -> Study:
    """A study with that many images and answers of people who err."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((images, WIDTH), dtype=np.float32)
    severity = rows @ (rng.normal(size=WIDTH) / np.sqrt(WIDTH)).astype(np.float32) * 3
    np.save(folder / "x.npy", rows)
    np.save(folder / "severity.npy", severity)
    changes = {"ask": {"budget": 3 * answers}, **({"store": store} if store else {})}
    study = Study.create(
        folder / "study", sy.Catalog.from_features(folder / "x.npy"), preset="features", **changes
    )
    pairs = random_pairs(answers, images, taken=PairSet(images), rng=rng)
    left_worse = severity[pairs[:, 0]] - severity[pairs[:, 1]] + rng.logistic(size=answers) > 0
    ids, began = study.catalog.ids, time.time() - 3.0 * answers
    for at in range(0, answers, BLOCK):
        part = pairs[at : at + BLOCK].tolist()
        # A tenth was drawn to measure accuracy, as in a study that asked for them.
        new = [NewPair(i, j, reserved=k % 10 == 0, strategy="random") for k, (i, j) in enumerate(part)]
        numbers = study.store.pairs.add_all(new)
        study.store.answers.add_all(
            [
                NewComparison(
                    pair, f"p{(at + k) % PEOPLE:02d}", sy.Answer.LEFT if worse else sy.Answer.RIGHT, str(ids[i]), str(ids[j]),
                    began + 3.0 * (at + k), began + 3.0 * (at + k) + 2.5,
                )
                for k, (pair, (i, j), worse) in enumerate(
                    zip(numbers, part, left_worse[at : at + BLOCK].tolist(), strict=True)
                )
            ]
        )  # fmt: skip
    return study


@contextmanager
def statements() -> Iterator[list[tuple[float, str, Any]]]:
    """Every statement that is run meanwhile: seconds, text, parameters."""
    seen: list[tuple[float, str, Any]] = []

    def before(_: Any, __: Any, ___: Any, ____: Any, context: Any, _____: Any) -> None:
        context.began = time.perf_counter()

    def after(_: Any, __: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        if not many:
            seen.append((time.perf_counter() - context.began, statement, parameters))

    sa.event.listen(sa.Engine, "before_cursor_execute", before)
    sa.event.listen(sa.Engine, "after_cursor_execute", after)
    try:
        yield seen
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", before)
        sa.event.remove(sa.Engine, "after_cursor_execute", after)


def plan(url: str, statement: str, parameters: Any) -> str:
    """The database's plan for a statement, without running it."""
    from steelyard.store.place import stay_in_schema

    engine = sa.create_engine(url)
    stay_in_schema(engine)
    word = "EXPLAIN QUERY PLAN" if engine.dialect.name == "sqlite" else "EXPLAIN"
    with engine.connect() as connection:
        rows = connection.exec_driver_sql(f"{word} {statement}", parameters).all()
    engine.dispose()
    return "\n".join(str(row[-1]) for row in rows)


def each(work: Callable[[], Any], times: int) -> dict[str, float]:
    """Median and 99th percentile of many requests in milliseconds, the first one apart."""
    took = []
    for _ in range(times + 1):
        began = time.perf_counter()
        work()
        took.append(1e3 * (time.perf_counter() - began))
    p50, p99 = np.percentile(took[1:], [50, 99])
    return {"first_ms": round(took[0], 1), "p50_ms": round(float(p50), 1), "p99_ms": round(float(p99), 1)}


def ask(study: Study) -> dict[str, float]:
    """ask(1) and tell by turns; every answer moves the next question."""
    severity = np.load(study.folder.parent / "severity.npy")
    asked: list[sy.Pair] = []
    told: list[float] = []

    def one() -> None:
        asked[:] = study.ask(1, annotator="you")

    def both() -> None:
        one()
        [pair] = asked
        left, right = (study.catalog.index_of(image) for image in (pair.left, pair.right))
        began = time.perf_counter()
        study.tell(
            pair, sy.Answer.LEFT if severity[left] > severity[right] else sy.Answer.RIGHT, annotator="you"
        )
        told.append(1e3 * (time.perf_counter() - began))

    found = each(both, 200)
    p50, p99 = np.percentile(told[1:], [50, 99])
    return {
        **{f"with_tell_{k}": v for k, v in found.items()},
        "tell_p50_ms": round(float(p50), 1),
        "tell_p99_ms": round(float(p99), 1),
    }


def export(ending: str) -> Callable[[Study], dict[str, float]]:
    """All answers to a file."""

    def step(study: Study) -> dict[str, float]:
        from steelyard.exchange import export_file

        path = study.folder.parent / f"answers.{ending}"
        rows = export_file(study, path)
        return {"rows": rows, "mb": round(path.stat().st_size / 2**20, 1)}

    return step


def page(study: Study) -> dict[str, float]:
    """The app's own requests, in process: no network, no browser."""
    from fastapi.testclient import TestClient

    from steelyard.web.app import create_app
    from steelyard.web.auth import digest, new_secret

    if "admin" not in {person.name for person in study.store.people.all()}:
        study.store.people.add("admin", role="admin")
    token = new_secret()
    study.store.people.tokens.add(digest(token), "admin", "million", mode="local")
    figures: dict[str, float] = {}
    app = create_app(study)
    # The app's own header, so that a program may speak to it without a browser's cookies.
    with TestClient(app, base_url="http://localhost", headers={"Authorization": f"Bearer {token}"}) as client:

        def get(path: str) -> None:
            answer = client.get(f"/api/v1{path}")
            if answer.status_code != 200:
                raise RuntimeError(f"{path}: {answer.status_code} {answer.text[:300]}")

        def progress() -> None:
            app.state.web.kept.pop("progress", None)  # kept for a second; here each is computed
            get("/progress")

        def lease() -> None:
            answer = client.post("/api/v1/pairs/lease", json={"count": 6})
            if answer.status_code != 200:
                raise RuntimeError(f"lease: {answer.status_code} {answer.text[:300]}")

        for name, work, times in (
            ("summary", lambda: get("/ranking/summary"), 5),
            ("window", lambda: get("/ranking?start=500000&limit=200"), 30),
            ("scores", lambda: get("/ranking/scores"), 5),
            ("search", lambda: get("/ranking?text=00042"), 3),
            ("progress", progress, 5),
            ("lease", lease, 30),
            ("table", lambda: get("/ranking/table"), 1),
        ):
            try:
                figures |= {f"{name}_{k}": v for k, v in each(work, times).items()}
            except RuntimeError as error:
                figures[f"{name}_failed"] = str(error)  # type: ignore[assignment]
    return figures


STEPS: dict[str, Callable[[Study], dict[str, Any] | None]] = {
    "status": lambda study: {"facts": len(study.status())},
    "fit": lambda study: {"answers": study.fit().answers},
    "choose": lambda study: {"pairs": len(study.propose(1_000))},
    "score": lambda study: {"rows": len(study.score())},
    "ask": ask,
    "page": page,
    "csv": export("csv"),
    "parquet": export("parquet"),
    "check": lambda study: {"problems": len(study.store.check())},
}


def run_one(folder: Path, step: str, plans: Path | None) -> None:
    """Open the study, do one thing, print what it took."""
    began, used = time.perf_counter(), time.process_time()
    study = Study.open(folder)
    opened = time.perf_counter() - began
    with statements() as seen:
        began = time.perf_counter()
        found = STEPS[step](study) or {}
        took = time.perf_counter() - began
    url = study.store.database.engine.url.render_as_string(hide_password=False)
    study.close()
    figures = {
        "open_s": round(opened, 2), "seconds": round(took, 2), "processor_s": round(time.process_time() - used, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024), "statements": len(seen),
        "database_s": round(sum(one[0] for one in seen), 2), **found,
    }  # fmt: skip
    if plans is not None:
        slowest: dict[str, tuple[float, Any]] = {}
        for seconds, text, parameters in seen:
            if (
                text.lstrip()[:6].upper() in ("SELECT", "UPDATE", "WITH a")
                and seconds > slowest.get(text, (0.0, None))[0]
            ):
                slowest[text] = seconds, parameters
        with plans.open("a", encoding="utf-8") as out:
            for text, (seconds, parameters) in sorted(slowest.items(), key=lambda one: -one[1][0])[:3]:
                out.write(f"## {url.split(':')[0]} {step}: {1e3 * seconds:.1f} ms\n{text}\n--\n")
                out.write(f"{plan(url, text, parameters)}\n\n")
    print(json.dumps(figures))


def main() -> None:
    """Build, then each step in its own process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--answers", type=int, default=1_000_000)
    parser.add_argument(
        "--stores", nargs="+", choices=["sqlite", "postgresql"], default=["sqlite", "postgresql"]
    )
    parser.add_argument("--only", nargs="+", choices=list(STEPS), default=list(STEPS))
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--url", help="of an empty PostgreSQL database, instead of one that is started here")
    parser.add_argument("--plans", type=Path)
    parser.add_argument("--one", nargs=2, metavar=("STUDY", "STEP"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run_one(Path(options.one[0]), options.one[1], options.plans)
        return
    for name in options.stores:
        with tempfile.TemporaryDirectory(prefix="steelyard-million-") as made:
            folder = Path(made) if options.folder is None else options.folder / name
            measure(name, folder, options)


def measure(name: str, folder: Path, options: argparse.Namespace) -> None:
    """One database, every step."""
    from server_load import new_postgres

    store, end = "", lambda: None
    if name == "postgresql":
        store, end = (options.url, end) if options.url else new_postgres()
    try:
        if not (folder / "study" / "study.toml").exists():
            folder.mkdir(parents=True, exist_ok=True)
            began, used = time.perf_counter(), time.process_time()
            build(folder, options.images, options.answers, store).close()
            took = {"seconds": time.perf_counter() - began, "processor_s": time.process_time() - used}
            print(json.dumps({"store": name, "step": "build", "images": options.images, "answers": options.answers}
                             | {k: round(v, 1) for k, v in took.items()}), flush=True)  # fmt: skip
        for step in options.only:
            command = [sys.executable, __file__, "--one", str(folder / "study"), step]
            if options.plans is not None:
                command += ["--plans", str(options.plans)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                found = {"failed": done.stderr.strip().splitlines()[-1]}
            else:
                found = json.loads(done.stdout.splitlines()[-1])
            print(json.dumps({"store": name, "step": step, **found}), flush=True)
    finally:
        end()


if __name__ == "__main__":
    main()
