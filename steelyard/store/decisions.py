"""Decisions: what a lead says about a pair on which people disagree. There is one for each pair and question, whoever made it.

A decision is a row of the log of answers with a role of its own. It is no answer: it counts for no budget and in no agreement.
For learning it stands in place of all answers to its question about its two images (`Answers.lessons`), and a pair whose main
question is decided is asked no more. Taking it back brings the answers back, and the pair if it still wants some.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from steelyard.store import fields
from steelyard.store.annotators import ensure_annotators
from steelyard.store.database import Database
from steelyard.store.errors import ConflictError, UnknownRecordError
from steelyard.store.locks import lock_pairs
from steelyard.store.log import DECISIONS
from steelyard.store.pairs import settle
from steelyard.store.records import Comparison, NewComparison, Recorded
from steelyard.store.rows import DESCRIBED, checked, described, row_values
from steelyard.store.schema import DECISION, WITHDRAWN, comparisons

__all__ = ["Decisions"]


class Decisions:
    """Decisions about pairs."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, new: NewComparison, *, now: float | None = None) -> Recorded:
        """Write one decision; sending the same one again changes nothing.

        When this returns, it is on disk. Whether somebody may decide is for the caller to know.

        Args:
            new: who decides, about which pair, and what; `supersedes` names a decision that it replaces, whoever made that.
            now: seconds since 1970; None asks the database.

        Raises:
            ConflictError: the pair is decided already, or its answer is known; the id was used for something else; what is superseded was
                superseded before, or is about another pair.
            UnknownRecordError: no such pair, or nothing to supersede.
            StoreError: the sides do not match the pair, or a field cannot be stored.
        """
        checked(new)
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            ensure_annotators(connection, self._db, [new.annotator], at)
            pair = lock_pairs(connection, [new.pair])[new.pair]
            if pair["expected"] is not None:
                raise ConflictError(f"the answer about pair {new.pair} is known; there is nothing to decide")
            [recorded] = DECISIONS.append(self._db, connection, [row_values(new, pair, at)])
            settle(connection, [new.pair])
        return recorded

    def undo(
        self, decision_id: str, annotator: str, *, id: str, source: str = "page", now: float | None = None
    ) -> Recorded:
        """Take a decision back by a new row, whoever made it: the answers count again.

        Args:
            decision_id: the decision.
            annotator: who takes it back.
            id: made by the client; the same undo sent twice is one.
            source: how it came.
            now: seconds since 1970; None asks the database.

        Raises:
            UnknownRecordError: there is no such decision.
            ConflictError: it was taken back or replaced before, or is itself an undo.
        """
        query = sa.select(comparisons.c.pair, comparisons.c.left_row, comparisons.c.question).where(
            comparisons.c.id == fields.client_id(decision_id), comparisons.c.role == DECISION
        )
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            ensure_annotators(connection, self._db, [fields.name(annotator)], at)
            undone = connection.execute(query).one_or_none()
            if undone is None:
                raise UnknownRecordError(f"there is no decision {decision_id} that could be undone")
            pair = lock_pairs(connection, [undone.pair])[undone.pair]
            sides = ("second", "first") if undone.left_row == pair["second_row"] else ("first", "second")
            row: dict[str, Any] = {
                "id": fields.client_id(id),
                "pair": undone.pair,
                "annotator": annotator,
                "answer": WITHDRAWN,
                "left": pair[sides[0]],
                "right": pair[sides[1]],
                "left_row": pair[f"{sides[0]}_row"],
                "right_row": pair[f"{sides[1]}_row"],
                "shown_at": None,
                "answered_at": at,
                "received_at": at,
                "supersedes": decision_id,
                "note": "",
                "source": fields.source(source),
                "question": undone.question,
            }
            [recorded] = DECISIONS.append(self._db, connection, [row])
            settle(connection, [undone.pair])
        return recorded

    def all(self, *, question: str = "") -> list[Comparison]:
        """The decisions about a question that stand, oldest first; the main one is empty."""
        its = comparisons.c.question == fields.question(question)
        return self._read(DESCRIBED.where(its, DECISIONS.counts).order_by(comparisons.c.seq))

    def of_pairs(self, pairs: Sequence[int], *, question: str = "") -> dict[int, Comparison]:
        """The decisions about a question that stand about some pairs, by the pair's number."""
        its = comparisons.c.question == fields.question(question)
        found = [
            one
            for chunk in fields.chunks(sorted(set(pairs)))
            for one in self._read(DESCRIBED.where(comparisons.c.pair.in_(chunk), its, DECISIONS.counts))
        ]
        return {one.pair: one for one in found}

    def _read(self, query: sa.Select[Any]) -> list[Comparison]:
        with self._db.reading() as connection:
            return [described(row) for row in connection.execute(query).mappings()]
