"""Foreign images are found, images of the same domain are left alone, and small pools say nothing.

The first two tests are a short form of benchmarks/off_domain.py.
"""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.errors import RankerError
from steelyard.ranker.appearance import appearance
from steelyard.ranker.domain import ALPHA, LEAST_GROUPS, Domain, fit_domain, off_domain

F = 40


def rows_of(n: int, rng: np.random.Generator, *, shift: float = 0.0, off: float = 0.0) -> np.ndarray:
    """Images in eight of forty dimensions and some noise; `shift` along them, `off` across."""
    plane = np.random.default_rng(0).standard_normal((8, F))
    across = np.zeros(F)
    across[:10] = off
    return (
        (rng.standard_normal((n, 8)) + shift) @ plane + 0.3 * rng.standard_normal((n, F)) + across
    ).astype(np.float32)


def flagged(domain: Domain, rows: np.ndarray) -> float:
    return float(np.mean(off_domain(domain.unlike(rows), domain.groups).astype(bool)))


def test_false_alarms_are_as_rare_as_promised_and_foreign_images_are_found() -> None:
    alarms, far, across = [], [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        fitted = fit_domain(rows_of(200, rng), seed=seed)
        assert fitted is not None
        alarms.append(flagged(fitted[0], rows_of(500, rng)))
        far.append(flagged(fitted[0], rows_of(100, rng, shift=5.0)))
        across.append(flagged(fitted[0], rows_of(100, rng, off=5.0)))
    assert 0.02 < np.mean(alarms) < ALPHA + 0.01
    assert min(far) > 0.95  # an extreme inside the axes
    assert min(across) > 0.95  # usual along the axes, but not on them


def test_new_groups_are_no_false_alarms_where_images_of_a_group_are_alike() -> None:
    """Left out image by image, each would be known by its group, and every new group would be foreign."""
    by_group, by_image = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)

        def patients(n: int, rng: np.random.Generator = rng) -> np.ndarray:
            own = 2 * rng.standard_normal((n, 1, F))
            return (own + 0.2 * rng.standard_normal((n, 8, F))).reshape(-1, F).astype(np.float32)

        pool, new = patients(40), patients(40)
        for groups, alarms in ((np.repeat(np.arange(40), 8), by_group), (None, by_image)):
            fitted = fit_domain(pool, groups=groups, seed=seed)
            assert fitted is not None
            alarms.append(flagged(fitted[0], new))
    assert np.mean(by_group) < 0.05
    assert np.mean(by_image) > 0.2


