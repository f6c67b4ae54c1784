"""Pairs with known answers in and out: a table with left, right, answer and what each is for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard.errors import StudyError
from steelyard.exchange import cells
from steelyard.exchange.importing import ImageFinder
from steelyard.exchange.reading import csv_rows
from steelyard.store.records import NewKnown

if TYPE_CHECKING:
    import pandas as pd

    from steelyard.study import Study

__all__ = ["known_pair", "known_rows", "known_table", "read_known", "take_over_known"]

_SHOWN = 5  # problems that are spelled out
_KINDS = {"": "gold", "gold": "gold", "warm-up": "warm-up", "warmup": "warm-up", "warm up": "warm-up"}


def read_known(study: Study, path: Path) -> list[NewKnown]:
    """Every pair of a CSV, understood and checked.

    Raises:
        StudyError: it cannot be read, or rows of it cannot be understood; names the first few.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StudyError(f"{path} cannot be read: {error.strerror or error}") from None
    finder, found, problems = ImageFinder(study), list[NewKnown](), list[str]()
    try:
        for where, row in csv_rows(content, ("left", "right", "answer"), "pair"):
            try:
                found.append(known_pair(finder, row))
            except StudyError as error:
                problems.append(f"{where}: {error}")
    except StudyError as error:
        raise StudyError(f"{path.name}: {error}; nothing was added") from None
    if problems:
        more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise StudyError(f"{path.name}, {'; '.join(problems[:_SHOWN])}{more}; nothing was added")
    return found


def known_pair(finder: ImageFinder, row: dict[str, Any]) -> NewKnown:
    """One pair from its cells: `left`, `right`, `answer` and perhaps `kind`.

    Raises:
        StudyError: a cell holds what it cannot.
    """
    left, right = finder.find(row.get("left")), finder.find(row.get("right"))
    if left == right:
        raise StudyError(f"compares image {finder.ids[left]} with itself")
    answer = cells.text(row.get("answer"), "answer").strip().lower()
    if answer not in ("left", "right", "equal"):
        raise StudyError(f"a known answer is left, right or equal; not {answer[:80]!r}")
    word = cells.text(row.get("kind"), "kind").strip().lower()
    if word not in _KINDS:
        raise StudyError(f"kind is gold or warm-up; not {word[:80]!r}")
    worse, other = (right, left) if answer == "right" else (left, right)
    return NewKnown(worse, other, _KINDS[word], equal=answer == "equal")  # type: ignore[arg-type]


def known_rows(study: Study) -> list[dict[str, Any]]:
    """The pairs that are handed out, as the table that `read_known` reads, with their numbers."""
    paths = list(map(str, study.catalog.paths))
    return [
        {
            "number": pair.id,
            "left": paths[pair.first_row],
            "right": paths[pair.second_row],
            "answer": {"first": "left", "second": "right", "equal": "equal"}[pair.expected],
            "kind": pair.kind,
        }
        for pair in study.store.known.all()
    ]


def known_table(study: Study) -> pd.DataFrame:
    """Every pair with a known answer in the order in which people warm up, by content, and whether it is handed out no more."""
    import pandas as pd

    paths = list(map(str, study.catalog.paths))
    rows = [
        (
            pair.first, pair.second, paths[pair.first_row], paths[pair.second_row],
            {"first": "left", "second": "right", "equal": "equal"}[pair.expected], pair.kind, pair.retired,
        )
        for pair in study.store.known.all(retired=True)
    ]  # fmt: skip
    columns = ["left", "right", "left_path", "right_path", "answer", "kind", "retired"]
    return pd.DataFrame(rows, columns=columns).astype({"retired": "bool"})


def take_over_known(study: Study, given: Sequence[tuple[NewKnown, bool]]) -> int:
    """Add pairs that another study knows, and whether each is retired; two images that are such a pair here stay what they are.

    Returns:
        How many were added.
    """
    here = {frozenset((pair.first_row, pair.second_row)) for pair in study.store.known.all(retired=True)}
    new = [(pair, retired) for pair, retired in given if frozenset((pair.worse, pair.other)) not in here]
    ids = study.store.known.add_all([pair for pair, _ in new])
    study.store.known.remove([id for id, (_, retired) in zip(ids, new, strict=True) if retired])
    return len(set(ids))
