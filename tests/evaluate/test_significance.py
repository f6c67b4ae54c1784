from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, t
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.multitest import multipletests

from steelyard.errors import ExperimentError
from steelyard.evaluate.significance import (
    against,
    crossing,
    crossing_interval,
    holm,
    mcnemar,
    of_several_deals,
    over_splits,
)


def outcomes(both: int, only_first: int, only_second: int, neither: int) -> tuple[np.ndarray, np.ndarray]:
    first = np.repeat([1, 1, 0, 0], [both, only_first, only_second, neither])
    second = np.repeat([1, 0, 1, 0], [both, only_first, only_second, neither])
    return first, second


def test_few_discordant_pairs_take_the_exact_binomial_by_hand() -> None:
    result = mcnemar(*outcomes(50, 10, 2, 7))
    assert (result.only_first, result.only_second) == (10, 2)
    assert result.p_value == pytest.approx(2 * (1 + 12 + 66) / 2**12)


def test_many_discordant_pairs_take_the_corrected_chi_square_by_hand() -> None:
    result = mcnemar(*outcomes(100, 30, 15, 20))
    assert result.p_value == pytest.approx(chi2.sf((30 - 15 - 1) ** 2 / 45, 1))
    assert result.p_value == pytest.approx(0.03689, abs=1e-5)


