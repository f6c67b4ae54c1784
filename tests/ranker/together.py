"""What `test_processes.py` trains in one process and in two; as a program, the first process writes what came of it."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from steelyard.config import RankerConfig, ranker_preset
from steelyard.errors import RankerError
from steelyard.ranker.network import build_network
from steelyard.ranker.processes import together
from steelyard.ranker.train import TrainResult, fit_conventional, train

RNG = np.random.default_rng(0)
GRADES = RNG.integers(0, 4, 40)
IMAGES = RNG.integers(0, 90, (40, 16, 16, 3)).astype(np.uint8)
IMAGES[..., 0] += (GRADES * 40).astype(np.uint8)[:, None, None]
ROWS = RNG.normal(size=(40, 6)).astype(np.float32)
ROWS[:, 0] += GRADES
PAIRS = np.array([(i, j) for i, j in RNG.integers(0, 40, (45, 2)) if i != j])
ANSWERS = (np.sign(GRADES[PAIRS[:, 0]] - GRADES[PAIRS[:, 1]]) + 1) / 2

Weights = dict[str, Any]


# Answers about pairs say nothing about the offset of all scores, nor about a hidden unit that both images switch on: those gradients
# are rounding, which Adam makes whole steps of – unless it is far below Adam's ε, as in double precision.
DOUBLE = {"device": "cpu", "precision": "64-true", "batch_size": 7}


def on_rows(**changes: Any) -> RankerConfig:
    return ranker_preset("features", **{"kind": "network", "hidden": 8, "epochs": 3, **DOUBLE, **changes})


def on_images(**changes: Any) -> RankerConfig:
    return ranker_preset("small", **{"image_size": 16, "epochs": 2, **DOUBLE, **changes})


def fitted(config: RankerConfig, **options: Any) -> tuple[Weights, TrainResult]:
    rows = config.backbone == "none"
    network = build_network(config, seed=3, width=6 if rows else 0)
    inputs = options.pop("inputs", ROWS if rows else IMAGES)
    result = train(network, inputs, PAIRS, ANSWERS, config=config, seed=1, **options)
    return {name: value.numpy() for name, value in network.state_dict().items()}, result


def conventional() -> tuple[Weights, TrainResult]:
    config, held = on_images(), (np.arange(30, 40), GRADES[30:])
    network = build_network(config, seed=0, outputs=4)
    result = fit_conventional(
        network, IMAGES, np.arange(30), GRADES[:30], validation=held, config=config, seed=0
    )
    return {name: value.numpy() for name, value in network.state_dict().items()}, result


def stopped_early() -> tuple[Weights, TrainResult]:
    """Validation answers that contradict training: the first epoch is the best."""
    held = (PAIRS, 1 - ANSWERS)
    return fitted(on_rows(epochs=50, patience=3, learning_rate=1e-2, dropout=0.1), validation=held)


CASES: dict[str, Callable[[], tuple[Weights, TrainResult]]] = {
    "rows, ties as outcomes": lambda: fitted(on_rows(ties="rao_kupper")),
    "rows, masks of single elements": lambda: fitted(on_rows(units="element")),
    "rows, a pair a step, computed by both": lambda: fitted(on_rows(batch_size=1, epochs=1)),
    "rows, stopped by the training loss": lambda: fitted(on_rows(validation_share=0.0)),
    "rows, stopped early": stopped_early,
    "images, batch norm, changed images": lambda: fitted(on_images(augment=True)),
    "images, masks of each image and element": lambda: fitted(
        on_images(units="element", masks="independent")
    ),
    "images, masks of each image": lambda: fitted(on_images(masks="independent")),
    "images, grades, no dropout": lambda: fitted(
        on_images(dropout=0.0, posterior="laplace", multitask=True), grades=GRADES
    ),
    "classification": conventional,
    "images, grades, single precision": lambda: fitted(
        on_images(multitask=True, precision="32-true"), grades=GRADES
    ),
}


class Stopped(Exception):
    pass


def stop_after(epochs: int) -> Callable[[int, int, str], None]:
    def progress(done: int, total: int, text: str) -> None:
        if done == epochs:
            raise Stopped

    return progress


def not_finite() -> str:
    broken = ROWS.copy()
    broken[PAIRS[0, 0]] = np.inf
    try:
        fitted(on_rows(validation_share=0.0), inputs=broken)
    except RankerError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    out = Path(sys.argv[1])
    with together() as first:
        if first:
            found: dict[str, Any] = {"not finite": not_finite()}  # and the others are there for what follows
            found |= {name: case() for name, case in CASES.items()}
            found["resumed"] = fitted(on_rows(epochs=4), folder=out / "by one")
            (out / "found").write_bytes(pickle.dumps(found))
            # The last, because the processes part with it.
            fitted(on_rows(epochs=4), folder=out / "by two", progress=stop_after(2))
