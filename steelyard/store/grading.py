"""Images handed out for grading, and what an annotator was ever shown.

A few at a time: what somebody holds comes back until it is graded, so nobody can leaf through a study by asking. After
a grade its neighbours in the model's order may be looked at, once; from then on the grade stands, because it could no
longer be given without knowing them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.store import fields
from steelyard.store.annotators import ensure_annotators
from steelyard.store.database import Database
from steelyard.store.errors import ConflictError, NotHandedOutError, UnknownRecordError
from steelyard.store.log import GRADES
from steelyard.store.schema import annotators, comparisons, grade_leases, grades, images, pair_leases, pairs

__all__ = ["GradeLeases", "check_grading", "lock_images"]

_STANDS = (
    "the neighbours of this image in the model's order were shown to you after your grade, so that grade stands; "
    "a study's lead can exclude the image"
)


class GradeLeases(Database):
    """Methods about handing out images."""

    def images_to_grade(self, annotator: str) -> list[int]:
        """Rows that somebody was handed and has not graded, or graded and undone; those handed first come first."""
        with self._reading() as connection:
            return _outstanding(connection, annotator)

    def lease_images(
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
        with self._writing() as connection:
            at = self._clock(connection, now)
            ensure_annotators(connection, self, {annotator}, at)
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

    def review_grade(
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
        with self._writing() as connection:
            at = self._clock(connection, now)
            found = connection.execute(query.where(mine)).one_or_none()
            if found is None:
                raise UnknownRecordError(f"there is no grade {grade_id} of yours")
            lock_images(connection, [found.id])
            if not connection.execute(query.where(mine)).one().counts:
                raise ConflictError(
                    "this grade was undone or replaced; neighbours are shown for one that counts"
                )
            lease = connection.execute(
                _LEASES, {"rows": [found.image_row], "names": [annotator]}
            ).one_or_none()
            if lease is None and require_lease:
                raise NotHandedOutError("this image was not handed to you, so its neighbours are not shown")
            if lease is not None and lease.reviewed_at is not None:
                raise ConflictError("the neighbours of this image were shown to you already")
            shown = [int(row) for row in neighbours(found.image_row)]
            values = {"image_row": found.image_row, "annotator": annotator, "handed_at": at}
            review = {"reviewed_at": at, "shown": shown}
            insert = self._insert(grade_leases).values(**values, **review)
            connection.execute(
                insert.on_conflict_do_update(index_elements=["image_row", "annotator"], set_=review)
            )
            return shown

    def has_seen(self, annotator: str, row: int) -> bool:
        """Whether an image was ever handed or shown to somebody: in a pair, for grading, or as a neighbour."""
        who = {"annotator": annotator, "row": row}
        with self._reading() as connection:
            if connection.execute(_SEEN, who).scalar_one():
                return True
            return any(row in shown for shown in connection.execute(_SHOWN, who).scalars())


def check_grading(
    connection: Connection, new: Sequence[tuple[str, int, str]], *, require_lease: bool = False
) -> None:
    """Refuse what may not be graded; locks of the images are held.

    Args:
        connection: of the transaction that writes the grades or undoes.
        new: (id of the grade or undo, row, annotator); ids that are in the log already are not looked at.
        require_lease: whether an image has to be handed out before.

    Raises:
        NotHandedOutError: the image was never handed to the annotator.
        ConflictError: its neighbours were shown, so the grade stands.
    """
    for chunk in fields.chunks(new):
        known = set(connection.execute(_KNOWN, {"ids": [id for id, _, _ in chunk]}).scalars())
        who = {"rows": [row for _, row, _ in chunk], "names": sorted({name for _, _, name in chunk})}
        leases = {(r.image_row, r.annotator): r.reviewed_at for r in connection.execute(_LEASES, who)}
        for id, row, annotator in chunk:
            if id in known:
                continue
            if require_lease and (row, annotator) not in leases:
                raise NotHandedOutError(
                    "this image was not handed to you; ask for images to grade, and grade those"
                )
            if leases.get((row, annotator)) is not None:
                raise ConflictError(_STANDS)


def lock_images(connection: Connection, ids: Sequence[str]) -> dict[str, int]:
    """Lock images in the order of their rows, so that only one judgement at a time is written about each."""
    found: dict[str, int] = {}
    for chunk in fields.chunks(sorted({fields.text(id, "an image's id") for id in ids})):
        query = sa.select(images.c.id, images.c.row).where(images.c.id.in_(chunk))
        found.update((id, row) for id, row in connection.execute(query))
    for rows in fields.chunks(sorted(found.values())):
        query = sa.select(images.c.row).where(images.c.row.in_(rows)).order_by(images.c.row)
        connection.execute(query.with_for_update(key_share=True)).all()
    for id in ids:
        if id not in found:
            raise UnknownRecordError(f"no image of this study has the id {id!r}")
    return found


def _outstanding(connection: Connection, annotator: str) -> list[int]:
    return list(connection.execute(_OUTSTANDING, {"annotator": annotator}).scalars())


# The statements, built once.

_who = sa.bindparam("annotator", type_=sa.Text)
_row = sa.bindparam("row", type_=sa.BigInteger)
_one = sa.literal(1)
_OUTSTANDING = (
    sa.select(grade_leases.c.image_row)
    .join(images, images.c.row == grade_leases.c.image_row)
    .where(
        grade_leases.c.annotator == _who,
        images.c.excluded_at.is_(None),
        ~sa.select(_one)
        .where(grades.c.image_row == grade_leases.c.image_row, grades.c.annotator == _who, GRADES.counts)
        .exists(),
    )
    .order_by(grade_leases.c.handed_at, grade_leases.c.image_row)
)
_LEASED = sa.select(grade_leases.c.image_row).where(grade_leases.c.annotator == _who)
_LEASES = sa.select(grade_leases).where(
    grade_leases.c.image_row.in_(sa.bindparam("rows", expanding=True)),
    grade_leases.c.annotator.in_(sa.bindparam("names", expanding=True)),
)
_KNOWN = sa.select(grades.c.id).where(grades.c.id.in_(sa.bindparam("ids", expanding=True)))
_its_pairs = sa.or_(pairs.c.first_row == _row, pairs.c.second_row == _row)
_SEEN = sa.select(
    sa.or_(
        sa.select(_one)
        .select_from(pairs.join(pair_leases, pair_leases.c.pair == pairs.c.id))
        .where(_its_pairs, pair_leases.c.annotator == _who)
        .exists(),
        sa.select(_one).where(grade_leases.c.image_row == _row, grade_leases.c.annotator == _who).exists(),
        sa.select(_one)
        .select_from(pairs.join(comparisons, comparisons.c.pair == pairs.c.id))
        .where(_its_pairs, comparisons.c.annotator == _who)
        .exists(),
        sa.select(_one).where(grades.c.image_row == _row, grades.c.annotator == _who).exists(),
    )
)
_SHOWN = sa.select(grade_leases.c.shown).where(
    grade_leases.c.annotator == _who, grade_leases.c.reviewed_at.is_not(None)
)
