"""Annotators and how they prove who they are: only hashes are kept, and hashing is done elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.store import fields
from steelyard.store.database import Database
from steelyard.store.errors import ConflictError, UnknownRecordError
from steelyard.store.records import Annotator, ApiToken, Role, Session
from steelyard.store.schema import annotators, api_tokens, sessions

__all__ = ["AnnotatorTable", "ensure_annotators"]


class _Unset:
    """Nothing given – which None is not, as it takes a password or link away."""


UNSET = _Unset()
_USED_SECONDS = 60.0
"""`last_used` of a token is written at most this often, so that reading does not become writing."""


class AnnotatorTable(Database):
    """Methods about annotators, sessions and tokens."""

    def add_annotator(
        self,
        name: str,
        *,
        role: Role = "annotator",
        password_hash: str | None = None,
        link_hash: str | None = None,
        now: float | None = None,
    ) -> Annotator:
        """Make somebody known.

        Raises:
            ConflictError: the name is taken, or the link is somebody else's.
        """
        with self._writing() as connection:
            if connection.execute(
                sa.select(annotators.c.name).where(annotators.c.name == fields.name(name))
            ).first():
                raise ConflictError(
                    f"there is an annotator {name!r} already; change that one or take another name"
                )
            values = {
                "name": name,
                "created": self._clock(connection, now),
                "role": fields.role(role),
                "password_hash": password_hash,
                "link_hash": link_hash,
                "active": True,
            }
            connection.execute(sa.insert(annotators).values(values))
            return _annotator(connection, name)

    def annotator(self, name: str) -> Annotator:
        """Somebody by name.

        Raises:
            UnknownRecordError: nobody has this name.
        """
        with self._reading() as connection:
            return _annotator(connection, fields.text(name, "a name"))

    def annotators(self) -> list[Annotator]:
        """Everybody, by name."""
        with self._reading() as connection:
            rows = connection.execute(sa.select(annotators).order_by(annotators.c.name)).mappings()
            return [Annotator(**row) for row in rows]

    def annotator_by_link(self, link_hash: str) -> Annotator | None:
        """The active annotator whose personal link has this hash, or None."""
        query = sa.select(annotators).where(annotators.c.link_hash == link_hash, annotators.c.active)
        with self._reading() as connection:
            row = connection.execute(query).mappings().one_or_none()
        return None if row is None else Annotator(**row)

    def set_annotator(
        self,
        name: str,
        *,
        role: Role | _Unset = UNSET,
        password_hash: str | _Unset | None = UNSET,
        link_hash: str | _Unset | None = UNSET,
        active: bool | _Unset = UNSET,
    ) -> Annotator:
        """Change what is given and leave the rest; None takes a password or link away.

        Whoever is made inactive, or gets another password, is logged out everywhere.

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
        with self._writing() as connection:
            _annotator(connection, name)
            if changes:
                connection.execute(sa.update(annotators).where(annotators.c.name == name).values(changes))
            if changes.get("active") is False or "password_hash" in changes:
                connection.execute(sa.delete(sessions).where(sessions.c.annotator == name))
            return _annotator(connection, name)

    def add_session(
        self, token_hash: str, annotator: str, csrf: str, *, expires: float, now: float | None = None
    ) -> None:
        """Remember a login; sessions that are over are forgotten on the way.

        Raises:
            UnknownRecordError: nobody has this name.
        """
        with self._writing() as connection:
            at = self._clock(connection, now)
            _annotator(connection, annotator)
            connection.execute(sa.delete(sessions).where(sessions.c.expires <= at))
            values = {
                "token_hash": token_hash,
                "annotator": annotator,
                "csrf": csrf,
                "created": at,
                "expires": expires,
            }
            connection.execute(sa.insert(sessions).values(values))

    def session(self, token_hash: str, *, now: float | None = None) -> Session | None:
        """The login with this hash, or None: unknown, over, or its annotator is inactive."""
        with self._reading() as connection:
            row = connection.execute(_SESSION, {"token_hash": token_hash}).one_or_none()
            if row is None or row[2] <= self._clock(connection, now):
                return None
        csrf, created, expires, *rest = row
        return Session(Annotator(**dict(zip(annotators.c.keys(), rest, strict=True))), csrf, created, expires)

    def extend_session(self, token_hash: str, *, expires: float) -> None:
        """Let a login last until `expires`."""
        with self._writing() as connection:
            connection.execute(
                sa.update(sessions).where(sessions.c.token_hash == token_hash).values(expires=expires)
            )

    def end_session(self, token_hash: str) -> None:
        """Log out."""
        with self._writing() as connection:
            connection.execute(sa.delete(sessions).where(sessions.c.token_hash == token_hash))

    def end_sessions(self, annotator: str) -> int:
        """Log an annotator out everywhere; returns from how many places."""
        with self._writing() as connection:
            return connection.execute(sa.delete(sessions).where(sessions.c.annotator == annotator)).rowcount

    def add_token(self, token_hash: str, annotator: str, label: str, *, now: float | None = None) -> ApiToken:
        """Remember a token for machines.

        Raises:
            UnknownRecordError: nobody has this name.
            ConflictError: the hash is known.
        """
        with self._writing() as connection:
            at = self._clock(connection, now)
            _annotator(connection, annotator)
            values = {
                "token_hash": token_hash,
                "annotator": annotator,
                "label": fields.name(label, "a token's label"),
                "created": at,
            }
            id = connection.execute(
                sa.insert(api_tokens).values(values).returning(api_tokens.c.id)
            ).scalar_one()
        return ApiToken(id, annotator, label, at, None, None)

    def token_owner(self, token_hash: str, *, now: float | None = None) -> Annotator | None:
        """The active annotator to whom a token belongs, or None: unknown, revoked, or inactive."""
        with self._reading() as connection:
            row = connection.execute(_TOKEN_OWNER, {"token_hash": token_hash}).one_or_none()
            at = self._clock(connection, now)
        if row is None:
            return None
        id, last_used, *rest = row
        if last_used is None or last_used < at - _USED_SECONDS:
            with self._writing() as connection:
                connection.execute(sa.update(api_tokens).where(api_tokens.c.id == id).values(last_used=at))
        return Annotator(**dict(zip(annotators.c.keys(), rest, strict=True)))

    def tokens(self, annotator: str | None = None) -> list[ApiToken]:
        """Tokens, revoked ones included, oldest first."""
        query = sa.select(*(c for c in api_tokens.c if c.name != "token_hash")).order_by(api_tokens.c.id)
        if annotator is not None:
            query = query.where(api_tokens.c.annotator == annotator)
        with self._reading() as connection:
            return [ApiToken(**row) for row in connection.execute(query).mappings()]

    def revoke_token(self, id: int, *, now: float | None = None) -> None:
        """Make a token worthless for ever.

        Raises:
            UnknownRecordError: no token has this number.
        """
        with self._writing() as connection:
            at = self._clock(connection, now)
            known = 0 < id <= fields.LARGEST
            if (
                not known
                or connection.execute(sa.select(api_tokens.c.id).where(api_tokens.c.id == id)).first() is None
            ):
                raise UnknownRecordError(f"there is no token {id}")
            ended = sa.update(api_tokens).where(api_tokens.c.id == id, api_tokens.c.revoked.is_(None))
            connection.execute(ended.values(revoked=at))


