"""Methods of a finished experiment round by round: accuracies, paired differences with intervals, what was asked about.

    python benchmarks/by_round.py RUN [--pairs ubs-random coreset-random ubs-coreset] [--first 25] [--last 50]

`steelyard report` compares the last rounds. Where training is noisier than five per cent more pairs, the mean over
rounds says more; intervals are over splits, as in the report.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from steelyard.evaluate.significance import over_splits


def difference(cells: pd.DataFrame, first: str, second: str) -> str:
    """Mean difference in points and its 95% interval; one row a cell, one column a method."""
    both = cells[[first, second]].dropna()
    folds = cells.index.get_level_values("fold").nunique()
    found = over_splits(both[first] * 100, both[second] * 100, test_to_train=1.0 / (folds - 2))
    return f"{found.difference:+.1f} [{found.low:+.1f}, {found.high:+.1f}]"


def main() -> None:
    """Print the tables of one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--pairs", nargs="+", default=["ubs-random", "coreset-random", "ubs-coreset"])
    parser.add_argument(
        "--first", type=int, default=25, help="percent of labels from which rounds are averaged"
    )
    parser.add_argument("--last", type=int, default=50)
    options = parser.parse_args()

    rows = pd.read_csv(options.run / "results.csv")
    rows["share"] = (rows["label_ratio"] * 20).round().astype(int) * 5  # per cent, in steps of a round
    table = rows.pivot_table(
        index="method", columns="share", values="overall", aggfunc=["mean", "std"], sort=False
    )
    shares = sorted(rows["share"].unique())
    print("method    " + "".join(f"{share:>14}%" for share in shares))
    for method in table.index:
        cells = (
            f"{table.loc[method, ('mean', s)]:.3f} ± {table.loc[method, ('std', s)]:.3f}"
            if not np.isnan(table.loc[method, ("mean", s)]) else ""
            for s in shares
        )  # fmt: skip
        print(f"{method:10}" + "".join(f"{cell:>15}" for cell in cells))

    graded = [c for c in rows if c == "overall" or c == "neighboring" or c.replace("-", "").isdigit()]
    index = ["fold", "seed"]
    for pair in options.pairs:
        first, second = pair.split("-")
        own = rows[rows["method"].isin([first, second])]
        inside = own[own["share"].between(options.first, options.last)]
        print(f"\n{first} − {second}, points")
        for share in sorted(inside["share"].unique()):
            at = inside[inside["share"] == share].pivot_table(index=index, columns="method", values="overall")
            print(f"  {share}%: {difference(at, first, second)}")
        over = inside.pivot_table(index=index, columns="method", values="overall")
        print(f"  mean of {options.first} – {options.last}%: {difference(over, first, second)}")
        for column in graded[1:]:
            at = inside[inside["share"] == options.last].pivot_table(
                index=index, columns="method", values=column
            )
            print(f"  {column} at {options.last}%: {difference(at, first, second)}")

    grades = pd.read_parquet(options.run / "images.parquet")["grade"].to_numpy()
    asked = pd.read_parquet(options.run / "asked.parquet")
    later = asked[asked["round"] > 0]
    print("\nimages in pairs chosen after the first round, per cent by grade")
    parts = {
        str(m): grades[g[["first", "second"]].to_numpy().ravel()]
        for m, g in later.groupby("method", observed=True)
    }
    for name, own in {**parts, "the pool": grades}.items():
        print(f"  {name:10}" + "".join(f"{100 * np.mean(own == g):7.1f}" for g in np.unique(grades)))


if __name__ == "__main__":
    main()
