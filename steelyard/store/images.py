"""Images in the store: registered once, found by content, taken out and put back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from steelyard.progress import Progress
from steelyard.store import fields
from steelyard.store.database import Database
from steelyard.store.errors import ConflictError, StoreError
from steelyard.store.evidence import append_audit
from steelyard.store.leaving import Leaving, find_image, no_image
from steelyard.store.locks import lock_pairs
from steelyard.store.records import Excluded, Image, NewImage
from steelyard.store.schema import images

__all__ = ["Images"]

_COLUMNS = ("row", "id", "path", "group", "grade", "width", "height")
_CHUNK = 20_000


class Images:
    """Images of the study, each known by its row in the catalog and by the hash of its bytes."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add_all(self, rows: Iterable[NewImage], progress: Progress | None = None) -> int:
        """Register images; one that is there already with the same row is left alone.

        Args:
            rows: a million come through in chunks, in one transaction.
            progress: called with (done, total, text); total is 0 where `rows` has no length.

        Returns:
            How many were new.

        Raises:
            ConflictError: a known id under another row, or another id under a known row.
            StoreError: a field that cannot be stored.
        """
        total = len(rows) if isinstance(rows, Sequence) else 0
        added = done = 0
        with self._db.writing() as connection:
            filled = connection.execute(sa.select(sa.func.count()).select_from(images)).scalar_one() > 0
            for chunk in fields.chunks(rows, _CHUNK):
                values = [_values(image) for image in chunk]
                if filled:
                    values = _unknown(connection, values)
                self._insert(connection, values)
                added, done = added + len(values), done + len(chunk)
                if progress is not None:
                    progress(done, total, "registering images")
            self._db.filled(connection, images, added)
        return added

    def append(
        self, new: Sequence[NewImage], *, by: str, detail: Mapping[str, Any], now: float | None = None
    ) -> int:
        """Register images that joined later, behind all others; the audit log says by whom.

        Args:
            new: their `row` does not count: they get the next free ones, in this order. One that is there is left alone.
            by: who adds them.
            detail: what the audit log keeps besides their number.
            now: seconds since 1970; None asks the database.

        Returns:
            How many were new.

        Raises:
            StoreError: a field that cannot be stored.
        """
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            self._db.lock_images(connection)
            there = {id for [id] in connection.execute(sa.select(images.c.id))}
            first = _next_row(connection)
            fresh: dict[str, NewImage] = {}
            for image in new:
                if image.id not in there:
                    fresh.setdefault(image.id, image)
            values = [_values(replace(image, row=first + k)) for k, image in enumerate(fresh.values())]
            for chunk in fields.chunks(values, _CHUNK):
                self._insert(connection, chunk)
            if values:
                what = {**detail, "images": len(values), "first_row": first}
                append_audit(self._db, connection, at, fields.name(by), "add images", what)
            self._db.filled(connection, images, len(values))
        return len(values)

    def count(self) -> int:
        """How many images there are, excluded ones included."""
        with self._db.reading() as connection:
            return _next_row(connection)

    def _insert(self, connection: Connection, values: Sequence[dict[str, Any]]) -> None:
        if not values:
            return
        if self._db.sqlite:
            connection.execute(sa.insert(images), values)
            return
        # COPY is several times faster than a million INSERTs, and part of the same transaction.
        names = ", ".join(f'"{name}"' for name in _COLUMNS)
        cursor = connection.connection.cursor()
        with cursor.copy(f"COPY images ({names}) FROM STDIN") as copy:
            for value in values:
                copy.write_row([value[name] for name in _COLUMNS])
        cursor.close()

    def get(self, id: str) -> Image:
        """One image.

        Raises:
            UnknownRecordError: no image has this id.
        """
        with self._db.reading() as connection:
            return find_image(connection, id)

    def all(self, after_row: int = -1, limit: int | None = None) -> list[Image]:
        """Images in the order of their rows, from the first one after `after_row`."""
        query = sa.select(images).where(images.c.row > after_row).order_by(images.c.row).limit(limit)
        with self._db.reading() as connection:
            return [Image(**row) for row in connection.execute(query).mappings()]

    def exclude(self, id: str, by: str, reason: str = "", *, now: float | None = None) -> None:
        """Take an image out: its pairs are asked no more. What was answered stays in the log.

        Excluding it again changes nothing.

        Raises:
            UnknownRecordError: no image has this id.
        """
        self._set_excluded(id, fields.name(by), fields.text(reason, "the reason"), now, excluded=True)

    def include(self, id: str, by: str, *, now: float | None = None) -> None:
        """Put an excluded image back, whoever took it out and however many did.

        Raises:
            UnknownRecordError: no image has this id.
        """
        self._set_excluded(id, fields.name(by), "", now, excluded=False)

    def take_over(self, exclusions: Sequence[Excluded], *, actor: str, now: float | None = None) -> int:
        """Take out images that were taken out elsewhere, by whom and when it was then; the audit log says who imported it.

        Returns:
            How many were not out yet.

        Raises:
            UnknownRecordError: no image has one of the ids; nothing is changed.
        """
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            leaving = Leaving(connection, {one.image for one in exclusions})
            lock_pairs(connection, leaving.pairs)
            return sum(leaving.take_over(self._db, one, fields.name(actor), at) for one in exclusions)

    def _set_excluded(self, id: str, by: str, reason: str, now: float | None, *, excluded: bool) -> None:
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            leaving = Leaving(connection, {id})
            lock_pairs(connection, leaving.pairs)
            if excluded:
                leaving.take_out(self._db, [id], by, reason, at)
            else:
                leaving.put_back(self._db, id, by, at)

    def excluded_rows(self) -> NDArray[np.int64]:
        """Rows of the images that were taken out, ascending."""
        query = sa.select(images.c.row).where(images.c.excluded_at.is_not(None)).order_by(images.c.row)
        with self._db.reading() as connection:
            return np.array(connection.execute(query).scalars().all(), dtype=np.int64)

    def relocate(self, paths_by_id: Mapping[str, str]) -> int:
        """Write where images lie now, after their folder was moved or files were renamed.

        Args:
            paths_by_id: new path of each image that was found again by its content.

        Returns:
            How many paths changed.

        Raises:
            UnknownRecordError: an id that is no image of this study; nothing is changed.
        """
        changed = 0
        with self._db.writing() as connection:
            for ids in fields.chunks(sorted(paths_by_id)):
                query = sa.select(images.c.id, images.c.path).where(images.c.id.in_(ids))
                paths = {row.id: row.path for row in connection.execute(query)}
                for id in ids:
                    if id not in paths:
                        raise no_image(id)
                moved = [
                    {"image": id, "to": fields.text(paths_by_id[id], "a path", most=4096)}
                    for id in ids
                    if paths[id] != paths_by_id[id]
                ]
                if moved:
                    move = (
                        sa.update(images)
                        .where(images.c.id == sa.bindparam("image"))
                        .values(path=sa.bindparam("to"))
                    )
                    connection.execute(move, moved)
                changed += len(moved)
        return changed


