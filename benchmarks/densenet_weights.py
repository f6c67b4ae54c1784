"""Weights for DenseNet-169 where ImageNet's are not to be had: learnt from drawn mucosa, without masks, as pretrained weights are.

    python benchmarks/densenet_weights.py drawn.safetensors [--images 2000] [--size 32] [--epochs 12] [--threads 1]

They are no match for ImageNet's, but they let the paper's network begin with something: from random weights, with the masks of the
paper and a few hundred pairs, it learns next to nothing. No real image is looked at. The file has torchvision's names;
`--ranker weights=drawn.safetensors` reads it (docs/results has the run that it was made for).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from safetensors.torch import save_file

from steelyard.config import NetworkConfig, ranker_preset
from steelyard.images.synthetic import draw
from steelyard.pairs import PairSet, form_pairs
from steelyard.ranker.network import build_network
from steelyard.ranker.train import train


def main() -> None:
    """Draw, order, learn, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--images", type=int, default=2_000)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    drawn = draw(options.images, size=options.size, seed=1)
    severity, rng = np.asarray(drawn.severity), np.random.default_rng(0)
    held = options.images // 10
    sets = []
    for rows in (np.arange(held), np.arange(held, options.images)):
        pairs = form_pairs(rows, taken=PairSet(options.images), rng=rng)
        sets.append((pairs, (severity[pairs[:, 0]] > severity[pairs[:, 1]]).astype(float)))
    config = ranker_preset(
        "paper", image_size=options.size, weights="none", dropout=0.0, posterior="laplace", units="channel",
        learning_rate=1e-3, batch_size=16, epochs=options.epochs, patience=options.epochs, threads=options.threads,
    )  # fmt: skip
    assert isinstance(config, NetworkConfig)
    network = build_network(config, seed=0)
    started = time.monotonic()
    train(
        network, drawn.images, *sets[1], validation=sets[0], config=config, seed=0,
        progress=lambda done, total, text: print(f"{time.monotonic() - started:5.0f} s, {done} of {total}: {text}", flush=True),
    )  # fmt: skip
    stages = {f"features.{name}": value for name, value in network.backbone.state_dict().items()}
    save_file({name: value.contiguous() for name, value in stages.items()}, options.file)


if __name__ == "__main__":
    main()
