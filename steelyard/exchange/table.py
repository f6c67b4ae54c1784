"""The table of answers that every format is made from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exchange.cells import utc

if TYPE_CHECKING:
    import pandas as pd

    from steelyard.study import Study

__all__ = ["COLUMNS", "FORMATS", "answers_in_blocks", "answers_table", "lessons_table"]

COLUMNS = (
    "id", "left", "right", "left_path", "right_path", "answer", "annotator", "shown_at", "answered_at",
    "answered_at_utc", "round", "strategy", "reserved", "note", "received_at", "source",
    "seq", "hash", "question", "role",
)  # fmt: skip
FORMATS = ("csv", "json", "parquet", "choix", "labelstudio")


def answers_table(study: Study) -> pd.DataFrame:
    """Every answer and every decision that counts, in the order of the log, one row each, with the columns `COLUMNS`; `question` is empty for the main one.

    Answers to pairs whose answer is known are left out: where they are imported they would count.
    """
    import pandas as pd

    return pd.concat(answers_in_blocks(study), ignore_index=True)


def answers_in_blocks(study: Study) -> Iterator[pd.DataFrame]:
    """The rows of `answers_table` in pieces that fit into memory, at least one, however many answers there are."""
    study.follow()
    empty = True
    for told in study.store.answers.told():
        yield _block(study, told)
        empty = False
    if empty:
        yield _block(study, {})


def _block(study: Study, told: dict[str, tuple[Any, ...]]) -> pd.DataFrame:
    import pandas as pd

    made = {
        "left_path": _paths(study, told.get("left_row", ())),
        "right_path": _paths(study, told.get("right_row", ())),
        "answered_at_utc": [utc(at) for at in told.get("answered_at", ())],
    }
    # Kinds are said here, or a study in which no time was ever noted would have a column of another kind.
    return pd.DataFrame(
        {
            name: pd.Series(made.get(name, told.get(name, ())), dtype=_KINDS.get(name, object))
            for name in COLUMNS
        }
    )


_KINDS: dict[str, str] = {
    "shown_at": "float64", "answered_at": "float64", "received_at": "float64", "round": "int64", "reserved": "bool",
    "seq": "int64",
}  # fmt: skip


def _paths(study: Study, rows: tuple[int, ...]) -> list[str]:
    """Paths by row of the catalog, "" of images that this process has not heard of."""
    paths, wanted = study.catalog.paths, np.array(rows, dtype=np.int64)
    known = wanted < len(paths)
    found = np.full(len(wanted), "", dtype=object)
    found[known] = paths[wanted[known]]
    return found.tolist()


def lessons_table(table: pd.DataFrame) -> pd.DataFrame:
    """What is learnt from: of the rows about two images that a lead has decided about, the decision alone."""
    images = [frozenset(pair) for pair in zip(table["left"], table["right"], strict=True)]
    decided = {pair for pair, role in zip(images, table["role"], strict=True) if role == "decision"}
    kept = [
        role == "decision" or pair not in decided for pair, role in zip(images, table["role"], strict=True)
    ]
    return table[kept]
