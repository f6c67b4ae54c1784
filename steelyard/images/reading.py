"""From `[images]` of a study's configuration to its catalog."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from steelyard.config import ImagesConfig
from steelyard.errors import ConfigError
from steelyard.images.catalog import Catalog
from steelyard.images.originals import Originals
from steelyard.images.remote import as_place
from steelyard.progress import Progress

__all__ = ["originals_in", "read_catalog"]


def originals_in(cache: Path, config: ImagesConfig) -> Originals:
    """Where a study with this folder of caches keeps files that lie elsewhere."""
    return Originals(cache / "originals", int(config.cache_gb * 1e9))


def read_catalog(
    config: ImagesConfig,
    *,
    check: bool = True,
    known: Collection[str] = (),
    only: Collection[str] | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Catalog:
    """Read the images as configured; every file is opened once, so that a bad one is known from the start.

    Args:
        config: where they are and how they lie.
        check: unpack every picture; False where somebody does so right afterwards.
        known: ids of images that were unpacked before.
        only: of all that is found, these paths alone.
        cache: folder of caches, where files that lie elsewhere are kept for a while; None keeps none.
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
        raise ConfigError(f"layout '{config.layout}' needs a folder or URL: --images DIR")
    root = as_place(config.root)
    looking: dict[str, Any] = {
        "check": check, "on_error": config.on_error, "max_megapixels": config.max_megapixels, "progress": progress,
        "known": known, "only": only, "originals": cache and originals_in(cache, config),
    }  # fmt: skip
    if config.layout == "csv":
        if not config.labels:
            raise ConfigError("layout 'csv' needs the file: --labels CSV")
        return Catalog.from_csv(config.labels, root, **looking)
    if config.labels:
        raise ConfigError(f"layout '{config.layout}' knows its own grades; use --labels with --layout csv")
    if config.layout == "medmnist":
        if isinstance(root, str):
            raise ConfigError(
                f"a MedMNIST file is read from this machine, not from {root}; download it first"
            )
        return Catalog.from_medmnist(root)
    readers = {
        "folder": Catalog.from_folder, "grades": Catalog.from_grades,
        "limuc": Catalog.from_limuc, "hyperkvasir": Catalog.from_hyperkvasir,
    }  # fmt: skip
    return readers[config.layout](root, **looking)
