"""What every strategy promises: valid pairs, never twice, fewer when nothing is left, the same by the same seed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.acquire import Choice, choose, get_strategy, strategies
from steelyard.acquire.random_pairs import pair_among
from steelyard.acquire.spread import spread
from steelyard.errors import AcquireError
from steelyard.pairs import PairSet
from steelyard.ranker.posterior import Posterior

OURS = (
    "random", "variance", "coreset", "spread", "pair_bald", "dopt", "epig", "guro", "entropy", "batch_bald", "asap", "clusters",
)  # fmt: skip
WITHOUT_MODEL = ("random", "coreset", "spread", "asap", "clusters")


def answers(taken: PairSet) -> tuple[np.ndarray, np.ndarray]:
    """The first image of every taken pair won."""
    return taken.to_array(), np.ones(len(taken))


def make(size: int, seed: int, kind: str) -> Posterior:
    rng = np.random.default_rng(seed)
    if kind == "draws":
        return Posterior.from_draws(rng.standard_normal((6, size)))
    return Posterior(
        0.0, rng.standard_normal((size, 3)), rng.standard_normal(3), np.eye(3), "laplace", 0.5 * (seed % 2)
    )


def test_all_are_there() -> None:
    assert set(strategies()) == set(OURS)
    assert get_strategy("ubs") is get_strategy("variance")


@pytest.mark.parametrize("name", OURS)
@given(
    size=st.integers(2, 12), n=st.integers(0, 70), share=st.floats(0, 1), kind=st.sampled_from(["laplace", "draws"]),
    seed=st.integers(0, 10**6), noise=st.sampled_from([0.0, 1.0]),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_pairs_are_valid_new_and_as_many_as_there_are(
    name: str, size: int, n: int, share: float, kind: str, seed: int, noise: float
) -> None:
    rng = np.random.default_rng(seed)
    every = np.array([(i, j) for i in range(size) for j in range(i)])
    taken = PairSet(size, every[rng.random(len(every)) < share])
    before = len(taken)
    options = {"noise": noise, "answered": answers(taken)}
    choice = choose(
        name, make(size, seed, kind), n, taken=taken, rng=np.random.default_rng(seed), options=options
    )
    assert len(choice) == min(n, taken.free)
    assert choice.pairs.dtype == np.int64
    keys = taken.keys(choice.pairs)  # raises outside the catalog and for an image with itself
    assert len(set(keys.tolist())) == len(choice)
    assert not taken.contains(choice.pairs).any()
    assert len(taken) == before
    assert len(choice.reasons) == len(choice.scores) == len(choice)
    assert all(reason[0].isupper() and reason.endswith(".") for reason in choice.reasons)
    again = choose(
        name, make(size, seed, kind), n, taken=taken, rng=np.random.default_rng(seed), options=options
    )
    assert (again.pairs == choice.pairs).all()


@pytest.mark.parametrize("name", OURS)
def test_the_last_free_pair_is_found_among_very_many(name: str) -> None:
    """250 images have 31,125 pairs, more than are sampled as candidates."""
    every = np.stack(np.triu_indices(250, k=1), axis=1)
    taken = PairSet(250, np.delete(every, 12_345, axis=0))
    options = {"answered": answers(taken)}
    choice = choose(
        name, make(250, 0, "laplace"), 3, taken=taken, rng=np.random.default_rng(0), options=options
    )
    assert np.sort(choice.pairs).tolist() == [every[12_345].tolist()]


@pytest.mark.parametrize("name", OURS)
def test_sampling_a_pool_keeps_catalog_rows(name: str) -> None:
    posterior = make(400, 1, "laplace")
    options = {"images": 40} if name not in ("random", "variance") else {}
    choice = choose(name, posterior, 15, taken=PairSet(400), rng=np.random.default_rng(0), options=options)
    assert len(choice) == 15
    assert choice.pairs.max() >= 100  # not positions in the pool


@pytest.mark.parametrize("name", [n for n in OURS if n not in ("spread", "coreset", "clusters")])
def test_without_reselection_compared_images_stay_out(name: str) -> None:
    taken = PairSet(30, [(0, 1), (2, 3), (4, 5)])
    options = {"reselect": False, "answered": answers(taken)}
    choice = choose(
        name, make(30, 2, "laplace"), 10, taken=taken, rng=np.random.default_rng(0), options=options
    )
    assert len(choice) == 10
    assert choice.pairs.min() > 5


@pytest.mark.parametrize("name", OURS)
def test_a_model_is_needed_or_not(name: str) -> None:
    features = np.random.default_rng(0).standard_normal((20, 4))
    request = {"taken": PairSet(20), "rng": np.random.default_rng(0), "options": {"features": features}}
    if name in WITHOUT_MODEL:
        assert len(choose(name, None, 5, **request)) == 5
    else:
        with pytest.raises(
            AcquireError, match=f"'{name}' needs a fitted model; start with 'spread' or 'random'"
        ):
            choose(name, None, 5, **request)


@pytest.mark.parametrize("name", OURS)
def test_a_posterior_of_another_catalog_is_refused(name: str) -> None:
    with pytest.raises(AcquireError, match="about 10 images and the taken pairs about 11"):
        choose(name, make(10, 0, "laplace"), 1, taken=PairSet(11), rng=np.random.default_rng(0))
    with pytest.raises(AcquireError, match="asked for -1 pairs"):
        choose(name, make(10, 0, "laplace"), -1, taken=PairSet(10), rng=np.random.default_rng(0))


def test_variance_takes_the_most_uncertain_images() -> None:
    deviations = np.arange(40.0)[::-1]
    posterior = Posterior(0.0, np.diag(deviations), np.zeros(40), np.eye(40), "laplace")
    choice = get_strategy("variance")(posterior, 6, taken=PairSet(40), rng=np.random.default_rng(0))
    assert set(choice.pairs.ravel().tolist()) == set(range(6))
    assert np.allclose(choice.scores, (deviations**2)[choice.pairs].sum(axis=1))
    one = get_strategy("variance")(posterior, 1, taken=PairSet(40, [(0, 1)]), rng=np.random.default_rng(0))
    assert one.pairs.max() <= 3  # the two most uncertain were compared, so the reach grew


def test_coreset_starts_from_the_compared_images() -> None:
    features = np.arange(11.0)[:, None]
    taken = PairSet(11, [(0, 1)])
    choice = get_strategy("coreset")(None, 3, taken=taken, rng=np.random.default_rng(0), features=features)
    # Farthest from {0, 1} is 10, then the middle (5 and 6 tie; the first), then 3.
    assert set(choice.pairs.ravel().tolist()) <= {10, 5, 3, 7, 8}
    assert {10, 5} <= set(choice.pairs.ravel().tolist())
    assert choice.scores.max() == 9.0


def test_spread_compares_what_differs_each_image_once() -> None:
    rng = np.random.default_rng(0)
    middles = np.eye(6) * 20
    cluster = np.repeat(np.arange(6), 20)
    features = middles[cluster] + rng.standard_normal((120, 6))
    choice = spread(None, 12, taken=PairSet(120), rng=rng, features=features)
    assert (cluster[choice.pairs[:, 0]] != cluster[choice.pairs[:, 1]]).all()
    assert len(np.unique(choice.pairs)) == 24
    assert set(cluster[choice.pairs].ravel().tolist()) == set(range(6))


def test_spread_goes_on_where_it_stopped() -> None:
    """What was asked before counts: the next pairs look in other directions."""
    features = np.random.default_rng(1).standard_normal((60, 8))
    first = spread(None, 8, taken=PairSet(60), rng=np.random.default_rng(0), features=features)
    second = spread(None, 8, taken=PairSet(60, first.pairs), rng=np.random.default_rng(0), features=features)
    assert not np.intersect1d(first.pairs, second.pairs).size
    z = [features[c.pairs[:, 0]] - features[c.pairs[:, 1]] for c in (first, second)]
    both = np.linalg.svd(np.concatenate(z), compute_uv=False)
    assert both[-1] > 1.2 * np.linalg.svd(z[0], compute_uv=False)[-1]


def test_spread_and_coreset_need_features_of_every_image() -> None:
    for name in ("spread", "coreset"):
        with pytest.raises(AcquireError, match=f"'{name}' needs features"):
            get_strategy(name)(None, 2, taken=PairSet(5), rng=np.random.default_rng(0))
        with pytest.raises(AcquireError, match=r"each of the 5 images, not \(4, 2\)"):
            get_strategy(name)(
                None, 2, taken=PairSet(5), rng=np.random.default_rng(0), features=np.zeros((4, 2))
            )


def test_pairing_reaches_further_only_when_it_has_to() -> None:
    rng = np.random.default_rng(0)
    ordered = np.arange(50)[::-1].copy()
    assert set(pair_among(ordered, 10, taken=PairSet(50), rng=rng).ravel().tolist()) == set(range(40, 50))
    full = PairSet(50, [(i, j) for i in range(40, 50) for j in range(40, i)])
    assert pair_among(ordered, 10, taken=full, rng=rng).min() >= 30
    assert pair_among(ordered[:1], 10, taken=full, rng=rng).shape == (0, 2)


def test_choices_check_themselves_join_and_slice() -> None:
    with pytest.raises(AcquireError, match="1 pairs, 2 scores, 1 reasons"):
        Choice(np.array([[0, 1]]), np.zeros(2), ["why"])
    with pytest.raises(AcquireError, match=r"the score of pair \(0, 1\) is nan"):
        Choice(np.array([[0, 1]]), np.array([np.nan]), ["why"])
    both = Choice.join(
        [
            Choice(np.array([[0, 1]]), np.ones(1), ["a"]),
            Choice(np.array([[2, 3]]), np.zeros(1), ["b"], ["random"]),
        ]
    )
    assert both[1:].reasons == ["b"]
    assert both[np.array([True, False])].roles == ["chosen"]
    assert both[[1, 0]].pairs.tolist() == [[2, 3], [0, 1]]
    assert len(Choice.join([])) == len(Choice.empty()) == 0


def test_acquisition_never_loads_torch() -> None:
    code = (
        "import sys; from steelyard.acquire import get_strategy, strategies; [get_strategy(s) for s in strategies()]; "
        "import steelyard.annotators; sys.exit('torch' in sys.modules or 'pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@given(size=st.integers(2, 30), rounds=st.lists(st.integers(0, 12), max_size=6), seed=st.integers(0, 99))
def test_fresh_random_pairs_use_every_image_once_before_any_twice(
    size: int, rounds: list[int], seed: int
) -> None:
    taken, rng = PairSet(size), np.random.default_rng(seed)
    for n in rounds:
        free = size * (size - 1) // 2 - len(taken)
        pairs = get_strategy("random")(None, n, taken=taken, rng=rng, fresh=True).pairs
        assert len(pairs) == min(n, free)
        assert not taken.contains(pairs).any()
        uses = np.bincount(np.concatenate([taken.to_array(), pairs]).ravel().astype(int), minlength=size)
        if len(taken) + len(pairs) <= size // 2:
            assert uses.max(initial=0) <= 1
        taken.add(pairs)


def test_fresh_is_true_or_false() -> None:
    with pytest.raises(AcquireError, match="'fresh' is true or false, not 'maybe'"):
        get_strategy("random")(None, 1, taken=PairSet(5), rng=np.random.default_rng(0), fresh="maybe")
