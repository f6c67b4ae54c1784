"""From `[images]` of a study's configuration to its catalog."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from steelyard.config import ImagesConfig
from steelyard.errors import ConfigError
from steelyard.images.catalog import Catalog
from steelyard.progress import Progress

__all__ = ["read_catalog"]


def read_catalog(
    config: ImagesConfig,
    *,
    check: bool = True,
    known: Collection[str] = (),
    progress: Progress | None = None,
) -> Catalog:
    """Read the images as configured; every file is opened once, so that a bad one is known from the start.

    Args:
        config: where they are and how they lie.
        check: unpack every picture; False where somebody does so right afterwards.
        known: ids of images that were unpacked before.
        progress: told how far it is.

    Raises:
        ConfigError: a layout without what it needs.
        CatalogError: the folder is not as the layout says.
    """
    if config.layout == "features" or config.features:
        if not config.features:
            raise ConfigError("layout 'features' needs a matrix: --features NPY")
        return Catalog.from_features(config.features, config.labels or None, root=config.root or None)
    if not config.root:
        raise ConfigError(f"layout '{config.layout}' needs a folder: --images DIR")
    root = Path(config.root)
    looking: dict[str, Any] = {
        "check": check, "on_error": config.on_error, "max_megapixels": config.max_megapixels, "progress": progress,
        "known": known,
    }  # fmt: skip
    if config.layout == "csv":
        if not config.labels:
            raise ConfigError("layout 'csv' needs the file: --labels CSV")
        return Catalog.from_csv(config.labels, root, **looking)
    if config.labels:
        raise ConfigError(f"layout '{config.layout}' knows its own grades; use --labels with --layout csv")
    if config.layout == "medmnist":
        return Catalog.from_medmnist(root)
    readers = {
        "folder": Catalog.from_folder, "grades": Catalog.from_grades,
        "limuc": Catalog.from_limuc, "hyperkvasir": Catalog.from_hyperkvasir,
    }  # fmt: skip
    return readers[config.layout](root, **looking)
