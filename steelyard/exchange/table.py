"""The table of answers that every format is made from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.exchange.cells import utc

if TYPE_CHECKING:
    import pandas as pd

    from steelyard.study import Study

__all__ = ["COLUMNS", "FORMATS", "answers_table", "lessons_table"]

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

    paths = dict(zip(map(str, study.catalog.ids), map(str, study.catalog.paths), strict=True))
    pairs = {pair.id: pair for pair in study.store.pairs.all()}
    rows = [
        (
            c.id, c.left, c.right, paths.get(c.left, ""), paths.get(c.right, ""), c.answer.value, c.annotator, c.shown_at,
            c.answered_at, utc(c.answered_at), pairs[c.pair].round, pairs[c.pair].strategy, pairs[c.pair].reserved, c.note, c.received_at,
            c.source, c.seq, c.hash, c.question, c.role,
        )
        for c in study.store.answers.log()
        if c.effective and c.answer is not None and pairs[c.pair].expected is None
    ]  # fmt: skip
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    # Said here, or a study in which no time was ever noted would have a column of another kind.
    times = dict.fromkeys(("shown_at", "answered_at", "received_at"), "float64")
    return table.astype({**times, "round": "int64", "reserved": "bool", "seq": "int64"})


def lessons_table(table: pd.DataFrame) -> pd.DataFrame:
    """What is learnt from: of the rows about two images that a lead has decided about, the decision alone."""
    images = [frozenset(pair) for pair in zip(table["left"], table["right"], strict=True)]
    decided = {pair for pair, role in zip(images, table["role"], strict=True) if role == "decision"}
    kept = [
        role == "decision" or pair not in decided for pair, role in zip(images, table["role"], strict=True)
    ]
    return table[kept]
