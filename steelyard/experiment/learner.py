"""A learner that remembers its last fit and what the next one starts from, until the loop does."""

from __future__ import annotations

from steelyard.arrays import Floats, Pairs, Rows
from steelyard.config import RankerConfig
from steelyard.experiment.data import ExperimentData
from steelyard.ranker.learner import Learner as OneLearner
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.ranker import Ranker
from steelyard.splits import Split

__all__ = ["Learner", "make_learner"]


class Learner:
    """Trains f on answers and gives the posterior of any images."""

    def __init__(
        self,
        data: ExperimentData,
        split: Split,
        config: RankerConfig,
        validation: tuple[Pairs, Floats],
        seed: int,
    ) -> None:
        self.learner = OneLearner(config, data.inputs, pool=split.train, seed=seed, validation=validation)
        self.warm = config.warm_start if config.kind == "network" else "scratch"
        self.start: Ranker | None = None

    def fit(self, pairs: Pairs, answers: Floats, grades: Floats | None = None) -> None:
        """Train on answered pairs of catalog rows; `grades` (N,), NaN where unknown, for multi-task learning (P6)."""
        start = self.start if self.warm != "scratch" else None
        self.ranker = self.learner.fit(pairs, answers, grades=grades, start=start)
        if grades is None and (self.start is None or self.warm == "previous"):
            self.start = self.ranker

    def posterior(self, rows: Rows) -> Posterior:
        """Posterior of the scores of these catalog rows."""
        return self.learner.posterior(self.ranker, rows=rows)


def make_learner(
    data: ExperimentData, split: Split, config: RankerConfig, validation: tuple[Pairs, Floats], seed: int
) -> Learner:
    """The learner that the settings ask for."""
    return Learner(data, split, config, validation, seed)
