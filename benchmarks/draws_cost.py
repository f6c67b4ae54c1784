"""What the uncertainty of a pool costs, in passes over the pool with mean weights.

1. DenseNet-169: T = 30 draws folded into the weights (`units = "channel"`), draws of single elements (preset `paper`), and beside
   them dropout layers of the authors' kind, with masks of its own for each image. Plain pass and the three take turns.
2. Screening: a network trained on the UC images (STEELYARD_DATA), time of `screened_draws` and of all draws in plain
   passes, and how much of the true top 5% (by all 30 draws) got all its draws.
3. `closed_form` and `laplace`: one pass up to the last layer, then a formula.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # processor time is measured, and waiting threads would count
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn.functional import dropout

from steelyard.config import RankerConfig, ranker_preset
from steelyard.ranker.dropout import draw, masked_layers, plain
from steelyard.ranker.network import Network, build_network
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.scoring import batches_of, draw_scores, last_layer, mean_scores, screened_draws
from steelyard.ranker.train import train

DATA = Path(os.environ.get("STEELYARD_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def seconds(act: Callable[[], object]) -> float:
    """Processor time of something: other work on the machine must not count."""
    started = time.process_time()
    act()
    return time.process_time() - started


def densenet(images: int, size: int, draws: int, rounds: int) -> None:
    """Part 1."""
    folded_units = ranker_preset("paper", image_size=size, weights="none", units="channel")
    network = build_network(folded_units, seed=0).eval()
    paper = build_network(ranker_preset("paper", image_size=size, weights="none"), seed=0).eval()
    authors = plain(build_network(ranker_preset("paper", image_size=size, weights="none"), seed=0)).eval()
    for layer in authors.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            layer.register_forward_pre_hook(lambda _, args: (dropout(args[0], 0.2, training=True),))
    pool = np.random.default_rng(0).integers(0, 256, (images, size, size, 3), dtype=np.uint8)

    def one_draw(of: Network, t: int) -> None:
        with torch.inference_mode(), draw(of, 0, t):
            of(of.prepare(pool))

    mean_scores(network, [pool])
    mean_scores(authors, [pool])
    once, drawn, elements, dropped = [], [], [], []
    for t in range(rounds):
        once.append(seconds(lambda: mean_scores(network, [pool])))
        drawn.append(seconds(lambda t=t: one_draw(network, t)))  # type: ignore[misc]
        elements.append(seconds(lambda t=t: one_draw(paper, t)))  # type: ignore[misc]
        dropped.append(seconds(lambda: mean_scores(authors, [pool])))
    base = float(np.median(once))
    print(
        f"DenseNet-169, {images} images of {size} px, {images / base:.1f} images/s a plain pass, {rounds} rounds in turn"
    )
    print(
        f"  {draws} folded draws          {draws * np.median(drawn) / base:5.1f} × a plain pass   (must: at most 31)"
    )
    print(
        f"  {draws} draws of elements     {draws * np.median(elements) / base:5.1f} × a plain pass   (preset paper)"
    )
    print(
        f"  {draws} passes with dropout   {draws * np.median(dropped) / base:5.1f} × a plain pass   (the authors' kind of layers)"
    )


def uc_images(size: int) -> tuple[np.ndarray, np.ndarray]:
    """The UC images and their ordinal grades."""
    folder = DATA / "hyperkvasir_uc"
    with (folder / "labels.csv").open() as file:
        rows = list(csv.DictReader(file))
    pixels = [np.asarray(Image.open(folder / r["file"]).convert("RGB").resize((size, size))) for r in rows]
    return np.stack(pixels), np.array([int(r["ordinal"]) for r in rows])


def trained(config: RankerConfig, images: np.ndarray, grades: np.ndarray, share: float, seed: int) -> Network:
    """A network taught with random pairs, `share` as many as images."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, len(images), (int(share * len(images)), 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    answers = (np.sign(grades[pairs[:, 0]] - grades[pairs[:, 1]]) + 1) / 2
    network = build_network(config, seed=seed)
    result = train(network, images, pairs, answers, config=config, seed=seed)
    best = result.history[result.best_epoch]
    print(f"  trained on {len(pairs)} pairs: validation accuracy {best.validation_accuracy:.3f}")
    return network


def screening(backbone: str, size: int, epochs: int, rate: float, share: float, repeats: int) -> None:
    """Parts 2 and 3."""
    images, grades = uc_images(size)
    config = ranker_preset(
        "small", backbone=backbone, image_size=size, epochs=epochs, learning_rate=rate,
        weights="none" if backbone == "densenet169" else "",
    )  # fmt: skip
    print(f"Screening, {backbone} with dropout before every layer, {len(images)} UC images of {size} px")
    network = trained(config, images, grades, 0.5, 0)
    mean_scores(network, batches_of(images, 64))
    count, once, costs, full_costs, recalls = int(np.ceil(0.05 * len(images))), [], [], [], []
    for seed in range(repeats):
        once.append(seconds(lambda: mean_scores(network, batches_of(images, 64))))
        started = time.process_time()
        found = screened_draws(network, images, draws=30, seed=seed, share=share)
        costs.append(time.process_time() - started)
        started = time.process_time()
        full = draw_scores(network, batches_of(images, 64), draws=30, seed=seed)
        full_costs.append(time.process_time() - started)
        top = np.argsort(-full.var(axis=0))[:count]
        recalls.append(found.drawn_N[top].mean())
    base = float(np.median(once))
    print(f"  all 30 draws   {np.median(full_costs) / base:5.1f} × a plain pass")
    print(
        f"  screened       {np.median(costs) / base:5.1f} × a plain pass   (must: at most 6), "
        f"share {share}, {found.drawn_N.mean():.1%} of the pool drawn in full"
    )
    print(
        f"  true top 5% found: mean {np.mean(recalls):.3f}, worst {np.min(recalls):.3f} of {repeats} seeds   (must: at least .90)"
    )

    def closed() -> None:
        layer = last_layer(network, batches_of(images, 64))
        _ = Posterior.closed_form(layer.features_N_D, layer.weights_D, layer.p, layer.bias).variance

    pairs = np.random.default_rng(0).integers(0, len(images), (500, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]

    def laplace() -> None:
        layer = last_layer(network, batches_of(images, 64))
        answers = np.ones(len(pairs))
        _ = Posterior.laplace(
            layer.features_N_D, layer.weights_D, pairs, answers, precision=1.0, bias=layer.bias
        ).variance

    times: dict[str, list[float]] = {"plain": [], "closed_form": [], "laplace": []}
    for _ in range(5):
        times["plain"].append(seconds(lambda: mean_scores(network, batches_of(images, 64))))
        times["closed_form"].append(seconds(closed))
        times["laplace"].append(seconds(laplace))
    for kind in ("closed_form", "laplace"):
        ratio = np.median(times[kind]) / np.median(times["plain"])
        print(f"  {kind:14s} {ratio:5.2f} × a plain pass   (must: at most 1.1)")
    assert masked_layers(network)


def main() -> None:
    """Both parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--part", choices=["both", "densenet", "screening"], default="both")
    parser.add_argument("--backbone", default="small")
    parser.add_argument("--screen-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--share", type=float, default=0.15)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    if options.part != "screening":
        densenet(options.images, options.size, 30, options.rounds)
    if options.part != "densenet":
        if not (DATA / "hyperkvasir_uc").is_dir():
            print(f"Screening needs the UC images below {DATA}; set STEELYARD_DATA")
            return
        screening(
            options.backbone, options.screen_size, options.epochs, options.rate, options.share, options.repeats
        )  # fmt: skip


if __name__ == "__main__":
    main()
