"""Conflicts of a study, and what a decision does to what it learns and believes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from steelyard.pairs import Answer
from steelyard.ranker.posterior import Posterior
from steelyard.store.records import NewComparison, NewPair, new_id
from steelyard.study import Study
from steelyard.study.conflicts import find_conflicts, first_on_the_left, predicted_outcomes

MakeStudy = Callable[..., Study]
ASK = {"start": "random", "random_share": 0.0, "budget": "1000%"}


def say(study: Study, pair: int, annotator: str, said: Answer, **more: Any) -> NewComparison:
    """About (first, second)."""
    asked = study.store.pairs.get(pair)
    return NewComparison(pair, annotator, said, asked.first, asked.second, **more)


def answer(study: Study, n: int) -> None:
    """The image with the larger first feature is worse, most of the time."""
    rows, rng = np.load(study.folder.parent / "x.npy")[:, 0], np.random.default_rng(5)
    for pair in study.ask(n):
        left, right = study.catalog.index_of(pair.left), study.catalog.index_of(pair.right)
        gap = 3 * (rows[left] - rows[right]) + rng.logistic()
        study.tell(pair, "left" if gap > 0 else "right")


def worst(study: Study) -> int:
    """The row with the largest first feature: worse than all others."""
    return int(np.argmax(np.load(study.folder.parent / "x.npy")[:, 0]))


@pytest.fixture
def disputed(make_study: MakeStudy) -> tuple[Study, int]:
    """A study with a model that learnt ninety answers and two contradicting ones about a clear pair; and that pair."""
    # Judges are learnt anew with each fit, which a belief between two models does not.
    study = make_study(ask=ASK, ranker={"judges": False})
    answer(study, 90)
    rows = np.load(study.folder.parent / "x.npy")[:, 0]
    i, j = sorted((int(np.argmax(rows)), int(np.argmin(rows))))
    [pair] = study.store.pairs.add_all([NewPair(i, j, raters=2, repeat=7)])
    for who, said in (("ann", Answer.LEFT), ("bo", Answer.RIGHT)):
        study.store.answers.add(say(study, pair, who, said, id=who))
    study.fit()
    return study, pair


def reloaded(study: Study) -> Posterior:
    with Study.open(study.folder) as again:
        assert again.posterior is not None
        return again.posterior


def same(one: Posterior | None, other: Posterior | None) -> bool:
    assert one is not None
    assert other is not None
    return np.allclose(one.mean, other.mean, atol=1e-9) and np.allclose(
        one.covariance_D_D, other.covariance_D_D, atol=1e-9
    )


def alike(one: Posterior | None, other: Posterior | None) -> bool:
    """But for how much an answer counts, which only a fit finds anew."""
    assert one is not None
    assert other is not None
    return bool(np.corrcoef(one.mean, other.mean)[0, 1] > 0.998)


def gap(posterior: Posterior | None, study: Study, pair: int) -> float:
    assert posterior is not None
    asked = study.store.pairs.get(pair)
    return float(posterior.difference([[asked.first_row, asked.second_row]])[0][0])


def test_a_decision_after_the_model_moves_the_belief_as_a_refit_would(disputed: tuple[Study, int]) -> None:
    study, pair = disputed
    before = gap(study.posterior, study, pair)
    # Against what everything else says, so that it has something to move.
    said = Answer.RIGHT if before > 0 else Answer.LEFT
    study.store.decisions.add(say(study, pair, "lead", said, id="d"))
    believed = study.posterior
    assert same(believed, reloaded(study))
    study.fit()
    refit = study.posterior
    with Study.open(study.folder) as again:
        np.testing.assert_allclose(gap(again.posterior, study, pair), gap(refit, study, pair))
    # The model learnt two answers that teach no more; without taking them out the belief would be off by more.
    assert alike(believed, refit)
    assert np.sign(gap(believed, study, pair) - before) == np.sign(gap(refit, study, pair) - before)


def test_taking_a_decision_back_brings_the_belief_back(disputed: tuple[Study, int]) -> None:
    study, pair = disputed
    before = study.posterior
    study.store.decisions.add(say(study, pair, "lead", Answer.LEFT, id="d"))
    decided = study.posterior
    assert not same(before, decided)
    study.store.decisions.add(say(study, pair, "lead", Answer.RIGHT, id="e", supersedes="d"))
    other = study.posterior
    assert not same(decided, other)
    assert same(other, reloaded(study))
    study.store.decisions.undo("e", "lead", id="u")
    assert same(before, study.posterior)
    assert same(before, reloaded(study))


def test_a_decision_that_the_model_learnt_can_be_taken_back(disputed: tuple[Study, int]) -> None:
    study, pair = disputed
    learnt = study.store.answers.lessons()
    study.store.decisions.add(say(study, pair, "lead", Answer.LEFT, id="d"))
    model = study.fit()
    assert model.answers == len(learnt) - 1  # one decision instead of two answers
    decided = gap(study.posterior, study, pair)
    study.store.decisions.undo("d", "lead", id="u")
    believed = study.posterior
    assert same(believed, reloaded(study))
    study.fit()
    refit = study.posterior
    assert gap(believed, study, pair) < decided  # one of two says right
    assert alike(believed, refit)


def test_answers_since_the_model_are_overruled_too(disputed: tuple[Study, int]) -> None:
    study, _ = disputed
    start = study.posterior
    [other] = study.store.pairs.add_all([NewPair(5, 9, raters=3, repeat=3)])
    for who, said in (("ann", Answer.LEFT), ("bo", Answer.RIGHT)):
        study.store.answers.add(say(study, other, who, said))
    assert not same(start, study.posterior)
    study.store.decisions.add(say(study, other, "lead", Answer.CANNOT_JUDGE, id="d"))
    assert same(start, study.posterior)  # nobody can tell: nothing is learnt
    study.store.answers.add(say(study, other, "cy", Answer.LEFT))  # it had waited for the network
    assert same(start, study.posterior)
    assert same(start, reloaded(study))


def test_an_answer_that_the_model_learnt_and_that_was_undone_is_taken_out(
    disputed: tuple[Study, int],
) -> None:
    study, _ = disputed
    study.store.answers.undo("ann", "ann", id="u")
    believed = study.posterior
    assert same(believed, reloaded(study))
    study.fit()
    assert alike(believed, study.posterior)


def test_accuracy_knows_the_decision_and_the_budget_does_not(make_study: MakeStudy) -> None:
    study = make_study(ask={**ASK, "random_share": 1.0})
    answer(study, 120)
    study.fit()
    count = study.store.answers.count()
    first = study.accuracy()
    for one in study.store.answers.log()[:15]:
        assert one.answer is not None
        wrong = one.answer.mirrored()
        study.store.decisions.add(NewComparison(one.pair, "lead", wrong, one.left, one.right))
    second = study.accuracy()
    assert first.estimate is not None
    assert second.estimate is not None
    assert second.estimate < first.estimate - 0.05
    assert study.store.answers.count() == count
    assert study.status()["answers"] == count
    # What people said is what they said.
    assert study.agreement()["answers"] == count


def test_conflicts_name_who_said_what_and_what_was_decided(disputed: tuple[Study, int]) -> None:
    study, pair = disputed
    [one, *_] = found = find_conflicts(study)
    assert (one.pair, one.people, one.decision) == (pair, 1.0, None)
    assert {(s.annotator, s.answer) for s in one.said} == {("ann", Answer.LEFT), ("bo", Answer.RIGHT)}
    assert one.counts()[Answer.LEFT] == one.counts()[Answer.RIGHT] == 1
    assert one.leans is not None
    assert (one.leans > 0.9) == (one.first == worst(study))  # without their answers, the model is sure
    asked = study.store.pairs.get(pair)
    decision = NewComparison(pair, "lead", Answer.LEFT, asked.second, asked.first, note="see the vessels")
    study.store.decisions.add(decision)
    [again, *_] = find_conflicts(study)
    assert again.decided(asked.first) is Answer.RIGHT  # it was shown the other way round
    plain = again.to_dict(study)
    assert plain["decision"]["answer"] == "right"
    assert plain["decision"]["note"] == "see the vessels"
    assert len(found) == len(find_conflicts(study))
    # Everybody agrees by now: it is listed as decided, and last.
    study.store.answers.add(say(study, pair, "bo", Answer.LEFT, id="b2", supersedes="bo"))
    assert find_conflicts(study)[-1].pair == pair or find_conflicts(study)[0].model > 0


def test_a_sure_model_contradicts_people_who_agree(disputed: tuple[Study, int]) -> None:
    study, _ = disputed
    rows = np.load(study.folder.parent / "x.npy")[:, 0]
    i, j = sorted((int(np.argsort(rows)[-2]), int(np.argsort(rows)[1])))
    wrong = Answer.RIGHT if rows[i] > rows[j] else Answer.LEFT
    [pair] = study.store.pairs.add_all([NewPair(i, j, raters=2, repeat=7)])
    for who in ("ann", "bo"):
        study.store.answers.add(say(study, pair, who, wrong))
    found = {one.pair: one for one in find_conflicts(study)}
    assert pair in found
    assert found[pair].people == 0 < found[pair].model
    study.store.images.exclude(str(study.catalog.ids[i]), by="lead", reason="blurred")
    assert pair not in {one.pair for one in find_conflicts(study)}


def test_predictions_leave_the_answers_about_a_pair_out(disputed: tuple[Study, int]) -> None:
    study, pair = disputed
    asked = study.store.pairs.get(pair)
    rows = np.array([[asked.first_row, asked.second_row]])
    before = predicted_outcomes(study, rows)
    for who in ("cy", "di"):
        study.store.answers.add(say(study, pair, who, Answer.LEFT))
    study.fit()
    after = predicted_outcomes(study, rows)
    assert before is not None
    assert after is not None
    np.testing.assert_allclose(before, after, atol=0.05)


def test_without_a_model_people_are_compared_with_people(make_study: MakeStudy) -> None:
    study = make_study(ask=ASK)
    assert find_conflicts(study) == []
    [pair] = study.store.pairs.add_all([NewPair(0, 1, raters=2)])
    study.store.answers.add(say(study, pair, "ann", Answer.LEFT))
    assert find_conflicts(study) == []
    study.store.answers.add(say(study, pair, "bo", Answer.CANNOT_JUDGE))
    [one] = find_conflicts(study)
    assert (one.people, one.leans) == (0.5, None)


def test_sides_are_drawn_for_each_pair_and_stay(make_study: MakeStudy) -> None:
    study = make_study()
    drawn = [first_on_the_left(study, pair) for pair in range(1, 201)]
    assert drawn == [first_on_the_left(study, pair) for pair in range(1, 201)]
    assert 70 < sum(drawn) < 130


def test_a_refit_counts_decisions_as_news(disputed: tuple[Study, int]) -> None:
    study, pair = disputed
    model = study.store.models.newest()
    assert model is not None
    study.store.decisions.add(say(study, pair, "lead", Answer.LEFT, id=new_id()))
    assert study.store.answers.last_seq() == model.comparisons_seq + 1


@pytest.mark.parametrize("reading", ["two_plus_one", "two_plus_annotator"])
def test_two_plus_one_reading(make_study: MakeStudy, reading: str) -> None:
    """Two answer each pair; where they differ a third person is asked, or a lead decides."""
    study = make_study(ask={**ASK, "reading": reading, "raters": 2})
    for who, said in (("ann", "left"), ("bo", "right")):
        for pair in study.ask(3, annotator=who):
            first = pair.left == study.store.pairs.get(pair.id or 0).first
            # Both agree about the first pair, whatever their sides; they differ about the others.
            agreed = Answer.LEFT if first else Answer.RIGHT
            answer = agreed if pair.id == 1 else Answer(said) if first else Answer(said).mirrored()
            study.tell(pair, answer, annotator=who)
    waiting = {one.pair for one in find_conflicts(study)}
    third = {pair.id for pair in study.lease(5, "cy")}
    if reading == "two_plus_one":
        assert (waiting, third) == ({2, 3}, set())
        study.store.decisions.add(say(study, 2, "lead", Answer.LEFT))
        assert [one.pair for one in find_conflicts(study) if one.decision is None] == [3]
        return
    assert (waiting, third) == (set(), {2, 3})
    study.store.answers.add(say(study, 2, "cy", Answer.LEFT))  # two to one
    study.store.answers.add(say(study, 3, "cy", Answer.EQUAL))  # no two agree
    assert study.lease(5, "di") == []
    assert [one.pair for one in find_conflicts(study)] == [3]
    with Study.open(study.folder) as again:  # whoever opens it asks a third, too
        assert again.store.answers.third_reader


def test_a_model_does_not_question_what_two_readers_agree_on(make_study: MakeStudy) -> None:
    study = make_study(ask={**ASK, "reading": "two_plus_one", "raters": 2})
    for who in ("ann", "bo"):
        rows = np.load(study.folder.parent / "x.npy")[:, 0]
        for k, pair in enumerate(study.ask(40, annotator=who)):
            left, right = study.catalog.index_of(pair.left), study.catalog.index_of(pair.right)
            true = rows[left] > rows[right]
            study.tell(pair, "left" if true != (k < 3) else "right", annotator=who)
    study.fit()
    assert find_conflicts(study) == []
    study.config = study.config.with_changes(ask={"reading": "plain"})
    assert all(one.people == 0 < one.model for one in find_conflicts(study))
