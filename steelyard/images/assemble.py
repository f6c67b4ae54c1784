"""Files and their labels → a catalog in which no two images have the same bytes.

What all layouts share: files are hashed in threads, bad ones go into the report, of several files with the same bytes
the first stays.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import CatalogError, ImageError
from steelyard.images.columns import category_column, number_column, text_column
from steelyard.images.files import look_at_all
from steelyard.images.labels import grade_codes, ordered_by_name
from steelyard.images.remote import is_url, join
from steelyard.images.report import CatalogReport, Duplicate, Noticed, SameName
from steelyard.images.search import Search

if TYPE_CHECKING:
    from steelyard.images.catalog import Catalog
    from steelyard.images.files import Looking

__all__ = ["NoImagesError", "build", "from_files"]


class NoImagesError(CatalogError):
    """Not one image was found.

    Attributes:
        bad: files that could have been some, and why they are none.
    """

    def __init__(self, message: str, bad: Sequence[Noticed] = ()) -> None:
        super().__init__(message)
        self.bad = tuple(bad)


def from_files(
    root: Path | str,
    search: Search,
    *,
    options: Looking,
    grades: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    where: str = "grades",
    same_names: bool = False,
    notes: Sequence[str] = (),
) -> Catalog:
    """Look at the files found, and put those that are images into a catalog; those at a URL under their whole address."""
    if options.get("on_error") == "fail" and search.bad:
        raise ImageError(search.bad[0].path, search.bad[0].reason)
    said = list(notes)
    order: tuple[str, ...] = ()
    codes: list[int] | None = None
    if grades is not None:
        codes, order = grade_codes(grades, names, where=where)
        if names is None and ordered_by_name(order):
            said.append(f"grades ordered by name: {' < '.join(order)}; give grade_names for another order")
    columns: dict[str, list[Any]] = defaultdict(list)
    mislabelled: list[Noticed] = []
    groups = search.groups if groups is None else groups
    looking = {key: value for key, value in options.items() if key != "only"}
    only = options.get("only")
    chosen = [at for at, path in enumerate(search.paths) if only is None or path in only]
    looked = look_at_all(root, [search.paths[at] for at in chosen], **looking)  # type: ignore[arg-type]
    for position, found in zip(chosen, looked, strict=True):
        if isinstance(found, ImageError):
            search.bad.append(Noticed(found.path, found.reason))
            continue
        if found.odd:
            mislabelled.append(Noticed(found.path, found.odd))
        for frame, id in enumerate(found.ids, 1):
            several = len(found.ids) > 1
            columns["id"].append(id)
            path = join(root, found.path) if isinstance(root, str) and not is_url(found.path) else found.path
            columns["path"].append(f"{path}#{frame}" if several else path)
            columns["frame"].append(frame if several else 0)
            if codes is not None:
                columns["grade"].append(codes[position])
            if groups is not None:
                columns["group"].append(groups[position])
    if not columns["id"]:
        why = (
            f"; {len(search.bad)} files are not readable images, the first: {search.bad[0]}"
            if search.bad
            else _other_files(search.passed_over)
        )
        raise NoImagesError(f"there are no images in {root}{why}", search.bad)
    if not any(columns["frame"]):
        del columns["frame"]
    report = CatalogReport(
        bad=tuple(search.bad),
        same_names=_same_names(columns["path"]) if same_names else (),
        mislabelled=tuple(mislabelled),
        passed_over=tuple(sorted(search.passed_over.items())),
        notes=tuple(said),
    )
    return build(
        columns,
        kind="files",
        root=root.absolute() if isinstance(root, Path) else None,
        grade_names=order,
        report=report,
        max_megapixels=options.get("max_megapixels", 100.0),
        originals=options.get("originals"),
    )


def build(
    columns: dict[str, Any], *, grade_names: Sequence[str], report: CatalogReport | None = None, **rest: Any
) -> Catalog:
    """Columns of equal length → a catalog in which no two images have the same bytes."""
    import pyarrow as pa

    from steelyard.images.catalog import Catalog  # a catalog inherits its layouts, which come here

    report = report or CatalogReport()
    grades = columns.get("grade")
    if grades is not None and not any(code >= 0 for code in grades):
        del columns["grade"]
        grade_names = ()
    notes = list(report.notes)
    if "group" in columns and (alone := sum(not group for group in columns["group"])):
        # Together they would be one huge patient; apart, each can go into any fold.
        notes.append(f"{alone} images without a group: each stands alone, its group is its own id")
        columns["group"] = [g or id for g, id in zip(columns["group"], columns["id"], strict=True)]
    make: dict[str, Callable[[Any], Any]] = {
        "id": text_column,
        "path": text_column,
        "group": category_column,
        "split": category_column,
        "grade": number_column,
        "frame": number_column,
        "row": number_column,
    }
    table = pa.table({name: column(columns[name]) for name, column in make.items() if name in columns})
    first = np.sort(np.unique(np.asarray(columns["id"], dtype="S32"), return_index=True)[1])
    duplicates: tuple[Duplicate, ...] = ()
    if len(first) < len(table):
        duplicates = _duplicates(columns, first, grade_names)
        table = table.take(number_column(first))
    report = CatalogReport(
        report.bad, duplicates, report.same_names, report.mislabelled, report.passed_over, tuple(notes)
    )
    return Catalog(table, grade_names=grade_names, report=report, **rest)


def _duplicates(
    columns: dict[str, Any], first: NDArray[np.int64], names: Sequence[str]
) -> tuple[Duplicate, ...]:
    kept = {columns["id"][row]: row for row in first.tolist()}
    found = []
    for row, id in enumerate(columns["id"]):
        if (stays := kept[id]) == row:
            continue
        conflicts = []
        if "grade" in columns and columns["grade"][row] != columns["grade"][stays]:
            here, there = (
                names[c] if c >= 0 else "unknown" for c in (columns["grade"][row], columns["grade"][stays])
            )
            conflicts.append(f"grade {here} instead of {there}")
        if "group" in columns and columns["group"][row] != columns["group"][stays]:
            conflicts.append(f"group {columns['group'][row]} instead of {columns['group'][stays]}")
        found.append(Duplicate(columns["path"][row], columns["path"][stays], ", ".join(conflicts)))
    return tuple(found)


def _same_names(paths: Sequence[str]) -> tuple[SameName, ...]:
    names = [PurePosixPath(path).name for path in paths]
    often = {name for name, count in Counter(names).items() if count > 1}
    places: dict[str, list[str]] = defaultdict(list)
    for name, path in zip(names, paths, strict=True):
        if name in often:
            places[name].append(path)
    return tuple(SameName(name, tuple(where)) for name, where in sorted(places.items()))


def _other_files(passed_over: Counter[str]) -> str:
    """What a folder without images holds instead."""
    if not passed_over:
        return ": it is empty, or everything in it is hidden; name the folder that holds them"
    kinds = ", ".join(
        f"{count} {suffix or 'without an ending'}" for suffix, count in passed_over.most_common(5)
    )
    return f", but other files ({kinds}); images are JPEG, PNG, TIFF, BMP, WebP or DICOM files"
