"""A ranker of one configuration: inputs, fit, posterior, save, load.

Two kinds behind one face: the convex head on features (numpy only) and a network with dropout (torch, loaded when needed).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.config import RankerConfig
from steelyard.errors import RankerError
from steelyard.progress import Progress
from steelyard.ranker import checkpoint
from steelyard.ranker.convex import ConvexHead
from steelyard.ranker.posterior import Posterior

if TYPE_CHECKING:
    from steelyard.images.catalog import Catalog
    from steelyard.ranker.network import Network

__all__ = [
    "Ranker",
    "coarse_rows",
    "fit_ranker",
    "input_kind",
    "load_ranker",
    "picture_inputs",
    "ranker_inputs",
]


class Ranker(Protocol):
    """What can be done with a fitted ranker."""

    @property
    def config(self) -> RankerConfig:
        """Its settings."""

    @property
    def metrics(self) -> dict[str, Any]:
        """Figures of the fit."""

    def posterior(self, inputs: NDArray[Any], *, progress: Progress | None = None) -> Posterior:
        """Scores of any images, with their uncertainty."""

    def save(self, folder: Path) -> None:
        """Write it, so that `load_ranker` finds it."""


def input_kind(config: RankerConfig) -> Literal["pixels", "activations", "features"]:
    """What the ranker learns from: pixels, what the frozen stages make of them, or features, frozen or the user's own."""
    if config.trained_stages:
        return "activations"
    learnt = config.backbone in ("small", "densenet169") or config.backbone.startswith("timm:")
    return "pixels" if learnt else "features"


def ranker_inputs(
    catalog: Catalog, config: RankerConfig, *, cache: Path | None = None, progress: Progress | None = None
) -> NDArray[Any]:
    """What the ranker sees of a catalog, computed once and cached.

    Returns:
        Features (N, D), activations (N, H, W, C), or pixels (N, H, W, 3) as uint8.

    Raises:
        RankerError: features are needed and the catalog has none, or a backbone with too few stages.
    """
    if config.backbone == "none":
        if catalog.features is None:
            raise RankerError(
                "backbone 'none' takes features, and this catalog has images; use --features, or the quick preset"
            )
        return np.asarray(catalog.features)
    if catalog.features is not None:
        raise RankerError(
            f"backbone '{config.backbone}' takes images, and this catalog has features; use the features preset"
        )
    if input_kind(config) == "activations":
        return _activations(catalog, config, cache, progress)
    if input_kind(config) == "features":
        from steelyard.ranker.features import extract

        return extract(
            catalog, backbone=config.backbone, image_size=config.image_size, cache=cache, progress=progress
        )
    if cache is not None:
        from steelyard.images.cache import cached_pixels

        return cached_pixels(cache, catalog, _pixel_size(config), progress=progress)
    from steelyard.images.decode import resize

    return np.stack([resize(catalog.read(row), _pixel_size(config)) for row in range(len(catalog))])


def picture_inputs(
    pictures: NDArray[np.uint8], config: RankerConfig, *, cache: Path | None = None
) -> NDArray[Any]:
    """The same for pictures that are in no catalog, shape (n, H, W, 3); activations and features go to the cache if there is one."""
    if input_kind(config) == "activations":
        return _activations(pictures, config, cache, None)
    if input_kind(config) == "pixels":
        from steelyard.images.decode import resize

        return np.stack([resize(picture, _pixel_size(config)) for picture in pictures])
    if config.backbone == "none":
        raise RankerError("this study compares feature rows; a picture has no place among them")
    from steelyard.ranker.features import extract

    return extract(pictures, backbone=config.backbone, image_size=config.image_size, cache=cache)


