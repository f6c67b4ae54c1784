"""What was heard about pairs: what it is worth, who is left to ask, and when a second opinion beats a new pair."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.acquire import choose
from steelyard.acquire.candidates import draw_candidates
from steelyard.acquire.design import design_covariance
from steelyard.acquire.heard import Heard
from steelyard.errors import AcquireError
from steelyard.loop.hearing import LATEST, Hearing
from steelyard.pairs import PairSet
from steelyard.ranker.judges import Judge, Panel, Said
from steelyard.ranker.posterior import Posterior

PEOPLE = ("ann", "bo", "guesser")
PANEL = Panel(
    {"ann": Judge(answers=50), "bo": Judge(slope=0.8, answers=50), "guesser": Judge(slope=0.02, answers=50)}
)


def belief(size: int = 20, width: int = 4, panel: Panel | None = PANEL) -> Posterior:
    rng = np.random.default_rng(0)
    found = Posterior(
        0.0, rng.normal(size=(size, width)), rng.normal(size=width), np.eye(width), "laplace", 0.2
    )
    found.panel = panel
    return found


def say(hearing: Hearing, *told: tuple[int, int, float, str], apart: bool = False) -> None:
    for i, j, answer, who in told:
        said = Said(np.array([PEOPLE.index(who)]), PEOPLE, np.array([True]))
        hearing.add(np.array([[i, j]]), np.array([answer]), said, np.array([apart]))


def test_an_answer_is_worth_what_its_judge_is_worth_and_the_best_who_is_left_is_asked() -> None:
    hearing, posterior = Hearing(20), belief()
    say(hearing, (0, 1, 1.0, "ann"), (3, 2, 0.0, "guesser"), (4, 5, 1.0, "ann"), (5, 4, 1.0, "bo"))
    found = hearing.opinions(posterior)
    assert found is not None
    assert found.heard.pairs.tolist() == [[0, 1], [2, 3], [4, 5]]
    by_pair = dict(zip(map(tuple, found.heard.pairs.tolist()), found.heard.worth.tolist(), strict=True))
    assert by_pair[0, 1] == pytest.approx(1.0, abs=0.05)
    assert by_pair[2, 3] < 0.01
    assert by_pair[4, 5] == pytest.approx(1.0 + 0.8**2, abs=0.1)
    assert [found.best_for(pair) for pair in ((1, 0), (2, 3), (4, 5))] == ["bo", "ann", "guesser"]
    assert found.heard.tells[2] < 0.01, "only somebody who guesses is left"
    assert found.best_for((7, 8)) == ""


def test_a_slip_is_worth_little() -> None:
    """Whoever is known to slip, and says the absurd, has hardly said anything."""
    slips = Panel({"ann": Judge(lapse=0.2, answers=50), "bo": Judge(answers=50)})
    posterior = belief(panel=slips)
    order = np.argsort(posterior.mean)
    worst, least = int(order[-1]), int(order[0])
    hearing = Hearing(20)
    say(hearing, (worst, least, 0.0, "ann"), (int(order[-2]), int(order[1]), 1.0, "ann"), (0, 1, 1.0, "bo"))
    found = hearing.opinions(posterior)
    assert found is not None
    absurd, likely = (
        found.heard.worth_of(np.array([pair]), PairSet(20))[0]
        for pair in ((worst, least), (int(order[-2]), int(order[1])))
    )
    assert absurd < 0.3 * likely


def test_nobody_is_asked_about_what_is_up_what_measures_accuracy_or_alone() -> None:
    hearing, posterior = Hearing(20), belief()
    say(hearing, (0, 1, 1.0, "ann"))
    assert hearing.opinions(posterior) is None, "one person answers alone"
    say(hearing, (2, 3, 1.0, "bo"))
    say(hearing, (4, 5, 1.0, "bo"), apart=True)
    say(hearing, (6, 7, float("nan"), "bo"))
    found = hearing.opinions(posterior, up=np.array([[1, 0]]))
    assert found is not None
    assert (found.heard.tells > 0).tolist() == [False, True, False, True]
    assert found.heard.worth[3] == 0, "it could not be judged"
    assert found.heard.again().pairs.tolist() == [[2, 3], [6, 7]]


def test_of_many_answers_the_latest_are_kept() -> None:
    hearing = Hearing(10_000)
    rows = np.arange(LATEST + 500)
    who = Said(rows % 2, PEOPLE, rows % 3 == 0)
    hearing.add(np.stack([rows, rows + 1], axis=1), np.ones(len(rows)), who)
    found = hearing.opinions(belief(size=10_000))
    assert found is not None
    assert len(found.heard.pairs) == LATEST
    assert found.heard.pairs[0].tolist() == [500, 501]


def test_the_design_counts_what_answers_were_worth() -> None:
    posterior, taken = belief(), PairSet(20, [(0, 1), (2, 3)])
    candidates = draw_candidates(
        posterior, taken=taken, rng=np.random.default_rng(0), images=20, candidates=500
    )
    z = (posterior.features_N_D[0] - posterior.features_N_D[1]).astype(float)

    def spread(worth: float) -> float:
        heard = Heard(np.array([[1, 0]]), np.array([worth]), np.array([1.0]))
        return float(z @ design_covariance(posterior, candidates, taken, heard) @ z)

    plain = float(z @ design_covariance(posterior, candidates, taken) @ z)
    assert spread(1.0) == pytest.approx(plain), "the other pair counts as one answer either way"
    assert spread(0.0) > plain > spread(2.0)
    # As many answers as it is worth: the same as a matrix of so many equal pairs.
    prior = np.linalg.inv(design_covariance(posterior, candidates, PairSet(20)))
    other = (posterior.features_N_D[2] - posterior.features_N_D[3]).astype(float)
    precision = prior + 0.25 * (2.0 * np.outer(z, z) + np.outer(other, other))
    assert spread(2.0) == pytest.approx(float(z @ np.linalg.inv(precision) @ z))


@pytest.mark.parametrize("strategy", ["epig", "dopt", "pair_bald", "guro", "entropy"])
def test_a_worthless_answer_is_asked_again_and_a_good_one_is_not(strategy: str) -> None:
    """The best pair, answered by somebody who guesses, is still the best; answered well it is not, and it never is without `heard`."""
    posterior = belief(panel=None)
    options = {"balance": 0.0, "candidates": 500}

    def next_pair(heard: Heard | None, taken: PairSet) -> tuple[tuple[int, ...], str]:
        more = {} if heard is None else {"heard": heard}
        found = choose(
            strategy, posterior, 1, taken=taken, rng=np.random.default_rng(1), options={**options, **more}
        )
        return tuple(sorted(found.pairs[0].tolist())), found.roles[0]

    best, role = next_pair(None, PairSet(20))
    assert role == "chosen"
    taken, pair = PairSet(20, [best]), np.array([best])
    assert next_pair(None, taken)[0] != best
    assert next_pair(Heard(pair, np.zeros(1), np.ones(1)), taken) == (best, "second")
    assert next_pair(Heard(pair, np.full(1, 50.0), np.full(1, 0.001)), taken)[1] == "chosen"
    assert next_pair(Heard(pair, np.zeros(1), np.zeros(1)), taken)[1] == "chosen", "nobody is left"


def test_strategies_that_weigh_no_pairs_do_without() -> None:
    heard = Heard(np.array([[0, 1]]), np.zeros(1), np.ones(1))
    for strategy in ("random", "variance"):
        found = choose(
            strategy,
            belief(),
            3,
            taken=PairSet(20, [(0, 1)]),
            rng=np.random.default_rng(1),
            options={"heard": heard},
        )
        assert set(found.roles) == {"chosen"}


def test_what_was_heard_follows_the_images_that_may_be_asked_about() -> None:
    heard = Heard(np.array([[0, 4], [5, 2]]), np.array([1.0, 2.0]), np.array([0.5, 0.6]))
    kept = heard.among(np.array([2, 3, 5]))
    assert (kept.pairs.tolist(), kept.worth.tolist(), kept.tells.tolist()) == ([[2, 0]], [2.0], [0.6])
    with pytest.raises(AcquireError, match="give one each"):
        Heard(np.array([[0, 4]]), np.ones(2), np.ones(1))
