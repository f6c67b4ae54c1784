"""Images on their way out of the study or back in, inside a transaction that may write answers too.

Several people may take out the same image, each with an answer of their own. It stays out as long as one of them stands: the
audit log holds every exclusion, with the answer it came with, so that taking an answer back takes back what that answer did
and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.store import fields
from steelyard.store.database import Database
from steelyard.store.errors import UnknownRecordError
from steelyard.store.evidence import append_audit
from steelyard.store.pairs import settle
from steelyard.store.records import Excluded, Image
from steelyard.store.schema import audit, images, pairs

__all__ = ["Leaving", "excluded_among", "find_image", "no_image"]

EXCLUDE, INCLUDE, WITHDRAW = "exclude image", "include image", "withdraw exclusion"


class _Exclusion(NamedTuple):
    """One person's word that an image should be out; `answer` is the answer it came with, None if it was said by itself."""

    at: float
    by: str
    reason: str
    answer: str | None


class Leaving:
    """Images that are taken out or put back.

    Locks go image → pair → log: this locks the images, the caller locks `pairs` with those it needs itself.

    Attributes:
        ids: of the images.
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
                    raise no_image(id)
            self.pairs = (
                connection.execute(sa.select(pairs.c.id).where(self._its(*self._images))).scalars().all()
            )

    @property
    def ids(self) -> Collection[str]:
        return self._images.keys()

    def take_out(
        self,
        database: Database,
        ids: Sequence[str],
        by: str,
        reason: str,
        at: float,
        answer: str | None = None,
    ) -> None:
        """Exclude images; the audit log says by whom, and with which answer if with one.

        One that is out already stays as it is. What an answer says about it is noted all the same: it has to stay out when
        whoever was first thinks better of it.
        """
        for id in ids:
            out = self._images[id].excluded
            if out and answer is None and any(other.answer is None for other in self._standing(id)):
                continue
            values = {"excluded_at": at, "excluded_by": by, "excluded_reason": reason}
            with_answer = {} if answer is None else {"answer": answer}
            detail = {"image": id, "reason": reason, **with_answer}
            self._write(database, id, None if out else values, by, EXCLUDE, detail, at)

    def take_over(self, database: Database, one: Excluded, actor: str, at: float) -> bool:
        """Exclude an image that somebody excluded elsewhere; whether it was not out yet."""
        if self._images[one.image].excluded:
            return False
        by, reason = fields.name(one.by), fields.text(one.reason, "the reason")
        since = fields.time(one.at, "excluded_at")
        values = {"excluded_at": at if since is None else since, "excluded_by": by, "excluded_reason": reason}
        detail = {"image": one.image, "reason": reason, "imported": by}
        self._write(database, one.image, values, actor, EXCLUDE, detail, at)
        return True

    def put_back(self, database: Database, id: str, by: str, at: float) -> None:
        """Include an excluded image again, whoever took it out."""
        if self._images[id].excluded:
            self._write(database, id, _IN, by, INCLUDE, {"image": id}, at)

    def take_back(self, database: Database, ids: Collection[str], answer: str, by: str, at: float) -> None:
        """Undo what an answer took out: an image comes back unless somebody else's exclusion, or another answer's, stands."""
        for id in ids:
            image, standing = self._images[id], self._standing(id)
            mine = [one for one in standing if one.answer == answer]
            if not image.excluded or not mine:
                continue
            detail = {"image": id, "answer": answer}
            others = [one for one in standing if one.answer != answer]
            first = any((one.at, one.by) == (image.excluded_at, image.excluded_by) for one in mine)
            if first and not others:
                self._write(database, id, _IN, by, INCLUDE, detail, at)
            else:
                heir = others[0] if first else None
                values = heir and {
                    "excluded_at": heir.at,
                    "excluded_by": heir.by,
                    "excluded_reason": heir.reason,
                }
                self._write(database, id, values, by, WITHDRAW, detail, at)

    def _standing(self, id: str) -> list[_Exclusion]:
        """Exclusions of an image that nobody has taken back, oldest first, as far as the audit log knows them."""
        found: list[_Exclusion] = []
        for entry in self._connection.execute(_HISTORY, {"image": id}):
            answer = entry.detail.get("answer")
            if entry.action == EXCLUDE:
                found.append(_Exclusion(entry.at, entry.actor, entry.detail.get("reason", ""), answer))
            elif entry.action == INCLUDE:
                found.clear()
            else:
                found = [one for one in found if one.answer != answer]
        return found

    def _write(
        self,
        database: Database,
        id: str,
        values: Mapping[str, Any] | None,
        by: str,
        action: str,
        detail: Mapping[str, Any],
        at: float,
    ) -> None:
        connection = self._connection
        if values is not None:
            connection.execute(sa.update(images).where(images.c.id == id).values(**values))
            settle(connection, connection.execute(sa.select(pairs.c.id).where(self._its(id))).scalars().all())
        append_audit(database, connection, at, by, action, detail)
        self._images[id] = find_image(connection, id)

    def _its(self, *ids: str) -> sa.ColumnElement[bool]:
        rows = [self._images[id].row for id in ids]
        return sa.or_(pairs.c.first_row.in_(rows), pairs.c.second_row.in_(rows))


def excluded_among(connection: Connection, which: sa.ColumnElement[bool]) -> set[str]:
    """Ids of the images that are out and that a condition on `schema.images` lets through."""
    query = sa.select(images.c.id).where(which, images.c.excluded_at.is_not(None))
    return set(connection.execute(query).scalars())


def find_image(connection: Connection, id: str) -> Image:
    """One image.

    Raises:
        UnknownRecordError: no image has this id.
    """
    query = sa.select(images).where(images.c.id == fields.text(id, "an image's id"))
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        raise no_image(id)
    return Image(**row)


def no_image(id: str) -> UnknownRecordError:
    """The error for an id that no image has."""
    return UnknownRecordError(f"no image of this study has the id {id!r}")


_IN = dict.fromkeys(("excluded_at", "excluded_by", "excluded_reason"))
_HISTORY = (
    sa.select(audit.c.at, audit.c.actor, audit.c.action, audit.c.detail)
    .where(
        audit.c.action.in_((EXCLUDE, INCLUDE, WITHDRAW)),
        audit.c.detail["image"].as_string() == sa.bindparam("image"),
    )
    .order_by(audit.c.seq)
)
