"""The reduction is PCA and the kernel features are the kernel."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA

from steelyard.ranker import reduction as reduction_module
from steelyard.ranker.reduction import Reduction


def test_reduction_is_pca(rng: np.random.Generator) -> None:
    features = rng.standard_normal((80, 12)) @ rng.standard_normal((12, 12)) + 3
    features[:, 4] = 7.0  # constant
    features.setflags(write=False)  # what the caller gave stays as it is
    reduced = Reduction.fit(features, components=5).transform(features)
    alive = np.delete(features, 4, axis=1)
    oracle = PCA(5, svd_solver="full").fit_transform((alive - alive.mean(0)) / alive.std(0))
    oracle /= np.sqrt(np.square(oracle).sum(1).mean())
    signs = np.sign((oracle * reduced).sum(0))
    np.testing.assert_allclose(reduced, oracle * signs, atol=1e-5)
    white = Reduction.fit(features, components=5, whitening=1.0).transform(features)
    np.testing.assert_allclose(white.var(0), 0.2, rtol=1e-4)


def test_tall_wide_and_large_pools_agree(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    signal = rng.standard_normal((1700, 6)) * [9, 8, 7, 6, 5, 4] @ rng.standard_normal((6, 1600))
    features = signal + 0.1 * rng.standard_normal((1700, 1600))
    fast = Reduction.fit(features, components=6)
    exact = PCA(6, svd_solver="full").fit_transform((features - features.mean(0)) / features.std(0))
    exact /= np.sqrt(np.square(exact).sum(1).mean())
    overlap = np.abs((exact * fast.transform(features)).sum(0)) / np.square(exact).sum(0)
    np.testing.assert_allclose(overlap, 1.0, atol=1e-4)
    monkeypatch.setattr(reduction_module, "_ROWS", 500)  # a sample of the rows stands for the pool
    part = Reduction.fit(features, components=6).transform(features)
    assert np.linalg.matrix_rank(np.corrcoef(part.T, fast.transform(features).T)[:6, 6:], tol=0.5) == 6


def test_kernel_features_are_the_kernel(rng: np.random.Generator) -> None:
    features = rng.standard_normal((50, 4))
    linear = Reduction.fit(features)
    rows = linear.transform(features).astype(float)
    bent = Reduction.fit(features, kernel="rbf")
    both = bent.transform(features).astype(float)
    gram = both[:, 4:] @ both[:, 4:].T
    squared = np.square(rows[:, None] - rows[None]).sum(-1)
    width = np.median(squared[np.triu_indices(50, 1)])
    expected = np.exp(-squared / width)
    np.testing.assert_allclose(gram / gram[0, 0], expected / expected[0, 0], atol=1e-3)
    assert np.square(both).sum(1).mean() == pytest.approx(1.0, abs=1e-4)
