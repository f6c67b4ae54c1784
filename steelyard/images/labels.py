"""The labels CSV – columns `image`, `grade`, `group` – and the order of grades."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard.config.grades import GradeList
from steelyard.errors import CatalogError, did_you_mean

__all__ = ["Labels", "grade_codes", "order_grades", "read_labels", "without_comments"]

_COLUMNS = ("image", "grade", "group")
_GROUPS = (
    "patient",
    "patient_id",
    "subject",
    "subject_id",
    "participant",
    "participant_id",
    "case",
    "case_id",
)
"""What else tables call the group."""


@dataclass(frozen=True)
class Labels:
    """The rows of a labels CSV.

    Attributes:
        images: what each row is about.
        grades: as written, empty where none; None without such a column or without a single grade.
        groups: as written, empty where none; None without such a column or without a single group.
        lines: the line of the file on which each row ends.
        notes: how its columns were understood, where somebody may want to know.
    """

    images: list[str]
    grades: list[str] | None
    groups: list[str] | None
    lines: list[int]
    notes: tuple[str, ...] = ()


def read_labels(path: str | Path) -> Labels:
    """Read a labels CSV (comma, semicolon or tab; UTF-8).

    Columns are found by their heading, whatever its case; `patient` and the like are the group. Columns that are not used
    are named in `notes`; empty lines, and lines that begin with # before the heading, are passed over.

    Raises:
        CatalogError: names the file, the row and the column that are wrong.
    """
    place = Path(path)
    try:
        text = place.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise CatalogError(f"there is no labels file {place}") from None
    except UnicodeDecodeError as error:
        raise CatalogError(f"{place} is not UTF-8 text (byte {error.start}): save it as CSV UTF-8") from error
    except OSError as error:
        raise CatalogError(f"cannot read the labels {place}: {error.strerror}") from error
    return parse_labels(text, str(place))


def parse_labels(text: str, name: str = "labels") -> Labels:
    """Read the text of a labels CSV; see `read_labels`."""
    text, skipped = without_comments(text)
    # strict: an open quote is an error instead of swallowing the rest of the file
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    rows: list[tuple[int, list[str]]] = []
    try:
        rows = [(reader.line_num + skipped, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise CatalogError(f"{name}, line {reader.line_num + skipped}: not a CSV row ({error})") from error
    if not rows:
        raise CatalogError(f"{name} is empty: the first row names the columns image, grade, group")
    _, heading = rows[0]
    place, notes = _find_columns([cell.strip().lower() for cell in heading], name)
    columns: dict[str, list[str]] = {column: [] for column in place}
    for line, row in rows[1:]:
        if len(row) != len(heading):
            raise CatalogError(f"{name}, line {line}: {len(row)} cells, but {len(heading)} columns ({row!r})")
        for column, at in place.items():
            columns[column].append(row[at].strip())
        if not columns["image"][-1]:
            raise CatalogError(f"{name}, line {line}, column image: empty")
    lines = [line for line, _ in rows[1:]]
    if not lines:
        raise CatalogError(f"{name} has a heading but no rows")
    seen: dict[str, int] = {}
    for image, line in zip(columns["image"], lines, strict=True):
        if seen.setdefault(image, line) != line:
            raise CatalogError(
                f"{name}, line {line}, column image: '{image}' was on line {seen[image]}; each image has one row"
            )
    grades, groups = columns.get("grade"), columns.get("group")
    return Labels(
        images=columns["image"],
        grades=grades if grades and any(grades) else None,
        groups=groups if groups and any(groups) else None,
        lines=lines,
        notes=notes,
    )


def without_comments(text: str) -> tuple[str, int]:
    """A table without the lines before its heading that begin with #, and how many they were.

    A spreadsheet may have put them in quotes.

    >>> without_comments("# how to fill this in\\n\\nimage,grade\\n#1.png,2\\n")
    ('image,grade\\n#1.png,2\\n', 2)
    """
    lines = text.splitlines(keepends=True)
    skipped = 0
    for number, line in enumerate(lines, 1):
        if line.lstrip(' "').startswith("#"):
            skipped = number
        elif line.strip():
            break
    if skipped:  # and the empty lines below them
        skipped += next((n for n, line in enumerate(lines[skipped:]) if line.strip()), 0)
    return "".join(lines[skipped:]), skipped


def order_grades(labels: Iterable[str]) -> tuple[str, ...]:
    """Grades in order: by value when all are numbers (or ranges such as 1-2, by their middle), else naturally.

    >>> order_grades(["10", "9", "2"]), order_grades(["2", "1-2", "0-1", "1"]), order_grades(["T10", "T9"])
    (('2', '9', '10'), ('0-1', '1', '1-2', '2'), ('T9', 'T10'))
    """
    names = sorted({label for label in labels if label})
    values = {name: _value(name) for name in names}
    if all(value is not None for value in values.values()):
        return tuple(sorted(names, key=lambda name: (values[name] or 0.0, name)))
    return tuple(sorted(names, key=_natural))


def grade_codes(
    labels: Sequence[str], names: Sequence[str] | None = None, *, where: str = "grades"
) -> tuple[list[int], tuple[str, ...]]:
    """Grades as written → codes and names; an empty one is −1. "2.0" is the grade "2".

    Where `names` are given, a grade may be written by its name or as “name: definition”.

    Args:
        labels: as written.
        names: all grades in order, from the mildest; None orders those that occur.
        where: what an error calls the place.

    Raises:
        CatalogError: a label is not among `names`, or a name occurs twice.
    """
    tidy = [_tidy(label) for label in labels]
    if names is None:
        order = order_grades(tidy)
    else:
        order = tuple(_tidy(name) for name in names)
        if len(set(order)) != len(order):
            raise CatalogError(f"grade names are given once each, not {list(names)}")
    code = {name: number for number, name in enumerate(order)} | {"": -1}
    for position, label in enumerate(tidy):
        # A table of an older version has name and definition in one cell.
        if label not in code and (found := GradeList(order).find(label)) is not None:
            code[label] = found
        if label not in code:
            raise CatalogError(
                f"{where}, row {position + 1}: grade '{label}' is none of {', '.join(order)}{did_you_mean(label, order)}"
            )
    return [code[label] for label in tidy], order


def ordered_by_name(names: Sequence[str]) -> bool:
    """Whether the order of these grades is only that of their names, so that somebody should look at it."""
    return len(names) > 1 and any(_value(name) is None for name in names)


def _delimiter(text: str) -> str:
    heading = next((line for line in text.splitlines() if line.strip()), "")
    return max(",;\t", key=heading.count)


def _find_columns(heading: list[str], name: str) -> tuple[dict[str, int], tuple[str, ...]]:
    place: dict[str, int] = {}
    notes = []
    for column in _COLUMNS:
        if heading.count(column) > 1:
            raise CatalogError(f"{name}: two columns are named '{column}'")
        if column in heading:
            place[column] = heading.index(column)
    if "image" not in place:
        raise CatalogError(
            f"{name} has no column 'image' (it has: {', '.join(heading)}); rename the one with the file names"
        )
    if "group" not in place:
        patients = [cell for cell in heading if re.sub(r"[\s-]+", "_", cell) in _GROUPS]
        if len(patients) > 1:
            raise CatalogError(
                f"{name}: {' and '.join(map(repr, patients))} could each be the group; rename one of them 'group'"
            )
        if patients:
            place["group"] = heading.index(patients[0])
            notes.append(f"the column '{patients[0]}' is taken for the group")
    unused = [cell for at, cell in enumerate(heading) if cell and at not in place.values()]
    if unused:
        notes.append(f"columns that are not used: {', '.join(unused)} (used are image, grade and group)")
    return place, tuple(notes)


def _tidy(label: str) -> str:
    label = label.strip()
    return label[:-2] if re.fullmatch(r"-?\d+\.0", label) else label


def _value(name: str) -> float | None:
    if span := re.fullmatch(r"(\d+(?:\.\d+)?)\s*[-–]\s*(\d+(?:\.\d+)?)", name):
        return (float(span[1]) + float(span[2])) / 2
    return float(name) if re.fullmatch(r"[-+]?\d+(\.\d+)?", name) else None


def _natural(name: str) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", name.casefold())
    return [
        (0, int(part), "") if part.isdecimal() and part.isascii() else (1, 0, part) for part in parts if part
    ]
