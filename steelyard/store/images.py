"""Images in the store: registered once, found by content, taken out and put back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from steelyard.progress import Progress
from steelyard.store import fields
from steelyard.store.database import Database
from steelyard.store.errors import ConflictError, StoreError, UnknownRecordError
from steelyard.store.evidence import append_audit
from steelyard.store.locks import lock_pairs
from steelyard.store.pairs import settle
from steelyard.store.records import Image, NewImage
from steelyard.store.schema import images, pairs

__all__ = ["Images", "Leaving"]

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

    def _insert(self, connection: Connection, values: list[dict[str, Any]]) -> None:
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
            return _image(connection, id)

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
        """Put an excluded image back.

        Raises:
            UnknownRecordError: no image has this id.
        """
        self._set_excluded(id, fields.name(by), "", now, excluded=False)

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
                        raise _no_image(id)
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


class Leaving:
    """Images on their way out or back in, inside a transaction that may write answers too.

    Locks go image → pair → log: this locks the images, the caller locks `pairs` with those it needs itself.

    Attributes:
        pairs: numbers of all pairs with these images.
    """

    def __init__(self, connection: Connection, ids: set[str]) -> None:
        self._connection = connection
        self._images: dict[str, Image] = {}
        self.pairs: Sequence[int] = ()
        if ids:
            query = sa.select(images).where(images.c.id.in_([fields.text(id, "an image's id") for id in ids]))
            locked = connection.execute(query.order_by(images.c.row).with_for_update(key_share=True))
            self._images = {row["id"]: Image(**row) for row in locked.mappings()}
            for id in ids:
                if id not in self._images:
                    raise _no_image(id)
            self.pairs = (
                connection.execute(sa.select(pairs.c.id).where(self._its(*self._images))).scalars().all()
            )

    def take_out(self, database: Database, ids: Sequence[str], by: str, reason: str, at: float) -> None:
        """Exclude images that are not excluded yet; the audit log says by whom."""
        for id in ids:
            if not self._images[id].excluded:
                values = {"excluded_at": at, "excluded_by": by, "excluded_reason": reason}
                self._write(database, id, values, by, "exclude image", {"image": id, "reason": reason}, at)

    def put_back(self, database: Database, id: str, by: str, at: float) -> None:
        """Include an excluded image again."""
        if self._images[id].excluded:
            values = dict.fromkeys(("excluded_at", "excluded_by", "excluded_reason"))
            self._write(database, id, values, by, "include image", {"image": id}, at)

    def _write(
        self,
        database: Database,
        id: str,
        values: Mapping[str, Any],
        by: str,
        action: str,
        detail: Mapping[str, Any],
        at: float,
    ) -> None:
        connection = self._connection
        connection.execute(sa.update(images).where(images.c.id == id).values(**values))
        settle(connection, connection.execute(sa.select(pairs.c.id).where(self._its(id))).scalars().all())
        append_audit(database, connection, at, by, action, detail)
        self._images[id] = _image(connection, id)

    def _its(self, *ids: str) -> sa.ColumnElement[bool]:
        rows = [self._images[id].row for id in ids]
        return sa.or_(pairs.c.first_row.in_(rows), pairs.c.second_row.in_(rows))


def _image(connection: Connection, id: str) -> Image:
    query = sa.select(images).where(images.c.id == fields.text(id, "an image's id"))
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        raise _no_image(id)
    return Image(**row)


def _no_image(id: str) -> UnknownRecordError:
    return UnknownRecordError(f"no image of this study has the id {id!r}")


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
