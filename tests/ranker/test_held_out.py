"""What stops training shares no image with what is taught."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.config import ranker_preset
from steelyard.ranker.held_out import hold_out_images
from steelyard.ranker.learner import Learner
from steelyard.ranker.network import build_network
from steelyard.ranker.shares import Share
from steelyard.ranker.train import train


def some_pairs(images: int, count: int, seed: int = 0) -> np.ndarray:
    pairs = np.random.default_rng(seed).integers(0, images, (2 * count, 2))
    return pairs[pairs[:, 0] != pairs[:, 1]][:count]


@given(st.integers(2, 40), st.integers(1, 80), st.floats(0, 0.9), st.integers(0, 10**6))
def test_no_image_is_watched_and_taught_and_the_loss_is_bounded(
    images: int, count: int, share: float, seed: int
) -> None:
    pairs = some_pairs(images, count, seed)
    watched, taught = hold_out_images(pairs, share, np.random.default_rng(seed))
    assert not np.isin(pairs[watched], pairs[taught]).any()
    assert not (watched & taught).any()
    assert (~taught).sum() <= 2 * round(share * len(pairs))
    assert taught.any() or not len(pairs)
    if not watched.any():
        assert taught.all()


@pytest.mark.parametrize(
    ("images", "count", "lost"), [(1000, 300, 0.001), (1000, 1000, 0.08), (1000, 2000, 0.2)]
)
def test_as_many_as_wanted_are_watched_and_few_are_lost(images: int, count: int, lost: float) -> None:
    pairs = some_pairs(images, count)
    watched, taught = hold_out_images(pairs, 0.2, np.random.default_rng(0))
    assert watched.mean() == pytest.approx(0.2, abs=0.01)
    assert 1 - watched.mean() - taught.mean() <= lost


def test_the_seed_decides_which() -> None:
    pairs = some_pairs(100, 60)
    first, again, *others = (
        hold_out_images(pairs, 0.2, np.random.default_rng(s))[0] for s in (0, 0, 1, 2, 3)
    )
    assert np.array_equal(first, again)
    assert any(not np.array_equal(first, other) for other in others)


def test_answers_of_several_people_about_a_pair_stay_together() -> None:
    pairs = np.repeat(some_pairs(60, 30), 3, axis=0)
    watched, _ = hold_out_images(pairs, 0.2, np.random.default_rng(0))
    assert watched.any()
    assert (watched.reshape(-1, 3).sum(axis=1) % 3 == 0).all()


def test_training_neither_sees_nor_is_stopped_by_the_other_s_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that is given no validation set: what each step reads, and what each epoch is measured on."""
    from steelyard.ranker import train as module

    seen: dict[str, set[int]] = {"taught": set(), "watched": set()}
    plain = module.Comparisons

    class Noting(plain):  # type: ignore[misc, valid-type]
        def loss(self, network: object, share: Share, seed: tuple[int, ...]) -> object:
            seen["taught"] |= set(self.pairs[share.step].ravel().tolist())
            return super().loss(network, share, seed)

        def validate(self, network: object) -> object:
            seen["watched"] |= set(self.held[0].ravel().tolist())
            return super().validate(network)

    monkeypatch.setattr(module, "Comparisons", Noting)
    config = ranker_preset("features", kind="network", hidden=4, epochs=2)
    rows = np.random.default_rng(1).normal(size=(80, 5)).astype(np.float32)
    pairs = some_pairs(80, 90)
    network = build_network(config, seed=0, width=5)  # type: ignore[arg-type]
    result = train(network, rows, pairs, np.ones(len(pairs)), config=config, seed=0)  # type: ignore[arg-type]
    assert seen["taught"]
    assert seen["watched"]
    assert not seen["taught"] & seen["watched"]
    assert result.held is not None
    assert set(result.held[0].ravel().tolist()) == seen["watched"]
    ranker = Learner(config, rows, seed=0).fit(pairs, np.ones(len(pairs)))
    told = ranker.metrics
    assert 18 <= told["validation_pairs"] <= 22
    assert 0 <= told["unused_pairs"] <= 18
