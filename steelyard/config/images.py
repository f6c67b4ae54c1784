"""`[images]`: where the images are and how they are read."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from steelyard.config.section import Expect, Section

__all__ = ["ImagesConfig", "Layout"]

Layout = Literal["folder", "grades", "csv", "limuc", "hyperkvasir", "medmnist", "features"]


class ImagesConfig(Section):
    """Where the images are and how they are read.

    Attributes:
        root: folder or URL of the images (or the `.npz`), as given to `init`.
        layout: how the folder is read: `folder` (all images in it and below), `grades` (a subfolder for each grade), `csv` (with
            `labels`), the published sets `limuc`, `hyperkvasir` and `medmnist`, or `features` (rows without images).
        labels: CSV with `image`, `grade` and optionally `group`; empty for none.
        features: precomputed feature matrix instead of pixels; empty for none.
        on_error: what an unreadable file does: `skip` it with a report, or `fail`.
        max_megapixels: a larger picture is taken for a decompression bomb.
        cache_gb: gigabytes of images from URLs that are kept in the study's `cache` folder, those used last; 0 keeps none.
    """

    place: ClassVar[str] = "images"

    root: str = ""
    layout: Layout = "folder"
    labels: str = ""
    features: str = ""
    on_error: Literal["skip", "fail"] = "skip"
    max_megapixels: Annotated[float, Field(gt=0), Expect("above 0")] = 100.0
    cache_gb: Annotated[float, Field(ge=0), Expect("0 or more")] = 5.0
