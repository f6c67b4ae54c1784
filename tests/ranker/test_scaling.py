"""Scaling: what the pool says about the columns, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from steelyard.errors import RankerError
from steelyard.ranker import scaling
from steelyard.ranker.scaling import Scaling

RNG = np.random.default_rng(0)
ROWS = (RNG.standard_normal((300, 4)) * [1, 1e-6, 1e6, 0] + [0, 5, -3, 0.1]).astype(np.float64)


def test_it_is_scikit_learns_and_looks_at_the_pool_only() -> None:
    pool = np.arange(0, 300, 3)
    expected = StandardScaler().fit(ROWS[pool]).transform(ROWS)
    with_noise = ROWS.copy()
    with_noise[1::3] = np.nan  # nobody looks there
    found = Scaling.fit(with_noise, pool)
    assert np.allclose(found.apply(ROWS)[:, :3], expected[:, :3], rtol=1e-5, atol=1e-5)
    assert (
        np.abs(found.apply(ROWS)[:, 3]).max() < 1e-12
    )  # a constant column stays small instead of becoming noise
    assert found.apply(ROWS).dtype == np.float32


def test_a_memory_map_in_blocks_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Scaling.fit(ROWS)
    np.save(tmp_path / "rows.npy", ROWS)
    monkeypatch.setattr(scaling, "_BLOCK", 28)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    for found in (Scaling.fit(mapped), Scaling.fit(mapped, np.arange(300))):
        assert np.allclose(found.center_D, whole.center_D, rtol=1e-12)
        assert np.allclose(found.scale_D, whole.scale_D, rtol=1e-9)
    assert whole.same_as(Scaling.from_arrays(dict(whole.to_arrays())))
    assert not whole.same_as(Scaling.fit(ROWS[:100]))
    assert not whole.same_as(None)


def test_what_does_not_fit_is_named() -> None:
    broken = ROWS.copy()
    broken[17, 2] = np.inf
    with pytest.raises(RankerError, match="image 17 has a feature that is not finite"):
        Scaling.fit(broken, np.arange(10, 30))
    with pytest.raises(RankerError, match="without a single row"):
        Scaling.fit(ROWS, np.empty(0, dtype=np.int64))
    with pytest.raises(RankerError, match="fitted on 4 features"):
        Scaling.fit(ROWS).apply(ROWS[:, :3])
