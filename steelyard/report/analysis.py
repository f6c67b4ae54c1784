"""Numbers of a report, computed from the tables of a run. Nothing is trained here.

`last` means a method's last round throughout. Means and deviations are over cells (fold × seed); intervals know that cells are not
independent, because every seed deals the same images into folds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import ExperimentError
from steelyard.evaluate.accuracy import rank_correlation
from steelyard.evaluate.calibration import (
    Calibration,
    calibration,
    error_by_variance,
    proportions,
    uncertainty_auroc,
)
from steelyard.evaluate.significance import Interval, against, crossing, crossing_interval, over_splits
from steelyard.experiment.folder import RunFolder

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Analysis", "Efficiency"]

SINGLE = ("baseline", "all", "conventional")
CELL = ["fold", "seed"]


@dataclass(frozen=True)
class Efficiency:
    """How few labels a method needs for the accuracy of `all`.

    Attributes:
        method: whose.
        reached: share of labels at which the mean overall accuracy reaches that of `all`; NaN if it never does.
        low: lower end of its 95% interval.
        high: upper end; NaN if it is beyond the last round.
        ratio: share of labels of its last round.
        difference: overall accuracy of the last round less that of `all`, with its interval.
    """

    method: str
    reached: float
    low: float
    high: float
    ratio: float
    difference: Interval


class Analysis:
    """A finished (or half-finished) run, read once.

    Args:
        run: its folder.
        proposed: the method that others are tested against; by default the paper's (`ubs`) where it is there.
        seed: of the bootstrap.
    """

    def __init__(self, run: RunFolder, *, proposed: str | None = None, seed: int = 0) -> None:
        self.run = run
        self.about: dict[str, Any] = run.describe()
        self.results: pd.DataFrame = run.table("results")
        self.methods: list[str] = [m for m in self.about["methods"] if (self.results["method"] == m).any()]
        if not self.methods:
            raise ExperimentError(
                f"{run.path} has no finished cells; let it run with: steelyard experiment … --resume"
            )
        if proposed is not None and proposed not in self.methods:
            raise ExperimentError(f"the run has no method '{proposed}'; it has {', '.join(self.methods)}")
        with_rounds = [m for m in self.methods if m not in SINGLE]
        self.proposed: str = proposed or (
            "ubs" if "ubs" in self.methods else (with_rounds or self.methods)[0]
        )
        self.grades: list[str] = list(self.about["grades"])
        self.neighbors: list[str] = list(self.about["neighbors"])
        self.rng_seed = seed

    # ------------------------------------------------------------------ tables of the run

    @property
    def with_rounds(self) -> list[str]:
        """The methods that ask in rounds, variants included."""
        return [m for m in self.methods if m.split(":")[0] not in SINGLE]

    @cached_property
    def images(self) -> pd.DataFrame:
        """Row, image, grade, part."""
        return self.run.table("images")

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Per-image scores, with the grade."""
        table = self.run.table("scores")
        table["grade"] = self.images["grade"].to_numpy()[table["image"]]
        return table

    @cached_property
    def last(self) -> pd.DataFrame:
        """Rows of `results` of each method's last round."""
        index = self.results.groupby(["method", *CELL], sort=False)["round"].idxmax()
        rows: pd.DataFrame = self.results.loc[index]
        return rows

    @cached_property
    def last_outcomes(self) -> pd.DataFrame:
        """Test pairs as each method's last round orders them, with the grades."""
        table: pd.DataFrame = self.run.table("outcomes")
        newest = table.groupby("method", sort=False)["round"].transform("max")
        table = table.loc[table["round"] == newest].copy()
        grade = self.images["grade"].to_numpy()
        table["first_worse"] = (grade[table["first"]] > grade[table["second"]]).astype(np.float64)
        return table

    @property
    def cells(self) -> int:
        """Cells (fold × seed) of the proposed method."""
        return int((self.last["method"] == self.proposed).sum())

    # ------------------------------------------------------------------ accuracy

    def accuracy(self) -> dict[str, dict[str, tuple[float, float]]]:
        """Mean and deviation over cells of each accuracy in the last round, by method and column."""
        columns = ["pairs", "images", "label_ratio", "overall", *self.neighbors, "neighboring"]
        return mean_and_deviation(self.last, self.methods, columns)

    def significance(self) -> dict[str, dict[str, tuple[float, bool]]]:
        """For each column, McNemar of `proposed` against each method, deal by deal: Holm-corrected p, different.

        A pair that was drawn several times for `overall` counts once. Methods with fewer cells than the proposed one are compared
        on the cells that both have – all methods must share them, otherwise they are left out.
        """
        found: dict[str, dict[str, tuple[float, bool]]] = {}
        for column in ["overall", *self.neighbors, "neighboring"]:
            outcomes, deals = self._outcomes(column)
            if self.proposed in outcomes:
                found[column] = against(self.proposed, outcomes, deals=deals)
        return found

    def _outcomes(self, column: str) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.int64]]:
        """Of each method, and the seed of each outcome: folds of one seed test different images."""
        table = self.last_outcomes
        kinds = self.neighbors if column == "neighboring" else [column]
        table = table[table["kind"].isin(kinds)]
        keys = [*CELL, "kind", "first", "second"]
        wide = table.pivot_table(index=keys, columns="method", values="correct", aggfunc="first").dropna()
        deals = wide.index.get_level_values("seed").to_numpy(dtype=np.int64)
        return {
            str(name): wide[name].to_numpy(dtype=np.float64) for name in self.methods if name in wide
        }, deals

    def paired(self, first: str, second: str, column: str = "overall") -> Interval:
        """First − second in the last round, paired by cell, with an interval over splits (`over_splits`).

        Raises:
            ExperimentError: the two methods share no cell.
        """
        a = self.last[self.last["method"] == first].set_index(CELL)[column]
        b = self.last[self.last["method"] == second].set_index(CELL)[column]
        both = a.to_frame("a").join(b.to_frame("b"), how="inner").dropna()
        return over_splits(both["a"].to_numpy(), both["b"].to_numpy(), test_to_train=self.test_to_train)

    @property
    def test_to_train(self) -> float:
        """Images of a test part for each of the training part: one fold tests, one validates, the rest are learnt from."""
        return 1.0 / (int(self.about["config"]["folds"]) - 2)

    def curves(self, column: str = "overall") -> pd.DataFrame:
        """Mean, standard error and number of cells by method and round, with the mean label ratio."""
        table = self.results.groupby(["method", "round"], sort=False).agg(
            ratio=("label_ratio", "mean"),
            pairs=("pairs", "mean"),
            images=("images", "mean"),
            mean=(column, "mean"),
            deviation=(column, "std"),
            cells=(column, "count"),
        )
        table["error"] = table["deviation"] * np.sqrt(1.0 / table["cells"] + self.test_to_train)
        flat: pd.DataFrame = table.reset_index()
        return flat

    def efficiency(self) -> list[Efficiency]:
        """For each method with rounds, how few labels reach the accuracy of `all`; empty without `all`."""
        if "all" not in self.methods:
            return []
        found = []
        for method in self.with_rounds:
            gap, ratio = self._gap_to_all(method)
            low, high = crossing_interval(
                ratio, gap.to_numpy(dtype=np.float64), test_to_train=self.test_to_train,
                rng=np.random.default_rng(self.rng_seed),
            )  # fmt: skip
            reached, last = crossing(ratio, gap.mean(axis=0)), float(ratio[-1])
            found.append(Efficiency(method, reached, low, high, last, self.paired(method, "all")))
        return found

    def _gap_to_all(self, method: str) -> tuple[pd.DataFrame, NDArray[np.float64]]:
        """Overall accuracy less that of `all` in the same cell, a row for each cell and a column for each round; and the labels."""
        own = self.results[self.results["method"] == method]
        table = own.pivot_table(index=CELL, columns="round", values="overall")
        goal = self.results[self.results["method"] == "all"].set_index(CELL)["overall"]
        gap: pd.DataFrame = table.sub(goal, axis=0).dropna()
        ratio = own.groupby("round")["label_ratio"].mean().to_numpy(dtype=np.float64)
        return gap, ratio

    def correlations(self) -> dict[str, tuple[float, float]]:
        """Kendall's τ-b and Spearman's ρ of test scores and grades, mean over cells."""
        table = self._last_scores("test")
        found: dict[str, list[tuple[float, float]]] = {}
        for (method, _, _), part in table.groupby(["method", *CELL], sort=False):
            found.setdefault(str(method), []).append(rank_correlation(part["score"], part["grade"]))
        return {
            m: (float(np.mean([t for t, _ in v])), float(np.mean([r for _, r in v])))
            for m, v in found.items()
        }

    def _last_scores(self, which: str) -> pd.DataFrame:
        table = self.scores[self.scores["set"] == which]
        newest = table.groupby("method", sort=False)["round"].transform("max")
        rows: pd.DataFrame = table[table["round"] == newest]
        return rows

    def validation_images(self) -> pd.Series[float]:
        """Images of the validation part for each image of the training part, by fold and seed.

        The paper counts labels of both: its authors choose pairs in the validation part by the same method and ratio.
        """
        table = self.scores.drop_duplicates(["fold", "seed", "image"])
        sizes = table.groupby([*CELL, "set"]).size().unstack(fill_value=0)
        share: pd.Series[float] = (len(self.images) - sizes["pool"] - sizes["test"]) / sizes["pool"]
        return share

    # ------------------------------------------------------------------ calibration

    def calibrations(self) -> dict[str, Calibration]:
        """Stated against observed order of overall test pairs, by method; `conventional` states no probability."""
        found = {}
        for method in self.methods:
            part = self._stated(method)
            if len(part):
                found[method] = calibration(
                    part["probability"].astype(np.float64).clip(0, 1), part["first_worse"]
                )
        return found

    def uncertainty(self) -> dict[str, dict[str, Any]]:
        """Does variance predict error? Of the difference's variance alone, and of the stated doubt min(p, 1−p), AUROC of being
        wrong; and accuracy in fifths of growing variance."""
        found = {}
        for method in self.methods:
            part = self._stated(method)
            if len(part):
                wrong = part["correct"].to_numpy() < 0.5
                p = part["probability"].to_numpy(dtype=np.float64)
                found[method] = {
                    "variance": uncertainty_auroc(part["variance"], wrong),
                    "doubt": uncertainty_auroc(np.minimum(p, 1 - p), wrong),
                    "slices": error_by_variance(part["variance"], part["correct"]),
                }
        return found

    def _stated(self, method: str) -> pd.DataFrame:
        table = self.last_outcomes
        rows: pd.DataFrame = table[
            (table["method"] == method) & (table["kind"] == "overall") & table["probability"].notna()
        ]
        return rows

    # ------------------------------------------------------------------ what was asked

    def sampled_images(self, shares: list[float]) -> dict[str, dict[float, NDArray[np.float64]]]:
        """Images of each grade sampled up to a share of labels, mean over cells, as the paper counts: an image counts once for every
        round that sampled it. `baseline` samples anew for every ratio of labels, so its rounds are not added up.

        A method stands at a share if one of its rounds does, give or take half a round (pairs are whole): methods of other rounds than
        the paper's are compared at equal labels.
        """
        apart = float(self.about["config"]["s"]) / 200
        table = self.scores[(self.scores["set"] == "pool") & self.scores["chosen"]]
        ratios = self.results.groupby(["method", "round"])["label_ratio"].mean()
        found: dict[str, dict[float, NDArray[np.float64]]] = {}
        for method, own in table.groupby("method", sort=False):
            reached = ratios[method]
            for share in shares:
                at = int((reached - share).abs().idxmin())
                if abs(reached[at] - share) > apart:
                    continue
                alone = str(method).split(":")[0] == "baseline"
                part = own[own["round"] == at] if alone else own[own["round"] <= at]
                counts = [
                    np.bincount(cell["grade"], minlength=len(self.grades)) for _, cell in part.groupby(CELL)
                ]
                found.setdefault(str(method), {})[share] = np.mean(counts, axis=0)
        return found

    def pool_proportions(self) -> NDArray[np.float64]:
        """Share of each grade among all images."""
        return proportions(self.images["grade"].to_numpy(), len(self.grades))


def mean_and_deviation(
    table: pd.DataFrame, methods: list[str], columns: list[str]
) -> dict[str, dict[str, tuple[float, float]]]:
    """Mean and standard deviation of columns over the rows of each method; NaN deviation of a single row."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for method in methods:
        rows = table[table["method"] == method]
        if len(rows):
            found[method] = {c: (float(rows[c].mean()), float(rows[c].std())) for c in columns}
    return found
