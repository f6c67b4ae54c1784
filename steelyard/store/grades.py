"""Absolute grades of single images: the same log as for answers, about images instead of pairs.

Images are handed out a few at a time: what somebody holds comes back until it is graded, so nobody can leaf through a
study by asking. After a grade its neighbours in the model's order may be looked at, once; from then on the grade
stands, because it could no longer be given without knowing them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.store import fields
from steelyard.store.annotators import ensure_annotators
from steelyard.store.columns import coded
from steelyard.store.database import Database
from steelyard.store.errors import ConflictError, NotHandedOutError, UnknownRecordError
from steelyard.store.locks import lock_images
from steelyard.store.log import GRADES
from steelyard.store.records import Grade, GradeArrays, NewGrade, Recorded
from steelyard.store.schema import annotators, grade_leases, grades, images

__all__ = ["Grades"]

_STANDS = (
    "the neighbours of this image in the model's order were shown to you after your grade, so that grade stands; "
    "a study's lead can exclude the image"
)


class Grades:
    """The log of grades, and images that are handed out to be graded."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, new: NewGrade, *, require_lease: bool = False, now: float | None = None) -> Recorded:
        """Write one grade; sending the same one again changes nothing.

        Args:
            new: the grade.
            require_lease: refuse a grade of an image that was never handed to the annotator.
            now: seconds since 1970; None asks the database.

        Raises:
            ConflictError: the id was used for another grade; the annotator has graded the image already, or has seen
                its neighbours since; what is superseded was superseded before or is somebody else's.
            NotHandedOutError: the image was never handed to the annotator.
            UnknownRecordError: no such image, or nothing to supersede.
            StoreError: a field cannot be stored.
        """
        fields.name(new.annotator)
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            ensure_annotators(connection, self._db, [new.annotator], at)
            row = lock_images(connection, [new.image])[new.image]
            _check(connection, fields.client_id(new.id), row, new.annotator, require_lease=require_lease)
            [recorded] = GRADES.append(self._db, connection, [_values(new, row, at)])
            return recorded

    def undo(
        self, grade_id: str, annotator: str, *, id: str, source: str = "page", now: float | None = None
    ) -> Recorded:
        """Withdraw a grade by a new row.

        Raises:
            UnknownRecordError: there is no such grade.
            ConflictError: it is somebody else's, was undone or replaced before, or is itself an undo; or the image's
                neighbours were shown, so it stands.
        """
        query = sa.select(images.c.id, images.c.row).join(grades, grades.c.image_row == images.c.row)
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            image = connection.execute(query.where(grades.c.id == fields.client_id(grade_id))).one_or_none()
            if image is None:
                raise UnknownRecordError(f"there is no grade {grade_id} that could be undone")
            lock_images(connection, [image[0]])
            _check(connection, fields.client_id(id), image[1], annotator)
            row = {
                "id": fields.client_id(id),
                "image_row": image[1],
                "image": image[0],
                "annotator": fields.name(annotator),
                "grade": None,
                "shown_at": None,
                "answered_at": at,
                "received_at": at,
                "supersedes": grade_id,
                "note": "",
                "source": fields.source(source),
            }
            return GRADES.append(self._db, connection, [row])[0]

    def log(self, after: int = 0, limit: int | None = None, *, annotator: str | None = None) -> list[Grade]:
        """The log as it was written, undone grades included, from the first row after number `after`."""
        later = grades.alias("later_row")
        query = (
            sa.select(grades, images.c.id.label("image"), later.c.id.label("superseded_by"))
            .join(images, images.c.row == grades.c.image_row)
            .outerjoin(later, later.c.supersedes == grades.c.id)
            .where(grades.c.seq > after)
            .order_by(grades.c.seq)
            .limit(limit)
        )
        if annotator is not None:
            query = query.where(grades.c.annotator == annotator)
        with self._db.reading() as connection:
            return [Grade(**row) for row in connection.execute(query).mappings()]

    def arrays(self, upto: int | None = None) -> GradeArrays:
        """The grades that count, as columns – now, or when the log ended at number `upto`."""
        with self._db.reading() as connection:
            last = int(connection.execute(_LAST).scalar_one())
            last = last if upto is None else min(last, upto)
            rows = connection.execute(_EFFECTIVE, {"upto": last}).all()
        seq, row, grade, annotator, answered_at = zip(*rows, strict=True) if rows else ((),) * 5
        codes, names = coded(annotator)
        return GradeArrays(
            seq=np.array(seq, dtype=np.int64),
            row=np.array(row, dtype=np.int64),
            grade=np.array(grade, dtype=np.int64),
            annotator=codes,
            annotators=names,
            answered_at=np.array(answered_at, dtype=np.float64),
            last_seq=last,
        )

    def last_seq(self) -> int:
        """The number of the newest row of the log of grades, 0 where it is empty."""
        with self._db.reading() as connection:
            return int(connection.execute(_LAST).scalar_one())

    def outstanding(self, annotator: str) -> list[int]:
        """Rows that were handed to somebody and have no grade (any more), oldest first."""
        with self._db.reading() as connection:
            return _outstanding(connection, annotator)

    def gone(self, annotator: str) -> list[int]:
        """Rows that were handed to somebody, have no grade of theirs, and were taken out since."""
        with self._db.reading() as connection:
            return list(connection.execute(_GONE, {"annotator": annotator}).scalars())

    def lease(
        self, annotator: str, rows: Sequence[int], n: int, *, most: int, now: float | None = None
    ) -> list[int]:
        """Hand out images for grading: what somebody holds first, then new ones.

        Args:
            annotator: who takes them.
            rows: catalog rows of images worth grading; handed out in this order.
            n: how many at most, those already held included.
            most: how many somebody may hold.
            now: seconds since 1970; None asks the database.

        Returns:
            Catalog rows, at most `n`.
        """
        n = min(fields.number(n, "the number of images"), most)
        fields.name(annotator)
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            ensure_annotators(connection, self._db, {annotator}, at)
            # Two pages of one person must not hold twice as many.
            mine = sa.select(annotators.c.name).where(annotators.c.name == annotator)
            connection.execute(mine.with_for_update(key_share=True)).all()
            held = _outstanding(connection, annotator)
            before = set(connection.execute(_LEASED, {"annotator": annotator}).scalars())
            new = [row for row in dict.fromkeys(rows) if row not in before][: max(0, n - len(held))]
            if new:
                # A moment apart: what comes back on reload keeps its order, which is not the catalog's.
                connection.execute(
                    sa.insert(grade_leases),
                    [
                        {"image_row": row, "annotator": annotator, "handed_at": at + 1e-6 * k}
                        for k, row in enumerate(new)
                    ],
                )
            return [*held, *new][:n]

    def review(
        self,
        grade_id: str,
        annotator: str,
        neighbours: Callable[[int], Sequence[int]],
        *,
        require_lease: bool = True,
        now: float | None = None,
    ) -> Sequence[int]:
        """Show somebody the neighbours of an image they graded, once; the grade stands from then on.

        Args:
            grade_id: a grade that counts.
            annotator: who gave it.
            neighbours: from the image's row to the rows that are shown; quick, it runs inside the transaction.
            require_lease: refuse for an image that was never handed to the annotator.
            now: seconds since 1970; None asks the database.

        Raises:
            UnknownRecordError: they gave no such grade.
            ConflictError: it was undone or replaced, or neighbours of the image were shown before.
            NotHandedOutError: the image was never handed to them.
        """
        query = sa.select(grades.c.image_row, images.c.id, GRADES.counts.label("counts")).join(
            images, images.c.row == grades.c.image_row
        )
        mine = sa.and_(grades.c.id == fields.client_id(grade_id), grades.c.annotator == annotator)
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            found = connection.execute(query.where(mine)).one_or_none()
            if found is None:
                raise UnknownRecordError(f"there is no grade {grade_id} of yours")
            lock_images(connection, [found.id])
            if not connection.execute(query.where(mine)).one().counts:
                raise ConflictError(
                    "this grade was undone or replaced; neighbours are shown for one that counts"
                )
            lease = connection.execute(_LEASE, {"row": found.image_row, "annotator": annotator}).one_or_none()
            if lease is None and require_lease:
                raise NotHandedOutError("this image was not handed to you, so its neighbours are not shown")
            if lease is not None and lease.reviewed_at is not None:
                raise ConflictError("the neighbours of this image were shown to you already")
            shown = [int(row) for row in neighbours(found.image_row)]
            values = {"image_row": found.image_row, "annotator": annotator, "handed_at": at}
            review = {"reviewed_at": at, "shown": shown}
            insert = self._db.insert(grade_leases).values(**values, **review)
            connection.execute(
                insert.on_conflict_do_update(index_elements=["image_row", "annotator"], set_=review)
            )
            return shown


