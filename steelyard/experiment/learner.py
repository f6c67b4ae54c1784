"""Answers in, posterior of all images out: what the convex head and networks have in common here.

A learner is given the inputs of all images, but whatever it *fits* – standardisation, principal axes, weights – is fitted on
the training pool alone. Test images are only ever pushed through.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from steelyard.arrays import Floats, Pairs, Rows
from steelyard.config import RankerConfig
from steelyard.experiment.data import ExperimentData
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.reduction import Reduction
from steelyard.splits import Split

__all__ = ["ConvexLearner", "Learner", "NetworkLearner", "classify_conventionally", "make_learner"]


class Learner(Protocol):
    """Trains f on answers and gives the posterior of any images."""

    def fit(self, pairs: Pairs, answers: Floats, grades: Floats | None = None) -> None:
        """Train on answered pairs of catalog rows; `grades` (N,), NaN where unknown, for multi-task learning (P6)."""

    def posterior(self, rows: Rows) -> Posterior:
        """Posterior of the scores of these catalog rows."""


def make_learner(
    data: ExperimentData, split: Split, config: RankerConfig, validation: tuple[Pairs, Floats], seed: int
) -> Learner:
    """The learner that the settings ask for.

    Args:
        data: all images.
        split: which of them may be learnt from.
        config: the ranker's settings.
        validation: pairs and answers that stop a network early.
        seed: of a network's first weights and of its training; the same for all methods of a fold and seed.
    """
    if config.head == "convex" and data.inputs.ndim == 2:
        return ConvexLearner(data, split, config)
    return NetworkLearner(data, split, config, validation, seed)


class ConvexLearner:
    """The convex head; its reduction is fitted once, on the pool, compared or not."""

    def __init__(self, data: ExperimentData, split: Split, config: RankerConfig) -> None:
        self.config = config
        self.features = data.inputs
        self.reduction = _pool_reduction(data, split, config)
        self.rows = self.reduction.transform(data.inputs)

    def fit(self, pairs: Pairs, answers: Floats, grades: Floats | None = None) -> None:
        from steelyard.ranker.convex import ConvexHead

        self.head = ConvexHead.fit(
            self.features, pairs, answers, reduction=self.reduction, rows=self.rows, ties=self.config.ties, grades=grades
        )  # fmt: skip

    def posterior(self, rows: Rows) -> Posterior:
        return self.head.posterior(rows=self.rows[rows])


class NetworkLearner:
    """A dropout network trained on the pool's answers, stopped by the validation pairs."""

    def __init__(
        self,
        data: ExperimentData,
        split: Split,
        config: RankerConfig,
        validation: tuple[Pairs, Floats],
        seed: int,
    ) -> None:
        self.config, self.validation, self.seed = config, validation, seed
        self.inputs = _standardised(data.inputs, split)
        self.start: dict[str, Any] | None = None
        self.network: Any = None
        self.pairs: Pairs = np.empty((0, 2), dtype=np.int64)
        self.answers: Floats = np.empty(0)

    def fit(self, pairs: Pairs, answers: Floats, grades: Floats | None = None) -> None:
        from steelyard.ranker.network import build_network
        from steelyard.ranker.train import train

        config = self.config if grades is None else replace(self.config, multitask=True)
        network = build_network(config, seed=self.seed, width=_width(self.inputs))
        if self.start is not None and config.warm_start != "scratch":
            network.load_state_dict(self.start)
        codes = None if grades is None else np.where(np.isnan(grades), -1, grades)
        train(
            network, self.inputs, pairs, answers, validation=self.validation, grades=codes, config=config, seed=self.seed
        )  # fmt: skip
        self.network, self.pairs, self.answers = network, pairs, answers
        if grades is None and (self.start is None or config.warm_start == "previous"):
            self.start = {name: value.detach().clone() for name, value in network.state_dict().items()}

    def posterior(self, rows: Rows) -> Posterior:
        from steelyard.ranker.model import NetworkRanker

        place = np.full(int(max(rows.max(), self.pairs.max(initial=0))) + 1, -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        ranker = NetworkRanker(self.config, self.network, self.seed, {}, place[self.pairs], self.answers)
        return ranker.posterior(self.inputs[rows])


def classify_conventionally(
    data: ExperimentData, split: Split, config: RankerConfig, rows: Rows, *, seed: int
) -> tuple[Floats, Rows]:
    """The compared method: softmax and cross-entropy on all absolute labels of the pool.

    With the convex head it is multinomial logistic regression on the same reduced rows, its penalty chosen on the
    validation set; with a network the same backbone with a softmax on top, T draws averaged.

    Returns:
        Expected grade (used as the score) and most likely grade of `rows`, both of shape (n,).
    """
    if config.head == "convex" and data.inputs.ndim == 2:
        probability = _logistic(data, split, config, rows)
    else:
        probability = _softmax_network(data, split, config, rows, seed)
    return np.asarray(probability @ np.arange(probability.shape[1])), probability.argmax(axis=1).astype(
        np.int64
    )


def _logistic(data: ExperimentData, split: Split, config: RankerConfig, rows: Rows) -> Floats:
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    reduced = _pool_reduction(data, split, config).transform(data.inputs).astype(np.float64)
    grades = data.grades[split.train]
    classes = np.unique(grades)
    watched = split.validation[np.isin(data.grades[split.validation], classes)]
    best: tuple[float, Any] = (np.inf, None)
    for strength in (0.1, 1.0, 10.0, 100.0, 1000.0):
        model = LogisticRegression(C=strength, max_iter=5000).fit(reduced[split.train], grades)
        loss = log_loss(data.grades[watched], model.predict_proba(reduced[watched]), labels=classes)
        if loss < best[0]:
            best = (loss, model)
    probability = np.zeros((len(rows), len(data.grade_names)))
    probability[:, classes] = best[1].predict_proba(reduced[rows])
    return probability


def _softmax_network(
    data: ExperimentData, split: Split, config: RankerConfig, rows: Rows, seed: int
) -> Floats:
    import torch

    from steelyard.ranker.dropout import draw
    from steelyard.ranker.network import build_network
    from steelyard.ranker.train import fit_conventional

    inputs = _standardised(data.inputs, split)
    network = build_network(config, seed=seed, width=_width(inputs), outputs=len(data.grade_names))
    fit_conventional(
        network, inputs, split.train, data.grades[split.train],
        validation=(split.validation, data.grades[split.validation]), config=config, seed=seed,
    )  # fmt: skip
    network.eval()
    total = np.zeros((len(rows), len(data.grade_names)))
    with torch.no_grad():
        for t in range(config.draws):
            with draw(network, seed, t):
                for start in range(0, len(rows), 64):
                    batch = network.prepare(inputs[rows[start : start + 64]])
                    total[start : start + 64] += torch.softmax(network(batch), dim=1).double().numpy()
    return total / config.draws


def _pool_reduction(data: ExperimentData, split: Split, config: RankerConfig) -> Reduction:
    return Reduction.fit(
        np.asarray(data.inputs[split.train]),
        components=config.components,
        whitening=config.whitening,
        kernel=config.kernel,
    )


def _standardised(inputs: NDArray[Any], split: Split) -> NDArray[Any]:
    """Feature rows with the pool's mean and deviation taken off; pixels and activations as they are."""
    if inputs.ndim != 2:
        return inputs
    pool = np.asarray(inputs[split.train], dtype=np.float64)
    scale = pool.std(axis=0)
    return np.asarray((inputs - pool.mean(axis=0)) / np.where(scale > 0, scale, 1.0), dtype=np.float32)


def _width(inputs: NDArray[Any]) -> int:
    return int(inputs.shape[1]) if inputs.ndim == 2 else 0
