"""What each step costs one core, by size: processor time, memory, bytes – and a model of it, checked by sizes it did not see.

    python benchmarks/costs.py [--most 30000] [--steps fit choose …] [--predict 1e8] [--json FILE]

Every step runs in a process of its own with one thread (`_cost_steps.py` says what each does), at 1,000, 3,000 … images or answers up
to `--most`; 1,000,000 takes long and 10 GB of disk. Seconds are of the processor, ours and PostgreSQL's, so that others on
the machine hardly change them. Then a constant and a slope are fitted (`_cost_model.py`), and each size of 10,000 and more is
predicted from smaller ones alone; printed is measured ÷ predicted. `--predict` says what the models give for so many images.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from _cost_model import CostModel, Point, check

HERE = Path(__file__).parent
OF_A_STUDY = ("fit", "first_ask", "next_ask", "scores", "export", "status")
BATCHES = (6, 100, 1_000)


@dataclass(frozen=True)
class Step:
    """What is measured, and what it should depend on.

    Attributes:
        name: as in `_cost_steps.py`.
        terms: of its processor time.
        by: the size that it is checked by.
        smallest: and largest of the sizes it makes sense at; what is linear in something slow need not be done for a million.
    """

    name: str
    terms: tuple[str, ...]
    by: str = "images"
    smallest: int = 1_000
    largest: int = 1_000_000


STEPS = (
    Step("files", ("images",), smallest=300, largest=10_000),
    Step("features", ("images",), smallest=8, largest=64),
    Step("catalog_saved", ("images log",)),
    Step("catalog_opened", ("images",)),
    Step("images_sqlite", ("images",)),
    Step("images_postgresql", ("images",)),
    Step("answers_sqlite", ("answers",), by="answers"),
    Step("answers_postgresql", ("answers",), by="answers"),
    Step("fit", ("images", "answers")),
    Step("first_ask", ("images", "answers")),
    Step("next_ask", ("images", "answers")),
    Step("scores", ("images log",)),
    Step("export", ("answers",)),
    Step("status", ("images", "answers")),
    Step("choose", ("images", "pairs", "pairs²"), smallest=10_000),
    Step("rows", ("images",)),
)


def sizes_of(step: Step, most: int) -> list[dict[str, int]]:
    """The sizes that a step is measured at."""
    ladder = [
        n for k in range(7) for n in (10**k, 3 * 10**k) if step.smallest <= n <= min(most, step.largest)
    ]
    if step.smallest < 1_000:
        ladder = [step.smallest * 3**k for k in range(9) if step.smallest * 3**k <= min(most, step.largest)]
    ladder = [n for n in ladder if n <= 100_000 or n == 1_000_000]
    if step.name == "choose":
        batches = [{"images": n, "pairs": m} for n in ladder for m in BATCHES]
        return [*batches, *({"images": 10_000, "pairs": m} for m in (2_000, 4_000))]
    if step.name in OF_A_STUDY:
        square = [{"images": n, "answers": min(n, 100_000)} for n in ladder]
        return [*square, *({"images": n, "answers": n // 10} for n in ladder if 10_000 <= n <= 100_000)]
    return [{step.by: n} for n in ladder]


def run(name: str, folder: Path, sizes: dict[str, int]) -> dict[str, float]:
    """One step, in a process of its own with one thread."""
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / "_cost_steps.py"), name, str(folder), json.dumps(sizes)]
    done = subprocess.run(command, env={**os.environ, **one}, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def measure(wanted: list[Step], most: int, place: Path | None) -> dict[str, list[dict[str, float]]]:
    """All steps at all sizes, sizes and costs in one dictionary each; printed as they come."""
    found: dict[str, list[dict[str, float]]] = {step.name: [] for step in wanted}

    def keep(name: str, sizes: dict[str, int], folder: Path) -> None:
        costs = run(name, folder, sizes)
        found[name].append({**sizes, **costs})
        size = ", ".join(f"{value:,} {key}" for key, value in sizes.items())
        print(
            f"  {name:20} {size:32} {costs['ours']:9.3f} s ours {costs['database']:8.2f} s database "
            f"{costs['peak']:7.0f} MB {costs['disk'] / 1e6:10.3f} MB written",
            flush=True,
        )

    alone = [step for step in wanted if step.name not in OF_A_STUDY and step.name != "catalog_opened"]
    names = {step.name for step in wanted}
    for step in alone:
        with tempfile.TemporaryDirectory(dir=place) as name:
            for sizes in sizes_of(step, most):
                folder = Path(name) if step.name == "choose" else Path(tempfile.mkdtemp(dir=name))
                keep(step.name, sizes, folder)
                if step.name == "catalog_saved" and "catalog_opened" in names:
                    keep("catalog_opened", sizes, folder)
                if folder != Path(name):
                    shutil.rmtree(folder)
    of_a_study = [step for step in wanted if step.name in OF_A_STUDY]
    for sizes in sizes_of(of_a_study[0], most) if of_a_study else []:
        with tempfile.TemporaryDirectory(dir=place) as name:
            run("study", Path(name), sizes)
            for step_name in OF_A_STUDY:
                if step_name == "fit" or step_name in names:  # the others need a model
                    found.setdefault(step_name, [])
                    keep(step_name, sizes, Path(name))
    return found


def judge(
    found: dict[str, list[dict[str, float]]], predict: float, answers: float
) -> dict[str, dict[str, object]]:
    """Print the models with their checks; gives both."""
    told: dict[str, dict[str, object]] = {}
    print(
        "\nProcessor time in seconds: the model on all sizes up to 100,000; measured ÷ predicted from smaller sizes alone"
    )
    for step in STEPS:
        if not found.get(step.name):
            continue
        for cost in ("ours", "database", "peak", "disk"):
            points = [
                Point({k: v for k, v in one.items() if k in ("images", "answers", "pairs")}, one[cost])
                for one in found[step.name]
                if one[cost] > 0
            ]
            small = [point for point in points if point.sizes.get(step.by, 0) <= 100_000]
            # Sorting takes n log n of the processor; memory and disk are as large as what is kept.
            terms = step.terms
            if cost in ("peak", "disk"):
                terms = tuple(term.removesuffix(" log") for term in step.terms if "²" not in term)
            if cost == "disk" and step.name in ("files", "features", "rows"):
                continue
            if cost == "peak" and step.name == "rows":
                continue  # the same process wrote the matrix, whose pages count; see score_memory.py
            if len(small) <= len(terms):
                continue
            model = CostModel.fit(terms, small)
            checks = [one for one in check(terms, points, step.by) if one.point.sizes[step.by] >= 10_000]
            ratios = ", ".join(
                f"{' × '.join(f'{v:,.0f}' for v in one.point.sizes.values())}: {one.ratio:.2f}"
                for one in checks
            )
            far = model.at({"images": predict, "answers": answers, "pairs": 1_000})
            print(f"  {step.name:20} {cost:9} {model!s:60} at {predict:.0e}: {far:11.4g}   {ratios or '–'}")
            told[f"{step.name} {cost}"] = {
                "model": str(model),
                "at": far,
                "ratios": [(one.point.sizes, one.ratio) for one in checks],
            }
    return told


def main() -> None:
    """Measure, fit, check."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--most", type=int, default=30_000, help="images or answers")
    parser.add_argument("--steps", nargs="+", choices=[step.name for step in STEPS])
    parser.add_argument("--predict", type=float, default=1e8, help="images to say the costs of")
    parser.add_argument("--answers", type=float, default=1e8, help="and answers")
    parser.add_argument("--folder", type=Path, help="where data goes for the time; needs a disk with room")
    parser.add_argument("--json", type=Path, help="what was measured goes here, too")
    parser.add_argument(
        "--again", type=Path, nargs="+", help="judge what these files hold instead of measuring"
    )
    options = parser.parse_args()
    if options.again:
        found: dict[str, list[dict[str, float]]] = {}
        for path in options.again:
            for name, points in json.loads(path.read_text(encoding="utf-8")).items():
                found.setdefault(name, []).extend(points)
    else:
        wanted = [step for step in STEPS if not options.steps or step.name in options.steps]
        found = measure(wanted, options.most, options.folder)
    if options.json:
        options.json.write_text(json.dumps(found), encoding="utf-8")
    judge(found, options.predict, options.answers)


if __name__ == "__main__":
    main()
