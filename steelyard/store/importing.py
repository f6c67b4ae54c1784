"""Answers from a file: pairs, answers and the audit entry in one transaction, all or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.pairs import Answer
from steelyard.store import fields
from steelyard.store.annotators import ensure_annotators
from steelyard.store.database import Database
from steelyard.store.errors import BusyError, ConflictError, StoreError
from steelyard.store.evidence import append_audit
from steelyard.store.leases import end_leases
from steelyard.store.locks import hold_images, lock_pairs
from steelyard.store.log import COMPARISONS, DECISIONS
from steelyard.store.pairs import put_pairs, settle
from steelyard.store.records import NewPair
from steelyard.store.schema import ANSWER, DECISION, comparisons, images, pairs

__all__ = ["ForeignAnswer", "Imported", "check_foreign", "import_answers"]

_ATTEMPTS = 10  # a pair that somebody put up while we were looking makes us look again
_AT_ONCE = 5_000  # rows handed to the log at once: what is kept in memory does not grow with the file
_REASON = "Imported from a file."
_SMALL = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ForeignAnswer:
    """An answer given elsewhere.

    Attributes:
        id: the same id is the same answer, however often it is imported.
        left_row: catalog row of the image on the left.
        right_row: of the one on the right.
        answer: what was said.
        annotator: who answered.
        shown_at: when the pair appeared, or None.
        answered_at: when the answer was given; None takes the time of the import.
        round: the turn of the loop that chose the pair.
        strategy: what chose it.
        reserved: drawn at random and held back to estimate accuracy.
        note: a remark.
        source: `import`, or with what it was before: `import:page`.
        alias: id under which an earlier version imported the same row, or None.
        question: key of the question that was asked, empty for the main one.
        role: `answer`, or `decision` where a lead decided.
    """

    id: str
    left_row: int
    right_row: int
    answer: Answer
    annotator: str
    shown_at: float | None = None
    answered_at: float | None = None
    round: int = 0
    strategy: str = "imported"
    reserved: bool = False
    note: str = ""
    source: str = "import"
    alias: str | None = None
    question: str = ""
    role: str = ANSWER

    @property
    def rows(self) -> tuple[int, int]:
        """Both images, the smaller row first."""
        return min(self.left_row, self.right_row), max(self.left_row, self.right_row)


@dataclass(frozen=True)
class Imported:
    """What an import did: answers added, and answers that were there already."""

    added: int
    known: int

    def to_dict(self) -> dict[str, int]:
        """Plain values for JSON."""
        return {"added": self.added, "known": self.known}


def check_foreign(new: ForeignAnswer) -> None:
    """Check every field by the same rules as an answer of the page.

    Raises:
        StoreError: a field cannot be stored.
    """
    said: object = new.answer
    if not isinstance(said, Answer):
        raise StoreError(f"an answer is one of {', '.join(a.value for a in Answer)}; not {said!r}")
    fields.client_id(new.id)
    fields.name(new.annotator)
    fields.time(new.shown_at, "shown_at")
    fields.time(new.answered_at, "answered_at")
    fields.number(new.round, "a round", most=_SMALL)
    fields.text(new.strategy, "a strategy's name")
    fields.text(new.note, "a note")
    fields.source(new.source)
    fields.question(new.question)
    if new.role not in (ANSWER, DECISION):
        raise StoreError(f"a role is {ANSWER} or {DECISION}, not {new.role!r}")
    if fields.number(new.left_row, "a catalog row") == fields.number(new.right_row, "a catalog row"):
        raise StoreError("an image is compared with itself")


def import_answers(
    database: Database,
    new: Sequence[ForeignAnswer],
    actor: str,
    detail: Mapping[str, Any],
    now: float | None,
    *,
    third_reader: bool = False,
) -> Imported:
    """See `Answers.import_all`."""
    fields.name(actor, "an actor")
    for answer in new:
        check_foreign(answer)
    for _ in range(_ATTEMPTS):
        try:
            with database.writing() as connection:
                at = database.clock(connection, now)
                return _import(database, connection, new, actor, detail, at, third_reader)
        except _Moved:
            continue
    raise BusyError("others kept putting up the same pairs; nothing was imported, try again")


def _import(
    database: Database,
    connection: Connection,
    given: Sequence[ForeignAnswer],
    actor: str,
    detail: Mapping[str, Any],
    at: float,
    third_reader: bool,
) -> Imported:
    # Locks in the order annotator → image → pair → log. The log's is the last and keeps everything as it is: what
    # is looked up after it holds until the commit.
    new = _unknown(connection, given)
    ensure_annotators(connection, database, {answer.annotator for answer in new}, at, active=False)
    hold_images(connection, {row for answer in new for row in answer.rows})
    if database.sqlite:
        locked: set[int] | None = None  # the only writer
    else:
        locked = set(_pairs_of(connection, new).values())
        for chunk in fields.chunks(sorted(locked)):
            lock_pairs(connection, chunk)
    database.lock_log(connection)
    new = _unknown(connection, new)
    repeats = _repeats(connection, new, locked)
    names = _image_ids(connection, new)
    numbers = _put_up(database, connection, new, repeats, at)
    for start in range(0, len(new), _AT_ONCE):
        part = new[start : start + _AT_ONCE]
        places = [
            numbers[(*a.rows, repeat)]
            for a, repeat in zip(part, repeats[start : start + _AT_ONCE], strict=True)
        ]
        rows = [(a.role, _row(a, pair, names, at)) for a, pair in zip(part, places, strict=True)]
        for role, run in groupby(rows, key=lambda row: row[0]):  # in the order of the file
            log = COMPARISONS if role == ANSWER else DECISIONS
            log.append(database, connection, [row for _, row in run])
        sent = zip(part, places, strict=True)
        answered = [(pair, a.annotator) for a, pair in sent if a.role == ANSWER and not a.question]
        end_leases(connection, answered, at)
        settle(connection, places, third_reader=third_reader)
    database.filled(connection, comparisons, len(new))
    done = Imported(len(new), len(given) - len(new))
    append_audit(database, connection, at, actor, "imported", {**detail, **done.to_dict()})
    return done


def _put_up(
    database: Database,
    connection: Connection,
    new: Sequence[ForeignAnswer],
    repeats: Sequence[int],
    at: float,
) -> dict[tuple[int, int, int], int]:
    """The numbers of all pairs, made where they are missing."""
    wanted: dict[tuple[int, int, int], ForeignAnswer] = {}
    for answer, repeat in zip(new, repeats, strict=True):
        wanted.setdefault((*answer.rows, repeat), answer)
    numbers: dict[tuple[int, int, int], int] = {}
    for keys in fields.chunks(sorted(wanted), 20 * _AT_ONCE):
        made = [
            NewPair(
                i, j, wanted[i, j, repeat].round, wanted[i, j, repeat].strategy, _REASON,
                reserved=wanted[i, j, repeat].reserved, repeat=repeat,
            )
            for i, j, repeat in keys
        ]  # fmt: skip
        numbers.update(zip(keys, put_pairs(database, connection, made, at), strict=True))
    return numbers


class _Moved(Exception):
    """A pair appeared between looking and locking."""


def _unknown(connection: Connection, given: Sequence[ForeignAnswer]) -> list[ForeignAnswer]:
    """Those that are not in the log yet, each once.

    Raises:
        ConflictError: an id stands for something else.
    """
    stored: dict[str, tuple[Any, ...]] = {}
    ids = {id for answer in given for id in (answer.id, answer.alias) if id is not None}
    for chunk in fields.chunks(sorted(ids)):
        for id, *its in connection.execute(_KNOWN, {"ids": chunk}):
            stored[id] = tuple(its)
    new: dict[str, ForeignAnswer] = {}
    for answer in given:
        content = _content(answer)
        if answer.alias is not None and stored.get(answer.alias) == content:
            continue
        there = stored.get(answer.id)
        if there is None and answer.id in new:
            there = _content(new[answer.id])
        if there is None:
            new[answer.id] = answer
        elif there != content:
            raise ConflictError(
                f"answer {answer.id} is there already with another annotator, answer or other images; "
                f"a new answer needs a new id; nothing was imported"
            )
    return list(new.values())


def _content(answer: ForeignAnswer) -> tuple[Any, ...]:
    its = (answer.question, answer.role)
    return answer.annotator, answer.answer.value, answer.left_row, answer.right_row, *its


def _pairs_of(connection: Connection, new: Sequence[ForeignAnswer]) -> dict[tuple[int, int, int], int]:
    """All pairs of the same images that are there, repeated ones too."""
    wanted = {answer.rows for answer in new}
    found: dict[tuple[int, int, int], int] = {}
    for chunk in fields.chunks(sorted({first for first, _ in wanted})):
        for id, first, second, repeat in connection.execute(_PAIRS, {"rows": chunk}):
            if (first, second) in wanted:
                found[first, second, repeat] = id
    return found


def _repeats(connection: Connection, new: Sequence[ForeignAnswer], locked: set[int] | None) -> list[int]:
    """Which repetition of its pair each answer is about: the first of which its annotator has not answered this question.
    A decision is about the pair itself.

    Raises:
        _Moved: a pair that is needed was not there when the others were locked.
    """
    there = _pairs_of(connection, new)
    keys = {id: key for key, id in there.items()}
    answered: set[tuple[str, str, int, int, int]] = set()
    for chunk in fields.chunks(sorted(keys)):
        for annotator, question, pair in connection.execute(_STANDING, {"ids": chunk}):
            answered.add((annotator, question, *keys[pair]))
    free: dict[tuple[str, str, int, int], int] = {}  # below it everything is answered
    found = []
    for answer in new:
        asked = (answer.annotator, answer.question, *answer.rows)
        repeat = free.get(asked, 0) if answer.role == ANSWER else 0
        if answer.role == ANSWER:
            while (*asked, repeat) in answered:
                repeat += 1
            free[asked] = repeat + 1
        found.append(repeat)
        pair = there.get((*answer.rows, repeat))
        if locked is not None and pair is not None and pair not in locked:
            raise _Moved
    return found


def _image_ids(connection: Connection, new: Sequence[ForeignAnswer]) -> dict[int, str]:
    """The content ids of all images by row: the log vouches for what was shown."""
    found: dict[int, str] = {}
    for chunk in fields.chunks(sorted({row for answer in new for row in answer.rows})):
        found.update((row, id) for row, id in connection.execute(_IMAGES, {"rows": chunk}))
    return found


def _row(answer: ForeignAnswer, pair: int, names: Mapping[int, str], at: float) -> dict[str, Any]:
    return {
        "id": answer.id,
        "pair": pair,
        "annotator": answer.annotator,
        "answer": answer.answer.value,
        "left_row": answer.left_row,
        "right_row": answer.right_row,
        "left": names[answer.left_row],
        "right": names[answer.right_row],
        "shown_at": answer.shown_at,
        "answered_at": at if answer.answered_at is None else answer.answered_at,
        "received_at": at,
        "supersedes": None,
        "note": answer.note,
        "source": answer.source,
        "question": answer.question,
    }


_KNOWN = sa.select(
    comparisons.c.id,
    comparisons.c.annotator,
    comparisons.c.answer,
    comparisons.c.left_row,
    comparisons.c.right_row,
    comparisons.c.question,
    comparisons.c.role,
).where(comparisons.c.id.in_(sa.bindparam("ids", expanding=True)))
_IMAGES = sa.select(images.c.row, images.c.id).where(images.c.row.in_(sa.bindparam("rows", expanding=True)))
_PAIRS = sa.select(pairs.c.id, pairs.c.first_row, pairs.c.second_row, pairs.c.repeat).where(
    pairs.c.first_row.in_(sa.bindparam("rows", expanding=True))
)
_STANDING = sa.select(comparisons.c.annotator, comparisons.c.question, comparisons.c.pair).where(
    comparisons.c.pair.in_(sa.bindparam("ids", expanding=True)), COMPARISONS.counts
)
