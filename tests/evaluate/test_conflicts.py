"""Which pairs are in conflict, against a definition that can be read aloud."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import PairError
from steelyard.evaluate.conflicts import SURPRISING, rank_conflicts

NAN = float("nan")
answers = st.lists(
    st.tuples(
        st.sampled_from([(0, 1), (0, 2), (1, 2), (3, 4)]),
        st.sampled_from([1.0, 0.5, 0.0, NAN]),
        st.integers(0, 3),
        st.sampled_from([0.001, 0.02, 0.04, 0.3, 0.9, NAN]),
    ),
    max_size=14,
)


def distance(a: float, b: float) -> float:
    if np.isnan(a) or np.isnan(b):
        return 0.0 if np.isnan(a) and np.isnan(b) else 0.5
    return abs(a - b)


def by_hand(
    given: list[tuple[tuple[int, int], float, int, float]],
) -> dict[tuple[int, int], tuple[float, float]]:
    found = {}
    for pair in {pair for pair, *_ in given}:
        its = [(label, who, p) for about, label, who, p in given if about == pair]
        apart = [distance(a, b) for (a, who, _), (b, other, _) in combinations(its, 2) if who != other]
        told = [p for *_, p in its if not np.isnan(p)]
        people = float(np.mean(apart)) if apart else 0.0
        model = max(0.0, 1 - float(np.mean(told)) / SURPRISING) if told else 0.0
        if people > 0 or model > 0:
            found[pair] = people, model
    return found


@given(answers)
def test_conflicts_are_what_the_definition_says(
    given: list[tuple[tuple[int, int], float, int, float]],
) -> None:
    pairs, labels, who, p = ([row[k] for row in given] for k in range(4))
    found = rank_conflicts(pairs, labels, who, p)
    wanted = by_hand(given)
    assert {tuple(pair) for pair in found.pairs.tolist()} == wanted.keys()
    for pair, people, model in zip(found.pairs.tolist(), found.people, found.model, strict=True):
        np.testing.assert_allclose((people, model), wanted[tuple(pair)], atol=1e-12)
    assert (np.diff(found.disagreement) <= 0).all()
    assert found.answers.tolist() == [
        sum(list(pair) == one for pair in map(list, pairs)) for one in found.pairs.tolist()
    ]


@given(answers, st.randoms())
def test_the_order_of_the_answers_and_the_names_do_not_matter(
    given: list[tuple[tuple[int, int], float, int, float]], random: object
) -> None:
    shuffled = list(given)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one = rank_conflicts(*([row[k] for row in given] for k in range(4)))
    other = rank_conflicts(*([7 - row[k] if k == 2 else row[k] for row in shuffled] for k in range(4)))
    assert one.pairs.tolist() == other.pairs.tolist()
    np.testing.assert_allclose(one.disagreement, other.disagreement, atol=1e-12)


def test_the_worst_come_first() -> None:
    pairs = [[0, 1]] * 2 + [[2, 3]] * 3 + [[4, 5]] * 2 + [[6, 7]] * 4 + [[8, 9]]
    labels = [1, 0.5, 1, 1, 0, 1, 0, 1, 1, 0, 0, 1]
    who = [0, 1, 0, 1, 2, 0, 1, 0, 1, 2, 3, 0]
    found = rank_conflicts(pairs, labels, who)
    # one against one; two against two (2/3, four answers); two against one (2/3, three answers); a tie
    assert found.pairs.tolist() == [[4, 5], [6, 7], [2, 3], [0, 1]]
    np.testing.assert_allclose(found.people, [1, 2 / 3, 2 / 3, 0.5])


def test_nobody_is_in_conflict_with_themselves() -> None:
    assert len(rank_conflicts([[0, 1], [0, 1]], [1.0, 0.0], [5, 5])) == 0


def test_a_sure_model_contradicts_people_who_agree() -> None:
    found = rank_conflicts([[0, 1], [0, 1], [2, 3]], [1.0, 1.0, 1.0], [0, 1, 0], [0.01, 0.01, 0.06])
    assert found.pairs.tolist() == [[0, 1]]
    np.testing.assert_allclose((found.model[0], found.people[0], found.probability[0]), (0.8, 0.0, 0.01))


def test_nothing_and_nonsense() -> None:
    empty = rank_conflicts(np.empty((0, 2)), [], [])
    assert (len(empty), empty.pairs.shape) == (0, (0, 2))
    with pytest.raises(PairError, match="2 pairs have 1 answers by 2 annotators"):
        rank_conflicts([[0, 1], [2, 3]], [1.0], [0, 1])
