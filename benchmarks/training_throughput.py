"""Training speed of our loop beside a hand-written Siamese loop, epoch by epoch in turn.

The hand-written loop: DenseNet-169 with `nn.Dropout2d` before every convolution and `nn.Dropout` before the last layer,
both images of all pairs in one forward pass, RankNet by `binary_cross_entropy_with_logits`, Adam with `weight_decay`.
Same images, batch, memory layout, threads. Then epochs a second of the MLP head on 5,000 pairs.
"""

from __future__ import annotations

import argparse
import time
from collections import OrderedDict

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from steelyard.config import ranker_preset
from steelyard.ranker.dropout import plain
from steelyard.ranker.network import build_network
from steelyard.ranker.train import train


def with_dropout_layers(module: nn.Module, p: float) -> nn.Module:
    """Every convolution and linear layer replaced by (dropout, layer), as one would write it."""
    for name, child in list(module.named_children()):
        if isinstance(child, nn.Conv2d):
            setattr(module, name, nn.Sequential(OrderedDict(dropout=nn.Dropout2d(p), conv=child)))
        elif isinstance(child, nn.Linear):
            setattr(module, name, nn.Sequential(OrderedDict(dropout=nn.Dropout(p), linear=child)))
        else:
            with_dropout_layers(child, p)
    return module


def in_turn(
    kind: str, images: np.ndarray, pairs: np.ndarray, batch: int, epochs: int, size: int
) -> tuple[list[float], list[float]]:
    """Seconds an epoch: ours, and the hand-written one that runs between ours."""
    answers = np.random.default_rng(1).integers(0, 2, len(pairs)).astype(float)
    if kind == "densenet169":
        config = ranker_preset(
            "paper",
            image_size=size,
            weights="none",
            units="channel",  # as nn.Dropout2d
            epochs=epochs,
            patience=epochs,
            batch_size=batch,
            validation_share=0.0,
        )
        network = build_network(config, seed=0)
        hand = plain(build_network(config, seed=0))
        stages = nn.Sequential(hand.backbone, hand.last)
    else:
        config = ranker_preset(
            "features", head="mlp", epochs=epochs, patience=epochs, batch_size=batch, validation_share=0.0
        )
        network = build_network(config, seed=0, width=images.shape[1])
        hand = plain(build_network(config, seed=0, width=images.shape[1]))
        stages = nn.Sequential(hand.head, hand.last)
    with_dropout_layers(stages, config.dropout)
    optimizer = torch.optim.Adam(
        stages.parameters(), lr=config.learning_rate, weight_decay=2 * config.weight_decay
    )
    targets = torch.from_numpy(answers).float()
    rng = np.random.default_rng(2)

    def by_hand() -> None:
        stages.train()
        order = rng.permutation(len(pairs))
        for at in range(0, len(order), batch):
            chosen = order[at : at + batch]
            x = hand.prepare(images[pairs[chosen].T.reshape(-1)])
            scores = stages(x).squeeze(1)
            left, right = scores.chunk(2)
            loss = binary_cross_entropy_with_logits(left - right, targets[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    ours: list[float] = []
    theirs: list[float] = []
    started = 0.0

    def between(done: int, total: int, text: str) -> None:
        nonlocal started
        now = time.perf_counter()
        if done > 1:  # the first epoch warms up
            ours.append(now - started)
        t0 = time.perf_counter()
        by_hand()
        if done > 1:
            theirs.append(time.perf_counter() - t0)
        started = time.perf_counter()

    train(network, images, pairs, answers, config=config, seed=0, progress=between)
    return ours, theirs


def main() -> None:
    """DenseNet-169, then the MLP head."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=48)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=7)
    options = parser.parse_args()
    rng = np.random.default_rng(0)

    images = rng.integers(0, 256, (400, options.size, options.size, 3), dtype=np.uint8)
    pairs = rng.permutation(400)[: 2 * options.pairs].reshape(-1, 2)
    ours, theirs = in_turn("densenet169", images, pairs, options.batch, options.epochs, options.size)
    print(
        f"DenseNet-169, {options.size} px, {options.batch} pairs a step, median of {len(ours)} epochs in turn"
    )
    print(
        f"  ours {2 * options.pairs / np.median(ours):.1f} images/s, by hand {2 * options.pairs / np.median(theirs):.1f} images/s"
    )
    print(f"  ours takes {np.median(ours) / np.median(theirs):.2f} × the time by hand   (must: at most 1.10)")

    rows = rng.normal(size=(3000, 1280)).astype(np.float32)
    pairs = rng.integers(0, 3000, (5100, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]][:5000]
    ours, theirs = in_turn("mlp", rows, pairs, 32, 8, 0)
    print("MLP head (1280 → 128 → 1), 5,000 pairs, 32 a step")
    print(
        f"  ours {1 / np.median(ours):.2f} epochs/s, by hand {1 / np.median(theirs):.2f} epochs/s; ratio of times {np.median(ours) / np.median(theirs):.2f}"
    )


if __name__ == "__main__":
    main()