def _next_row(connection: Connection) -> int:
    last = connection.execute(sa.select(sa.func.max(images.c.row))).scalar_one()
    return 0 if last is None else int(last) + 1


def _values(image: NewImage) -> dict[str, Any]:
    if not image.id or not image.id.isascii() or not image.id.isprintable():
        raise StoreError(f"an image's id is printable ASCII, not {image.id!r} (row {image.row})")
    small = 2**31 - 1
    return {
        "row": fields.number(image.row, "an image's row"),
        "id": fields.text(image.id, "an image's id", most=200),
        "path": fields.text(image.path, "a path", most=4096),
        "group": None if image.group is None else fields.text(image.group, "a group"),
        "grade": None if image.grade is None else fields.number(image.grade, "a grade", most=small),
        "width": None if image.width is None else fields.number(image.width, "a width", most=small),
        "height": None if image.height is None else fields.number(image.height, "a height", most=small),
    }


def _unknown(connection: Connection, values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that are not there yet."""
    row_of: dict[str, int] = {}
    id_of: dict[int, str] = {}
    for part in fields.chunks(values):
        there = sa.or_(images.c.id.in_([v["id"] for v in part]), images.c.row.in_([v["row"] for v in part]))
        for row, id in connection.execute(sa.select(images.c.row, images.c.id).where(there)):
            row_of[id], id_of[row] = row, id
    for value in values:
        row, id = value["row"], value["id"]
        if row_of.get(id, row) != row:
            raise ConflictError(
                f"image {id} is at row {row_of[id]} of the store and at row {row} of the catalog; rows never change "
                "(the same bytes twice are one image)"
            )
        if id_of.get(row, id) != id:
            raise ConflictError(
                f"row {row} of the store is image {id_of[row]}, not {id}; rows never change, add new images at the end"
            )
    return [value for value in values if value["id"] not in row_of]