def test_the_share_is_what_it_says() -> None:
    rng = np.random.default_rng(3)
    pool = rows_of(150, rng)
    fitted = fit_domain(pool)
    assert fitted is not None
    domain, own = fitted
    assert domain.groups == 150
    # Ranks among each other: all shares 0/150 … 149/150, each once.
    np.testing.assert_allclose(np.sort(own), np.arange(150) / 150)
    assert off_domain(own, domain.groups).astype(bool).sum() == 6
    assert domain.unlike(pool.mean(axis=0, keepdims=True))[0] < 0.02
    assert domain.unlike(pool[:1] + 1e6)[0] == pytest.approx(150 / 151)
    mixed = domain.unlike(rows_of(3000, rng))
    np.testing.assert_allclose(np.quantile(mixed, [0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], atol=0.12)


def test_a_few_foreign_images_hidden_in_the_pool_are_found() -> None:
    rng = np.random.default_rng(4)
    rows = rows_of(300, rng)
    rows[::30] = rows_of(10, rng, off=9.0)
    fitted = fit_domain(rows)
    assert fitted is not None
    domain, own = fitted
    hidden = off_domain(own, domain.groups).astype(bool)
    assert hidden[::30].all()
    assert hidden.sum() == 12
    assert flagged(domain, rows_of(50, rng, off=9.0)) > 0.3  # not learnt as usual


def test_a_patient_of_another_kind_is_compared_with_the_other_patients() -> None:
    rng = np.random.default_rng(5)
    groups = np.repeat(np.arange(30), 10)
    rows = rows_of(300, rng)
    rows[groups == 7] = rows_of(10, rng, off=9.0)
    fitted = fit_domain(rows, groups=groups)
    assert fitted is not None
    domain, own = fitted
    assert domain.groups == pytest.approx(30)
    np.testing.assert_allclose(own[groups == 7], 29 / 30)
    assert off_domain(own, domain.groups)[groups == 7].all()


def test_excluded_images_are_measured_but_not_learnt_from_and_absent_ones_are_unknown() -> None:
    rng = np.random.default_rng(6)
    rows = rows_of(100, rng)
    rows[10] += 50
    rows[11] = np.nan  # never read
    pool = np.setdiff1d(np.arange(100), [10, 11, 12])
    fitted = fit_domain(rows, pool=pool, absent=np.array([11]))
    assert fitted is not None
    domain, own = fitted
    assert domain.groups == 97
    assert own[10] == pytest.approx(97 / 98)
    assert np.flatnonzero(np.isnan(own)).tolist() == [11]
    assert off_domain(own, domain.groups)[11] is None
    rows[20] = np.inf
    with pytest.raises(RankerError, match="image 20 has a feature that is not finite"):
        fit_domain(rows, pool=pool)
    with pytest.raises(RankerError, match="not finite"):
        domain.unlike(rows[20:21])
    with pytest.raises(RankerError, match="40 features an image, not 3"):
        domain.unlike(rows[:2, :3])


def test_small_pools_say_nothing() -> None:
    rng = np.random.default_rng(7)
    assert fit_domain(rows_of(15, rng)) is None
    assert fit_domain(rows_of(200, rng), groups=np.repeat(np.arange(5), 40)) is None
    for n in (LEAST_GROUPS - 1, LEAST_GROUPS):
        fitted = fit_domain(rows_of(n, rng))
        assert fitted is not None
        far = off_domain(fitted[0].unlike(rows_of(3, rng) + 1000), fitted[0].groups)
        assert far.tolist() == ([None] * 3 if n < LEAST_GROUPS else [True] * 3)


def test_a_large_pool_is_represented_by_some_and_every_image_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("steelyard.ranker.domain._ROWS", 120)
    rng = np.random.default_rng(8)
    rows = rows_of(1500, rng)
    rows[5] += 100
    groups = np.array([""] * 300 + [f"p{k // 4}" for k in range(1200)])
    fitted = fit_domain(rows, groups=groups)
    assert fitted is not None
    domain, own = fitted
    assert len(domain.distance_M) == 120
    assert np.isfinite(own).all()
    assert own[5] > 0.99
    assert 0.01 < np.mean(off_domain(own, domain.groups).astype(bool)) < 0.12


def test_constant_and_empty_features_do_no_harm() -> None:
    rng = np.random.default_rng(9)
    rows = np.column_stack([rows_of(60, rng), np.ones(60), np.full(60, 1e-8)]).astype(np.float32)
    fitted = fit_domain(rows)
    assert fitted is not None
    assert np.isfinite(fitted[1]).all()
    flat = fit_domain(np.ones((60, 5), dtype=np.float32))
    assert flat is not None
    assert np.isfinite(flat[1]).all()
    plane = fit_domain((rng.standard_normal((60, 1)) @ np.ones((1, 6))).astype(np.float32))
    assert plane is not None
    assert flagged(plane[0], np.eye(6, dtype=np.float32) * 9) == 1.0


def test_it_is_the_same_twice_and_after_saving() -> None:
    rows = rows_of(80, np.random.default_rng(10))
    first, again = fit_domain(rows), fit_domain(rows)
    assert first is not None
    assert again is not None
    np.testing.assert_array_equal(first[1], again[1])
    kept = Domain.from_arrays({name: array.copy() for name, array in first[0].to_arrays().items()})
    np.testing.assert_array_equal(kept.unlike(rows), first[0].unlike(rows))


def test_pixels_are_described_by_colour_detail_and_layout() -> None:
    rng = np.random.default_rng(11)
    smooth = np.clip(rng.normal(size=(60, 4, 4, 3)) * 30 + [150, 90, 70], 0, 255)
    pictures = np.kron(smooth, np.ones((1, 8, 8, 1)))
    pictures = np.clip(pictures + 4 * rng.standard_normal(pictures.shape), 0, 255).astype(np.uint8)
    fitted = fit_domain(pictures[:50])
    assert fitted is not None
    domain = fitted[0]
    new = pictures[50:]
    assert flagged(domain, new) <= 0.2
    assert flagged(domain, new[..., ::-1]) == 1.0  # recoloured
    assert flagged(domain, np.repeat(new.mean(axis=3, keepdims=True), 3, axis=3).astype(np.uint8)) == 1.0
    noisy = np.clip(new + 25 * rng.standard_normal(new.shape), 0, 255).astype(np.uint8)
    assert flagged(domain, noisy) == 1.0
    maps = rng.standard_normal((70, 5, 5, 6)).astype(np.float32)
    told = appearance(maps, np.array([3, 1]))
    np.testing.assert_allclose(told[0], [*maps[3].mean(axis=(0, 1)), *maps[3].std(axis=(0, 1))], rtol=1e-5)
    assert appearance(np.zeros((2, 1, 1, 3), dtype=np.uint8)).shape == appearance(pictures[:2]).shape
