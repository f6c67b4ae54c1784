"""Pairs are unordered, never with themselves, never twice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.errors import PairError, RankerError
from steelyard.pairs import SAMPLE, Answer, PairSet, check_pairs, form_pairs, random_pairs, unique_pairs


def distinct(pairs: np.ndarray) -> int:
    return len({tuple(sorted(pair)) for pair in pairs.tolist()})


@pytest.mark.parametrize("pairs", [[(1, -1), (0, 1)], [(2**33, 2**33 - 1), (0, 1)]])
def test_numbers_that_would_be_taken_for_other_pairs_are_refused(pairs: list[tuple[int, int]]) -> None:
    with pytest.raises(PairError, match=r"pairs are of numbers from 0 to 2,147,483,647, not"):
        unique_pairs(pairs)


def test_answers_mirror_and_map_to_the_labels_of_p1() -> None:
    assert [a.label for a in Answer] == [1.0, 0.0, 0.5, None]
    for answer in (Answer.LEFT, Answer.RIGHT, Answer.EQUAL):
        assert Answer.from_label(answer.label) is answer  # type: ignore[arg-type]
        assert answer.mirrored().label == 1 - answer.label  # type: ignore[operator]
    assert Answer.CANNOT_JUDGE.mirrored() is Answer.CANNOT_JUDGE
    with pytest.raises(PairError, match=r"1, 0.5 or 0 .* not 0.7"):
        Answer.from_label(0.7)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30))
def test_different_pairs_are_those_of_numpy(pairs: list[tuple[int, int]]) -> None:
    found = unique_pairs(pairs)
    rows = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    unique, first, place, count = np.unique(
        rows, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    np.testing.assert_array_equal(found.pairs, unique)
    np.testing.assert_array_equal(found.first, first)
    np.testing.assert_array_equal(found.place, place.reshape(-1))
    np.testing.assert_array_equal(found.times, count)


def test_a_set_of_pairs_knows_no_order() -> None:
    taken = PairSet(5, [(3, 1), (1, 3), (0, 4)])
    assert len(taken) == 2
    assert (1, 3) in taken
    assert (4, 0) in taken
    assert (0, 1) not in taken
    assert taken.free == 8
    assert list(taken) == [(0, 4), (1, 3)]
    copy = taken.copy()
    copy.add([(0, 1)])
    assert (0, 1) not in taken


def test_a_sample_is_the_same_whatever_order_the_pairs_came_in() -> None:
    pairs = random_pairs(20_000, 3000, taken=PairSet(3000), rng=np.random.default_rng(0))
    whole, back, bit_by_bit = PairSet(3000, pairs), PairSet(3000, pairs[::-1]), PairSet(3000)
    for start in range(0, 5000, 7):
        bit_by_bit.add(pairs[start : start + 7])
    copy = bit_by_bit.copy()
    bit_by_bit.add(pairs)
    sample = whole.sample()
    assert sample.tolist() == back.sample().tolist() == bit_by_bit.sample().tolist()
    assert copy.sample().tolist() == PairSet(3000, pairs[:5005]).sample().tolist() != sample.tolist()
    assert len(np.unique(whole.keys(sample))) == SAMPLE
    assert whole.contains(sample).all()
    assert abs(sample.mean() - 1500) < 75  # from everywhere
    few = PairSet(3000, pairs[:100])
    assert few.sample().tolist() == few.to_array().tolist()


@given(st.lists(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=6), max_size=5))
def test_uses_are_counted_once_a_pair(batches: list[list[tuple[int, int]]]) -> None:
    taken = PairSet(9)
    for batch in batches:
        taken.add(np.array([pair for pair in batch if pair[0] != pair[1]], dtype=np.int64).reshape(-1, 2))
        expected = np.bincount(taken.to_array().ravel(), minlength=9)
        assert taken.uses.tolist() == taken.copy().uses.tolist() == expected.tolist()
    with pytest.raises(ValueError, match="read-only"):
        taken.uses[0] = 1


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([(0, 5)], r"pair \(0, 5\) is outside the 5 images"),
        ([(-1, 2)], "outside the 5 images"),
        ([(2, 2)], "image 2 cannot be paired with itself"),
        ([(1, 2, 3)], r"shape \(n, 2\)"),
        ([(0.5, 1.0)], "whole numbers"),
    ],
)
def test_bad_pairs_are_named(pairs: object, message: str) -> None:
    with pytest.raises(PairError, match=message):
        PairSet(5, pairs)  # type: ignore[arg-type]


def test_pairs_are_checked_in_the_words_of_whoever_asks() -> None:
    with pytest.raises(RankerError, match="image 2 cannot be paired with itself"):
        check_pairs([(2, 2)], error=RankerError)
    assert check_pairs([(2, 2)], same=True).tolist() == [[2, 2]]
    assert check_pairs([(2, 700)]).tolist() == [[2, 700]]
    assert check_pairs([], 5).shape == (0, 2)


def test_a_negative_number_of_images_is_refused() -> None:
    with pytest.raises(PairError, match="-1"):
        PairSet(-1)


def test_choosing_an_image_twice_is_refused() -> None:
    with pytest.raises(PairError, match="image 3 was chosen twice"):
        form_pairs([1, 3, 3], taken=PairSet(5), rng=np.random.default_rng(0))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 40), st.integers(0, 2**32 - 1), st.data())
def test_n_images_make_n_new_pairs_with_every_image_in_one(size: int, seed: int, data: st.DataObject) -> None:
    rng = np.random.default_rng(seed)
    chosen = data.draw(st.lists(st.integers(0, size - 1), unique=True)) if size else []
    everything = [(i, j) for i in range(size) for j in range(i + 1, size)]
    before = data.draw(st.lists(st.sampled_from(everything), unique=True, max_size=60)) if everything else []
    taken = PairSet(size, before)
    pairs = form_pairs(chosen, taken=taken, rng=rng)

    assert pairs.shape == (len(pairs), 2)
    assert distinct(pairs) == len(pairs) <= len(chosen)
    assert not taken.contains(pairs).any()
    assert set(pairs.ravel().tolist()) <= set(chosen)
    assert len(taken) == len(before), "forming pairs does not change what is taken"
    among = [(i, j) for k, i in enumerate(chosen) for j in chosen[k + 1 :]]
    assert len(pairs) == min(len(chosen), len(among) - int(taken.contains(among).sum()))
    after = taken.copy()
    after.add(pairs)
    for image in set(chosen) - set(pairs.ravel().tolist()):
        assert all((image, other) in after for other in chosen if other != image)


def test_without_old_pairs_every_one_of_three_or_more_images_gets_its_own_pair() -> None:
    for n in range(3, 30):
        pairs = form_pairs(np.arange(n), taken=PairSet(n), rng=np.random.default_rng(n))
        assert len(pairs) == n
        assert set(pairs.ravel().tolist()) == set(range(n))


def test_two_images_make_one_pair_and_fewer_none() -> None:
    rng = np.random.default_rng(0)
    assert form_pairs([4, 2], taken=PairSet(5), rng=rng).tolist() == [[4, 2]]
    assert form_pairs([4, 2], taken=PairSet(5, [(2, 4)]), rng=rng).shape == (0, 2)
    assert form_pairs([4], taken=PairSet(5), rng=rng).shape == (0, 2)
    assert form_pairs([], taken=PairSet(5), rng=rng).shape == (0, 2)


def test_the_same_seed_forms_the_same_pairs() -> None:
    first, second = (
        form_pairs(np.arange(500), taken=PairSet(500), rng=np.random.default_rng(7)) for _ in range(2)
    )
    assert (first == second).all()
    other = form_pairs(np.arange(500), taken=PairSet(500), rng=np.random.default_rng(8))
    assert (first != other).any()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 30), st.integers(0, 400), st.integers(0, 100), st.integers(0, 2**32 - 1))
def test_random_pairs_are_free_and_as_many_as_there_are(size: int, n: int, old: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    taken = PairSet(size, random_pairs(old, size, taken=PairSet(size), rng=rng))
    pairs = random_pairs(n, size, taken=taken, rng=rng)
    assert len(pairs) == min(n, taken.free)
    assert distinct(pairs) == len(pairs)
    assert not taken.contains(pairs).any()


def test_random_pairs_are_uniform_in_a_large_catalog_and_in_a_part_of_it() -> None:
    rng = np.random.default_rng(0)
    pairs = random_pairs(40_000, 5_000, taken=PairSet(5_000), rng=rng)
    assert distinct(pairs) == 40_000
    counts = np.bincount(pairs.ravel(), minlength=5_000)
    # each image is expected 16 times; a Poisson spread says that the draw is even
    assert abs(counts.mean() - 16) < 1e-9
    assert 0.85 < counts.var() / 16 < 1.15
    part = random_pairs(50, 5_000, taken=PairSet(5_000), rng=rng, rows=np.arange(100, 200))
    assert part.min() >= 100
    assert part.max() < 200


def test_the_paper_s_random_rounds_need_the_labels_that_it_reports() -> None:
    """N = 8,212, r = 20, s = 5, K = 6: 4,106 pairs of 1 − 0.8·0.95⁶ ≈ 41.2% distinct images (PAPER.md, step 3)."""
    images, rng = 8_212, np.random.default_rng(1)
    taken = PairSet(images)
    asked = 0
    for share in (0.20, *[0.05] * 6):
        chosen = rng.choice(images, size=round(share * images), replace=False)
        pairs = form_pairs(chosen, taken=taken, rng=rng)
        taken.add(pairs)
        asked += len(pairs)
    assert asked == len(taken), "never twice over all rounds"
    assert abs(asked - 4_106) <= 6
    share_seen = len(np.unique(taken.to_array())) / images
    assert abs(share_seen - 0.412) < 0.006
