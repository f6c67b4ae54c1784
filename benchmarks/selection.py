"""Which settings of asking and of features are chosen, on halves of the real sets that are not reported.

    python benchmarks/selection.py RUNS [--seeds 2] [--jobs 2] [--what asking features]

`steelyard experiment --half choose` takes one half of a set, near-duplicates kept together; `--half report` the other. Here everything is run on
the first alone: a half fraction of all combinations of strategy, balance, covariance, start and ties (main effects are not mixed with each
other), and every backbone and number of components with the default way of asking. A setting is judged by *Overall*, mean over 5 … 50% of the
labels. The rule, fixed beforehand: of each setting the level with the higher mean over both sets is taken, however small the difference.
Intervals are over splits (`over_splits`), paired by cell, each level's mean over all combinations that have it.
"""

from __future__ import annotations

import argparse
import os
from itertools import product
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the cells are what runs in parallel

import numpy as np
import pandas as pd
from _data import DATA

from steelyard.evaluate.significance import over_splits
from steelyard.experiment import ExperimentConfig, run_experiment
from steelyard.terminal import progress_bar

SETS = {
    "uc": {"images": str(DATA / "hyperkvasir_uc"), "layout": "hyperkvasir"},
    "retina": {"images": str(DATA / "retinamnist" / "retinamnist.npz"), "layout": "medmnist"},
}
ASKING = {
    "strategy": ("epig", "dopt", "guro", "pair_bald"),
    "start": ("spread", "clusters", "random"),
    "balance": ("1", "0"),
    "uncertainty": ("design", "posterior"),
    "ties": ("rao_kupper", "half"),
}
DEFAULT = "epig:start=spread:r=5"


def asking() -> dict[str, tuple[str, ...]]:
    """Methods of the half fraction, with their levels."""
    found = {}
    for levels in product(*ASKING.values()):
        places = [options.index(level) for options, level in zip(ASKING.values(), levels, strict=True)]
        if sum(places) % 2 == 0:
            strategy, start, balance, uncertainty, ties = levels
            name = f"{strategy}:start={start}:r=5:balance={balance}:uncertainty={uncertainty}:ties={ties}"
            found[name] = levels
    return found


def areas(results: pd.DataFrame) -> pd.DataFrame:
    """*Overall*, mean over the rounds of a cell: a row for each cell (fold, seed), a column for each method."""
    return results.pivot_table(index=["fold", "seed"], columns="method", values="overall", aggfunc="mean")


def run(name: str, out: Path, methods: tuple[str, ...], options: argparse.Namespace, **ranker: object) -> pd.DataFrame:  # fmt: skip
    """Compute what is missing, on the half to choose on."""
    config = ExperimentConfig(
        **SETS[name], methods=methods, seeds=options.seeds, half="choose", classify=False, jobs=options.jobs, ranker=ranker
    )  # fmt: skip
    with progress_bar() as progress:
        done = run_experiment(
            config, out, resume=out.exists(), cache=options.runs / f"{name}.cache", progress=progress
        )
    return areas(done.table("results"))


def choose_asking(options: argparse.Namespace) -> None:
    """Main effects of the settings of asking, and what the rule takes."""
    methods = asking()
    found = {name: run(name, options.runs / f"choose-{name}", (*methods, DEFAULT), options) for name in SETS}
    print(
        f"{len(methods)} combinations, {len(found['uc'])} cells a set; points of Overall, mean over 5 … 50 %"
    )
    chosen = {}
    for place, (setting, levels) in enumerate(ASKING.items()):
        means = {}
        for level in levels:
            having = [m for m, own in methods.items() if own[place] == level]
            means[level] = {name: table[having].mean(axis=1) for name, table in found.items()}
        total = {level: np.mean([table.mean() for table in own.values()]) for level, own in means.items()}
        chosen[setting] = max(total, key=lambda level: total[level])
        print(f"{setting}: takes {chosen[setting]}")
        for level in levels:
            parts = []
            for name in SETS:
                gap = over_splits(
                    means[level][name].to_numpy(), means[levels[0]][name].to_numpy(), test_to_train=1 / 3
                )
                parts.append(f"{name} {means[level][name].mean():.4f} ({100 * gap.difference:+.1f} [{100 * gap.low:+.1f}, {100 * gap.high:+.1f}])")  # fmt: skip
            print(f"  {level:<12} " + "   ".join(parts))
    name = "{strategy}:start={start}:r=5:balance={balance}:uncertainty={uncertainty}:ties={ties}".format(
        **chosen
    )
    print(f"chosen: {name}")
    print(
        "  the default beside all combinations: "
        + ", ".join(
            f"{n} {t[DEFAULT].mean():.4f} (rank {int((t.mean() > t[DEFAULT].mean()).sum()) + 1} of {t.shape[1]})"
            for n, t in found.items()
        )
    )


def choose_features(options: argparse.Namespace) -> None:
    """Backbone and number of components, with the default way of asking and with N random pairs."""
    for backbone, components in product(("lite2", "lite0"), (128, 64, 256)):
        parts = []
        for name in SETS:
            place = options.runs / f"choose-{name}-{backbone}-{components}"
            table = run(name, place, (DEFAULT, "all"), options, backbone=backbone, components=components)
            parts.append(f"{name} {table[DEFAULT].mean():.4f}, all {table['all'].mean():.4f}")
        print(f"{backbone}, {components} components: " + "   ".join(parts))


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--what", nargs="+", default=["asking", "features"], choices=["asking", "features"])
    options = parser.parse_args()
    options.runs.mkdir(parents=True, exist_ok=True)
    if "asking" in options.what:
        choose_asking(options)
    if "features" in options.what:
        choose_features(options)


if __name__ == "__main__":
    main()
