"""Absolute grades of single images: the same log as for answers, about images instead of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa

from steelyard.store import fields
from steelyard.store.annotators import ensure_annotators
from steelyard.store.answers import coded
from steelyard.store.database import Database
from steelyard.store.errors import UnknownRecordError
from steelyard.store.grading import check_grading, lock_images
from steelyard.store.log import GRADES
from steelyard.store.records import Grade, GradeArrays, NewGrade, Recorded
from steelyard.store.schema import grades, images

__all__ = ["GradeLog"]


class GradeLog(Database):
    """Methods about grades."""

    def add_grade(self, new: NewGrade, *, require_lease: bool = False, now: float | None = None) -> Recorded:
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
        return self.add_grades([new], require_lease=require_lease, now=now)[0]

    def add_grades(
        self, new: Sequence[NewGrade], *, require_lease: bool = False, now: float | None = None
    ) -> list[Recorded]:
        """Write many grades in one transaction, all or none; errors as in `add_grade`."""
        for grade in new:
            fields.name(grade.annotator)
        with self._writing() as connection:
            at = self._clock(connection, now)
            ensure_annotators(connection, self, {grade.annotator for grade in new}, at)
            rows = lock_images(connection, [grade.image for grade in new])
            subjects = [(fields.client_id(grade.id), rows[grade.image], grade.annotator) for grade in new]
            check_grading(connection, subjects, require_lease=require_lease)
            return GRADES.append(self, connection, [_values(grade, rows[grade.image], at) for grade in new])

    def undo_grade(
        self, grade_id: str, annotator: str, *, id: str, source: str = "page", now: float | None = None
    ) -> Recorded:
        """Withdraw a grade by a new row.

        Raises:
            UnknownRecordError: there is no such grade.
            ConflictError: it is somebody else's, was undone or replaced before, or is itself an undo; or the image's
                neighbours were shown, so it stands.
        """
        query = sa.select(images.c.id, images.c.row).join(grades, grades.c.image_row == images.c.row)
        with self._writing() as connection:
            at = self._clock(connection, now)
            image = connection.execute(query.where(grades.c.id == fields.client_id(grade_id))).one_or_none()
            if image is None:
                raise UnknownRecordError(f"there is no grade {grade_id} that could be undone")
            lock_images(connection, [image[0]])
            check_grading(connection, [(fields.client_id(id), image[1], annotator)])
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
            return GRADES.append(self, connection, [row])[0]

    def grades(
        self, after: int = 0, limit: int | None = None, *, annotator: str | None = None
    ) -> list[Grade]:
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
        with self._reading() as connection:
            return [Grade(**row) for row in connection.execute(query).mappings()]

    def grade_arrays(self, upto: int | None = None) -> GradeArrays:
        """The grades that count, as columns – now, or when the log ended at number `upto`."""
        with self._reading() as connection:
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

    def last_grade_seq(self) -> int:
        """The number of the newest row of the log of grades, 0 where it is empty."""
        with self._reading() as connection:
            return int(connection.execute(_LAST).scalar_one())


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