def _check(connection: Connection, id: str, row: int, annotator: str, *, require_lease: bool = False) -> None:
    """Refuse what may not be graded; the image's lock is held.

    Args:
        connection: of the transaction that writes the grade or undo.
        id: of the grade or undo; one that is in the log already is not looked at.
        row: of the image.
        annotator: who grades.
        require_lease: whether the image has to be handed out before.

    Raises:
        NotHandedOutError: the image was never handed to the annotator.
        ConflictError: its neighbours were shown, so the grade stands.
    """
    if connection.execute(_KNOWN, {"id": id}).first() is not None:
        return
    lease = connection.execute(_LEASE, {"row": row, "annotator": annotator}).one_or_none()
    if require_lease and lease is None:
        raise NotHandedOutError("this image was not handed to you; ask for images to grade, and grade those")
    if lease is not None and lease.reviewed_at is not None:
        raise ConflictError(_STANDS)


def _outstanding(connection: Connection, annotator: str) -> list[int]:
    return list(connection.execute(_OUTSTANDING, {"annotator": annotator}).scalars())


def _values(grade: NewGrade, row: int, at: float) -> dict[str, Any]:
    answered_at = fields.time(grade.answered_at, "answered_at")
    return {
        "id": fields.client_id(grade.id),
        "image_row": row,
        "image": grade.image,
        "annotator": grade.annotator,
        "grade": fields.number(grade.grade, "a grade", most=2**31 - 1),
        "shown_at": fields.time(grade.shown_at, "shown_at"),
        "answered_at": at if answered_at is None else answered_at,
        "received_at": at,
        "supersedes": None if grade.supersedes is None else fields.client_id(grade.supersedes),
        "note": fields.text(grade.note, "a note"),
        "source": fields.source(grade.source),
    }


