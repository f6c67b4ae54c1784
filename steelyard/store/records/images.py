"""Records of images."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Excluded", "Image", "NewImage"]


@dataclass(frozen=True, slots=True)
class NewImage:
    """An image to register.

    Attributes:
        row: its row in the catalog, 0 … N−1; never changes.
        id: hash of its bytes.
        path: where it lies, relative to the image folder.
        group: the patient, or None.
        grade: ordinal code, or None where it is not known.
        width: in pixels, or None.
        height: in pixels, or None.
    """

    row: int
    id: str
    path: str = ""
    group: str | None = None
    grade: int | None = None
    width: int | None = None
    height: int | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """A registered image; `excluded_at` is None unless somebody took it out of the study."""

    row: int
    id: str
    path: str
    group: str | None
    grade: int | None
    width: int | None
    height: int | None
    excluded_at: float | None = None
    excluded_by: str | None = None
    excluded_reason: str | None = None

    @property
    def excluded(self) -> bool:
        """Whether the image was taken out of the study."""
        return self.excluded_at is not None


@dataclass(frozen=True, slots=True)
class Excluded:
    """An image that somebody took out elsewhere; `at` is None where it is not known when."""

    image: str
    at: float | None
    by: str
    reason: str = ""
