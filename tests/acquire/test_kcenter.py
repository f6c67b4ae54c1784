from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.acquire.kcenter import k_center_greedy
from steelyard.errors import AcquireError


def plain(features: np.ndarray, n: int, initial: list[int], first: int) -> list[int]:
    """The textbook way: every row against every new centre."""
    picks = [] if initial else [first]
    centres = initial or [first]
    nearest = np.full(len(features), np.inf, dtype=features.dtype)
    for centre in centres:
        nearest = np.minimum(nearest, np.linalg.norm(features - features[centre], axis=1))
    nearest[centres] = -np.inf
    while len(picks) < n:
        best = int(np.argmax(nearest))
        picks.append(best)
        nearest = np.minimum(nearest, np.linalg.norm(features - features[best], axis=1))
        nearest[picks + initial] = -np.inf
    return picks


@given(
    size=st.integers(1, 60),
    width=st.integers(1, 6),
    grid=st.booleans(),
    single=st.booleans(),
    start=st.integers(0, 5),
    shift=st.sampled_from([0.0, 1e4]),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=200, deadline=None)
def test_picks_are_those_of_the_plain_way(
    size: int, width: int, grid: bool, single: bool, start: int, shift: float, seed: int
) -> None:
    """Also where rows are equal, distances tie exactly (a grid) or almost (far from the origin, in single precision)."""
    rng = np.random.default_rng(seed)
    features = rng.integers(3, size=(size, width)) * 1.0 if grid else rng.standard_normal((size, width))
    features = (features + shift).astype(np.float32 if single else np.float64)
    initial = rng.choice(size, size=min(start, size - 1), replace=False).tolist()
    n = size - len(initial)
    picks, radii = k_center_greedy(features, n, initial=initial, first=size // 2)
    assert picks.tolist() == plain(features, n, sorted(initial), size // 2)
    assert sorted([*picks.tolist(), *initial]) == list(range(size))
    assert (np.diff(radii[0 if initial else 1 :]) <= 1e-5 * (1 + shift)).all()


def test_picks_are_those_of_the_plain_way_on_wide_rows() -> None:
    features = np.random.default_rng(0).standard_normal((3000, 64)).astype(np.float32)
    picks, radii = k_center_greedy(features, 150, first=7)
    assert picks.tolist() == plain(features, 150, [], 7)
    last = np.linalg.norm(features[picks[:-1]] - features[picks[-1]], axis=1).min()
    assert radii[-1] == pytest.approx(last, rel=1e-5)
    assert radii[0] == 0.0


def test_fewer_come_back_when_rows_run_out() -> None:
    features = np.zeros((4, 2))
    assert k_center_greedy(features, 9, initial=[1])[0].tolist() == [0, 2, 3]
    assert k_center_greedy(features, 0)[0].tolist() == []
    assert k_center_greedy(features, 3, initial=[0, 1, 2, 3])[0].tolist() == []
    assert k_center_greedy(np.zeros((0, 2)), 3)[0].tolist() == []


def test_bad_features_and_rows_are_refused() -> None:
    broken = np.zeros((3, 2))
    broken[1, 0] = np.nan
    with pytest.raises(AcquireError, match="row 1 of the features is not finite"):
        k_center_greedy(broken, 2)
    with pytest.raises(AcquireError, match="float32 or float64 matrix, not int64"):
        k_center_greedy(np.zeros((3, 2), dtype=np.int64), 2)  # type: ignore[arg-type]
    with pytest.raises(AcquireError, match="row 5 is outside the 3 rows"):
        k_center_greedy(np.zeros((3, 2)), 2, initial=[0, 5])
    with pytest.raises(AcquireError, match="row 3 is outside the 3 rows"):
        k_center_greedy(np.zeros((3, 2)), 2, first=3)
