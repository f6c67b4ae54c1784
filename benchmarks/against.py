"""Methods of a finished experiment beside one of them: *Overall* by share of labels, and the mean over shares less that of the reference.

    python benchmarks/against.py RUN [--reference epig:start=spread:r=5] [--shares 5 10 20 35 50] [--upto 50]

Differences are paired by cell, of the mean over the rounds that both methods have (up to --upto per cent of the labels), in points, with
a 95% interval over splits as in the report. A row of Markdown for each method.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pandas as pd

from steelyard.evaluate.significance import over_splits


def main() -> None:
    """Print the table of one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--reference", default="epig:start=spread:r=5")
    parser.add_argument("--shares", type=int, nargs="+", default=[5, 10, 20, 35, 50])
    parser.add_argument("--upto", type=int, default=50)
    options = parser.parse_args()
    about = json.loads((options.run / "experiment.json").read_text(encoding="utf-8"))
    folds = about["config"]["folds"]
    rows = pd.read_csv(options.run / "results.csv")
    rows["share"] = (rows["label_ratio"] * 20).round().astype(int) * 5  # per cent; of finer rounds the last
    rows = rows.sort_values("round").groupby(["method", "fold", "seed", "share"], as_index=False, sort=False).last()  # fmt: skip
    cells = rows.pivot_table(index=["fold", "seed"], columns=["method", "share"], values="overall")
    print(
        "| method | "
        + " | ".join(f"{share}%" for share in options.shares)
        + " | 100% | mean, less the reference |"
    )
    print("|---|" + "---|" * (len(options.shares) + 2))
    for method in [m for m in about["methods"] if m in set(rows["method"])]:
        own = cells[method]
        means = [f"{own[s].mean():.3f}".lstrip("0") if s in own else "" for s in (*options.shares, 100)]
        both = [s for s in own if s in cells[options.reference] and s <= options.upto]
        gap = ""
        if both and method != options.reference:
            found = over_splits(
                100 * own[both].mean(axis=1),
                100 * cells[options.reference][both].mean(axis=1),
                test_to_train=1.0 / (folds - 2),
            )
            gap = f"{found.difference:+.1f} [{found.low:+.1f}, {found.high:+.1f}]"
        print(f"| `{method}` | " + " | ".join(means) + f" | {gap} |")
    print(f"\n{len(cells)} cells")


if __name__ == "__main__":
    main()