@pytest.mark.parametrize("total", [1, 2, 11, 24, 25, 26, 400])
def test_mcnemar_is_statsmodels_on_both_sides_of_25(total: int) -> None:
    for only_first in sorted({0, 1, total // 3, total // 2, (total + 1) // 2, total - 1, total}):
        table = [[9, only_first], [total - only_first, 4]]
        expected = statsmodels_mcnemar(table, exact=total < 25, correction=True).pvalue
        found = mcnemar(*outcomes(9, only_first, total - only_first, 4))
        assert found.p_value == pytest.approx(expected, rel=1e-10), (only_first, total)


def test_no_discordant_pairs_is_no_difference() -> None:
    assert mcnemar(*outcomes(5, 0, 0, 5)).p_value == 1.0


def test_a_tied_score_is_not_right() -> None:
    assert mcnemar([0.5, 1.0, 1.0], [1.0, 1.0, 0.0]).only_second == 1


def test_holm_by_hand() -> None:
    corrected, different = holm([0.01, 0.04, 0.03, 0.005])
    # sorted .005·4, .01·3, .03·2, then never smaller than the one before
    assert corrected == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert different.tolist() == [True, False, False, True]
    assert len(holm([])[0]) == 0


def test_holm_is_statsmodels() -> None:
    rng = np.random.default_rng(4)
    for m in range(1, 12):
        p = np.round(rng.random(m) ** 3, 2)  # ties among them, some at 0, some corrected beyond 1
        rejected, expected, _, _ = multipletests(p, alpha=0.05, method="holm")
        corrected, different = holm(p)
        assert corrected == pytest.approx(expected)
        assert different.tolist() == rejected.tolist()


def test_against_corrects_over_all_comparisons() -> None:
    a, b = outcomes(50, 10, 2, 7)
    results = against("ubs", {"ubs": a, "random": b, "same": a})
    assert set(results) == {"random", "same"}
    p, different = results["random"]
    assert p == pytest.approx(2 * mcnemar(a, b).p_value)
    assert not different
    with pytest.raises(ExperimentError, match="no outcomes of 'epig'"):
        against("epig", {"ubs": a})


def test_each_deal_is_tested_by_itself() -> None:
    """The same pairs dealt five times are no more evidence than once: pooled, they would be."""
    a, b = outcomes(50, 14, 4, 7)
    once = mcnemar(a, b).p_value
    deals = np.repeat(np.arange(5), len(a))
    five = against("ubs", {"ubs": np.tile(a, 5), "random": np.tile(b, 5)}, deals=deals)["random"][0]
    assert five == pytest.approx(2 * once)
    assert mcnemar(np.tile(a, 5), np.tile(b, 5)).p_value < once / 100
    assert of_several_deals([0.03]) == 0.03
    assert of_several_deals([]) == 1.0
    assert of_several_deals([0.9, 0.8, 0.7]) == 1.0


def test_twice_the_median_is_rare_where_nothing_differs_however_deals_depend() -> None:
    rng = np.random.default_rng(2)
    for alike in (0.0, 0.5, 0.95):
        common = rng.standard_normal((4000, 1))
        z = np.sqrt(alike) * common + np.sqrt(1 - alike) * rng.standard_normal((4000, 5))
        p = chi2.sf(z**2, 1)
        assert np.mean([of_several_deals(row) <= 0.05 for row in p]) <= 0.055


def test_the_interval_is_nadeau_and_bengios_by_hand_and_paired() -> None:
    rng = np.random.default_rng(0)
    cell = rng.normal(0.8, 0.1, 25)  # folds differ by far more than methods do
    change = 0.02 + rng.normal(0, 0.005, 25)
    result = over_splits(cell + change, cell, test_to_train=1 / 3)
    half = t.ppf(0.975, 24) * np.sqrt((1 / 25 + 1 / 3) * np.var(change, ddof=1))
    assert (result.low, result.high) == pytest.approx((change.mean() - half, change.mean() + half))
    assert result.cells == 25
    alone = over_splits([0.5], [0.4], test_to_train=1 / 3)
    assert (alone.difference, alone.low, alone.high) == (pytest.approx(0.1), -np.inf, np.inf)


def test_the_interval_covers_what_cells_as_if_independent_do_not() -> None:
    """Five deals of the same images into five folds: what differs between methods on an image is tested in every deal again."""
    rng = np.random.default_rng(1)
    hits = naive = 0
    for _ in range(300):
        on_image, taught_by = rng.normal(0.01, 0.3, 150), rng.normal(0, 0.3, 150)
        cells = []
        for _ in range(5):
            parts = np.array_split(rng.permutation(150), 5)
            for fold in range(5):
                train = np.concatenate([parts[(fold + k) % 5] for k in (2, 3, 4)])
                cells.append(on_image[parts[fold]].mean() + taught_by[train].mean())
        found = over_splits(cells, np.zeros(25), test_to_train=1 / 3)
        hits += found.low <= 0.01 <= found.high
        half = 1.96 * np.std(cells, ddof=1) / 5
        naive += abs(np.mean(cells) - 0.01) <= half
    assert hits / 300 >= 0.93
    assert naive / 300 < 0.75


def test_a_curve_crosses_where_it_does_and_not_by_one_lucky_round() -> None:
    share = np.array([0.2, 0.3, 0.4, 0.5])
    assert crossing(share, [-0.3, -0.1, 0.1, 0.2]) == pytest.approx(0.35)
    assert crossing(share, [0.1, 0.2, 0.2, 0.3]) == 0.2
    assert np.isnan(crossing(share, [-0.3, -0.2, -0.1, -0.05]))
    assert crossing(share, [-0.30, 0.02, -0.10, 0.3]) > 0.4, "the second round was lucky"


def test_the_interval_of_labels_needed_covers_them() -> None:
    """Five deals of the same images; the true curve reaches the goal with 40% of the labels."""
    rng = np.random.default_rng(3)
    share = np.arange(0.2, 0.51, 0.05)
    hits = 0
    for _ in range(60):
        on_image = rng.normal(0, 0.35, (150, 1)) + rng.normal(0, 0.15, (150, len(share)))
        taught_by, cells = rng.normal(0, 0.15, 150), []
        for _ in range(5):
            parts = np.array_split(rng.permutation(150), 5)
            for fold in range(5):
                train = np.concatenate([parts[(fold + k) % 5] for k in (2, 3, 4)])
                noise = on_image[parts[fold]].mean(axis=0) + taught_by[train].mean()
                cells.append(0.15 * (share - 0.4) + noise)
        low, high = crossing_interval(share, cells, test_to_train=1 / 3, rng=rng)
        hits += not np.isnan(low) and low <= 0.4 and (np.isnan(high) or high >= 0.4)
    assert hits / 60 >= 0.9
    low, high = crossing_interval(share, np.full((4, len(share)), -0.1), test_to_train=1 / 3, rng=rng)
    assert np.isnan(low)
    assert np.isnan(high)


def test_unpaired_input_is_refused() -> None:
    with pytest.raises(ExperimentError, match="same pairs"):
        mcnemar([1, 0], [1])
    with pytest.raises(ExperimentError, match="same cells"):
        over_splits([0.5], [0.5, 0.6], test_to_train=0.3)