def ensure_annotators(connection: Connection, database: Database, names: Iterable[str], at: float) -> None:
    """Make names known that are not, with no way to log in."""
    for chunk in fields.chunks(sorted(names)):
        known = set(connection.execute(_KNOWN, {"names": chunk}).scalars())
        for name in chunk:
            if name not in known:
                values = {"name": name, "created": at, "role": "annotator", "active": True}
                connection.execute(database._insert(annotators).values(values).on_conflict_do_nothing())


def _annotator(connection: Connection, name: str) -> Annotator:
    row = connection.execute(sa.select(annotators).where(annotators.c.name == name)).mappings().one_or_none()
    if row is None:
        raise UnknownRecordError(f"there is no annotator {name!r}")
    return Annotator(**row)


_KNOWN = sa.select(annotators.c.name).where(annotators.c.name.in_(sa.bindparam("names", expanding=True)))
_SESSION = (
    sa.select(sessions.c.csrf, sessions.c.created, sessions.c.expires, annotators)
    .join(annotators, annotators.c.name == sessions.c.annotator)
    .where(sessions.c.token_hash == sa.bindparam("token_hash"), annotators.c.active)
)
_TOKEN_OWNER = (
    sa.select(api_tokens.c.id, api_tokens.c.last_used, annotators)
    .join(annotators, annotators.c.name == api_tokens.c.annotator)
    .where(
        api_tokens.c.token_hash == sa.bindparam("token_hash"),
        api_tokens.c.revoked.is_(None),
        annotators.c.active,
    )
)