def coarse_rows(inputs: NDArray[Any]) -> NDArray[Any]:
    """Rows to measure distances in, shape (N, D): features, averages of activations, or a coarse picture of the pixels."""
    if inputs.ndim == 2:
        return inputs
    if inputs.dtype != np.uint8:
        return np.asarray(inputs.mean(axis=(1, 2)), dtype=np.float32)
    step = max(1, inputs.shape[1] // 8)
    return np.asarray(inputs[:, ::step, ::step].reshape(len(inputs), -1), dtype=np.float32)


def fit_ranker(
    inputs: NDArray[Any],
    pairs: ArrayLike,
    answers: ArrayLike,
    *,
    config: RankerConfig,
    seed: int,
    grades: ArrayLike | None = None,
    start: Path | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
    use: NDArray[np.int64] | None = None,
) -> Ranker:
    """Fit as configured.

    Args:
        inputs: from `ranker_inputs`.
        pairs: rows (i, j), shape (n, 2).
        answers: P1, shape (n,).
        config: the settings.
        seed: where all chance comes from.
        grades: absolute labels, shape (N,), NaN where unknown, for multi-task learning (P6).
        start: folder of a saved ranker whose weights a network starts from.
        folder: where a network writes a checkpoint after each epoch, and resumes.
        progress: told how far it is.
        use: rows that may be learnt from, ascending; pairs and grades are about those only. None means all.
    """
    if config.head == "convex" and input_kind(config) == "features":
        if use is not None:  # its reduction looks at every row, compared or not
            inputs, pairs = np.asarray(inputs)[use], np.searchsorted(use, np.asarray(pairs, dtype=np.int64))
            grades = None if grades is None else np.asarray(grades, dtype=float)[use]
        head = ConvexHead.fit(
            np.asarray(inputs), pairs, answers,
            components=config.components, whitening=config.whitening, kernel=config.kernel, ties=config.ties, grades=grades,
        )  # fmt: skip
        return ConvexRanker(config, head)

    from steelyard.ranker.network import build_network
    from steelyard.ranker.train import train

    # Weights to start from replace pretrained ones, so those need not be there.
    wanted = config if start is None else replace(config, weights="none")
    network = build_network(
        wanted, seed=seed, width=inputs.shape[1] if input_kind(config) == "features" else 0
    )
    if start is not None:
        weights = {k: v for k, v in checkpoint.load(start).weights.items() if not k.startswith("trained.")}
        checkpoint.fill(network, weights, source=str(start))
    marks = None if grades is None else np.where(np.isnan(np.asarray(grades, dtype=float)), -1, grades)
    result = train(
        network,
        inputs,
        pairs,
        answers,
        grades=marks,
        config=config,
        seed=seed,
        folder=folder,
        progress=progress,
    )
    best = result.history[result.best_epoch]
    metrics = {
        "epochs": len(result.history),
        "best_epoch": result.best_epoch,
        "validation_loss": _plain(best.validation_loss),
    }
    index, given = np.asarray(pairs, dtype=np.int64), np.asarray(answers, dtype=np.float64)
    return NetworkRanker(config, network, seed, metrics, index, given)


def load_ranker(folder: Path) -> Ranker:
    """What `Ranker.save` wrote.

    Raises:
        RankerError: nothing there, or damaged.
    """
    saved = checkpoint.load(folder)
    config = RankerConfig(**saved.extra["ranker"])
    if saved.extra["kind"] == "convex":
        return ConvexRanker(config, ConvexHead.from_arrays(dict(saved.weights)))
    from steelyard.ranker.network import build_network

    network = build_network(
        replace(config, weights="none"), seed=saved.extra["seed"], width=saved.extra["width"]
    )
    weights = dict(saved.weights)
    pairs, answers = weights.pop("trained.pairs"), weights.pop("trained.answers")
    checkpoint.fill(network, weights, source=str(folder))
    return NetworkRanker(
        config,
        network,
        saved.extra["seed"],
        saved.extra["metrics"],
        np.asarray(pairs, np.int64),
        np.asarray(answers, np.float64),
    )


@dataclass(frozen=True)
class ConvexRanker:
    """The convex head as a ranker."""

    config: RankerConfig
    head: ConvexHead

    @property
    def metrics(self) -> dict[str, Any]:
        """Figures of the fit."""
        return {
            "precision": self.head.precision,
            "log_evidence": self.head.log_evidence,
            "tau": self.head.tau,
        }

    def posterior(self, inputs: NDArray[Any], *, progress: Progress | None = None) -> Posterior:
        """Laplace posterior of the scores."""
        return self.head.posterior(np.asarray(inputs))

    def save(self, folder: Path) -> None:
        """Write weights, reduction and configuration."""
        extra = {"kind": "convex", "ranker": asdict(self.config), "metrics": self.metrics}
        _save(folder, self.head.to_arrays(), self.config, extra)


@dataclass(frozen=True)
class NetworkRanker:
    """A network with dropout as a ranker."""

    config: RankerConfig
    network: Network
    seed: int
    metrics: dict[str, Any]
    pairs: NDArray[np.int64]
    answers: NDArray[np.float64]

    def posterior(self, inputs: NDArray[Any], *, progress: Progress | None = None) -> Posterior:
        """By T draws, in closed form, or by Laplace's approximation of the last layer, as configured."""
        from steelyard.ranker.scoring import batches_of, draw_scores, last_layer, screened_draws

        batch = max(64, self.config.batch_size)
        if self.config.posterior in ("auto", "draws"):
            if self.config.screening < 1:
                found = screened_draws(
                    self.network, inputs, draws=self.config.draws, seed=self.seed, share=self.config.screening,
                )  # fmt: skip
                return Posterior.from_draws(found.scores_T_N.astype(np.float32))
            scores = draw_scores(
                self.network, batches_of(inputs, batch), draws=self.config.draws, seed=self.seed, size=len(inputs),
                progress=progress,
            )  # fmt: skip
            return Posterior.from_draws(scores.astype(np.float32))
        layer = last_layer(self.network, batches_of(inputs, batch))
        if self.config.posterior == "closed_form":
            return Posterior.closed_form(layer.features_N_D, layer.weights_D, layer.p, layer.bias)
        # λ of P3 is per mean pair; the likelihood of the Laplace posterior is a sum.
        precision = max(2 * self.config.weight_decay * len(self.pairs), 1e-6)
        return Posterior.laplace(
            layer.features_N_D, layer.weights_D, self.pairs, self.answers, precision=precision, bias=layer.bias,
            tau=self.network.tau.item() if self.network.tau is not None else 0.0,
        )  # fmt: skip

    def save(self, folder: Path) -> None:
        """Write weights and configuration; training checkpoints of the same folder are replaced."""
        from torch.nn import Linear

        weights = {name: value.detach().cpu().numpy() for name, value in self.network.state_dict().items()}
        weights |= {"trained.pairs": self.pairs, "trained.answers": self.answers}
        first = self.network.chain()[0]
        width = first.in_features if isinstance(first, Linear) else 0  # rows go straight into a linear layer
        extra = {
            "kind": "network", "ranker": asdict(self.config), "seed": self.seed, "metrics": self.metrics, "width": width,
        }  # fmt: skip
        _save(folder, weights, self.config, extra)


def _save(folder: Path, arrays: dict[str, Any], config: RankerConfig, extra: dict[str, Any]) -> None:
    from steelyard import __version__

    checkpoint.save(folder, arrays, config=config, fingerprint="", version=__version__, extra=extra)


def _activations(
    source: Catalog | NDArray[np.uint8], config: RankerConfig, cache: Path | None, progress: Progress | None
) -> NDArray[np.float32]:
    from steelyard.ranker.trunk import activations

    return activations(
        source, backbone=config.backbone, trained_stages=config.trained_stages, image_size=config.image_size,
        weights=config.weights, cache=cache, threads=config.threads, progress=progress,
    )  # fmt: skip


def _pixel_size(config: RankerConfig) -> int:
    return config.image_size or 224


def _plain(value: float) -> float | None:
    return None if value != value else float(value)
