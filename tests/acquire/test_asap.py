"""Choice by the answers alone: a spanning tree of what they leave open."""

from __future__ import annotations

import networkx
import numpy as np
import pytest

from steelyard.acquire import choose
from steelyard.acquire.asap import spanning_tree
from steelyard.errors import AcquireError
from steelyard.pairs import PairSet


def test_the_tree_is_the_one_of_largest_gain() -> None:
    rng = np.random.default_rng(0)
    first, second = np.triu_indices(20, k=1)
    gain = rng.random(len(first))
    tree = spanning_tree(first, second, gain, 20)
    graph = networkx.Graph()
    graph.add_weighted_edges_from(zip(first.tolist(), second.tolist(), gain.tolist(), strict=True))
    oracle = networkx.maximum_spanning_tree(graph)
    assert {(int(first[k]), int(second[k])) for k in tree} == {tuple(sorted(edge)) for edge in oracle.edges}


def test_a_batch_reaches_every_image() -> None:
    choice = choose("asap", None, 29, taken=PairSet(30), rng=np.random.default_rng(0))
    assert set(choice.pairs.reshape(-1).tolist()) == set(range(30))
    assert networkx.is_tree(networkx.Graph(choice.pairs.tolist()))


def test_what_the_answers_have_settled_is_not_asked() -> None:
    """Images 0 … 4 lose against 5 … 9 in every pair but one: that one is hardly open, pairs inside a half are."""
    pairs = np.array([(high, low) for high in range(5, 10) for low in range(5) if (high, low) != (9, 0)])
    taken = PairSet(10, pairs)
    options = {"answered": (np.concatenate([pairs] * 3), np.ones(3 * len(pairs)))}
    choice = choose("asap", None, 9, taken=taken, rng=np.random.default_rng(0), options=options)
    # A tree over both halves needs it, as the last of its nine.
    assert sorted(choice.pairs[-1].tolist()) == [0, 9]
    assert (np.diff(choice.scores) <= 0).all()


def test_answers_that_nobody_could_give_and_images_elsewhere_count_nothing() -> None:
    taken = PairSet(6, [(0, 1), (2, 3)])
    said = (np.array([(0, 1), (2, 3)]), np.array([np.nan, np.nan]))
    request = {"taken": taken, "options": {"answered": said}}
    unknown = choose("asap", None, 4, rng=np.random.default_rng(0), **request)
    assert unknown.scores == pytest.approx([unknown.scores[0]] * 4)


def test_asked_pairs_without_answers_are_a_mistake() -> None:
    with pytest.raises(AcquireError, match="of 1 asked pairs none were given"):
        choose("asap", None, 2, taken=PairSet(5, [(0, 1)]), rng=np.random.default_rng(0))
    with pytest.raises(AcquireError, match="1 pairs and 2 answers"):
        choose("asap", None, 2, taken=PairSet(5), rng=np.random.default_rng(0), options={"answered": ([(0, 1)], [1, 0])})  # fmt: skip
