"""Judges: the likelihood against numerical derivatives, planted parameters found again, careless ones counted less."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.config import ConvexConfig
from steelyard.errors import RankerError
from steelyard.ranker.convex_ranker import ConvexRanker
from steelyard.ranker.judges import ORDINARY, Judge, Judging, Panel, Said
from steelyard.ranker.learner import Learner
from steelyard.ranker.likelihood import expected_curvature, log_likelihood, sigmoid
from steelyard.ranker.ranker import load_ranker

ANSWERS = np.array([1.0, 0.5, 0.0, 1.0, 0.5, 0.0])


def judging(
    n: int = 6, *, lapse: float = 0.1, slope: float = 0.7, pull: float = 0.4, tie: float = 1.5
) -> Judging:
    return Judging(np.full(n, slope), np.full(n, pull), np.full(n, tie), np.full(n, lapse))


@pytest.mark.parametrize("tau", [0.0, 0.4])
def test_an_ordinary_judge_is_todays_likelihood(tau: float) -> None:
    plain = Judging(np.ones(6), np.zeros(6), np.ones(6), np.zeros(6))
    gap = np.linspace(-3, 3, 6)
    assert np.array_equal(plain.log_likelihood(gap, ANSWERS, tau), log_likelihood(gap, ANSWERS, tau))
    assert np.allclose(ORDINARY.information(gap, tau), expected_curvature(gap, tau), rtol=1e-9)


@pytest.mark.parametrize("tau", [0.0, 0.4])
def test_slopes_and_curvatures_are_the_derivatives(tau: float) -> None:
    own, gap, step = judging(), np.array([2.5, 0.3, 1.0, -0.4, -0.2, 0.8]), 1e-5
    at = [own.log_likelihood(gap + k * step, ANSWERS, tau) for k in (-1, 0, 1)]
    assert np.allclose(own.pulls(gap, ANSWERS, tau), (at[2] - at[0]) / (2 * step), atol=1e-7)
    bend = -(at[2] - 2 * at[1] + at[0]) / step**2
    assert np.allclose(own.bends(gap, ANSWERS, tau), np.maximum(bend, 0), atol=1e-4)


@pytest.mark.parametrize("tau", [0.0, 0.4])
def test_information_is_fishers(tau: float) -> None:
    """Σ over answers and sides of P · (∂ log P / ∂Δ)², by numerical differentiation of the probabilities."""
    who, step = Judge(0.7, 0.1, 0.4, 1.5), 1e-5
    for gap in (-2.0, 0.0, 1.3):
        total = 0.0
        for left in (True, False):
            low, here, high = (
                who.outcomes([gap + k * step], [0.0], tau, left_first=[left])[0] for k in (-1, 0, 1)
            )
            seen = here > 1e-9
            total += 0.5 * float((((high - low) / (2 * step)) ** 2)[seen] @ (1 / here[seen]))
        assert who.information(gap, tau) == pytest.approx(total, rel=1e-5)


@given(
    st.lists(
        st.builds(
            Judge, st.floats(0, 6), st.floats(0, 1), st.floats(-4, 4), st.floats(0.2, 4), st.integers(0, 900)
        ),
        min_size=1, max_size=6,
    ),
    st.sampled_from([0.0, 0.05, 0.4, 1.5]),
    st.lists(st.floats(-150, 150), min_size=1, max_size=20),
)  # fmt: skip
def test_what_the_panel_tells_is_the_mean_over_its_judges(
    judges: list[Judge], tau: float, gaps: list[float]
) -> None:
    panel = Panel({f"j{k}": judge for k, judge in enumerate(judges)})
    weights = [judge.answers for judge in judges] if any(judge.answers for judge in judges) else None
    exact = np.average([judge.information(gaps, tau) for judge in judges], axis=0, weights=weights)
    assert np.allclose(panel.information(gaps, tau), exact, rtol=2e-3, atol=1e-9)
    assert panel.information(np.reshape(gaps, (1, -1)), tau).shape == (1, len(gaps))


def test_what_an_answer_is_worth() -> None:
    assert ORDINARY.worth == 1.0
    assert Judge(slope=0.5).worth == pytest.approx(0.25)
    assert Judge(lapse=0.2).worth == pytest.approx(0.64)
    assert Judge(slope=0.0).worth == 0.0


def test_probabilities_add_up_and_a_lapse_is_never_a_tie() -> None:
    p = Judge(0.5, 0.3, 0.2, 2.0).outcomes(np.linspace(-4, 4, 9), 0.3, 0.5)
    assert np.allclose(p.sum(axis=1), 1)
    assert (Judge(lapse=1.0).outcomes([3.0], [0.0], 0.5)[0] == [0.5, 0.0, 0.5]).all()


def test_a_pull_goes_to_the_left_image_whichever_is_first() -> None:
    who = Judge(pull=2.0)
    first_left, first_right = (
        who.outcomes([0.0], [0.0], 0.0, left_first=[side])[0] for side in (True, False)
    )
    assert first_left[0] == pytest.approx(float(sigmoid(np.array(2.0))))
    assert np.allclose(first_left, first_right[::-1])


def study(
    seed: int, judges: list[Judge], n: int, *, images: int = 120, width: int = 8, tau: float = 0.3
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Said]:
    """Features, true scores, pairs, answers and who gave them, drawn from planted judges."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(images, width))
    weights = rng.normal(size=width)
    truth = rows @ (2.0 * weights / np.linalg.norm(weights))
    pairs = np.sort(np.array([rng.choice(images, 2, replace=False) for _ in range(n)]), axis=1)
    who, left = rng.integers(len(judges), size=n), rng.random(n) < 0.5
    gap = truth[pairs[:, 0]] - truth[pairs[:, 1]]
    answers = np.empty(n)
    for k, judge in enumerate(judges):
        own = who == k
        p = judge.outcomes(gap[own], 0.0, tau, left_first=left[own])
        luck = rng.random(own.sum())
        answers[own] = np.where(luck < p[:, 0], 1.0, np.where(luck < p[:, 0] + p[:, 1], 0.5, 0.0))
    return (
        rows.astype(np.float32),
        truth,
        pairs,
        answers,
        Said(who, [f"j{k}" for k in range(len(judges))], left),
    )


