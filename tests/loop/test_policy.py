"""One policy says when to fit, when to choose, how many and how."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.config import AskConfig
from steelyard.loop.policy import AHEAD, AT_ONCE, FEW, Policy, Schedule, Standing


def policy(images: int = 200, **ask: Any) -> Policy:
    return Policy(AskConfig(**ask), images)


def standing(**facts: Any) -> Standing:
    known: dict[str, Any] = {
        "model": False, "answered": 0, "new": 0, "learnt": 0, "new_grades": 0, "up": lambda: 0, "started": lambda: False,
    }  # fmt: skip
    return Standing(**{**known, **facts})


# ---------------------------------------------------------------------- how many


def test_rounds_are_rounded_in_sum() -> None:
    schedule = Schedule(90, 20, 5)
    totals = [schedule.total(k) for k in range(7)]
    assert totals == [18, 22, 27, 31, 36, 40, 45]
    asked = 18
    for total in totals[1:]:
        asked += schedule.rest_of_round(asked)
        assert asked == total


@pytest.mark.parametrize("images", [7, 90, 851, 1600])
@pytest.mark.parametrize("share", [0.05, 0.07, 0.29, 1 / 3])
def test_shares_of_a_study_are_the_percentages_of_an_experiment(images: int, share: float) -> None:
    schedule = policy(images, start_share=share, round_share=share).schedule
    for k in range(1, 30):
        assert schedule.total(k) == Schedule(images, round(share * 100, 9), round(share * 100, 9)).total(k)


def test_the_rest_of_a_round_is_what_is_missing_to_its_end_wherever_it_was_left() -> None:
    schedule = Schedule(100, 20, 5)
    assert [schedule.rest_of_round(asked) for asked in (0, 19, 20, 22, 25, 37, 1000)] == [
        20,
        1,
        5,
        3,
        5,
        3,
        5,
    ]
    assert Schedule(10, 5, 1).rest_of_round(3) == 1  # rounds of a tenth of a pair: the next one that has any


def test_the_whole_start_then_whole_rounds_or_just_what_is_missing() -> None:
    rounds, one_by_one = (
        policy(mode=mode, start_share=0.1, round_share=0.05) for mode in ("rounds", "continuous")
    )
    for each in (rounds, one_by_one):
        assert each.how_many(1, asked=0, model=False) == 20
        assert each.how_many(1, asked=15, model=False) == 5
        assert each.how_many(3, asked=20, model=False) == 3  # the start is over, the model is not there yet
        assert each.in_one_go(asked=20, model=True) == 10
    assert rounds.how_many(1, asked=20, model=True) == 10
    assert rounds.how_many(1, asked=27, model=True) == 3
    assert rounds.how_many(12, asked=27, model=True) == 12
    assert one_by_one.how_many(1, asked=20, model=True) == 1


def test_a_page_holds_pairs_for_everybody_within_the_budget() -> None:
    study = policy(budget=0.5)  # 100 answers
    assert study.page_wants(people=0, up=0, answered=0) == 2 * AHEAD
    assert study.page_wants(people=4, up=0, answered=0) == 10 * AHEAD
    assert study.page_wants(people=4, up=55, answered=0) == 0  # enough for now
    assert study.page_wants(people=4, up=5, answered=90) == 5
    assert study.page_wants(people=4, up=0, answered=100) == 0
    assert policy(budget=0.5, raters=2).left(answered=150, up=20) == 10


def test_a_crowd_or_a_large_study_is_served_in_parts() -> None:
    crowd = policy(images=100_000)
    assert crowd.page_wants(people=1_000, up=0, answered=0) == AT_ONCE
    assert crowd.page_wants(people=1_000, up=12_012 - 1_010, answered=0) == AT_ONCE
    many, rounds = (
        policy(images=1_000_000, mode=mode, start_share=0.05) for mode in ("continuous", "rounds")
    )
    assert many.how_many(6, asked=0, model=False) == AT_ONCE
    assert many.how_many(600, asked=0, model=False) == 600, "what somebody asks for"
    assert many.by_trainer(asked=0, model=False) == AT_ONCE
    assert rounds.how_many(6, asked=0, model=False) == rounds.by_trainer(asked=0, model=False) == 50_000


def test_who_goes_on_beyond_the_plan_gets_a_few_pairs_at_a_time() -> None:
    study = policy(budget=0.5)  # 100 answers
    assert study.page_wants(people=4, up=0, answered=100, beyond=1) == 2 * AHEAD
    assert study.page_wants(people=4, up=5, answered=130, beyond=1) == 2 * AHEAD - 5
    assert study.page_wants(people=4, up=2 * AHEAD, answered=130, beyond=1) == 0
    assert study.page_wants(people=4, up=0, answered=10, beyond=1) == 10 * AHEAD, "within the plan as ever"


def test_the_trainer_brings_enough_for_those_who_wait() -> None:
    assert policy(start_share=0.5).by_trainer(asked=0, model=False) == 100
    assert policy(start_share=0.01).by_trainer(asked=0, model=False) == FEW
    assert policy(start_share=0.01, budget=0.02).by_trainer(asked=0, model=False) == 4


# ---------------------------------------------------------------------- by which strategy


def test_without_features_people_are_kept_busy_until_the_trainer_brings_its_pairs() -> None:
    spread = policy(start="spread", strategy="epig")
    missing = {"described": lambda: False}
    assert spread.for_page(30, model=False, up=lambda: 0, **missing) == (FEW, "random")
    assert spread.for_page(30, model=False, up=lambda: 3, **missing) == (0, "random")
    assert spread.for_page(30, model=True, up=lambda: 3, **missing) == (30, "epig")
    assert policy(strategy="coreset").for_page(5, model=True, up=lambda: 0, **missing) == (5, "random")
    assert policy(start="random").for_page(30, model=False, up=lambda: 3, **missing) == (30, "random")


def test_with_features_at_hand_the_page_chooses_as_the_trainer_does() -> None:
    spread = policy(start="spread")
    assert spread.for_page(30, model=False, up=lambda: 3, described=lambda: True) == (30, "spread")
    assert policy(strategy="coreset").for_page(5, model=True, up=lambda: 0, described=lambda: True) == (
        5,
        "coreset",
    )


def test_a_search_is_smaller_only_where_somebody_waits_for_a_few_pairs() -> None:
    quick = policy(mode="continuous")
    assert "candidates" in quick.options("epig", 1)
    assert "candidates" not in quick.options("epig", 50)
    assert "candidates" not in quick.options("spread", 1)
    assert "candidates" not in policy(mode="rounds").options("epig", 1)


def test_nothing_is_repeated_before_anything_was_asked() -> None:
    shares = policy(random_share=0.2, repeat_share=0.1).shares
    assert shares(0, "epig") == {"random_share": 0.2, "repeat_share": 0.0}
    assert shares(1, "epig") == {"random_share": 0.2, "repeat_share": 0.1}


def test_pairs_asked_at_random_all_measure_where_measuring_costs_nothing() -> None:
    ask = AskConfig(random_share=0.2, repeat_share=0.1)
    assert Policy(ask, 200, learns_reserved=True).shares(1, "random") == {
        "random_share": 0.9,
        "repeat_share": 0.1,
    }
    assert Policy(ask, 200, learns_reserved=True).shares(1, "epig")["random_share"] == 0.2
    # A network is not shown what is held back: were all pairs, it would learn nothing.
    assert Policy(ask, 200).shares(1, "random")["random_share"] == 0.2
    # Nobody wants accuracy measured, as in the paper's experiments: `random` stays the paper's.
    assert (
        Policy(AskConfig(random_share=0.0), 200, learns_reserved=True).shares(1, "random")["random_share"]
        == 0
    )


# ---------------------------------------------------------------------- when


def test_a_fit_follows_enough_answers_or_the_last_ones() -> None:
    study = policy(budget=0.5, start="random")  # 100 answers
    assert study.work(standing(answered=19, new=19), refit_after=20) == ""
    assert study.work(standing(answered=20, new=20), refit_after=20) == "fit"
    assert study.work(standing(model=True, answered=100, new=1), refit_after=20) == "fit"
    assert study.work(standing(model=True, answered=100, new=0), refit_after=20) == ""
    assert study.work(standing(answered=0, new=30), refit_after=20) == ""  # all taken back
    assert study.work(standing(model=True, answered=105, new=5, learnt=95), refit_after=20) == "fit"
    # Beyond the plan not every answer is worth a model.
    assert study.work(standing(model=True, answered=105, new=5, learnt=100), refit_after=20) == ""
    assert study.work(standing(model=True, answered=120, new=20, learnt=100), refit_after=20) == "fit"
    assert study.work(standing(model=True, answered=50, new_grades=20), refit_after=20) == "fit"
    assert policy(budget=0.02, start="random").work(standing(answered=4, new=4), refit_after=20) == "fit"


def test_pairs_on_features_are_the_trainers_work() -> None:
    spread = policy(start="spread")
    assert spread.work(standing(), refit_after=20) == "start"
    assert spread.work(standing(started=lambda: True), refit_after=20) == ""
    assert spread.work(standing(model=True, answered=30), refit_after=20) == ""  # epig needs a model only
    core = policy(strategy="coreset")
    assert core.work(standing(model=True, answered=30), refit_after=20) == "choose"
    assert core.work(standing(model=True, answered=30, up=lambda: 24), refit_after=20) == ""
    assert core.work(standing(model=True, answered=100), refit_after=20) == ""  # the budget is spent
