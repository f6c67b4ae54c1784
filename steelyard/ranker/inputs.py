"""What a ranker sees of images: pixels, what the frozen stages make of them, or features.

The one place that turns a catalog or pictures into a ranker's inputs, so that backbone, size, weights, device and threads
mean the same for a study's images, for a folder that is scored and for a picture that somebody uploads.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from steelyard.config import RankerConfig
from steelyard.errors import RankerError
from steelyard.progress import Progress
from steelyard.ranker.extraction import is_catalog

if TYPE_CHECKING:
    from steelyard.images.catalog import Catalog

__all__ = ["check_inputs", "coarse_rows", "inputs_so_far", "kept_inputs", "missing_inputs", "read_inputs"]

Pictures = NDArray[np.uint8] | Sequence[NDArray[np.uint8]]


def read_inputs(
    source: Catalog | Pictures,
    config: RankerConfig,
    *,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> NDArray[Any]:
    """What the ranker sees of a catalog or of pictures, computed once and cached.

    Args:
        source: a catalog, or pictures: uint8 of the shape (n, H, W, 3), or a sequence of (H, W, 3).
        config: `backbone`, `trained_stages`, `image_size`, `recipe`, `weights`, `device` and `threads` are used.
        cache: folder that keeps what was computed, by content and settings; None computes it anew.
        progress: told how many images are done.

    Returns:
        Features (N, D), activations (N, H, W, C), or pixels (N, H, W, 3) as uint8.

    Raises:
        RankerError: features are needed and there are images, or the other way round; or a backbone with too few stages.
        ImageError: an image of the catalog that cannot be read.
    """
    catalog = cast("Catalog", source) if is_catalog(source) else None
    if config.backbone == "none":
        if catalog is None:
            raise RankerError("this study compares feature rows; a picture has no place among them")
        if catalog.features is None:
            raise RankerError(
                "backbone 'none' takes features, and this catalog has images; use --features, or the quick preset"
            )
        return catalog.features
    if catalog is not None and catalog.features is not None:
        raise RankerError(
            f"backbone '{config.backbone}' takes images, and this catalog has features; use the features preset"
        )
    if config.inputs == "pixels":
        return _pixels(source, config.image_size or 224, cache, progress)
    settings: dict[str, Any] = {
        "backbone": config.backbone, "image_size": config.image_size, "weights": config.weights, "device": config.device,
        "threads": config.threads, "cache": cache, "progress": progress,
    }  # fmt: skip
    if config.kind == "network" and config.trained_stages:
        from steelyard.ranker.trunk import activations

        return activations(source, trained_stages=config.trained_stages, **settings)
    from steelyard.ranker.features import extract

    return extract(source, recipe=config.recipe, **settings)


def kept_inputs(catalog: Catalog, config: RankerConfig, cache: Path) -> NDArray[Any] | None:
    """What `read_inputs` gives, if it has nothing to compute; None otherwise. Loads neither torch nor a picture."""
    from steelyard.images.cache import kept_rows

    if catalog.features is not None or config.backbone == "none":
        return catalog.features
    settings = _settings(config)
    return None if settings is None else kept_rows(cache, catalog.ids, settings)


def inputs_so_far(
    catalog: Catalog, config: RankerConfig, cache: Path, most: int
) -> tuple[NDArray[Any], NDArray[np.int64]] | None:
    """What `read_inputs` has computed of `most` images at most, and of which; zeros elsewhere. None where that is nothing, or not
    known. Loads neither torch nor a picture."""
    from steelyard.images.so_far import rows_so_far

    settings = _settings(config)
    return None if settings is None else rows_so_far(cache, catalog.ids, settings, most)


def missing_inputs(catalog: Catalog, config: RankerConfig, cache: Path) -> NDArray[np.int64]:
    """Rows of the catalog that `read_inputs` would have to compute; all where that is not known without a network."""
    from steelyard.images.so_far import missing_rows

    if config.backbone == "none":
        return np.empty(0, dtype=np.int64)
    settings = _settings(config)
    return np.arange(len(catalog)) if settings is None else missing_rows(cache, catalog.ids, settings)


def _settings(config: RankerConfig) -> dict[str, Any] | None:
    """What the rows of images depend on besides the images, as the cache knows it."""
    from steelyard.images.cache import pixel_settings

    if config.inputs == "pixels":
        return pixel_settings(config.image_size or 224)
    if config.inputs == "activations":
        return None  # how many layers are frozen is known to the network alone
    from steelyard.ranker.features import feature_settings

    return feature_settings(config.backbone, config.image_size, config.weights, recipe=config.recipe)


def check_inputs(inputs: NDArray[Any], config: RankerConfig) -> None:
    """Make sure that inputs are what the ranker takes.

    Raises:
        RankerError: they are of another kind.
    """
    pixels = inputs.dtype == np.uint8
    wanted, fits = {
        "features": ("feature rows (N, D)", inputs.ndim == 2),
        "activations": ("activations (N, H, W, C) as floats", inputs.ndim == 4 and not pixels),
        "pixels": ("pixels (N, H, W, 3) as uint8", inputs.ndim == 4 and pixels),
    }[config.inputs]
    if not fits:
        stages = " and trained stages" if config.inputs == "activations" else ""
        raise RankerError(
            f"a ranker with backbone '{config.backbone}'{stages} takes {wanted}, not {inputs.dtype} of {inputs.shape}; make them with "
            "read_inputs, or set the backbone to 'none' for feature rows"
        )


def coarse_rows(inputs: NDArray[Any]) -> NDArray[Any]:
    """Rows to measure distances in, shape (N, D): features, averages of activations, or a coarse picture of the pixels."""
    if inputs.ndim == 2:
        return inputs
    if inputs.dtype != np.uint8:
        return np.asarray(inputs.mean(axis=(1, 2)), dtype=np.float32)
    step = max(1, inputs.shape[1] // 8)
    return np.asarray(inputs[:, ::step, ::step].reshape(len(inputs), -1), dtype=np.float32)


def _pixels(source: Any, side: int, cache: Path | None, progress: Progress | None) -> NDArray[np.uint8]:
    from steelyard.images.decode import resize

    if not is_catalog(source):
        return np.stack([resize(picture, side) for picture in source])
    if cache is not None:
        from steelyard.images.cache import cached_pixels

        return cached_pixels(cache, source, side, progress=progress)
    return np.stack([resize(source.read(row), side) for row in range(len(source))])