def fitted(rows: np.ndarray, pairs: np.ndarray, answers: np.ndarray, said: Said | None) -> ConvexRanker:
    ranker = Learner(ConvexConfig(backbone="none"), rows).fit(pairs, answers, said=said)
    assert isinstance(ranker, ConvexRanker)
    return ranker


def right(ranker: ConvexRanker, rows: np.ndarray, truth: np.ndarray) -> float:
    scores = ranker.posterior(rows).mean
    i, j = np.triu_indices(len(truth), 1)
    return float(np.mean((scores[i] - scores[j]) * (truth[i] - truth[j]) > 0))


PLANTED = [Judge(), Judge(), Judge(lapse=0.25), Judge(slope=0.0), Judge(pull=1.5), Judge(tie=4.0)]


def test_planted_judges_are_found_again() -> None:
    rows, _, pairs, answers, said = study(0, PLANTED, 6 * 300)
    panel = fitted(rows, pairs, answers, said).panel
    assert panel is not None
    found = [panel[f"j{k}"] for k in range(6)]
    good = np.mean([found[0].slope, found[1].slope])
    assert found[3].slope < 0.3 * good
    assert found[3].flagged
    assert not any(one.flagged for k, one in enumerate(found) if k != 3)
    assert 0.1 < found[2].lapse < 0.4
    assert max(found[0].lapse, found[1].lapse, found[4].lapse) < 0.1
    assert 1.0 < found[4].pull < 2.2
    assert abs(found[0].pull) < 0.4
    assert 2.0 < found[5].tie / found[0].tie < 7.0


def test_tie_probabilities_are_right_for_those_who_tie_much_and_for_those_who_never_do() -> None:
    """Stated for each judge about pairs that nobody was asked about, beside how often they would say so."""
    ready = [Judge(), Judge(), Judge(tie=4.0), Judge(tie=4.0), Judge(tie=0.05)]
    rows, truth, pairs, answers, said = study(1, ready, 5 * 150, tau=0.4)
    ranker = fitted(rows, pairs, answers, said)
    temper, panel = ranker.head.temper, ranker.panel
    assert temper is not None
    assert panel is not None
    i, j = np.triu_indices(len(truth), 1)
    mean, variance = ranker.posterior(rows).difference(np.stack([i, j], axis=1))
    for k, judge in enumerate(ready):
        given = judge.outcomes(truth[i] - truth[j], 0.0, 0.4)[:, 1]
        scaled = temper.scale * mean, temper.scale**2 * variance
        stated = panel[f"j{k}"].outcomes(*scaled, temper.tau)[:, 1]
        assert stated.mean() == pytest.approx(given.mean(), abs=0.05)
        assert np.abs(stated - given).mean() < 0.07


