"""What the training loop minimises: comparisons (P3, P6) or grades, and the images they are about.

An objective knows the loss of some of its examples under their draws, and how good a network is on validation data.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from steelyard.config import NetworkConfig
from steelyard.errors import RankerError
from steelyard.pairs import check_pairs
from steelyard.ranker.augment import augment
from steelyard.ranker.dropout import draw_for_pairs
from steelyard.ranker.loss import grade_loss, graded, rank_net, rao_kupper
from steelyard.ranker.network import Network
from steelyard.ranker.processes import in_turns
from steelyard.ranker.shared_norm import shared_norms
from steelyard.ranker.shares import Share

__all__ = ["Comparisons", "Grades", "Images", "Objective", "checked_grades", "checked_pairs"]

Images = NDArray[Any]


class Objective(Protocol):
    size: int
    held: Any

    def loss(self, module: Any, share: Share, seed: tuple[int, ...]) -> tuple[Tensor, int, int]:
        """Mean loss of the examples of a share, how many of them were right, out of how many that can be."""

    def validate(self, module: Any) -> tuple[float, float]:
        """Loss and accuracy on validation data with mean weights; NaN, NaN where there is none."""


class _Inputs:
    """Images as the network wants them; feature rows and frozen stages are done once, for all rows that are used."""

    def __init__(
        self, network: Network, images: Images, used: NDArray[np.int64], config: NetworkConfig
    ) -> None:
        self.network, self.images = network, images
        self.start = 0 if config.augment else network.cacheable_stages()
        takes_rows = network.pixels is None and not network.channels
        self.used = np.unique(used) if self.start or takes_rows else None
        self.kept: Tensor | None = None

    def __call__(self, distinct: NDArray[np.int64]) -> Tensor:
        if self.used is None:
            return self.network.prepare(self.images[distinct])
        if self.kept is None:  # only now, because by now the network is on its device
            with torch.no_grad():
                blocks = [
                    self.network.through(
                        self.network.prepare(self.images[self.used[at : at + 256]]), self.start
                    )
                    for at in range(0, len(self.used), 256)
                ]
            self.kept = torch.cat(blocks).cpu()
        return self.kept[torch.from_numpy(np.searchsorted(self.used, distinct))].to(
            self.network.last.weight.device
        )

    def scores(self, module: Any, rows: NDArray[np.int64], batch: int) -> tuple[Tensor, NDArray[np.int64]]:
        """Outputs with mean weights for the distinct images among rows, and where each row is among them."""
        distinct, where = np.unique(rows, return_inverse=True)
        with torch.no_grad():
            parts = in_turns(
                lambda rows: module(self(rows), start=self.start).float().cpu(),
                [distinct[at : at + batch] for at in range(0, len(distinct), batch)],
            )
        return torch.cat(parts), where


class Comparisons:
    """P3, with P6 where there are grades."""

    def __init__(
        self,
        network: Network,
        images: Images,
        pairs: NDArray[np.int64],
        answers: NDArray[np.float64],
        held: tuple[NDArray[np.int64], NDArray[np.float64]] | None,
        grades: NDArray[np.float32] | None,
        config: NetworkConfig,
    ) -> None:
        self.network, self.config, self.size = network, config, len(pairs)
        self.pairs, self.answers, self.held, self.grades = pairs, answers, held, grades
        used = pairs if held is None else np.concatenate([pairs, held[0]])
        self.inputs = _Inputs(network, images, used, config)

    def loss(self, module: Any, share: Share, seed: tuple[int, ...]) -> tuple[Tensor, int, int]:
        whole = self.pairs[share.step]
        distinct, inverse = np.unique(whole.T, return_inverse=True)
        rows = inverse.reshape(2, len(whole))
        # Of the step's distinct images those that this process needs, and which of them each of its rows is.
        here, within = np.unique(rows[:, share.places], return_inverse=True)
        x = _augmented(self.inputs(distinct[here]), (here, len(distinct)), seed, self.config)
        # P9: rows are all left and then all right images; row k and row n + k meet draw k.
        draws = torch.arange(len(whole)).repeat(2)
        places = np.concatenate([share.places, len(whole) + share.places])
        images = share.image_weights(rows, len(distinct))[here]
        with (
            draw_for_pairs(self.network, seed, draw_index=draws, places=_unless_whole(places, share)),
            shared_norms(
                self.network,
                start=self.inputs.start,
                images=(images, len(distinct)),
                rows=(share.weight, rows.size),
            ),
        ):
            scores = module(x, torch.from_numpy(within.reshape(-1)).to(x.device), start=self.inputs.start)
        scores = scores.float().view(2, -1).T
        pairs, answers = whole[share.places], self.answers[share.step][share.places]
        loss = self._by_pair(scores, pairs, answers).mean()
        return loss, *_ordered(scores, answers)

    def validate(self, module: Any) -> tuple[float, float]:
        if self.held is None:
            return math.nan, math.nan
        pairs, answers = self.held
        each, where = self.inputs.scores(module, pairs, 2 * self.config.batch_size)
        scores = each[torch.from_numpy(where.reshape(pairs.shape))].to(self.network.last.weight.device)
        with torch.no_grad():
            loss = self._by_pair(scores, pairs, answers).mean().item()
        right, counted = _ordered(scores, answers)
        return loss, right / counted if counted else math.nan

    def _by_pair(self, scores: Tensor, pairs: NDArray[np.int64], answers: NDArray[np.float64]) -> Tensor:
        labels = torch.from_numpy(answers).to(scores)
        difference = scores[:, 0] - scores[:, 1]
        tau = self.network.tau
        loss = rank_net(difference, labels) if tau is None else rao_kupper(difference, labels, tau)
        if self.grades is not None:
            loss = loss + graded(scores, torch.from_numpy(self.grades[pairs]).to(scores))
        return loss


class Grades:
    """Cross-entropy on grades."""

    def __init__(
        self,
        network: Network,
        images: Images,
        rows: NDArray[np.int64],
        grades: NDArray[np.int64],
        held: tuple[NDArray[np.int64], NDArray[np.int64]] | None,
        config: NetworkConfig,
    ) -> None:
        self.network, self.config, self.size = network, config, len(rows)
        self.rows, self.grades, self.held = rows, grades, held
        used = rows if held is None else np.concatenate([rows, held[0]])
        self.inputs = _Inputs(network, images, used, config)

    def loss(self, module: Any, share: Share, seed: tuple[int, ...]) -> tuple[Tensor, int, int]:
        chosen, count = share.step[share.places], len(share.step)
        x = _augmented(self.inputs(self.rows[chosen]), (share.places, count), seed, self.config)
        places, counts = _unless_whole(share.places, share), (share.weight, count)
        with (
            draw_for_pairs(self.network, seed, draw_index=torch.arange(count), places=places),
            shared_norms(self.network, start=self.inputs.start, images=counts, rows=counts),
        ):
            logits = module(x, start=self.inputs.start).float()
        grades = torch.from_numpy(self.grades[chosen]).to(logits.device)
        right = int((logits.argmax(dim=1) == grades).sum())
        return grade_loss(logits, grades).mean(), right, len(chosen)

    def validate(self, module: Any) -> tuple[float, float]:
        if self.held is None:
            return math.nan, math.nan
        each, where = self.inputs.scores(module, self.held[0], 2 * self.config.batch_size)
        logits, grades = each[torch.from_numpy(where.reshape(-1))], torch.from_numpy(self.held[1])
        accuracy = (logits.argmax(dim=1) == grades).double().mean().item()
        return grade_loss(logits, grades).mean().item(), accuracy


def _augmented(
    x: Tensor, among: tuple[NDArray[np.int64], int], seed: tuple[int, ...], config: NetworkConfig
) -> Tensor:
    if not config.augment:
        return x
    state = int(np.random.SeedSequence((2, *seed)).generate_state(1, np.uint64)[0])
    return augment(x, torch.Generator().manual_seed(state), among=(torch.from_numpy(among[0]), among[1]))


def _unless_whole(places: NDArray[np.int64], share: Share) -> Tensor | None:
    """None where a process computes the whole step: then there is nothing to pick out."""
    return None if share.processes == 1 else torch.from_numpy(places)


def _ordered(scores: Tensor, answers: NDArray[np.float64]) -> tuple[int, int]:
    """How many pairs without a tie are ordered as answered, of how many."""
    difference = (scores[:, 0] - scores[:, 1]).detach().cpu().numpy()
    return int(((difference * (answers - 0.5)) > 0).sum()), int((answers != 0.5).sum())


def checked_pairs(
    pairs: ArrayLike, answers: ArrayLike, size: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    rows, labels = check_pairs(pairs, size, error=RankerError), np.asarray(answers, dtype=np.float64)
    if labels.shape != (len(rows),):
        raise RankerError(f"{len(rows)} pairs need {len(rows)} answers, not an array of shape {labels.shape}")
    bad = labels[~np.isin(labels, (0.0, 0.5, 1.0))]
    if len(bad):
        raise RankerError(f"an answer is 1, 0.5 or 0 (P1), not {bad[0]}")
    return rows, labels


def checked_grades(
    rows: ArrayLike, grades: ArrayLike, size: int, outputs: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    index, codes = np.asarray(rows, dtype=np.int64), np.asarray(grades, dtype=np.int64)
    if index.ndim != 1 or index.shape != codes.shape:
        raise RankerError(f"rows and grades are of one length, not {index.shape} and {codes.shape}")
    if len(index) and (index.min() < 0 or index.max() >= size):
        raise RankerError(
            f"row {int(index.min() if index.min() < 0 else index.max())} is outside the {size} images"
        )
    if len(codes) and (codes.min() < 0 or codes.max() >= outputs):
        raise RankerError(f"grades are codes 0 … {outputs - 1}, not {codes.min()} … {codes.max()}")
    return index, codes
