"""The compared "conventional" method: softmax and cross-entropy on all absolute labels of the pool, no comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np

from steelyard.arrays import Floats, Ints, Rows
from steelyard.config import ConvexConfig, NetworkConfig, RankerConfig
from steelyard.experiment.data import ExperimentData
from steelyard.splits import Split

__all__ = ["classify_conventionally"]


def classify_conventionally(
    data: ExperimentData, split: Split, config: RankerConfig, rows: Rows, *, seed: int
) -> tuple[Floats, Ints]:
    """Learn the grades of the pool and tell those of other images.

    Beside the convex ranker it is multinomial logistic regression on the same reduced rows, its penalty chosen on the
    validation set; beside a network the same backbone with a softmax on top, T draws averaged.

    Returns:
        Expected grade (used as the score) and most likely grade of `rows`, both of shape (n,).
    """
    if config.kind == "convex":
        probability = _logistic(data, split, config, rows)
    else:
        probability = _softmax_network(data, split, config, rows, seed)
    expected = probability @ np.arange(probability.shape[1])
    return np.asarray(expected), probability.argmax(axis=1).astype(np.int64)


def _logistic(data: ExperimentData, split: Split, config: ConvexConfig, rows: Rows) -> Floats:
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    from steelyard.ranker.convex_ranker import ConvexLearner

    reduced = ConvexLearner(config, data.inputs, split.train).rows.astype(np.float64)
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
    data: ExperimentData, split: Split, config: NetworkConfig, rows: Rows, seed: int
) -> Floats:
    import torch

    from steelyard.ranker.device import cpu_threads
    from steelyard.ranker.dropout import draw
    from steelyard.ranker.network import build_network
    from steelyard.ranker.scaling import Scaling
    from steelyard.ranker.scoring import batches_of
    from steelyard.ranker.train import fit_conventional

    features = data.inputs.ndim == 2
    network = build_network(
        config, seed=seed, width=data.inputs.shape[1] if features else 0, outputs=len(data.grade_names)
    )
    network.scaling = Scaling.fit(data.inputs, split.train) if features else None
    fit_conventional(
        network, data.inputs, split.train, data.grades[split.train],
        validation=(split.validation, data.grades[split.validation]), config=config, seed=seed,
    )  # fmt: skip
    network.eval()
    total = np.zeros((len(rows), len(data.grade_names)))
    with torch.no_grad(), cpu_threads(config.threads):
        for number, batch in enumerate(batches_of(data.inputs, 64, rows)):
            prepared = network.prepare(batch)
            for t in range(config.draws):
                with draw(network, seed, t):
                    said = torch.softmax(network(prepared), dim=1)
                total[64 * number : 64 * number + 64] += said.double().cpu().numpy()
    return total / config.draws
