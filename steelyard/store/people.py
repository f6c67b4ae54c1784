"""People: annotators, their passwords and personal links. Only hashes are kept, and hashing is done elsewhere."""

from __future__ import annotations

import hashlib
from typing import Any

import sqlalchemy as sa

from steelyard.store import fields
from steelyard.store.annotators import end_access, known_annotator
from steelyard.store.database import Database
from steelyard.store.errors import ConflictError
from steelyard.store.records import Annotator, Role
from steelyard.store.schema import (
    annotators,
    changes,
    comparisons,
    grade_leases,
    grades,
    pair_leases,
    pairs,
    sessions,
)
from steelyard.store.sessions import Handshakes, Sessions, Tokens
from steelyard.store.tries import Tries

__all__ = ["People"]


AGAIN_SECONDS = 120.0
"""How long the browser that used up a link may come again, in case the reply was lost."""


class _Unset:
    """Stands for an argument that was not given; None takes a password or link away."""


UNSET = _Unset()


class People:
    """Everybody who answers or signs in, by name.

    Attributes:
        sessions: who is signed in.
        tokens: keys for machines.
        handshakes: sign-ons under way at a provider.
        tries: to sign in with a password.
    """

    def __init__(self, database: Database) -> None:
        self._db = database
        self.sessions = Sessions(database)
        self.tokens = Tokens(database)
        self.handshakes = Handshakes(database)
        self.tries = Tries(database)

    def add(
        self,
        name: str,
        *,
        role: Role = "annotator",
        password_hash: str | None = None,
        link_hash: str | None = None,
        link_expires: float | None = None,
        link_once: bool = False,
        now: float | None = None,
    ) -> Annotator:
        """Make somebody known.

        Raises:
            ConflictError: the name is taken, or the link is somebody else's.
        """
        with self._db.writing() as connection:
            if connection.execute(
                sa.select(annotators.c.name).where(annotators.c.name == fields.name(name))
            ).first():
                raise ConflictError(
                    f"there is an annotator {name!r} already; change that one or take another name"
                )
            values = {
                "name": name,
                "created": self._db.clock(connection, now),
                "role": fields.role(role),
                "password_hash": password_hash,
                "link_hash": link_hash,
                "link_expires": fields.time(link_expires, "the end of a link"),
                "link_once": link_once,
                "active": True,
            }
            connection.execute(sa.insert(annotators).values(values))
            return known_annotator(connection, name)

    def get(self, name: str) -> Annotator:
        """Somebody by name.

        Raises:
            UnknownRecordError: nobody has this name.
        """
        with self._db.reading() as connection:
            return known_annotator(connection, fields.text(name, "a name"))

    def all(self) -> list[Annotator]:
        """Everybody, by name."""
        with self._db.reading() as connection:
            rows = connection.execute(sa.select(annotators).order_by(annotators.c.name)).mappings()
            return [Annotator(**row) for row in rows]

    def take_link(
        self, link_hash: str, *, change: str | None = None, now: float | None = None
    ) -> Annotator | None:
        """The active annotator whose personal link has this hash, or None: unknown, over, or used up.

        A link that works once is used up by this call, whoever else tries it at the same moment.

        Args:
            link_hash: of the link's secret.
            change: made by the client, which nobody else knows: the reply may be lost, and whoever brings it again with
                the same link is let in for `AGAIN_SECONDS`, unless the password was changed meanwhile.
            now: seconds since 1970; None asks the database.
        """
        valid = (annotators.c.link_hash == link_hash, annotators.c.active)
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            in_time = sa.or_(annotators.c.link_expires.is_(None), annotators.c.link_expires > at)
            used_up = (
                sa.update(annotators)
                .where(*valid, in_time, annotators.c.link_once)
                .values(link_hash=None, link_expires=None, link_once=False)
                .returning(annotators.c.name)
            )
            name = connection.execute(used_up).scalar_one_or_none()
            if name is not None and change is not None:
                what = _used(link_hash, known_annotator(connection, name))
                noted = {"id": fields.client_id(change), "actor": name, "what": what, "at": at}
                connection.execute(self._db.insert(changes).values(noted).on_conflict_do_nothing())
            if name is None and change is not None:
                noted = {"id": fields.client_id(change), "after": at - AGAIN_SECONDS}
                before = connection.execute(_USED, noted).one_or_none()
                if before is not None and before.what == _used(
                    link_hash, known_annotator(connection, before.actor)
                ):
                    return known_annotator(connection, before.actor)
            if name is None:
                query = sa.select(annotators.c.name).where(*valid, in_time, sa.not_(annotators.c.link_once))
                name = connection.execute(query).scalar_one_or_none()
            return None if name is None else known_annotator(connection, name)

    def set_link(
        self, name: str, link_hash: str, *, expires: float | None = None, once: bool = False
    ) -> Annotator:
        """Give somebody a new personal link; an earlier one stops working.

        Raises:
            UnknownRecordError: nobody has this name.
            ConflictError: the link is somebody else's.
        """
        return self._change(
            name,
            {
                "link_hash": link_hash,
                "link_expires": fields.time(expires, "the end of a link"),
                "link_once": once,
            },
        )

    def set_password(self, name: str, password_hash: str, *, keep: str | None = None) -> Annotator:
        """Give somebody another password; their sessions, link and tokens end.

        Args:
            name: whose.
            password_hash: the new one's.
            keep: hash of the one session that goes on, that of whoever changes their own password.

        Raises:
            UnknownRecordError: nobody has this name.
        """
        with self._db.writing() as connection:
            known_annotator(connection, name)
            end_access(connection, name, self._db.clock(connection, None), keep=keep)
            values = {
                "password_hash": password_hash,
                "link_hash": None,
                "link_expires": None,
                "link_once": False,
            }
            connection.execute(sa.update(annotators).where(annotators.c.name == name).values(values))
            return known_annotator(connection, name)

    def rehash_password(self, name: str, old: str, new: str) -> None:
        """Keep the same password in a stronger form, unless it was changed meanwhile; nobody is signed out."""
        with self._db.writing() as connection:
            same = (annotators.c.name == name, annotators.c.password_hash == old)
            connection.execute(sa.update(annotators).where(*same).values(password_hash=new))

    def set_subject(self, name: str, subject: str) -> Annotator:
        """Note the subject under which the provider of sign-ons knows somebody, unless one is noted.

        Raises:
            UnknownRecordError: nobody has this name.
            ConflictError: somebody else is noted, here or under another name.
        """
        with self._db.writing() as connection:
            mine = (annotators.c.name == name, annotators.c.subject.is_(None))
            connection.execute(
                sa.update(annotators).where(*mine).values(subject=fields.text(subject, "a subject", most=600))
            )
            found = known_annotator(connection, name)
            if found.subject != subject:
                raise ConflictError(f"{name!r} belongs to somebody else at the provider of sign-ons")
            return found

    def find_by_subject(self, subject: str) -> Annotator | None:
        """Whoever has this subject at the provider of sign-ons, active or not, or None."""
        with self._db.reading() as connection:
            query = sa.select(annotators).where(annotators.c.subject == subject)
            row = connection.execute(query).mappings().one_or_none()
        return None if row is None else Annotator(**row)

    def update(
        self,
        name: str,
        *,
        role: Role | _Unset = UNSET,
        password_hash: str | _Unset | None = UNSET,
        link_hash: str | _Unset | None = UNSET,
        active: bool | _Unset = UNSET,
    ) -> Annotator:
        """Change what is given and leave the rest; None takes a password or link away.

        Whoever is made inactive, or gets another role or password, is logged out everywhere.

        Raises:
            UnknownRecordError: nobody has this name.
            ConflictError: the link is somebody else's.
        """
        given = {"role": role, "password_hash": password_hash, "link_hash": link_hash, "active": active}
        changes: dict[str, Any] = {
            key: value for key, value in given.items() if not isinstance(value, _Unset)
        }
        if "role" in changes:
            fields.role(changes["role"])
        if "link_hash" in changes:
            changes |= {"link_expires": None, "link_once": False}
        return self._change(name, changes)

    def has_seen(self, annotator: str, row: int) -> bool:
        """Whether an image was ever handed or shown to somebody: in a pair, for grading, or as a neighbour."""
        who = {"annotator": annotator, "row": row}
        with self._db.reading() as connection:
            if connection.execute(_SEEN, who).scalar_one():
                return True
            return any(row in shown for shown in connection.execute(_SHOWN, who).scalars())

    def _change(self, name: str, changes: dict[str, Any]) -> Annotator:
        with self._db.writing() as connection:
            before = known_annotator(connection, name)
            if changes:
                connection.execute(sa.update(annotators).where(annotators.c.name == name).values(changes))
            # A session keeps nothing that is no longer so.
            other_role = changes.get("role", before.role) != before.role
            if changes.get("active") is False or "password_hash" in changes or other_role:
                connection.execute(sa.delete(sessions).where(sessions.c.annotator == name))
            return known_annotator(connection, name)


def _used(link_hash: str, annotator: Annotator) -> str:
    """What is noted when somebody uses up a link; it changes with the password."""
    password = hashlib.sha256((annotator.password_hash or "").encode()).hexdigest()
    return f"use link {link_hash} {password}"


_USED = (
    sa.select(changes.c.what, changes.c.actor)
    .join(annotators, annotators.c.name == changes.c.actor)
    .where(changes.c.id == sa.bindparam("id"), changes.c.at > sa.bindparam("after"), annotators.c.active)
)
_who = sa.bindparam("annotator", type_=sa.Text)
_row = sa.bindparam("row", type_=sa.BigInteger)
_one = sa.literal(1)
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
