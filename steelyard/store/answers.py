"""Answers about pairs: written once, changed or undone by further rows, read as they were written or as they count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.store import fields
from steelyard.store.annotators import ensure_annotators
from steelyard.store.columns import LAST, answer_arrays, last_decision, lesson_arrays
from steelyard.store.counting import (
    Count,
    answered_further,
    count_by_annotator,
    count_by_question,
    given_since,
)
from steelyard.store.database import Database
from steelyard.store.errors import NotHandedOutError, UnknownRecordError
from steelyard.store.importing import ForeignAnswer, Imported, import_answers
from steelyard.store.kept import Kept
from steelyard.store.leases import end_leases, give_back
from steelyard.store.leaving import Leaving, excluded_among
from steelyard.store.locks import lock_pairs
from steelyard.store.log import COMPARISONS
from steelyard.store.pairs import settle
from steelyard.store.records import AnnotatorCount, AnswerArrays, Comparison, NewComparison, Recorded
from steelyard.store.rows import DESCRIBED, checked, described, row_values, said_values
from steelyard.store.schema import ANSWER, WITHDRAWN, comparisons, images, pair_leases, pairs
from steelyard.store.told import told_blocks

__all__ = ["Answers"]


class Answers:
    """The log of answers.

    Attributes:
        third_reader: whether a third person is asked about a pair for two on which the two differ.
    """

    def __init__(self, database: Database) -> None:
        self._db = database
        self.third_reader = False
        self._count = Count(database)
        self._said, self._taught = Kept(database, answer_arrays), Kept(database, lesson_arrays)

    def add(self, new: NewComparison, *, require_lease: bool = False, now: float | None = None) -> Recorded:
        """Write one answer; sending the same one again changes nothing.

        When this returns, the answer is on disk.

        Args:
            new: the answer.
            require_lease: refuse an answer to a pair that was never handed to the annotator. A lease that has run
                out is no reason to refuse: the answer may have waited for the network.
            now: seconds since 1970; None asks the database.

        Raises:
            ConflictError: the id was used for another answer; the annotator has answered the pair already; what is
                superseded was superseded before or is somebody else's.
            NotHandedOutError: the pair was never handed to the annotator.
            UnknownRecordError: no such pair, or nothing to supersede.
            StoreError: the sides do not match the pair, or a field cannot be stored.
        """
        return self.add_all([new], require_lease=require_lease, now=now)[0]

    def add_all(
        self, new: Sequence[NewComparison], *, require_lease: bool = False, now: float | None = None
    ) -> list[Recorded]:
        """Write many answers in one transaction, all or none; arguments and errors as in `add`."""
        for answer in new:
            checked(answer)
        plain = require_lease and not self._db.sqlite and not self.third_reader
        if plain and (done := self._add_ordinary(new, now)):
            return done
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            if not require_lease:  # who was handed a pair is known
                ensure_annotators(connection, self._db, {answer.annotator for answer in new}, at)
            moving = {id for answer in new for id in answer.exclude}
            if corrected := [id for a in new if a.supersedes is not None for id in (a.left, a.right)]:
                moving |= excluded_among(connection, images.c.id.in_(corrected))
            leaving = Leaving(connection, moving)
            if leaving.pairs:  # all together, in ascending order
                lock_pairs(connection, [*(answer.pair for answer in new), *leaving.pairs])
            asked = lock_pairs(connection, [answer.pair for answer in new])
            # First: which images a pair is of is nobody's business to whom it was not handed.
            if require_lease:
                _check_handed_out(connection, new)
            rows = [row_values(answer, asked[answer.pair], at) for answer in new]
            recorded = COMPARISONS.append(self._db, connection, rows)
            written = [answer for answer, record in zip(new, recorded, strict=True) if record.created]
            # Whoever answers a further question first holds the pair until the main one is answered.
            end_leases(connection, [(a.pair, a.annotator) for a in written if not a.question], at)
            settle(connection, [answer.pair for answer in written], third_reader=self.third_reader)
            for answer in written:
                leaving.take_out(self._db, answer.exclude, answer.annotator, answer.note, at, answer.id)
                if answer.supersedes is not None:  # what it replaces no longer takes anything out
                    its = {answer.left, answer.right}.intersection(leaving.ids)
                    leaving.take_back(self._db, sorted(its), answer.supersedes, answer.annotator, at)
        return recorded

    def _add_ordinary(self, new: Sequence[NewComparison], now: float | None) -> list[Recorded]:
        """Write ordinary answers, each the first about a pair that was handed out, in one round trip to PostgreSQL.

        Returns:
            The records; none, and nothing was written, when one of the answers is anything else.
        """
        for answer in new:
            sides = f"{answer.left}{answer.right}"
            known = 0 < answer.pair <= fields.LARGEST and sides.isascii() and sides.isprintable()
            if answer.supersedes is not None or answer.exclude or answer.question or not known:
                return []
        with self._db.calling() as connection:
            at = self._db.clock(connection, now)
            given = [said_values(answer, at) for answer in new]
            said = [name for name in given[0] if name != "question"] if given else []
            columns = {f"{name}s": [row[name] for row in given] for name in said}
            last = connection.execute(_ANSWER, {**columns, "at": at}).scalar_one() if given else None
        if last is None:
            return []
        first = int(last) - len(new) + 1
        self._count.go_on(first, [answer.pair for answer in new])
        return [Recorded(seq, answer.id, True) for seq, answer in enumerate(new, start=first)]

    def undo(
        self,
        comparison_id: str,
        annotator: str,
        *,
        id: str,
        lease_seconds: float = 900.0,
        source: str = "page",
        now: float | None = None,
    ) -> Recorded:
        """Withdraw an answer by a new row; the pair is handed to the annotator again, with the same sides.

        Images that this answer took out come back, unless somebody else's exclusion of them stands.

        Args:
            comparison_id: the answer that should not count.
            annotator: who gave it.
            id: made by the client; the same undo sent twice is one.
            lease_seconds: how long the pair is reserved for answering anew.
            source: how the undo came.
            now: seconds since 1970; None asks the database.

        Raises:
            UnknownRecordError: there is no such answer.
            ConflictError: it is somebody else's, was undone or replaced before, or is itself an undo.
        """
        fields.positive(lease_seconds, "the time of a lease")
        columns = ("pair", "left_row", "right_row", "question")
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            query = sa.select(*(comparisons.c[name] for name in columns)).where(
                comparisons.c.id == fields.client_id(comparison_id), comparisons.c.role == ANSWER
            )
            undone = connection.execute(query).mappings().one_or_none()
            if undone is None:
                raise UnknownRecordError(f"there is no answer {comparison_id} that could be undone")
            shown = images.c.row.in_([undone["left_row"], undone["right_row"]])
            leaving = Leaving(connection, excluded_among(connection, shown))
            pair = lock_pairs(connection, [undone["pair"], *leaving.pairs])[undone["pair"]]
            flipped = undone["left_row"] == pair["second_row"]
            row = {
                **undone,
                "left": pair["second" if flipped else "first"],
                "right": pair["first" if flipped else "second"],
                "id": fields.client_id(id),
                "annotator": fields.name(annotator),
                "answer": WITHDRAWN,
                "shown_at": None,
                "answered_at": at,
                "received_at": at,
                "supersedes": comparison_id,
                "note": "",
                "source": fields.source(source),
            }
            [recorded] = COMPARISONS.append(self._db, connection, [row])
            if recorded.created:
                if not undone[
                    "question"
                ]:  # a pair is held for the main question alone; further ones may be answered at any time
                    until = at + lease_seconds
                    give_back(self._db, connection, annotator, undone["pair"], undone["left_row"], at, until)
                settle(connection, [undone["pair"]], third_reader=self.third_reader)
                leaving.take_back(self._db, leaving.ids, comparison_id, annotator, at)
        return recorded

    def import_all(
        self,
        new: Sequence[ForeignAnswer],
        *,
        actor: str,
        detail: Mapping[str, Any] | None = None,
        now: float | None = None,
    ) -> Imported:
        """Write answers given elsewhere, with the pairs they are about and an entry in the audit log: all or nothing.

        What is there already, by id, is not doubled, whoever imports at the same time. An annotator's second answer
        about the same two images becomes the answer to a repeated question.

        Args:
            new: the answers.
            actor: who imports.
            detail: what the audit log should say besides the counts: the file, its hash.
            now: seconds since 1970; None asks the database.

        Raises:
            ConflictError: an id is there with another answer, annotator or other images.
            UnknownRecordError: a row is no image of this study.
            StoreError: a field cannot be stored.
        """
        return import_answers(self._db, new, actor, detail or {}, now, third_reader=self.third_reader)

    def log(
        self, after: int = 0, limit: int | None = None, *, annotator: str | None = None
    ) -> list[Comparison]:
        """The log as it was written, undone answers and decisions included, from the first row after number `after`."""
        query = DESCRIBED.where(comparisons.c.seq > after).order_by(comparisons.c.seq).limit(limit)
        if annotator is not None:
            query = query.where(comparisons.c.annotator == annotator)
        return self._read(query)

    def of_image(self, image_id: str, *, question: str = "") -> list[Comparison]:
        """The answers to one question that count about one image, in the order of the log; an empty key is the main question."""
        row = sa.select(images.c.row).where(images.c.id == image_id).scalar_subquery()
        # Two lookups in two indices; an OR would read the whole table.
        its = sa.union(
            sa.select(pairs.c.id).where(pairs.c.first_row == row),
            sa.select(pairs.c.id).where(pairs.c.second_row == row),
        )
        ordinary = comparisons.c.pair.not_in(sa.select(pairs.c.id).where(pairs.c.expected.is_not(None)))
        query = DESCRIBED.where(
            comparisons.c.pair.in_(its),
            comparisons.c.question == fields.question(question),
            ordinary,
            COMPARISONS.counts,
        )
        return self._read(query.order_by(comparisons.c.seq))

    def _read(self, query: sa.Select[Any]) -> list[Comparison]:
        with self._db.reading() as connection:
            return [described(row) for row in connection.execute(query).mappings()]

    def arrays(self, after: int = 0, upto: int | None = None, *, question: str = "") -> AnswerArrays:
        """The answers to one question that count, as columns: what people said, decided pairs or not. Agreement rests on these.

        The log is append-only, so what counted when it ended at any number can be read at any later time: a model
        that was trained up to number s can be trained again on exactly `arrays(upto=s)`. All of them as of now are kept and
        shared: whoever wants to change a column takes a copy.

        Args:
            after: only answers after this number. `superseded` then lists earlier ones that count no more.
            upto: the end of the log; None takes the newest row.
            question: its key; empty is the main one.
        """
        if not after and upto is None:
            return self._said.all(fields.question(question))
        return answer_arrays(self._db, after, upto, fields.question(question))

    def lessons(self, after: int = 0, upto: int | None = None, *, question: str = "") -> AnswerArrays:
        """What is learnt from, as columns: the answers to one question that count, and in place of those about two images that
        a lead has decided about, the decision. Models, belief and accuracy rest on these.

        Args:
            after: only what comes after this number. `superseded` then lists earlier rows that teach no more. Where
                `last_decision` is beyond `after`, earlier answers may teach again: read everything.
            upto: the end of the log; None takes the newest row.
            question: its key; empty is the main one.
        """
        if not after and upto is None:
            said = self._said.all(fields.question(question))
            with self._db.reading() as connection:
                decided = last_decision(connection, said.last_seq)
            # Where nobody has decided anything, what is learnt is what was said: it is read and kept once.
            return self._taught.all(fields.question(question)) if decided else said
        return lesson_arrays(self._db, after, upto, fields.question(question))

    def told(self, *names: str) -> Iterator[dict[str, tuple[Any, ...]]]:
        """Answers and decisions that count, to every question, in the order of the log: columns by name, a block at a time.

        Answers to pairs whose answer is known are left out. An image comes with its id and its row of the catalog.

        Args:
            names: of the columns; none at all are all of them.
        """
        return told_blocks(self._db, names)

    def last_seq(self) -> int:
        """The number of the newest row of the log, 0 where it is empty."""
        with self._db.reading() as connection:
            return int(connection.execute(LAST).scalar_one())

    def count(self, annotator: str | None = None, *, since: int | None = None) -> int:
        """How many answers to the main question count, of one annotator or of all.

        The number of all is kept: the log only grows, and what each row of it adds or takes away never changes.

        Args:
            annotator: only this one's.
            since: the number of all may be as old as this row of the log (which is in it), if it is kept: whoever
                wrote that row then need not ask the database again.
        """
        return self._count.read(annotator, since)

    def by_question(self) -> dict[str, int]:
        """How many answers to each further question count, by key; those without any are left out."""
        with self._db.reading() as connection:
            return count_by_question(connection)

    def further(self, annotator: str, pairs: Sequence[int]) -> dict[int, list[str]]:
        """Keys of further questions that an annotator has answered already about some pairs, by pair."""
        with self._db.reading() as connection:
            return answered_further(connection, annotator, pairs)

    def given(self, annotator: str, since: float = 0.0) -> int:
        """How many answers that count arrived from somebody since a time by our clock; gold ones too, warm-ups not."""
        with self._db.reading() as connection:
            return given_since(connection, annotator, since)

    def by_annotator(self, *, gold: bool = False) -> list[AnnotatorCount]:
        """What each annotator did, by name; those who answered nothing are left out.

        Args:
            gold: count answers to hidden pairs with a known answer, too, as whoever gave them would.
        """
        answers = self.arrays()
        with self._db.reading() as connection:
            return count_by_annotator(connection, answers, gold=gold)


def _check_handed_out(connection: Connection, new: Sequence[NewComparison]) -> None:
    handed: set[tuple[int, str]] = set()
    for chunk in fields.chunks(sorted({answer.pair for answer in new})):
        handed.update(
            (pair, annotator) for pair, annotator in connection.execute(_HANDED_OUT, {"ids": chunk})
        )
    for answer in new:
        if (answer.pair, answer.annotator) not in handed:
            raise NotHandedOutError(
                f"pair {answer.pair} was not handed to {answer.annotator!r}; ask for pairs and answer those"
            )


_HANDED_OUT = sa.select(pair_leases.c.pair, pair_leases.c.annotator).where(
    pair_leases.c.pair.in_(sa.bindparam("ids", expanding=True))
)
# The function is made by migration 0006, which says what it does.
_ANSWER = sa.text(
    "SELECT steelyard_answer(CAST(:ids AS text[]), CAST(:pairs AS bigint[]), CAST(:annotators AS text[]), "
    "CAST(:answers AS text[]), CAST(:lefts AS text[]), CAST(:rights AS text[]), CAST(:shown_ats AS float8[]), "
    "CAST(:answered_ats AS float8[]), CAST(:notes AS text[]), CAST(:sources AS text[]), CAST(:at AS float8))"
)
