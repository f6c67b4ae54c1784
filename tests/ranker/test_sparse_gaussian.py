"""A precision that is never inverted gives what its inverse gives."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.errors import RankerError
from steelyard.ranker import sparse_gaussian
from steelyard.ranker.sparse_gaussian import SparseGaussian


def some(images: int, n: int, seed: int = 0) -> tuple[SparseGaussian, np.ndarray]:
    rng = np.random.default_rng(seed)
    pairs = rng.integers(images, size=(2 * n, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]][:n]
    bend = rng.uniform(0.02, 0.25, len(pairs))
    rows = np.zeros((len(pairs), images))
    rows[np.arange(len(pairs)), pairs[:, 0]], rows[np.arange(len(pairs)), pairs[:, 1]] = 1, -1
    return SparseGaussian(images, pairs, bend, 0.3), rows.T @ (bend[:, None] * rows) + 0.3 * np.eye(images)


def test_solving_and_the_inverse() -> None:
    gaussian, precision = some(40, 150)
    assert gaussian.precision.toarray() == pytest.approx(precision)
    right = np.random.default_rng(1).normal(size=(40, 3))
    assert gaussian.solve(right) == pytest.approx(np.linalg.solve(precision, right), abs=1e-7)
    assert gaussian.solve(right[:, 0]) == pytest.approx(np.linalg.solve(precision, right[:, 0]), abs=1e-7)


def test_drawn_variances_are_close_to_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    gaussian, precision = some(300, 1200)
    inverse = np.linalg.inv(precision)
    i, j = gaussian.pairs.T
    apart = inverse[i, i] + inverse[j, j] - 2 * inverse[i, j]
    own, between = gaussian.variances(np.random.default_rng(0), 64)
    assert own == pytest.approx(np.diagonal(inverse))
    assert between == pytest.approx(apart)
    monkeypatch.setattr(sparse_gaussian, "_DENSE", 0)
    own, between = gaussian.variances(np.random.default_rng(0), 64)
    assert own == pytest.approx(np.diagonal(inverse), rel=0.12)
    assert between == pytest.approx(apart, rel=0.12)
    assert own.mean() == pytest.approx(np.diagonal(inverse).mean(), rel=0.01), "no bias"
    assert between.mean() == pytest.approx(apart.mean(), rel=0.01)


def test_what_does_not_settle_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    gaussian, _ = some(40, 150)
    monkeypatch.setattr(sparse_gaussian, "_STEPS", 1)
    with pytest.raises(RankerError, match="ask some random pairs"):
        gaussian.solve(np.random.default_rng(0).normal(size=40))
