"""Grades predicted against grades given, on the test set as it is (imbalanced)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from steelyard.errors import ExperimentError

__all__ = ["Classification", "classification"]


@dataclass(frozen=True)
class Classification:
    """Macro averages over the grades that occur in the test set.

    Attributes:
        precision: macro; a grade that is never predicted counts 0.
        recall: macro.
        f1: macro (mean of the grades' F1).
        kappa: Cohen's, with quadratic weights.
        mae: mean absolute difference of grade codes.
        accuracy: share of exactly right grades.
    """

    precision: float
    recall: float
    f1: float
    kappa: float
    mae: float
    accuracy: float


def classification(truth: ArrayLike, predicted: ArrayLike) -> Classification:
    """Compare predicted with given grades.

    Args:
        truth: grade codes, shape (N,).
        predicted: grade codes, shape (N,).

    Raises:
        ExperimentError: shapes differ or nothing is given.
    """
    from sklearn.metrics import cohen_kappa_score, precision_recall_fscore_support

    given, said = np.asarray(truth), np.asarray(predicted)
    if given.shape != said.shape or given.ndim != 1 or not given.size:
        raise ExperimentError(
            f"{said.shape} predicted grades cannot be compared with {given.shape} given ones"
        )
    if not (np.issubdtype(given.dtype, np.integer) and np.issubdtype(said.dtype, np.integer)):
        raise ExperimentError(f"grades are whole numbers (codes), not {given.dtype} and {said.dtype}")
    grades = np.unique(given)
    precision, recall, f1, _ = precision_recall_fscore_support(
        given, said, labels=grades, average="macro", zero_division=0
    )
    # With a single grade everywhere chance agreement is certain and κ is 0/0; sklearn would warn and give NaN.
    span = np.arange(min(given.min(), said.min()), max(given.max(), said.max()) + 1)
    kappa = (
        float("nan")
        if len(span) == 1
        else float(cohen_kappa_score(given, said, labels=span, weights="quadratic"))
    )
    return Classification(
        float(precision),
        float(recall),
        float(f1),
        kappa,
        float(np.abs(given - said).mean()),
        float((given == said).mean()),
    )
