"""A study of a million images and a million answers: what every request and every command takes, and by which plan.

    python benchmarks/million.py [--images 1000000] [--answers 1000000] [--stores sqlite postgresql] [--plans FILE]

Without a folder it makes the study in a temporary one, on SQLite and on a PostgreSQL that it starts itself; `--folder DIR`
(with `--url` for PostgreSQL) keeps it for the next run, `--only fit ask` runs some steps. Each step runs in a process of its own, so
that its memory is its own. Prints seconds of a whole step, milliseconds (median, 99th percentile) of single requests, the
processor time and the peak memory; `--plans` writes the slowest statements of each step – run once more, every row fetched –
with the plan the database has for them.

The images are rows of features without pictures: what pictures cost is in page_latency.py and score_many.py.
"""

from __future__ import annotations

import argparse
import json
import re
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
def statements() -> Iterator[dict[str, Any]]:
    """Every different statement that is run meanwhile, with its last parameters."""
    seen: dict[str, Any] = {}

    def after(_: Any, __: Any, statement: str, parameters: Any, ___: Any, many: bool) -> None:
        if not many:
            seen[statement] = parameters

    sa.event.listen(sa.Engine, "after_cursor_execute", after)
    try:
        yield seen
    finally:
        sa.event.remove(sa.Engine, "after_cursor_execute", after)


SLOWEST = 3
_LONG = re.compile(r"(\?|%\(\w+\)s(::\w+)?)(, (\?|%\(\w+\)s(::\w+)?)){9,}")


def write_plans(url: str, step: str, seen: dict[str, Any], path: Path) -> None:
    """The slowest statements that read, each run once more and taken back, with the database's plan."""
    from steelyard.store.place import stay_in_schema

    engine = sa.create_engine(url)
    stay_in_schema(engine)
    word = (
        "EXPLAIN QUERY PLAN" if engine.dialect.name == "sqlite" else "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF)"
    )
    found: list[tuple[float, int, str, str]] = []
    with engine.connect() as connection:
        for text, parameters in seen.items():
            if not re.match(r"\s*(SELECT|WITH)\b", text):
                continue
            with connection.begin() as again:
                began = time.perf_counter()
                rows = len(connection.exec_driver_sql(text, parameters).all())
                took = time.perf_counter() - began
                again.rollback()
            with connection.begin() as again:
                plan = connection.exec_driver_sql(f"{word} {text}", parameters).all()
                again.rollback()
            found.append((took, rows, text, "\n".join(str(row[-1]) for row in plan)))
    engine.dispose()
    with path.open("a", encoding="utf-8") as out:
        for took, rows, text, plan in sorted(found, reverse=True)[:SLOWEST]:
            short = _LONG.sub("…", text)
            out.write(
                f"## {url.split(':')[0]} {step}: {1e3 * took:.1f} ms, {rows:,} rows\n{short}\n--\n{plan}\n\n"
            )


def each(work: Callable[[], Any], times: int, between: Callable[[], Any] = lambda: None) -> dict[str, float]:
    """Median and 99th percentile of many requests in milliseconds, the first one apart; what is done between them is not counted."""
    took = []
    for _ in range(times + 1):
        began = time.perf_counter()
        work()
        took.append(1e3 * (time.perf_counter() - began))
        between()
    p50, p99 = np.percentile(took[1:], [50, 99])
    return {"first_ms": round(took[0], 1), "p50_ms": round(float(p50), 1), "p99_ms": round(float(p99), 1)}


ASKED = 200


def ask(study: Study) -> dict[str, float]:
    """ask(1) and tell by turns: every question is chosen when it is asked for, and every answer moves the next."""
    severity = np.load(study.folder.parent / "severity.npy")
    if waiting := study.store.pairs.open_count():
        raise RuntimeError(f"{waiting} pairs are up already; asking would only hand them out")
    told: list[float] = []
    asked: list[sy.Pair] = []

    def one() -> None:
        asked[:] = study.ask(1, annotator="you")

    def answer() -> None:
        [pair] = asked
        left, right = (study.catalog.index_of(image) for image in (pair.left, pair.right))
        said = sy.Answer.LEFT if severity[left] > severity[right] else sy.Answer.RIGHT
        began = time.perf_counter()
        study.tell(pair, said, annotator="you")
        told.append(1e3 * (time.perf_counter() - began))

    figures = {f"ask_{k}": v for k, v in each(one, ASKED, between=answer).items()}
    p50, p99 = np.percentile(told, [50, 99])
    return {**figures, "tell_p50_ms": round(float(p50), 1), "tell_p99_ms": round(float(p99), 1)}


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
    "score": lambda study: {"rows": len(study.score())},
    "ask": ask,
    "choose": lambda study: {"pairs": len(study.propose(1_000))},
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
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024), **found,
    }  # fmt: skip
    if plans is not None:
        write_plans(url, step, seen, plans)
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
    parser.add_argument("--build", nargs=2, metavar=("FOLDER", "STORE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run_one(Path(options.one[0]), options.one[1], options.plans)
        return
    if options.build:
        run_build(Path(options.build[0]), options.build[1], options)
        return
    for name in options.stores:
        with tempfile.TemporaryDirectory(prefix="steelyard-million-") as made:
            folder = Path(made) if options.folder is None else options.folder / name
            measure(name, folder, options)


def run_build(folder: Path, store: str, options: argparse.Namespace) -> None:
    """Make the study, print what it took."""
    began, used = time.perf_counter(), time.process_time()
    build(folder, options.images, options.answers, store).close()
    took = {"seconds": time.perf_counter() - began, "processor_s": time.process_time() - used}
    figures = {
        "images": options.images,
        "answers": options.answers,
        **{k: round(v, 1) for k, v in took.items()},
    }
    print(json.dumps(figures))


def measure(name: str, folder: Path, options: argparse.Namespace) -> None:
    """One database, every step, each in a process of its own, which a process that holds little starts."""
    from server_load import new_postgres

    store, end = "", lambda: None
    if name == "postgresql":
        store, end = (options.url, end) if options.url else new_postgres()

    def run(step: str, *words: str) -> None:
        done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, check=False)
        failed = {"failed": (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]}
        found = failed if done.returncode else json.loads(done.stdout.splitlines()[-1])
        print(json.dumps({"store": name, "step": step, **found}), flush=True)

    try:
        if not (folder / "study" / "study.toml").exists():
            folder.mkdir(parents=True, exist_ok=True)
            sizes = ["--images", str(options.images), "--answers", str(options.answers)]
            run("build", "--build", str(folder), store, *sizes)
        for step in options.only:
            plans = [] if options.plans is None else ["--plans", str(options.plans)]
            run(step, "--one", str(folder / "study"), step, *plans)
    finally:
        end()


if __name__ == "__main__":
    main()