def test_who_guesses_is_flagged_within_fifty_answers_and_nobody_else_is() -> None:
    caught, wrongly = [], []
    for seed in range(6):
        rows, _, pairs, answers, said = study(seed, [Judge(), Judge(), Judge(), Judge(slope=0.0)], 4 * 50)
        panel = fitted(rows, pairs, answers, said).panel
        assert panel is not None
        caught.append(panel["j3"].flagged)
        wrongly.append(any(panel[f"j{k}"].flagged for k in range(3)))
    assert np.mean(caught) > 0.8
    assert not any(wrongly)


def test_ten_answers_move_a_judge_little() -> None:
    rows, _, pairs, answers, said = study(1, [Judge(), Judge(), Judge()], 210)
    few = np.flatnonzero(said.annotator == 2)[:10]
    kept = np.union1d(np.flatnonzero(said.annotator != 2), few)
    panel = fitted(rows, pairs[kept], answers[kept], said[kept]).panel
    assert panel is not None
    assert 0.4 < panel["j2"].slope / np.mean([panel["j0"].slope, panel["j1"].slope]) < 2.5
    assert panel["j2"].lapse < 0.15
    assert not panel["j2"].flagged


def test_knowing_the_judges_beats_ignoring_them() -> None:
    judges = [Judge(), Judge(), Judge(), Judge(slope=0.0), Judge(pull=2.0)]
    gains = []
    for seed in range(6):
        rows, truth, pairs, answers, said = study(seed, judges, 250)
        gains.append(
            right(fitted(rows, pairs, answers, said), rows, truth)
            - right(fitted(rows, pairs, answers, None), rows, truth)
        )
    assert np.mean(gains) > 0.01


def test_five_alike_cost_next_to_nothing() -> None:
    losses = []
    for seed in range(6):
        rows, truth, pairs, answers, said = study(seed, [Judge()] * 5, 300)
        losses.append(
            right(fitted(rows, pairs, answers, None), rows, truth)
            - right(fitted(rows, pairs, answers, said), rows, truth)
        )
    assert np.mean(losses) < 0.006


def test_off_is_as_before_and_one_person_is_no_panel() -> None:
    rows, _, pairs, answers, said = study(2, [Judge(), Judge(slope=0.0)], 80)
    learner = Learner(ConvexConfig(backbone="none", judges=False), rows)
    without, plain = learner.fit(pairs, answers, said=said), learner.fit(pairs, answers)
    assert isinstance(without, ConvexRanker)
    assert without.panel is None
    assert np.array_equal(without.posterior(rows).mean, plain.posterior(rows).mean)
    alone = Said(np.zeros(len(pairs), dtype=np.int64), ["kt"], said.left_first)
    assert fitted(rows, pairs, answers, alone).panel is None


def test_a_model_keeps_its_judges(tmp_path: object) -> None:
    from pathlib import Path

    rows, _, pairs, answers, said = study(3, [Judge(), Judge(slope=0.0)], 100)
    ranker, folder = fitted(rows, pairs, answers, said), Path(str(tmp_path))
    ranker.save(folder)
    loaded = load_ranker(folder)
    assert isinstance(loaded, ConvexRanker)
    assert loaded.panel == ranker.panel
    assert loaded.posterior(rows).panel == ranker.panel


def test_a_further_answer_counts_as_its_judge_counts() -> None:
    """`observe` with a judge: a guess moves nothing, and a good judge's answer moves as a refit with fixed judges would."""
    rows, _, pairs, answers, said = study(4, [Judge(), Judge(slope=0.0)], 300)
    posterior = fitted(rows, pairs, answers, said).posterior(rows)
    pair = np.array([0, 1])
    before = posterior.difference(pair[None])[0][0]
    moved = {}
    for code in (0, 1):
        one = Said(np.array([code]), said.names, np.array([True]))
        moved[code] = (
            posterior.observe(pair, 1.0 if before < 0 else 0.0, one).difference(pair[None])[0][0] - before
        )
    assert abs(moved[1]) < 0.2 * abs(moved[0])
    assert posterior.observe(pair, 1.0).difference(pair[None])[0][0] > before


def test_who_is_unknown_is_ordinary_and_mistakes_are_named() -> None:
    assert Panel({})["nobody"] == ORDINARY
    with pytest.raises(RankerError, match="below 1"):
        Said(np.array([1]), ["kt"], np.array([True]))
    with pytest.raises(RankerError, match="one for each answer"):
        Said(np.array([0, 0]), ["kt"], np.array([True]))


def test_a_panel_goes_through_json() -> None:
    import json

    panel = Panel({"kt": Judge(0.5, 0.1, -0.2, 1.5, 40, -3.0)})
    assert Panel.from_dict(json.loads(json.dumps(panel.to_dict()))) == panel
    assert Panel.from_dict({"kt": {"slope": 0.5, "of_tomorrow": 1.0}})["kt"].slope == 0.5
