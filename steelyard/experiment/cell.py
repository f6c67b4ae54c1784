"""One cell: one method on one fold with one seed, round by round.

It is the loop of a study with a virtual annotator in the place of people. Chance never comes from the method, so that all
methods of a fold and seed start from the same pairs, the same validation pairs and the same weights, and are measured on the
same test pairs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.arrays import Floats, Pairs
from steelyard.config import AskConfig
from steelyard.errors import ExperimentError
from steelyard.evaluate.accuracy import TestPairs, accuracy, correct, draw_test_pairs, neighbor_names
from steelyard.evaluate.classification import classification
from steelyard.experiment.config import ExperimentConfig, Method, parse_method
from steelyard.experiment.conventional import classify_conventionally
from steelyard.experiment.data import ExperimentData
from steelyard.loop.chance import Chance, Purpose
from steelyard.loop.policy import Policy
from steelyard.loop.trial import Trial
from steelyard.pairs import PairSet, form_pairs, unique_pairs
from steelyard.progress import Progress
from steelyard.ranker.learner import Learner
from steelyard.ranker.penultimate import distance_rows, learns_features, own_rows, starts_pretrained
from steelyard.ranker.posterior import Posterior
from steelyard.splits import Split, check_split

__all__ = ["Cell", "CellResult", "check_leaks", "run_cell"]

Columns = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """Which method on which fold with which seed."""

    method: str
    fold: int
    seed: int

    @property
    def name(self) -> str:
        """Its folder below `cells/`."""
        safe = "".join(c if c.isalnum() or c in "._-=" else "," if c == ":" else "~" for c in self.method)
        return f"{safe}-f{self.fold}-s{self.seed}"

    @property
    def chance(self) -> Chance:
        """Where its randomness comes from."""
        return Chance(self.seed, self.fold)


@dataclass
class CellResult:
    """What a cell leaves behind; every table and figure is drawn from it.

    Attributes:
        rows: one per round, the columns of `results.csv`.
        grading: classification of the test set in the last round; empty where it was not asked for.
        scores: columns round, image, set, score, variance, chosen – pool and test images in every round.
        outcomes: columns round, kind, first, second, weight, probability, variance, correct – test pairs in every round.
        asked: columns round, first, second, answer – the pairs that were asked.
        features: of all images in the network of round 0, where it has none before; for the map in the report.
    """

    rows: list[Columns] = field(default_factory=list)
    grading: Columns = field(default_factory=dict)
    scores: list[Columns] = field(default_factory=list)
    outcomes: list[Columns] = field(default_factory=list)
    asked: list[Columns] = field(default_factory=list)
    features: NDArray[np.float32] | None = None


def run_cell(
    cell: Cell,
    data: ExperimentData,
    config: ExperimentConfig,
    *,
    note: Callable[[str], None] | None = None,
) -> CellResult:
    """Compute a cell.

    Args:
        cell: which.
        data: of the experiment.
        config: of the experiment.
        note: told what it is doing, as often as something has happened.

    Raises:
        ExperimentError: the split leaks, or a pair outside the pool was asked.
    """
    split = data.splits(config, cell.seed)[cell.fold]
    check_split(split, data.groups, data.same)
    method = parse_method(cell.method, config)
    test = draw_test_pairs(
        data.grades[split.test],
        len(data.grade_names),
        size=config.test_pairs,
        rng=cell.chance.rng(Purpose.TEST),
    )
    if method.name == "conventional":
        return _conventional(cell, method, data, split, test, config)
    return _Measured(cell, method, data, split, test, config, note or (lambda text: None)).run()


class _Measured:
    """A trial of the loop, measured once, or once a round."""

    def __init__(
        self,
        cell: Cell,
        method: Method,
        data: ExperimentData,
        split: Split,
        test: TestPairs,
        config: ExperimentConfig,
        note: Callable[[str], None],
    ) -> None:
        self.cell, self.method, self.data, self.split, self.test = cell, method, data, split, test
        self.config, self.note = config, note
        chance = cell.chance
        watched = form_pairs(split.validation, taken=PairSet(len(data)), rng=chance.rng(Purpose.VALIDATION))
        said = config.make_annotator(data.grades).answer(watched, chance.rng(Purpose.VALIDATION, 1))
        self.learner = Learner(
            config.ranker_config(**method.ranker), data.inputs, pool=split.train, seed=chance.weights(),
            validation=(watched[~np.isnan(said)], said[~np.isnan(said)]),
        )  # fmt: skip
        self.trial = self._begin(0)
        self._rows_of_start: NDArray[Any] | None = None
        self.result = CellResult()

    def _begin(self, number: int) -> Trial:
        """A trial from its first pair on; `number` is the round whose share of labels a baseline asks for at once."""
        return Trial(
            Policy(_ask(self.method, self.config, number), len(self.split.train)), self.cell.chance, self.learner,
            self.config.make_annotator(self.data.grades),  # one person for the whole trial, who may tire
            self._distance_rows, self.method.options,
        )  # fmt: skip

    def run(self) -> CellResult:
        pool, anew = len(self.split.train), self.method.name == "baseline"
        for number in range(self.method.rounds + 1):
            trial = self.trial = self._begin(number) if anew else self.trial
            clock = time.perf_counter()
            chosen = self._every_image() if self.method.name == "all" else trial.choose(0 if anew else number)
            select_s = time.perf_counter() - clock
            check_leaks(self.split.train[chosen], self.split)
            pairs, said = trial.answer(chosen)
            self.result.asked.append(
                {"round": number, "first": pairs[:, 0].copy(), "second": pairs[:, 1].copy(), "answer": said}
            )
            clock = time.perf_counter()
            ranker = trial.learn(progress=self._says(number, "training"))
            train_s = time.perf_counter() - clock
            clock = time.perf_counter()
            everything = trial.learner.posterior(
                ranker,
                rows=np.concatenate([self.split.train, self.split.test]),
                progress=self._says(number, "scoring"),
            )
            everything.mean, everything.variance  # noqa: B018 - computed here, shared by the two parts
            trial.believe(everything.rows(np.arange(pool)))
            tested = everything.rows(np.arange(pool, len(everything)))
            times = {"train_s": train_s, "score_s": time.perf_counter() - clock, "select_s": select_s}
            self._measure(number, tested, times)
            if number == 0 and self._is_on_the_map():
                self.result.features = own_rows(ranker, self.data.inputs).astype(np.float32)
        trial = self.trial
        if self.config.classify or (self.config.classify is None and trial.learner.learns_reserved):
            ranker = trial.learn(self._known_grades())
            predicted = trial.learner.posterior(ranker, rows=self.split.test).mean
            # "rounding to the nearest grade, clipped to the valid grades"; half goes up
            grades = np.clip(np.floor(predicted + 0.5), 0, len(self.data.grade_names) - 1).astype(np.int64)
            self.result.grading = _grading(self.cell, self.data.grades[self.split.test], grades)
        return self.result

    def _says(self, number: int, what: str) -> Progress:
        """Notes how far something in a round is."""
        where = f"in round {number} of {self.method.rounds}"
        self.note(f"{where}, {what}")
        return lambda done, total, _: self.note(f"{where}, {what} {done:,} of {total:,}")

    def _distance_rows(self) -> NDArray[Any]:
        """Features of the pool, for strategies that measure distances."""
        config, inputs = self.trial.learner.config, self.data.inputs
        if self._rows_of_start is not None:
            return self._rows_of_start
        found = distance_rows(config, inputs, self.split.train, newest=lambda: self.trial.ranker)
        if starts_pretrained(config) or not learns_features(config):
            self._rows_of_start = found  # the same in every round
        return found

    def _is_on_the_map(self) -> bool:
        """Whether the report may draw this cell and there is nothing else to draw it by: one fold and seed is drawn."""
        config = self.trial.learner.config
        drawn = (self.cell.fold, self.cell.seed) == (self.config.the_folds()[0], 0)
        return drawn and self.method.rounds > 0 and learns_features(config) and not starts_pretrained(config)

    def _every_image(self) -> Pairs:
        """As many pairs as the pool has images, each image in one or more."""
        state = self.trial.state
        return form_pairs(np.arange(state.taken.size), taken=state.taken, rng=self.cell.chance.choice(0))

    def _known_grades(self) -> Floats:
        """Grades of the images in the asked pairs (P6), NaN elsewhere."""
        grades = np.full(len(self.data), np.nan)
        rows = np.unique(self.trial.pairs)
        grades[rows] = self.data.grades[rows]
        return grades

    def _measure(self, number: int, tested: Posterior, times: dict[str, float]) -> None:
        split, data, pool, asked = self.split, self.data, self.trial.state.posterior, self.trial.pairs
        assert pool is not None
        found = accuracy(tested.mean, data.grades[split.test], self.test)
        self.result.rows.append(
            _row(
                self.cell,
                number,
                len(asked),
                len(np.unique(asked)),
                len(asked) / len(split.train),
                found,
            )
            | times
        )
        fresh = self.result.asked[-1]
        chosen = np.isin(split.train, np.concatenate([fresh["first"], fresh["second"]]))
        self.result.scores.append(
            _scores(number, split, pool.mean, pool.variance, tested.mean, tested.variance, chosen)
        )
        pairs, kinds, weights = distinct_pairs(self.test)
        _, variance = tested.difference(pairs)
        said = tested.outcomes(pairs)
        self.result.outcomes.append(
            _outcomes(number, split, pairs, kinds, weights)
            | {
                # Ties are left out of the test, so what counts is the probability given that it is none.
                "probability": said[:, 0] / (said[:, 0] + said[:, 2]),
                "variance": variance,
                "correct": correct(tested.mean, data.grades[split.test], pairs),
            }
        )


def check_leaks(pairs: Pairs, split: Split) -> None:
    """Make sure that only images of the pool are asked about.

    Raises:
        ExperimentError: a pair holds an image of the validation or test set.
    """
    outside = ~np.isin(pairs, split.train) | np.isin(pairs, split.test) | np.isin(pairs, split.validation)
    if outside.any():
        pair = pairs[outside.any(axis=1)][0].tolist()
        raise ExperimentError(
            f"leak: pair {pair} was to be asked, but image {int(pairs[outside][0])} is not in the training pool"
        )


def distinct_pairs(test: TestPairs) -> tuple[Pairs, NDArray[np.str_], NDArray[np.int64]]:
    """Test pairs, each once per kind, with how often it was drawn: pairs (n, 2), kind (n,), weight (n,)."""
    pairs, kinds, weights = [], [], []
    overall, _, _, counts = unique_pairs(np.sort(test.overall, axis=1))
    pairs.append(overall)
    kinds.append(np.full(len(overall), "overall"))
    weights.append(counts)
    for name, some in zip(neighbor_names(len(test.neighboring) + 1), test.neighboring, strict=True):
        pairs.append(some)
        kinds.append(np.full(len(some), name))
        weights.append(np.ones(len(some), dtype=np.int64))
    return np.concatenate(pairs), np.concatenate(kinds), np.concatenate(weights).astype(np.int64)


def _conventional(
    cell: Cell, method: Method, data: ExperimentData, split: Split, test: TestPairs, config: ExperimentConfig
) -> CellResult:
    """All absolute labels of the pool, no comparisons; its score is the expected grade."""
    clock = time.perf_counter()
    every = np.concatenate([split.train, split.test])
    expected, grades = classify_conventionally(
        data,
        split,
        config.ranker_config(**method.ranker),
        every,
        seed=cell.chance.weights(),
    )
    train_s = time.perf_counter() - clock
    pool, tested = expected[: len(split.train)], expected[len(split.train) :]
    found = accuracy(tested, data.grades[split.test], test)
    pairs, kinds, weights = distinct_pairs(test)
    nothing = np.zeros(len(every))
    return CellResult(
        rows=[
            _row(cell, 0, 0, len(split.train), 1.0, found)
            | {"train_s": train_s, "score_s": 0.0, "select_s": 0.0}
        ],
        grading=_grading(cell, data.grades[split.test], grades[len(split.train) :]),
        scores=[
            _scores(
                0,
                split,
                pool,
                nothing[: len(pool)],
                tested,
                nothing[len(pool) :],
                np.ones(len(pool), dtype=bool),
            )
        ],
        outcomes=[
            _outcomes(0, split, pairs, kinds, weights)
            | {
                "probability": np.full(len(pairs), np.nan),
                "variance": np.full(len(pairs), np.nan),
                "correct": correct(tested, data.grades[split.test], pairs),
            }
        ],
    )


def _ask(method: Method, config: ExperimentConfig, number: int = 0) -> AskConfig:
    """The settings of a study that asks as this method does; `number` is the round of a baseline."""
    asks: dict[str, Any] = {"strategy": method.name, "start": method.start, "start_share": method.r / 100}
    if method.name == "baseline":  # everything at once, at random
        share = config.r + config.s * config.rounds - method.s * (method.rounds - number)
        asks = {"start": "random", "start_share": min(1.0, share / 100)}
    elif method.name == "all":
        asks = {"start": "random"}
    return AskConfig(
        **asks, round_share=method.s / 100, mode="rounds", random_share=0.0, reselect=config.reselect
    )


def _row(cell: Cell, number: int, pairs: int, images: int, ratio: float, found: Any) -> Columns:
    names = neighbor_names(len(found.by_neighbor) + 1)
    return {
        "method": cell.method, "fold": cell.fold, "seed": cell.seed, "round": number, "pairs": pairs, "images": images,
        "label_ratio": ratio, "overall": found.overall, "neighboring": found.neighboring,
        **dict(zip(names, found.by_neighbor, strict=True)),
    }  # fmt: skip


def _grading(cell: Cell, truth: NDArray[np.int64], predicted: NDArray[np.int64]) -> Columns:
    found = classification(truth, predicted)
    return {"method": cell.method, "fold": cell.fold, "seed": cell.seed, **vars(found)}


def _scores(
    number: int,
    split: Split,
    pool: Floats,
    pool_variance: Floats,
    tested: Floats,
    variance: Floats,
    chosen: Any,
) -> Columns:
    return {
        "round": number,
        "image": np.concatenate([split.train, split.test]),
        "set": np.repeat(["pool", "test"], [len(split.train), len(split.test)]),
        "score": np.concatenate([pool, tested]),
        "variance": np.concatenate([pool_variance, variance]),
        "chosen": np.concatenate([chosen, np.zeros(len(split.test), dtype=bool)]),
    }


def _outcomes(number: int, split: Split, pairs: Pairs, kinds: Any, weights: Any) -> Columns:
    rows = split.test[pairs]
    return {"round": number, "kind": kinds, "first": rows[:, 0], "second": rows[:, 1], "weight": weights}
