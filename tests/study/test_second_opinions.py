"""A study that may ask twice: of somebody who knows, nobody the same twice, and never where one person answers alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import steelyard as sy
from steelyard.config import AskConfig
from steelyard.errors import ConfigError
from steelyard.loop.hearing import WAITING
from steelyard.loop.policy import AHEAD
from steelyard.web.asker import Asker

PEOPLE = ("ann", "bo", "guesser")


def study_of(folder: Path, **ask: object) -> tuple[sy.Study, np.ndarray]:
    """A small study in which a second opinion is often worth more than one of the few pairs that are left."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(60, 30)).astype(np.float32)
    np.save(folder / "rows.npy", rows)
    catalog = sy.Catalog.from_features(folder / "rows.npy")
    settings = {"start_share": 1.0, "random_share": 0.0, "budget": 500, **ask}
    return sy.Study.create(folder / "study", catalog, preset="features", ask=settings), rows @ rng.normal(
        size=30
    )


def take_turns(study: sy.Study, truth: np.ndarray, answers: int, *, first: int = 0) -> None:
    rng = np.random.default_rng(first)
    place = {str(id): k for k, id in enumerate(study.catalog.ids)}
    for n in range(first, first + answers):
        who = PEOPLE[n % 3]
        [pair] = study.ask(1, annotator=who)
        left = truth[place[pair.left]] > truth[place[pair.right]]
        said = bool(rng.random() < 0.5) if who == "guesser" else bool(left)
        study.tell(pair, sy.Answer.LEFT if said else sy.Answer.RIGHT, annotator=who)


def further(study: sy.Study) -> list[str]:
    """Who was asked about pairs that somebody else had answered."""
    answers = study.store.answers.arrays()
    heard: dict[int, list[str]] = {}
    for pair, code in zip(answers.pair.tolist(), answers.annotator.tolist(), strict=True):
        heard.setdefault(pair, []).append(answers.annotators[code])
    assert all(len(set(people)) == len(people) for people in heard.values()), (
        "somebody was asked the same twice"
    )
    return [who for people in heard.values() for who in people[1:]]


def test_second_opinions_are_asked_of_people_who_do_not_guess(tmp_path: Path) -> None:
    study, truth = study_of(tmp_path, second_opinions=True)
    take_turns(study, truth, 120)
    assert further(study) == [], "before there is a model"
    study.fit()
    take_turns(study, truth, 60, first=120)
    assert set(further(study)) == {"ann", "bo"}
    assert study.store.check() == []


def test_off_and_alone_no_pair_is_asked_twice(tmp_path: Path) -> None:
    (tmp_path / "off").mkdir()
    study, truth = study_of(tmp_path / "off")
    take_turns(study, truth, 90)
    study.fit()
    take_turns(study, truth, 30, first=90)
    assert further(study) == []
    (tmp_path / "alone").mkdir()
    study, truth = study_of(tmp_path / "alone", second_opinions=True)
    for n in range(60):
        [pair] = study.ask(1)
        study.tell(pair, sy.Answer.LEFT)
        if n == 39:
            study.fit()
    assert further(study) == []


def test_a_decided_pair_is_settled_and_nobody_waits_for_nothing(tmp_path: Path) -> None:
    """The store refuses what is settled; the study then asks something else instead of the same again."""
    study, truth = study_of(tmp_path, second_opinions=True)
    take_turns(study, truth, 60)
    study.fit()
    drafts = study.questions.draft(6)
    again = [one for one in drafts if one.asked_of is not None]
    assert again
    for one in again:
        assert one.asked_of in PEOPLE
    # Nothing of it was put up, as if the store had refused: the next draft has other pairs.
    later = {(one.first, one.second) for one in study.questions.draft(6) if one.asked_of is not None}
    assert not later & {(one.first, one.second) for one in again}


def test_two_plus_one_says_itself_who_is_asked_again(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="second_opinions"):
        study_of(tmp_path, second_opinions=True, raters=2, reading="two_plus_one")


@pytest.mark.parametrize("strategy", ["random", "variance", "ubs", "coreset", "spread"])
def test_a_strategy_that_weighs_no_pairs_is_refused_not_ignored(strategy: str) -> None:
    with pytest.raises(ConfigError, match=f"'{strategy}' does not weigh pairs"):
        AskConfig(strategy=strategy, second_opinions=True)


def test_whoever_gave_the_first_opinions_is_not_left_without_pairs(tmp_path: Path) -> None:
    """Pairs that wait for somebody else's opinion do not count as pairs for everybody."""
    study, truth = study_of(tmp_path, second_opinions=True)
    take_turns(study, truth, 120)
    study.fit()
    asker = Asker(study)
    for who in PEOPLE:
        asker.want(who)
    while asker.top_up():
        pass
    assert asker.missing() == 0
    waiting = study.store.pairs.open_count() - study.store.pairs.open_count(unanswered=True)
    assert 0 < waiting <= 2 * WAITING, "second opinions are among them, and not without end"
    for who in PEOPLE:
        assert study.store.pairs.free_count(who) >= 2 * AHEAD
