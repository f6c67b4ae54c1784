"""Scores of a pool of images: one pass with mean weights, T draws (P4, P5), or draws for the promising part only.

Everything takes batches – any iterable of raw images (B, H, W, 3) uint8 or feature rows (B, D), in pool order – and goes
through them once: a pool need not fit in memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from steelyard.errors import RankerError
from steelyard.progress import Progress
from steelyard.ranker.dropout import draw, masked_layers
from steelyard.ranker.network import Network

__all__ = [
    "LastLayer",
    "Screened",
    "batches_of",
    "draw_scores",
    "last_layer",
    "mean_scores",
    "screened_draws",
]

Batches = Iterable[NDArray[Any]]
# Raw images that are kept, four times as large when prepared, while all draws go over them.
_BLOCK_BYTES = 64 << 20
_FEWEST_DRAWN = 40
_TRAITS = 512
_RIDGE = 0.1  # against traits of mean square length 1, as tried on networks trained with the UC images


@dataclass(frozen=True)
class LastLayer:
    """What `closed_form` and `laplace` posteriors are made of.

    Attributes:
        features_N_D: inputs of the last linear layer.
        weights_D: its weights.
        bias: its bias.
        p: dropout before it.
    """

    features_N_D: NDArray[np.float64]
    weights_D: NDArray[np.float64]
    bias: float
    p: float


@dataclass(frozen=True)
class Screened:
    """A pool of which only the promising part has been drawn T times.

    Attributes:
        scores_T_N: draws of the whole pool; for the other images most of them are predictions.
        drawn_N: which images have all their draws from the network.
    """

    scores_T_N: NDArray[np.float64]
    drawn_N: NDArray[np.bool_]


def batches_of(images: NDArray[Any], size: int, rows: ArrayLike | None = None) -> Iterator[NDArray[Any]]:
    """Images in batches, all or those of some rows; a memory map is read batch by batch."""
    index = np.arange(len(images)) if rows is None else np.asarray(rows, dtype=np.int64)
    for at in range(0, len(index), size):
        # consecutive rows are read as one slice, which a memory map likes
        part = index[at : at + size]
        yield images[part[0] : part[-1] + 1] if rows is None else images[part]


def mean_scores(network: Network, batches: Batches) -> NDArray[np.float64]:
    """f(x) with mean weights, shape (N,) or, for a classifier, logits (N, G): one deterministic pass.

    Raises:
        RankerError: a score is not finite.
    """
    network.eval()
    with torch.inference_mode():
        parts = [network(network.prepare(batch)).float().cpu() for batch in batches]
    return _finite(_joined(parts), "the mean weights")


def last_layer(network: Network, batches: Batches) -> LastLayer:
    """Inputs and weights of the last linear layer, in one deterministic pass."""
    network.eval()
    with torch.inference_mode():
        parts = [network.last_features(network.prepare(batch)).float().cpu() for batch in batches]
    hooks = [hook.p for _, hook in masked_layers(network.last)]
    return LastLayer(
        features_N_D=_finite(_joined(parts), "the mean weights"),
        weights_D=network.last.weight.detach().double().cpu().numpy()[0],
        bias=float(network.last.bias.detach()[0]),
        p=hooks[0] if hooks else 0.0,
    )


def draw_scores(
    network: Network,
    batches: Batches,
    *,
    draws: int | Sequence[int],
    seed: int,
    rows: ArrayLike | None = None,
    size: int = 0,
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """f(x; ω_t) for t = 0 … T−1: each draw is one set of masks for the whole pool.

    The masks depend on (seed, t) alone, so parts of a pool can be scored in any order, in batches of any size, by any
    number of machines. (Sums may be rounded differently in another batch size, in the seventh digit.)

    Args:
        network: a Bayesian network; put into evaluation mode.
        batches: the pool.
        draws: T, or the numbers t of the draws wanted.
        seed: of the draws.
        rows: pool row of every image, shape (N,); only `independent` masks need it. None counts from 0.
        size: N where it is known, for progress.
        progress: called after each draw of a block of images, with images × draws.

    Returns:
        Scores, shape (T, N).

    Raises:
        RankerError: the network has no dropout, T is below 1, or a score is not finite.
    """
    layers = masked_layers(network)
    if not layers:
        raise RankerError("this network has no dropout and so no draws; build it with dropout above 0")
    if network.outputs != 1:
        raise RankerError(f"draws are of scores; this network has {network.outputs} outputs")
    which = list(range(draws)) if isinstance(draws, int) else list(draws)
    if not which:
        raise RankerError(f"the number of draws T is 1 or more, not {draws}")
    network.eval()
    each_its_own = any(hook.masks == "independent" for _, hook in layers)
    numbers = None if rows is None else np.asarray(rows, dtype=np.int64)
    stages = network.deterministic_stages()
    scored: list[NDArray[np.float64]] = []
    start = 0
    with torch.inference_mode():
        for block in _blocks(batches):
            # what comes before the first dropout is the same for every draw
            inputs = [network.through(network.prepare(batch), stages) for batch in block]
            sizes = [len(batch) for batch in block]
            block_scores = np.empty((len(which), sum(sizes)))
            for place, t in enumerate(which):
                parts: list[Tensor] = []
                if each_its_own:
                    for batch, first in zip(inputs, start + np.cumsum([0, *sizes[:-1]]), strict=True):
                        own = (
                            range(first, first + len(batch))
                            if numbers is None
                            else numbers[first : first + len(batch)]
                        )
                        with draw(network, seed, t, rows=[int(row) for row in own]):
                            parts.append(network(batch, start=stages).float().cpu())
                else:
                    with draw(network, seed, t):
                        parts = [network(batch, start=stages).float().cpu() for batch in inputs]
                block_scores[place] = _finite(_joined(parts), f"draw {t}", start)
                if progress is not None:
                    now = start * len(which) + (place + 1) * sum(sizes)
                    progress(now, max(size * len(which), now), f"draw {place + 1} of {len(which)}")
            scored.append(block_scores)
            start += sum(sizes)
    return np.concatenate(scored, axis=1) if scored else np.empty((len(which), 0))


def screened_draws(
    network: Network,
    images: NDArray[Any],
    *,
    draws: int,
    seed: int,
    share: float,
    rounds: int = 3,
    batch_size: int = 64,
    progress: Progress | None = None,
) -> Screened:
    """All T draws for the promising share of a pool, one pass for the rest.

    Draws are shared by the pool, so what a draw does to an image it does to others that look alike to the network. One
    pass with mean weights notes how strongly each image excites the inputs that masks switch (its *traits*). All T draws
    of some images chosen at random teach a ridge regression from traits to draws; it says whose draws will vary most;
    those get theirs, the regression learns from them, and so on. (Masks of its own for each image would leave nothing to
    learn.)

    Args:
        network: a Bayesian network with shared masks.
        images: the pool, uint8 (N, H, W, 3) or rows (N, D); a memory map is read batch by batch.
        draws: T.
        seed: of the draws (they are those that `draw_scores` makes) and of the images to begin with.
        share: of the pool that gets all T draws, above 0 and up to 1; with T = 30, 0.15 costs 5.5 passes.
        rounds: how often the regression is learnt anew.
        batch_size: images a batch.
        progress: as for `draw_scores`.

    Raises:
        RankerError: the share is out of range, the masks are not shared, or as for `draw_scores`.
    """
    if not 0 < share <= 1:
        raise RankerError(f"the share that gets all draws is above 0 and up to 1, not {share}")
    if rounds < 1:
        raise RankerError(f"screening takes 1 round or more, not {rounds}")
    if any(hook.masks == "independent" for _, hook in masked_layers(network)):
        raise RankerError(
            "screening needs shared masks: independent ones say nothing about other images; set screening to 1"
        )
    size = len(images)
    wanted = max(math.ceil(share * size), min(size, _FEWEST_DRAWN))
    scores_N_T, drawn = np.empty((size, draws)), np.zeros(size, dtype=bool)

    def make_draws(rows: NDArray[np.int64]) -> None:
        done = int(drawn.sum()) * draws
        found = draw_scores(
            network, batches_of(images, batch_size, rows), draws=draws, seed=seed, size=len(rows),
            progress=None if progress is None else lambda now, _, text: progress(done + now, wanted * draws, text),
        )  # fmt: skip
        scores_N_T[rows], drawn[rows] = found.T, True

    if wanted == size:
        make_draws(np.arange(size))
        return Screened(scores_N_T.T.copy(), drawn)

    first = max(math.ceil(0.2 * wanted), _FEWEST_DRAWN // 2)
    make_draws(np.sort(np.random.default_rng([seed, size]).choice(size, first, replace=False)))
    traits = _traits(network, images, np.flatnonzero(drawn), seed, batch_size)
    for target in np.linspace(first, wanted, rounds + 1).astype(int)[1:]:
        _, variance = _predicted(traits, scores_N_T, drawn)
        variance[drawn] = -np.inf
        best = np.argsort(-variance, kind="stable")[: target - int(drawn.sum())]
        if len(best):
            make_draws(np.sort(best))
    scores_N_T[~drawn] = _predicted(traits, scores_N_T, drawn)[0][~drawn]
    return Screened(scores_N_T.T.copy(), drawn)


def _traits(
    network: Network, images: NDArray[Any], some: NDArray[np.int64], seed: int, batch_size: int
) -> NDArray[np.float32]:
    """How each image excites the inputs of the stages with masks: the mean of each channel, in one pass.

    Standardised by some images and, where there are more than `_TRAITS`, mixed down to so many at random (which keeps
    inner products, all that a ridge regression sees). A constant comes first.
    """

    def raw(batch: NDArray[Any]) -> Tensor:
        x, found = network.prepare(batch), []
        for stage in network.chain():
            if masked_layers(stage):
                found.append(x if x.dim() == 2 else x.mean(dim=(2, 3)))
            x = stage(x)
        return torch.cat(found, dim=1).float()

    network.eval()
    with torch.inference_mode():
        known = torch.cat([raw(batch) for batch in batches_of(images, batch_size, some)])
        mean, deviation = known.mean(dim=0), known.std(dim=0).clamp_min(1e-6)
        mix = None
        if known.shape[1] > _TRAITS:
            mixed = np.random.default_rng([seed, known.shape[1]]).normal(size=(known.shape[1], _TRAITS))
            mix = torch.from_numpy(mixed.astype(np.float32)).to(known.device)
        parts = []
        for batch in batches_of(images, batch_size):
            # An image far off what was seen first must not outweigh all others.
            scaled = ((raw(batch) - mean) / deviation).clamp(-10, 10)
            parts.append((scaled if mix is None else scaled @ mix).cpu().numpy())
    traits = np.concatenate(parts)
    length = np.sqrt(np.square(traits).sum(axis=1).mean())
    return np.concatenate([np.ones((len(traits), 1), np.float32), traits / length], axis=1)


def _predicted(
    traits_N_D: NDArray[np.float32], scores_N_T: NDArray[np.float64], drawn: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draws of all images from the drawn ones, and the variance over draws to expect, what is not known included."""
    inputs, known = traits_N_D[drawn].astype(np.float64), scores_N_T[drawn]
    mean = known.mean(axis=0)
    inverse = np.linalg.inv(inputs.T @ inputs + _RIDGE * np.eye(inputs.shape[1]))
    slopes = inverse @ (inputs.T @ (known - mean))
    predicted = mean + traits_N_D @ slopes
    # Bayesian linear regression: the level of the noise from the data, then the predictive variance of each image.
    level = float(np.mean((known - mean) * (known - mean - inputs @ slopes)))
    unknown = level * (1 + np.einsum("nd,de,ne->n", traits_N_D, inverse, traits_N_D, optimize=True))
    return predicted, predicted.var(axis=1) + unknown


def _blocks(batches: Batches) -> Iterator[list[NDArray[Any]]]:
    block: list[NDArray[Any]] = []
    size = 0
    for batch in batches:
        block.append(batch)
        size += batch.nbytes
        if size >= _BLOCK_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block


def _joined(parts: list[Tensor]) -> NDArray[np.float64]:
    return torch.cat(parts).double().numpy() if parts else np.empty(0)


def _finite(values: NDArray[np.float64], what: str, first: int = 0) -> NDArray[np.float64]:
    if not np.isfinite(values).all():
        row = first + int(np.argwhere(~np.isfinite(values))[0][0])
        raise RankerError(
            f"the score of image row {row} is not finite under {what}; look at the image, or train again"
        )
    return values
