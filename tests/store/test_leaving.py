"""An answer that is taken back takes back what it took out, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from steelyard.pairs import Answer
from steelyard.store.records import NewComparison, NewPair
from steelyard.store.store import Store
from tests.store.conftest import image_id


def out(store: Store) -> set[int]:
    """Rows of the images that are out."""
    return set(store.images.excluded_rows().tolist())


def taking_out(store: Store, say: Any, pair: int, who: str, id: str, row: int) -> NewComparison:
    """“Cannot judge”, and a row of the pair is to be excluded."""
    said = say.on(store, pair, who, Answer.CANNOT_JUDGE, id=id, note=f"blurred, says {who}")
    return replace(said, exclude=(image_id(row),))  # type: ignore[no-any-return]


def test_undo_brings_back_what_the_answer_took_out(store: Store, pair_ids: list[int], say: Any) -> None:
    store.answers.add(taking_out(store, say, pair_ids[0], "kt", "x", 1))
    assert (out(store), store.pairs.open_count()) == ({1}, 3)
    assert store.answers.undo("x", "kt", id="u").created
    assert (out(store), store.pairs.open_count()) == (set(), 5)
    assert [(e.actor, e.action, e.detail) for e in store.audit.log()] == [
        ("kt", "exclude image", {"image": image_id(1), "reason": "blurred, says kt", "answer": "x"}),
        ("kt", "include image", {"image": image_id(1), "answer": "x"}),
    ]


def test_an_undo_that_is_sent_again_brings_nothing_back(store: Store, pair_ids: list[int], say: Any) -> None:
    """A reply may be lost: what a lead decided in between stays."""
    store.answers.add(taking_out(store, say, pair_ids[0], "kt", "x", 1))
    store.answers.undo("x", "kt", id="u")
    store.images.exclude(image_id(1), "lea")
    assert not store.answers.undo("x", "kt", id="u").created
    assert out(store) == {1}


def test_an_earlier_exclusion_stays(store: Store, pair_ids: list[int], say: Any) -> None:
    store.images.exclude(image_id(1), "lea", "not a colon")
    store.answers.add(taking_out(store, say, pair_ids[0], "kt", "x", 1))
    store.answers.undo("x", "kt", id="u")
    assert out(store) == {1}
    assert store.images.get(image_id(1)).excluded_by == "lea"


@pytest.mark.parametrize("again", ["answer", "lead"])
def test_somebody_elses_later_exclusion_stays(
    store: Store, pair_ids: list[int], say: Any, again: str
) -> None:
    """Whether it came with an answer of theirs or not; it is then theirs, and goes only with it."""
    store.answers.add(taking_out(store, say, pair_ids[0], "kt", "x", 1))
    if again == "answer":
        store.answers.add(taking_out(store, say, pair_ids[1], "mo", "y", 1))
    else:
        store.images.exclude(image_id(1), "mo", "blurred, says mo")
    store.answers.undo("x", "kt", id="u")
    image = store.images.get(image_id(1))
    assert (image.excluded_by, image.excluded_reason) == ("mo", "blurred, says mo")
    assert [entry.action for entry in store.audit.log()][-1] == "withdraw exclusion"
    if again == "answer":
        store.answers.undo("y", "mo", id="v")
    else:
        store.images.include(image_id(1), "lea")
    assert (out(store), store.pairs.open_count()) == (set(), 5)


def test_the_later_of_two_may_think_better_first(store: Store, pair_ids: list[int], say: Any) -> None:
    store.answers.add(taking_out(store, say, pair_ids[0], "kt", "x", 1))
    store.answers.add(taking_out(store, say, pair_ids[1], "mo", "y", 1))
    store.answers.undo("y", "mo", id="v")
    assert store.images.get(image_id(1)).excluded_by == "kt"
    store.answers.undo("x", "kt", id="u")
    assert out(store) == set()


def test_one_person_took_it_out_twice(store: Store, pair_ids: list[int], say: Any) -> None:
    """In one transaction even: each answer is taken back by itself."""
    store.answers.add_all(
        [taking_out(store, say, pair_ids[k], "kt", id, 1) for k, id in enumerate("xy")], now=7.0
    )
    store.answers.undo("x", "kt", id="u")
    assert out(store) == {1}
    store.answers.undo("y", "kt", id="v")
    assert out(store) == set()


def test_a_lead_who_brings_it_back_overrules_everybody(store: Store, pair_ids: list[int], say: Any) -> None:
    store.answers.add(taking_out(store, say, pair_ids[0], "kt", "x", 1))
    store.answers.add(taking_out(store, say, pair_ids[1], "mo", "y", 1))
    store.images.include(image_id(1), "lea")
    assert out(store) == set()
    store.images.exclude(image_id(1), "lea", "after all")
    store.answers.undo("x", "kt", id="u")
    assert out(store) == {1}, "what kt took out was over before"


def test_a_correction_takes_back_what_it_replaces(store: Store, pair_ids: list[int], say: Any) -> None:
    store.answers.add(taking_out(store, say, pair_ids[0], "kt", "x", 1))
    store.answers.add(say.on(store, pair_ids[0], "kt", Answer.RIGHT, id="y", supersedes="x"))
    assert out(store) == set()
    still = taking_out(store, say, pair_ids[1], "kt", "z", 1)
    store.answers.add(still)
    store.answers.add(replace(still, id="zz", supersedes="z", note="stool"))
    assert out(store) == {1}
    assert store.images.get(image_id(1)).excluded_reason == "stool"


def test_an_undo_of_somebody_else_changes_nothing(store: Store, pair_ids: list[int], say: Any) -> None:
    store.answers.add(taking_out(store, say, pair_ids[0], "kt", "x", 1))
    with pytest.raises(Exception, match="only one's own"):
        store.answers.undo("x", "mo", id="u")
    assert out(store) == {1}


# ---------------------------------------------------------------------- who holds such a pair


def test_whoever_holds_a_pair_hears_that_it_is_asked_no_more(store: Store, say: Any) -> None:
    store.pairs.add_all([NewPair(0, 1, raters=2), NewPair(1, 2), NewPair(3, 4)])
    rng = np.random.default_rng(0)
    held = store.pairs.lease("kt", 3, seconds=60, rng=rng, now=10.0)
    store.pairs.lease("mo", 3, seconds=60, rng=rng, now=10.0)
    assert store.pairs.gone("kt") == []
    store.images.exclude(image_id(1), "lea")
    assert store.pairs.gone("kt") == [held[0].pair, held[1].pair]
    assert store.pairs.gone("mo") == [held[0].pair], "only what was handed to them"
    assert [one.pair for one in store.pairs.lease("kt", 3, seconds=60, rng=rng, now=11.0)] == [held[2].pair]
    assert store.answers.add(say.about(held[0]), require_lease=True).created, "an answer on its way is kept"
    assert store.pairs.gone("kt") == [held[1].pair]
    assert len(store.answers.arrays()) == 1
    store.images.include(image_id(1), "lea")
    assert store.pairs.gone("kt") == []
    assert held[1].pair in [one.pair for one in store.pairs.lease("kt", 3, seconds=60, rng=rng, now=12.0)]


def test_a_pair_that_cannot_be_shown_is_given_up(store: Store, pair_ids: list[int]) -> None:
    rng = np.random.default_rng(0)
    held = [one.pair for one in store.pairs.lease("kt", 2, seconds=60, rng=rng, now=10.0)]
    store.pairs.give_up("kt", held[:1], now=11.0)
    assert [one.pair for one in store.pairs.lease("mo", 1, seconds=60, rng=rng, now=12.0)] == held[:1]
    store.pairs.give_up("kt", [])