_LAST = sa.select(sa.func.coalesce(sa.func.max(grades.c.seq), 0))
_EFFECTIVE = (
    sa.select(grades.c.seq, grades.c.image_row, grades.c.grade, grades.c.annotator, grades.c.answered_at)
    .where(grades.c.seq <= sa.bindparam("upto", type_=sa.BigInteger), GRADES.counted)
    .order_by(grades.c.seq)
)
_who = sa.bindparam("annotator", type_=sa.Text)
_one = sa.literal(1)
_UNGRADED = (
    sa.select(grade_leases.c.image_row)
    .join(images, images.c.row == grade_leases.c.image_row)
    .where(
        grade_leases.c.annotator == _who,
        ~sa.select(_one)
        .where(grades.c.image_row == grade_leases.c.image_row, grades.c.annotator == _who, GRADES.counts)
        .exists(),
    )
    .order_by(grade_leases.c.handed_at, grade_leases.c.image_row)
)
_OUTSTANDING = _UNGRADED.where(images.c.excluded_at.is_(None))
_GONE = _UNGRADED.where(images.c.excluded_at.is_not(None))
_LEASED = sa.select(grade_leases.c.image_row).where(grade_leases.c.annotator == _who)
_LEASE = sa.select(grade_leases).where(
    grade_leases.c.image_row == sa.bindparam("row", type_=sa.BigInteger), grade_leases.c.annotator == _who
)
_KNOWN = sa.select(grades.c.id).where(grades.c.id == sa.bindparam("id"))
