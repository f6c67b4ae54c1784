"""Images that join a catalog later: which are new, and what they are called there. Rows that are there never change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.config.grades import GradeList
from steelyard.errors import CatalogError, did_you_mean
from steelyard.images.assemble import build
from steelyard.images.decode import OnError
from steelyard.images.labels import order_grades, ordered_by_name
from steelyard.images.remote import is_url, place_of
from steelyard.images.report import CatalogReport, Duplicate, Noticed

if TYPE_CHECKING:
    from steelyard.images.catalog import Catalog

__all__ = [
    "Joining",
    "Newcomer",
    "described_as",
    "find_newcomers",
    "is_extension",
    "with_newcomers",
    "with_report",
]


@dataclass(frozen=True)
class Newcomer:
    """An image that joins.

    Attributes:
        id: hash of its bytes.
        path: below the catalog's root, or absolute or a URL where it lies elsewhere.
        group: the patient, or None.
        grade: ordinal code in the catalog's grades, or None.
    """

    id: str
    path: str
    group: str | None = None
    grade: int | None = None


@dataclass(frozen=True)
class Joining:
    """What a catalog of new images means for one that is there.

    Attributes:
        images: those that are new, in their order.
        known: how many files are images that were there already.
        grade_names: of the catalog, perhaps with others behind them.
        report: what was left out or noticed.
    """

    images: list[Newcomer] = field(default_factory=list)
    known: int = 0
    grade_names: tuple[str, ...] = ()
    report: CatalogReport = field(default_factory=CatalogReport)


def find_newcomers(
    catalog: Catalog, new: Catalog, grade_names: Sequence[str] = (), *, on_error: OnError = "fail"
) -> Joining:
    """Which images of another catalog are new to this one.

    Content decides: the same bytes under another name are reported, not added.

    Args:
        catalog: what is there.
        new: what was found.
        grade_names: names of the grades where the catalog itself has none.
        on_error: with `skip`, an image whose grade has no place among those that are there is reported and keeps nobody else out.

    Raises:
        CatalogError: one of the two is not a catalog of files; with `fail`, a grade has no place among those that are there.
    """
    for one in (catalog, new):
        if one.kind != "files":
            raise CatalogError(
                f"images can join where each is a file of its own, not {one.kind}; make another study with: steelyard init"
            )
    names = catalog.grade_names or tuple(grade_names)
    misfits = _misfits(names, new.grade_names)
    here, there = (f"{one.root.resolve().as_posix()}/" if one.root else "" for one in (catalog, new))
    paths = catalog.paths.tolist()
    row_of = {path: row for row, path in enumerate(paths)}
    row_of_id = {id: row for row, id in enumerate(catalog.ids)}
    groups = None if new.groups is None else new.groups.tolist()
    joining: list[tuple[Newcomer, str]] = []
    bad, twice, known = list(new.report.bad), [], 0
    for row, (id, path) in enumerate(zip(new.ids, new.paths, strict=True)):
        called = path if is_url(path) else f"{there}{path}".removeprefix(here)
        group = None if groups is None or groups[row] == id else groups[row]
        code = -1 if new.grades is None else int(new.grades[row])
        grade = new.grade_names[code] if code >= 0 else ""
        if (stays := row_of_id.get(id)) is not None:
            known += 1
            conflict = _conflict(catalog, stays, group, grade, names)
            if conflict or called != paths[stays]:
                twice.append(Duplicate(called, paths[stays], conflict))
        elif called in row_of:
            reason = "has other bytes than when it joined; give the new image a name of its own"
            bad.append(Noticed(called, reason))
        elif grade in misfits:
            if on_error == "fail":
                raise CatalogError(f"{called}: grade '{grade}' is {misfits[grade]}")
            bad.append(Noticed(called, f"has the grade '{grade}', {misfits[grade]}"))
        else:
            joining.append((Newcomer(id, called, group), grade))
    # Only grades that somebody joins with: others may be those of files that wait.
    more = sorted({grade for _, grade in joining if grade and GradeList(names).find(grade) is None})
    notes = new.report.notes
    if more and names:
        notes += (f"new grades, worse than {names[-1]}: {', '.join(order_grades(more))}",)
    names = order_grades([*names, *more]) if names and more else names or new.grade_names
    find = GradeList(names).find
    report = replace(new.report, bad=tuple(bad), duplicates=(*new.report.duplicates, *twice), notes=notes)
    images = [replace(image, grade=find(grade) if grade else None) for image, grade in joining]
    return Joining(images, known, names, report)


def with_newcomers(catalog: Catalog, images: Iterable[Newcomer]) -> Catalog:
    """The same catalog with more rows at its end."""
    new = list(images)
    if not new:
        return catalog
    ids = catalog.ids.tolist()
    frames = catalog._numbers("frame").tolist() if catalog._has("frame") else [0] * len(ids)
    columns: dict[str, Any] = {
        "id": ids + [image.id for image in new],
        "path": catalog.paths.tolist() + [image.path for image in new],
        "frame": frames + [_frame(catalog.root, image.path) for image in new],
    }
    if catalog.groups is not None or any(image.group for image in new):
        # Whoever has no group stands alone, as in a catalog that is made at once.
        before = ids if catalog.groups is None else catalog.groups.tolist()
        columns["group"] = before + [image.group or image.id for image in new]
    if catalog.grades is not None or any(image.grade is not None for image in new):
        known = [-1] * len(ids) if catalog.grades is None else catalog.grades.tolist()
        columns["grade"] = known + [-1 if image.grade is None else image.grade for image in new]
    if not any(columns["frame"]):
        del columns["frame"]
    return build(
        columns, kind="files", root=catalog.root, grade_names=catalog.grade_names, report=catalog.report,
        max_megapixels=catalog.max_megapixels, originals=catalog.originals,
    )  # fmt: skip


def described_as(catalog: Catalog, **changes: Any) -> Catalog:
    """The same rows with other `grade_names` or another `report`."""
    return catalog._with(catalog._table, **changes)


def with_report(report: CatalogReport, more: CatalogReport) -> CatalogReport:
    """What two reports say together, each thing once."""
    both = {
        name: tuple(dict.fromkeys((*getattr(report, name), *getattr(more, name))))
        for name in ("bad", "duplicates", "same_names", "mislabelled", "notes")
    }
    return replace(report, **both)


def _misfits(there: tuple[str, ...], new: Iterable[str]) -> dict[str, str]:
    """New grades that have no place behind those that are there, which keep their codes; and why."""
    if not there:
        return {}
    unknown = (name for name in new if GradeList(there).find(name) is None)
    return {
        name: f"none of the study's grades {', '.join(there)}{did_you_mean(name, there)}; give the image one of them – "
        "only a grade with a number beyond all of theirs can be added"
        for name in unknown
        if not _is_worse(name, there)
    }


def _is_worse(name: str, there: tuple[str, ...]) -> bool:
    """Whether a grade says by a number that it stands behind all others: 3 behind 0, 1, 2, or T3 behind T1, T2.

    A word does not: `unsure` comes behind `severe` in the alphabet only.

    >>> [_is_worse(*case) for case in (("3", ("1", "2")), ("T10", ("T8", "T9")), ("unsure", ("mild", "severe")))]
    [True, True, False]
    """
    order = order_grades([*there, name])
    shapes = {re.sub(r"\d+", "0", one.casefold()) for one in order}
    return order == (*there, name) and (not ordered_by_name(order) or len(shapes) == 1)


def _conflict(catalog: Catalog, row: int, group: str | None, grade: str, names: Sequence[str]) -> str:
    """How what is said about an image now differs from what its row says; only what is said counts."""
    said = []
    before = -1 if catalog.grades is None else int(catalog.grades[row])
    code = GradeList(tuple(names)).find(grade) if grade else before
    if code != before:
        now = grade if code is None else names[code]
        said.append(f"grade {now} instead of {names[before] if before >= 0 else 'unknown'}")
    if group is not None:
        its = None if catalog.groups is None else catalog.groups[row]
        if its != group:
            alone = its is None or its == catalog.ids[row]
            said.append(f"group {group} instead of {'none' if alone else its}")
    return ", ".join(said)


def _frame(root: Path | None, path: str) -> int:
    """The frame that a path like `scan.dcm#3` names; a file may be called so as well, and then it is the file."""
    named = re.fullmatch(r".+#(\d+)", path)
    if named is None:
        return 0
    place = place_of(root, path)
    if isinstance(place, Path) and place.exists():
        return 0
    return int(named[1])


def is_extension(longer: Catalog, catalog: Catalog) -> bool:
    """Whether a catalog begins with the very rows of another."""
    n = len(catalog)
    return len(longer) >= n and bool(np.array_equal(longer._keys[:n], catalog._keys))
