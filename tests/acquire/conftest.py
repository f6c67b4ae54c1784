from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from steelyard.ranker.posterior import Posterior

Make = Callable[..., Posterior]


@pytest.fixture
def make_posterior() -> Make:
    """Posteriors of a small model that has seen a few answers."""

    def make(
        size: int = 30, width: int = 5, *, seed: int = 0, answers: int = 10, tau: float = 0.0
    ) -> Posterior:
        rng = np.random.default_rng(seed)
        features = rng.standard_normal((size, width))
        weights = rng.standard_normal(width)
        z = rng.standard_normal((answers, width))
        covariance = np.linalg.inv(np.eye(width) + 0.2 * z.T @ z)
        return Posterior(0.3, features, weights, covariance, "laplace", tau)

    return make
