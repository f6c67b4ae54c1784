"""What the paper's experiment takes on a GPU: a cost model of passes, checked against a run of the real network here.

1. Measured here, for one image of DenseNet-169 with the paper's masks: a plain pass, a pass under a draw, a step of training.
2. The check: small runs of `--preset paper` with a fixed number of epochs. What the model says they take, from the figures of 1, against
   what they took, both in processor time because other work on the machine must not count.
3. The forecast for LIMUC (or --images N): passes by method, and hours for a device of so many images a second. Where that is not known
   (--forward), it follows from the device's floating-point speed and the share of it that this network reaches: an assumption. Two figures
   are given: a step of training as 4 plain passes (forward, twice that backward, masks), and as many as it takes on the CPU here.

    python benchmarks/gpu_hours.py
    python benchmarks/gpu_hours.py --forward 700 --train 210      # measured on your GPU by --measure --device cuda --size 224
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from PIL import Image

from steelyard.config import NetworkConfig, ranker_preset
from steelyard.experiment import ExperimentConfig, run_experiment
from steelyard.ranker.device import device_of
from steelyard.ranker.network import build_network
from steelyard.ranker.objective import Comparisons
from steelyard.ranker.scoring import draw_scores, mean_scores

OPERATIONS = (
    6.8e9  # of a plain pass of DenseNet-169 at 224 px: 3.4 billion multiplications and as many additions
)
METHODS = ("baseline", "all", "random", "ubs", "coreset", "conventional")


@dataclass(frozen=True)
class Speed:
    """Seconds for one image."""

    forward: float
    draw: float
    train: float


@dataclass(frozen=True)
class Passes:
    """Images that go through the network, in every way."""

    forward: float
    draw: float
    train: float

    def seconds(self, speed: Speed) -> float:
        return self.forward * speed.forward + self.draw * speed.draw + self.train * speed.train


def passes(
    method: str,
    *,
    pool: int,
    validation: int,
    test: int,
    epochs: float,
    r: float = 0.20,
    s: float = 0.05,
    rounds: int = 6,
    draws: int = 30,
    classify: bool = True,
) -> Passes:
    """One cell: training, validation once an epoch, T draws of pool and test in every round; the last fit once more with grades.

    In a step both images of every pair go through the network, each with the masks of its pair (P9): 2 for each pair.
    """
    if method == "conventional":
        return Passes(epochs * validation, draws * (pool + test), epochs * pool)
    ratios = [1.0] if method == "all" else [r + s * k for k in range(rounds + 1)]
    fits = [*ratios, *([ratios[-1]] if classify else [])]
    features = pool if method == "coreset" else 0
    return Passes(
        len(fits) * epochs * validation + features,
        draws * (len(ratios) * (pool + test) + (test if classify else 0)),
        sum(2 * ratio * pool * epochs for ratio in fits),
    )


def measure(size: int, device: str, images: int, pairs: int, repeats: int) -> Speed:
    """Part 1: seconds an image, the median of several."""
    config = ranker_preset("paper", image_size=size, weights="none", device=device)
    assert isinstance(config, NetworkConfig)
    network = build_network(config, seed=0).to(device_of(device))
    rng = np.random.default_rng(0)
    pool = rng.integers(0, 256, (max(images, 2 * pairs), size, size, 3), dtype=np.uint8)
    rows = np.arange(2 * pairs).reshape(-1, 2)
    taught = Comparisons(network, pool, rows, np.ones(pairs), None, None, config)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-5)

    def step() -> None:
        network.train()
        loss, *_ = taught.loss(network, np.arange(pairs), (0, 0, 0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()  # waits for the device

    part = pool[:images]
    # A GPU works while the processor waits.
    clock = time.process_time if device == "cpu" else time.perf_counter
    return Speed(
        _typical(lambda: mean_scores(network, [part]), repeats, clock) / images,
        _typical(lambda: draw_scores(network, [part], draws=1, seed=0), repeats, clock) / images,
        _typical(step, repeats, clock) / (2 * pairs),
    )


def _typical(act: Callable[[], object], repeats: int, clock: Callable[[], float]) -> float:
    act()
    found = []
    for _ in range(repeats):
        started = clock()
        act()
        found.append(clock() - started)
    return float(np.median(found))


def check(size: int, patients: int, epochs: int, draws: int) -> None:
    """Part 2: predicted against measured seconds of a small run, by method."""
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        for patient in range(1, patients + 1):
            for grade in range(4):
                place = (
                    Path(folder)
                    / "LIMUC"
                    / "patient_based_classified_images"
                    / str(patient)
                    / f"Mayo {grade}"
                )
                place.mkdir(parents=True)
                pixels = rng.integers(0, 60, (size, size, 3)) + np.array([40 + 45 * grade, 60, 60])
                Image.fromarray(pixels.astype(np.uint8)).save(place / f"UC_patient_{patient}_{grade}.bmp")
        ranker = {
            "image_size": size, "weights": "none", "epochs": epochs, "patience": epochs, "batch_size": 16, "threads": 1,
        }  # fmt: skip
        config = ExperimentConfig(
            images=str(Path(folder) / "LIMUC"), layout="limuc", preset="paper", methods=("all",), seeds=1, only_folds=(0,), r=40.0,
            s=20.0, rounds=1, draws=draws, jobs=1, near_duplicates=False, classify=False, test_pairs=50, ranker=ranker,
        )  # fmt: skip
        print(
            f"Check: {4 * patients} images of {size} px, {epochs} epochs, T = {draws}, one fold, processor time"
        )
        for method in ("all", "ubs"):
            before = measure(size, "cpu", 24, 16, 2)
            started = time.process_time()
            run = run_experiment(config.with_changes(methods=(method,)), Path(folder) / method)
            took = time.process_time() - started
            after = measure(size, "cpu", 24, 16, 2)
            sets = run.table("scores").query("round == 0")["set"].value_counts()
            pool, test = int(sets["pool"]), int(sets["test"])
            told = passes(
                method, pool=pool, validation=4 * patients - pool - test, test=test, epochs=epochs, r=0.4, s=0.2, rounds=1, draws=draws,
                classify=False,
            )  # fmt: skip
            seconds = (told.seconds(before) + told.seconds(after)) / 2
            print(
                f"  {method:<9} predicted {seconds:6.1f} s, took {took:6.1f} s: {took / seconds:.2f} × the prediction"
            )


def forecast(images: int, epochs: float, speeds: list[Speed], folds: int) -> None:
    """Part 3."""
    pool, validation, test = 0.6 * images, 0.2 * images, 0.2 * images
    print(f"{images:,} images, {folds} folds, one seed, {epochs:g} epochs a training")
    total = np.zeros(len(speeds))
    for method in METHODS:
        found = passes(method, pool=pool, validation=validation, test=test, epochs=epochs)
        hours = np.array([folds * found.seconds(speed) / 3600 for speed in speeds])
        total += hours
        print(
            f"  {method:<13} {folds * found.train / 1e6:6.2f} million images trained, {folds * found.draw / 1e6:6.2f} drawn, "
            f"{folds * found.forward / 1e6:5.2f} plain: {_hours(hours)}"
        )
    print(f"  together {_hours(total)}")


def _hours(values: np.ndarray) -> str:
    return " … ".join(f"{value:.0f}" for value in np.unique(values.round())) + " h"


def main() -> None:
    """All parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--measure", action="store_true", help="Measure only, on --device at --size.")
    parser.add_argument("--images", type=int, default=11_276)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--epochs", type=float, nargs="*", default=[30, 60, 300])
    parser.add_argument(
        "--forward", type=float, default=0.0, help="Plain passes a second on the GPU, if known."
    )
    parser.add_argument("--train", type=float, default=0.0, help="Images a second in training there.")
    parser.add_argument(
        "--tflops", type=float, default=16.3, help="Of the device; a TITAN RTX has 16.3 in float32."
    )
    parser.add_argument("--reached", type=float, default=0.25, help="Share of it that this network reaches.")
    parser.add_argument("--patients", type=int, default=12, help="Of the check; 0 leaves it out.")
    options = parser.parse_args()
    here = measure(options.size, options.device, 24, 16, 5)
    print(
        f"Here ({options.device}), {options.size} px: {1 / here.forward:.1f} plain passes a second; a draw takes {here.draw / here.forward:.2f} "
        f"and a step of training {here.train / here.forward:.2f} × a plain pass, an image"
    )
    if options.measure:
        return
    if options.patients:
        check(options.size, options.patients, 3, 10)
    forward = (
        1 / options.forward if options.forward else OPERATIONS / (options.tflops * 1e12 * options.reached)
    )
    steps = [1 / options.train] if options.train else [forward * 4, forward * here.train / here.forward]
    there = [Speed(forward, forward * here.draw / here.forward, step) for step in steps]
    trained = " … ".join(f"{1 / speed.train:,.0f}" for speed in there)
    print(f"There, 224 px: {1 / forward:,.0f} plain passes and {trained} images of training a second")
    for epochs in options.epochs:
        forecast(options.images, epochs, there, options.folds)


if __name__ == "__main__":
    main()
