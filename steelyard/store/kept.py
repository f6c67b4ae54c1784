"""All answers that count, kept in memory and brought up to date: every page and every fit asks for them.

Reading a million rows takes a database seconds; the log only grows, so whoever has read it once needs no more than what
was written since, and which earlier rows that superseded.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np

from steelyard.store.columns import coded
from steelyard.store.database import Database
from steelyard.store.records import AnswerArrays

__all__ = ["Kept", "go_on"]

Read = Callable[[Database, int, int | None, str], AnswerArrays]
"""Reads what came after a number of the log: `answer_arrays` or `lesson_arrays`."""


class Kept:
    """The answers to each question, as one way of reading gives them; several threads may ask.

    Args:
        database: the log's.
        read: reads it.
    """

    def __init__(self, database: Database, read: Read) -> None:
        self._db, self._read = database, read
        self._forget()

    def _forget(self) -> None:
        self._pid, self._lock = os.getpid(), threading.Lock()
        self._known: dict[str, tuple[AnswerArrays, int]] = {}  # and how often connections had broken before

    def all(self, question: str) -> AnswerArrays:
        """All that counts now. The arrays are shared: they cannot be written to."""
        if not self._db.settled:  # what is not committed yet must not be remembered
            return self._read(self._db, 0, None, question)
        if self._pid != os.getpid():  # after a fork nobody will give the lock back
            self._forget()
        with self._lock:  # whoever waits finds everything read
            known, breaks = self._known.get(question, (None, self._db.breaks))
            if known is not None:
                new = self._read(self._db, known.last_seq, None, question)
                # A decision, made or taken back, moves answers of long ago; and after a break the log may be another.
                moved = new.last_decision > known.last_seq or self._db.breaks != breaks
                known = None if moved else go_on(known, new)
            if known is None:
                breaks = self._db.breaks
                known = self._read(self._db, 0, None, question)
            for array in _columns(known).values():
                array.flags.writeable = False
            self._known[question] = known, breaks
            return known


def go_on(known: AnswerArrays, new: AnswerArrays) -> AnswerArrays:
    """All that counts, from what counted and what was read after it."""
    if not len(new) and not len(new.superseded):
        return replace(known, last_seq=new.last_seq, last_decision=new.last_decision)
    stays = ~np.isin(known.seq, new.superseded)
    theirs, ours = _columns(known), _columns(new)
    joined = {name: np.concatenate([theirs[name][stays], ours[name]]) for name in theirs}
    # Names are those of the answers that count: who took back the only one they gave is not among them.
    every = [*known.annotators, *new.annotators]
    codes = np.concatenate([known.annotator[stays], new.annotator + len(known.annotators)])
    present, place = np.unique(codes, return_inverse=True)
    renamed, names = coded(every[code] for code in present.tolist())
    joined["annotator"] = renamed[place] if len(place) else codes
    return replace(
        known, **joined, annotators=names, last_seq=new.last_seq, last_decision=new.last_decision,
        superseded=known.superseded,
    )  # fmt: skip


def _columns(answers: AnswerArrays) -> dict[str, np.ndarray]:
    """The columns by name, without `superseded`, which is about another span."""
    every = {field.name: getattr(answers, field.name) for field in fields(answers)}
    return {
        name: value for name, value in every.items() if isinstance(value, np.ndarray) and name != "superseded"
    }
