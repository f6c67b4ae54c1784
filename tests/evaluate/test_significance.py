from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.multitest import multipletests

from steelyard.errors import ExperimentError
from steelyard.evaluate.significance import against, bootstrap_difference, holm, mcnemar


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
    test, p, different = results["random"]
    assert p == pytest.approx(2 * test.p_value)
    assert not different
    with pytest.raises(ExperimentError, match="no outcomes of 'epig'"):
        against("epig", {"ubs": a})


def test_bootstrap_covers_the_difference_and_is_paired() -> None:
    rng = np.random.default_rng(0)
    cell = rng.normal(0.8, 0.1, 25)  # folds differ by far more than methods do
    result = bootstrap_difference(cell + 0.02 + rng.normal(0, 0.005, 25), cell, rng=rng)
    assert result.cells == 25
    assert 0.015 < result.low < result.difference < result.high < 0.025


def test_bootstrap_interval_has_its_nominal_coverage() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(300):
        change = rng.normal(0.01, 0.03, 25)
        interval = bootstrap_difference(change, np.zeros(25), rng=rng, draws=500)
        hits += interval.low <= 0.01 <= interval.high
    assert 0.88 < hits / 300 < 0.98


def test_unpaired_input_is_refused() -> None:
    with pytest.raises(ExperimentError, match="same pairs"):
        mcnemar([1, 0], [1])
    with pytest.raises(ExperimentError, match="same cells"):
        bootstrap_difference([0.5], [0.5, 0.6], rng=np.random.default_rng(0))
