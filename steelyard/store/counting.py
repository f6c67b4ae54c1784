"""How many answers count. The total of the main question is asked for in every request, so it is kept and brought up to date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.pairs import Answer
from steelyard.store import fields
from steelyard.store.database import Database
from steelyard.store.log import COMPARISONS
from steelyard.store.records import AnnotatorCount, AnswerArrays
from steelyard.store.schema import ANSWER, DECISION, WITHDRAWN, comparisons, pairs

__all__ = ["Count", "answered_further", "count_by_annotator", "count_by_question", "given_since"]

_PACE_ANSWERS = 50
"""An annotator's pace is taken over so many of the latest answers."""


class Count:
    """The number of answers that count; the total is remembered."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._counted = 0, 0  # the last row of the log that was counted, and the answers up to there
        # Answers to pairs whose answer is known do not count: which those are, and up to which pair that was looked up.
        self._known: frozenset[int] = frozenset()
        self._looked = 0
        self._breaks = 0  # of connections; after one the log may be another's

    def read(self, annotator: str | None, since: int | None) -> int:
        """See `Answers.count`."""
        seq, answers = self._counted
        if annotator is None and since is not None and seq >= since > 0:
            return answers
        with self._db.reading() as connection:
            if annotator is not None:
                return int(connection.execute(_COUNT_OF_ONE, {"annotator": annotator}).scalar_one())
            if self._breaks != self._db.breaks:
                self._breaks, self._known, self._looked = self._db.breaks, frozenset(), 0
                self._counted = seq, answers = 0, 0
            more, last, pair, known = connection.execute(_COUNT_AFTER, {"after": seq}).one()
            if known != len(self._known):
                self._known = frozenset(connection.execute(_KNOWN).scalars())
            self._looked = pair if self._db.settled else self._looked
        if last is not None:
            answers += int(more)
            if self._db.settled:
                self._counted = int(last), answers
        return answers

    def go_on(self, first: int, pairs: Sequence[int]) -> None:
        """Note that answers to these pairs, which supersede nothing, were written from number `first` on."""
        seq, answers = self._counted
        # Otherwise somebody else wrote in between, or pairs are new, and the next to ask reads on.
        if seq == first - 1 and self._db.settled and max(pairs) <= self._looked:
            count = sum(pair not in self._known for pair in pairs)
            self._counted = first + len(pairs) - 1, answers + count


def given_since(connection: Connection, annotator: str, since: float) -> int:
    """See `Answers.given`."""
    c = comparisons
    warmups = _KNOWN.where(pairs.c.strategy == "warm-up")
    query = (
        sa.select(sa.func.count())
        .select_from(c)
        .where(
            c.c.annotator == annotator,
            c.c.question == "",
            c.c.received_at >= since,
            c.c.pair.not_in(warmups),
            COMPARISONS.counts,
        )
    )
    return int(connection.execute(query).scalar_one())


def count_by_annotator(
    connection: Connection, answers: AnswerArrays, *, gold: bool = False
) -> list[AnnotatorCount]:
    """See `Answers.by_annotator`.

    Args:
        connection: to look up what the arrays do not hold: rows that were replaced, and answers to hidden pairs.
        answers: all that count.
        gold: whether those to hidden pairs count, too.
    """
    c, tallies = comparisons, {}
    for code, name in enumerate(answers.annotators):
        mine = answers.annotator == code
        labels, times = answers.labels[mine], answers.answered_at[mine]
        tallies[name] = _Tally(
            len(labels), int((labels == 0.5).sum()), int(np.isnan(labels).sum()), 0, float(times.min()), float(times.max())
        )  # fmt: skip
    for name, undone in connection.execute(_UNDONE.where(c.c.pair.not_in(_KNOWN_GOLD if gold else _KNOWN))):
        tallies.setdefault(name, _Tally()).undone = int(undone)
    for name, answer, at in connection.execute(_GOLD) if gold else ():
        tallies.setdefault(name, _Tally()).add(answer, at)
    return [
        AnnotatorCount(
            name, one.answers, one.equal, one.cannot_judge, one.undone, one.first_at, one.last_at, _pace(connection, name)
        )
        for name, one in sorted(tallies.items())
    ]  # fmt: skip


@dataclass
class _Tally:
    """What `AnnotatorCount` holds, while it is counted."""

    answers: int = 0
    equal: int = 0
    cannot_judge: int = 0
    undone: int = 0
    first_at: float | None = None
    last_at: float | None = None

    def add(self, answer: str, at: float) -> None:
        self.answers += 1
        self.equal += answer == Answer.EQUAL.value
        self.cannot_judge += answer == Answer.CANNOT_JUDGE.value
        self.first_at = at if self.first_at is None else min(at, self.first_at)
        self.last_at = at if self.last_at is None else max(at, self.last_at)


def _pace(connection: Connection, annotator: str) -> float | None:
    """Median seconds that the latest answers took."""
    latest = connection.execute(_LATEST, {"annotator": annotator}).scalars().all()
    return float(np.median(latest)) if latest else None


def count_by_question(connection: Connection) -> dict[str, int]:
    """See `Answers.by_question`."""
    return {question: int(n) for question, n in connection.execute(_BY_QUESTION)}


def answered_further(connection: Connection, annotator: str, ids: Sequence[int]) -> dict[int, list[str]]:
    """See `Answers.further`."""
    found: dict[int, list[str]] = {}
    for chunk in fields.chunks(sorted(set(ids))):
        for pair, question in connection.execute(_ANSWERED_FURTHER, {"annotator": annotator, "ids": chunk}):
            found.setdefault(pair, []).append(question)
    return found


_row, _target = comparisons.alias("later_row"), comparisons.alias("target")
# A row is an answer more, unless it is an undo; what it supersedes is one less, unless that was an undo. A row about a
# decision is neither.
_replaced = sa.select(_target.c.answer).where(_target.c.id == _row.c.supersedes).scalar_subquery()
_takes = sa.case((_row.c.answer == WITHDRAWN, 1), else_=0) + sa.case((_replaced != WITHDRAWN, 1), else_=0)
_KNOWN = sa.select(pairs.c.id).where(pairs.c.expected.is_not(None))  # a partial index holds just these
_apart = sa.or_(_row.c.role != ANSWER, _row.c.question > "", _row.c.pair.in_(_KNOWN))
_counts = sa.case((_apart, 0), else_=1 - _takes)
_COUNT_AFTER = sa.select(
    sa.func.sum(_counts),
    sa.func.max(_row.c.seq),
    sa.select(sa.func.coalesce(sa.func.max(pairs.c.id), 0)).scalar_subquery(),
    sa.select(sa.func.count()).select_from(pairs).where(pairs.c.expected.is_not(None)).scalar_subquery(),
).where(_row.c.seq > sa.bindparam("after", type_=sa.BigInteger))

# Rows of further questions stand in an index of their own, which is empty in most studies.
_FURTHER = comparisons.c.question > ""

# Only rows that supersede something are looked at one by one; the others are counted in an index. "Is not null", and
# below the name, spelled so that SQLite takes the index of what supersedes.
_one = sa.bindparam("annotator", type_=sa.Text)
_COUNT_OF_ONE = sa.select(
    sa.select(sa.func.count())
    .select_from(comparisons)
    .where(comparisons.c.annotator == _one)
    .scalar_subquery()
    - sa.select(sa.func.count())
    .select_from(comparisons)
    .where(comparisons.c.annotator == _one, _FURTHER)
    .scalar_subquery()
    - sa.select(sa.func.coalesce(sa.func.sum(_takes), 0))
    .where(
        _row.c.supersedes > "", _row.c.annotator + "" == _one, _row.c.role == ANSWER, _row.c.question == ""
    )
    .scalar_subquery()
    - sa.select(sa.func.count())
    .select_from(comparisons)
    # Spelled out, so that the index of decisions is found; and by that one, not by the name.
    .where(
        comparisons.c.role == sa.literal_column(f"'{DECISION}'"),
        comparisons.c.annotator + "" == _one,
        comparisons.c.question == "",
    )
    .scalar_subquery()
    - sa.select(sa.func.count())
    .select_from(comparisons)
    .where(
        comparisons.c.pair.in_(_KNOWN),
        comparisons.c.annotator == _one,
        comparisons.c.question == "",
        COMPARISONS.counts,
    )
    .scalar_subquery()
)

# Rows that speak and were replaced; found by what replaces them, of which there are few. A row of another role replaces none.
# The name is spelled so that SQLite does not go through everybody's rows to group them.
_whose = comparisons.c.annotator + ""
_UNDONE = (
    sa.select(_whose, sa.func.count())
    .where(
        comparisons.c.id.in_(sa.select(_row.c.supersedes).where(_row.c.supersedes > "")),
        comparisons.c.answer != WITHDRAWN,
        comparisons.c.role == ANSWER,
        comparisons.c.question == "",
    )
    .group_by(_whose)
)
_KNOWN_GOLD = _KNOWN.where(pairs.c.strategy != "gold")
_GOLD = sa.select(comparisons.c.annotator, comparisons.c.answer, comparisons.c.answered_at).where(
    comparisons.c.pair.in_(_KNOWN.where(pairs.c.strategy == "gold")),
    comparisons.c.question == "",
    COMPARISONS.counts,
)
_LATEST = (
    sa.select(comparisons.c.answered_at - comparisons.c.shown_at)
    .where(
        comparisons.c.annotator == _one,
        comparisons.c.shown_at.is_not(None),
        comparisons.c.answer != WITHDRAWN,
        comparisons.c.question == "",
        comparisons.c.role == ANSWER,
    )
    .order_by(comparisons.c.seq.desc())
    .limit(_PACE_ANSWERS)
)

_BY_QUESTION = (
    sa.select(comparisons.c.question, sa.func.count())
    .where(_FURTHER, comparisons.c.pair.not_in(_KNOWN), COMPARISONS.counts)
    .group_by(comparisons.c.question)
    .order_by(comparisons.c.question)
)
_ANSWERED_FURTHER = (
    sa.select(comparisons.c.pair, comparisons.c.question)
    .where(
        comparisons.c.pair.in_(sa.bindparam("ids", expanding=True)),
        comparisons.c.annotator == _one,
        _FURTHER,
        COMPARISONS.counts,
    )
    .order_by(comparisons.c.seq)
)
