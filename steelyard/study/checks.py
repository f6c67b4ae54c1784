"""Pairs with known answers in a study: where they come from, and what people's answers to them say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import StudyError
from steelyard.evaluate.fatigue import Fatigue, Figure, clearly_below, fatigue, repeats_alike, share
from steelyard.loop.chance import Purpose
from steelyard.privacy import user_name
from steelyard.store.records import KnownKind, NewKnown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from steelyard.study.study import Study

__all__ = ["Checked", "add_known", "checked", "from_grades", "remove_known", "session_of"]


@dataclass(frozen=True)
class Checked:
    """How somebody answered hidden pairs with a known answer.

    Attributes:
        annotator: who.
        right: as it is known.
        judged: how many were judged; what could not be judged is not among them.
        share: with its interval; None where there are too few.
        below: whether it is clearly below what is wanted.
    """

    annotator: str
    right: int
    judged: int
    share: Figure | None
    below: bool


def add_known(study: Study, new: Sequence[NewKnown], *, by: str | None = None) -> list[int]:
    """Add pairs with known answers, noted in the audit log.

    Raises:
        ConflictError: one is there for the other purpose.
    """
    ids = study.store.known.add_all(new)
    if new:
        detail = {"pairs": len(new), "kinds": sorted({one.kind for one in new}), "numbers": ids[:100]}
        study.store.audit.add(by or user_name(), "known pairs added", detail)
    return ids


def remove_known(study: Study, ids: Sequence[int], *, by: str | None = None) -> None:
    """Hand them out no more, noted in the audit log.

    Raises:
        UnknownRecordError: a number is of no such pair.
    """
    study.store.known.remove(ids)
    study.store.audit.add(by or user_name(), "known pairs removed", {"numbers": list(ids)})


def from_grades(study: Study, n: int, kind: KnownKind) -> list[NewKnown]:
    """Pairs whose grades differ most: the image with the higher grade is the answer.

    Images that are excluded, and pairs whose answer is known already, are left out. Adjacent grades are not taken where there
    are more than two: people rightly disagree about those.

    Raises:
        StudyError: too few grades are known for so many pairs.
    """
    known = study.known_grades()
    known[study.store.images.excluded_rows()] = -1
    there = study.store.known.all(retired=True)
    rng = study.chance.rng(Purpose.KNOWN, len(there))
    taken = {(pair.first_row, pair.second_row) for pair in there}
    found: list[NewKnown] = []
    for worse, other in _widest(known, rng):
        if len(found) == n:
            break
        if (min(worse, other), max(worse, other)) not in taken:
            found.append(NewKnown(worse, other, kind))
    if len(found) < n:
        raise StudyError(
            f"{len(found)} pairs of images have grades that differ widely, and {n} are wanted; grade more images, ask for "
            "fewer, or name pairs yourself"
        )
    return found


def _widest(known: NDArray[np.int64], rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    """Every pair of images whose grades are two or more apart, once, the more severe one first, the widest gaps first."""
    by_grade = {
        int(g): rng.permutation(np.flatnonzero(known == g)).tolist() for g in np.unique(known[known >= 0])
    }
    least = 2 if len(by_grade) > 2 else 1
    for gap in range(max(by_grade, default=0) - min(by_grade, default=0), least - 1, -1):
        ways = [(by_grade[g], by_grade[g - gap]) for g in by_grade if g - gap in by_grade]
        # In each turn an image meets one partner: nobody sees the same one in pair after pair.
        for turn in range(max((len(lower) for _, lower in ways), default=0)):
            for upper, lower in ways:
                if turn < len(lower):
                    yield from ((row, lower[(k + turn) % len(lower)]) for k, row in enumerate(upper))


def checked(study: Study) -> list[Checked]:
    """How everybody answered the hidden pairs, by name; for leads."""
    answers = study.store.known.answers()
    found = []
    for code, name in enumerate(answers.annotators):
        own = (answers.annotator == code) & ~answers.warmup & ~np.isnan(answers.labels)
        right = (answers.labels == answers.expected)[own]
        if len(right):
            below = clearly_below(int(right.sum()), len(right), study.config.people.gold_wanted)
            found.append(Checked(name, int(right.sum()), len(right), share(right), below))
    return found


def session_of(study: Study, annotator: str, *, gold: bool) -> Fatigue:
    """Somebody's last session: how long answers took and how steady they were.

    Args:
        study: whose answers.
        annotator: whose session.
        gold: whether to tell how often the known answer was given.
    """
    answers, hidden = study.store.answers.arrays(), study.store.known.answers(annotator)
    code = answers.annotators.index(annotator) if annotator in answers.annotators else -1
    own, others = answers.annotator == code, ~hidden.warmup
    alike = repeats_alike(answers.pairs[own], answers.labels[own])
    right = (hidden.labels == hidden.expected)[others].astype(np.float64)
    right[np.isnan(hidden.labels[others])] = np.nan
    seq = np.concatenate([answers.seq[own], hidden.seq[others]])
    order = np.argsort(seq)
    at = np.concatenate([answers.answered_at[own], hidden.answered_at[others]])[order]
    shown = np.concatenate([answers.shown_at[own], hidden.shown_at[others]])[order]
    none = np.full(int(own.sum()), np.nan)
    return fatigue(
        at,
        at - shown,
        np.concatenate([alike, np.full(len(right), np.nan)])[order],
        np.concatenate([none, right])[order] if gold else None,
    )
