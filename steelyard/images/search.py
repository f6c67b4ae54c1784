"""Which of many files are images, by the same rules wherever they lie: in a folder, in a bucket, behind a web server."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TypeAlias

from steelyard.images.formats import is_image_name
from steelyard.images.report import Noticed

__all__ = ["Search", "Signature", "is_hidden_folder"]

Signature: TypeAlias = tuple[object, ...]
"""What a look at a file tells without reading it (size, times, a server's tag); empty where nothing is told."""


@dataclass
class Search:
    """What lies below a folder or a URL.

    Attributes:
        paths: image files, relative to it, with forward slashes, sorted.
        passed_over: number of other files by suffix.
        bad: files that cannot even be named.
        groups: the group of each path, where the source knows it (a DICOM server knows the patient).
        signatures: of each path, as far as listing told; empty for folders.
    """

    paths: list[str] = field(default_factory=list)
    passed_over: Counter[str] = field(default_factory=Counter)
    bad: list[Noticed] = field(default_factory=list)
    groups: list[str] | None = None
    signatures: dict[str, Signature] = field(default_factory=dict)

    def take(self, path: str, starts_like_an_image: Callable[[], bool]) -> bool:
        """Note one file; whether it is taken for an image.

        By its suffix; one without a suffix if it starts like one (DICOM often has none). Hidden files are left out.
        """
        name = PurePosixPath(path).name
        if name.startswith(".") or name == "DICOMDIR":
            return False
        if not is_image_name(name) and ("." in name or not starts_like_an_image()):
            self.passed_over[PurePosixPath(name).suffix.lower()] += 1
            return False
        try:
            path.encode("utf-8")
        except UnicodeEncodeError:
            shown = os.fsencode(path).decode("utf-8", "replace")
            self.bad.append(Noticed(shown, "has a name that is not valid UTF-8: rename it"))
            return False
        self.paths.append(path)
        return True


def is_hidden_folder(name: str) -> bool:
    """Whether nobody looks into a folder of this name."""
    return name.startswith(".") or name == "__MACOSX"
