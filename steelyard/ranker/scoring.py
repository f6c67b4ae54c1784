"""Scores of a pool of images: one pass with mean weights, T draws (P4, P5), or draws for the promising part only.

Everything takes batches – any iterable of raw images (B, H, W, 3) uint8 or feature rows (B, D), in pool order – and goes
through them once: a pool need not fit in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from steelyard.errors import RankerError
from steelyard.ranker.dropout import draw, masked_layers, unit_masks
from steelyard.ranker.network import Network

__all__ = [
    "LastLayer",
    "Screened",
    "batches_of",
    "draw_scores",
    "first_order",
    "last_layer",
    "mean_scores",
    "screened_draws",
]

Batches = Iterable[NDArray[Any]]
Progress = Callable[[int, int, str], None]
_BLOCK_BYTES = 128 << 20  # raw images that are kept while all draws go over them


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
        mean_N: scores; P4 for the rows with draws, the pass with mean weights for the others.
        variance_N: P5 for the rows with draws; for the others the first-order variance, scaled to the level of P5.
        rows: the rows with draws, ascending, shape (n,).
        scores_T_n: their draws.
    """

    mean_N: NDArray[np.float64]
    variance_N: NDArray[np.float64]
    rows: NDArray[np.int64]
    scores_T_n: NDArray[np.float64]


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
    draws: int,
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
        draws: T.
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
    if draws < 1:
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
            inputs: list[Any] = (
                [network.through(network.prepare(b), stages) for b in block] if stages else block
            )
            sizes = [len(batch) for batch in block]
            block_scores = np.empty((draws, sum(sizes)))
            for t in range(draws):
                parts: list[Tensor] = []
                if each_its_own:
                    for batch, first in zip(inputs, start + np.cumsum([0, *sizes[:-1]]), strict=True):
                        own = (
                            range(first, first + len(batch))
                            if numbers is None
                            else numbers[first : first + len(batch)]
                        )
                        with draw(network, seed, t, rows=[int(row) for row in own]):
                            parts.append(_pass(network, batch, stages))
                else:
                    with draw(network, seed, t):
                        parts = [_pass(network, batch, stages) for batch in inputs]
                block_scores[t] = _finite(_joined(parts), f"draw {t}", start)
                if progress is not None:
                    progress(start * draws + (t + 1) * sum(sizes), size * draws, f"draw {t + 1} of {draws}")
            scored.append(block_scores)
            start += sum(sizes)
    return np.concatenate(scored, axis=1) if scored else np.empty((draws, 0))


def first_order(network: Network, batches: Batches) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scores with mean weights, and how much they would vary over draws to first order in the masks.

    f(x; z) ≈ f(x; 1) + Σ_k g_k (z_k − 1) over all mask bits k, so Var f ≈ p/(1−p) Σ_k g_k², with all g from one backward
    pass. For dropout before the last layer only, that is the exact `closed_form`; for a deep network the level is off but
    the order of the images is close: good enough to choose who is worth T draws.

    Returns:
        Scores (N,) and variances (N,).

    Raises:
        RankerError: the network has no dropout, or a score is not finite.
    """
    if not masked_layers(network):
        raise RankerError("this network has no dropout and so no draws; build it with dropout above 0")
    scores, variances = [], []
    wanted = [(parameter, parameter.requires_grad) for parameter in network.parameters()]
    try:
        network.requires_grad_(False)  # gradients by the masks alone
        for batch in batches:
            with torch.enable_grad(), unit_masks(network) as masks:
                score = network(network.prepare(batch))
                gradients = torch.autograd.grad(score.sum(), [mask for _, mask in masks])
            total = torch.zeros_like(score)
            for (variance, _), gradient in zip(masks, gradients, strict=True):
                total = total + variance * gradient.flatten(1).square().sum(dim=1)
            scores.append(score.detach().float().cpu())
            variances.append(total.detach().float().cpu())
    finally:
        for parameter, flag in wanted:
            parameter.requires_grad_(flag)
    return _finite(_joined(scores), "the mean weights"), _finite(
        _joined(variances), "the first-order variance"
    )


def screened_draws(
    network: Network,
    images: NDArray[Any],
    *,
    draws: int,
    seed: int,
    share: float,
    batch_size: int = 64,
    progress: Progress | None = None,
) -> Screened:
    """T draws for the share of a pool whose score varies most to first order; one cheap pass for the rest.

    Args:
        network: a Bayesian network.
        images: the pool, uint8 (N, H, W, 3) or rows (N, D); a memory map is read batch by batch.
        draws: T.
        seed: of the draws; they are those that `draw_scores` would have made.
        share: of the pool that is drawn T times, above 0 and up to 1.
        batch_size: images a batch.
        progress: as for `draw_scores`.

    Raises:
        RankerError: the share is out of range, or as for `draw_scores`.
    """
    if not 0 < share <= 1:
        raise RankerError(f"the share that is drawn T times is above 0 and up to 1, not {share}")
    mean_N, variance_N = first_order(network, batches_of(images, batch_size))
    count = min(len(images), int(np.ceil(share * len(images))))
    rows = np.sort(np.argsort(-variance_N, kind="stable")[:count])
    scores_T_n = draw_scores(
        network,
        batches_of(images, batch_size, rows),
        draws=draws,
        seed=seed,
        rows=rows,
        size=count,
        progress=progress,
    )
    drawn = scores_T_n.var(axis=0)
    # Nonlinearity changes the level of the variance more than its order; bring the rest to the level of the draws.
    known = variance_N[rows] > 0
    level = float(np.median(drawn[known] / variance_N[rows][known])) if known.any() else 1.0
    variance_N = variance_N * level
    mean_N[rows], variance_N[rows] = scores_T_n.mean(axis=0), drawn
    return Screened(mean_N, variance_N, rows, scores_T_n)


def _pass(network: Network, batch: Any, stages: int) -> Tensor:
    scores: Tensor = network(batch, start=stages) if stages else network(network.prepare(batch))
    return scores.float().cpu()


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
