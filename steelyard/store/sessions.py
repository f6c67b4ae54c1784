"""Being recognised: sessions, tokens for machines, sign-ons under way. Only hashes of secrets are kept.

Everything belongs to the mode it was made in: what the one person at a machine made without signing in is worth
nothing where people sign in, and the other way round.
"""

from __future__ import annotations

import sqlalchemy as sa

from steelyard.store import fields
from steelyard.store.annotators import known_annotator
from steelyard.store.database import Database
from steelyard.store.errors import UnknownRecordError
from steelyard.store.records import Annotator, ApiToken, Handshake, KnownToken, Mode, Scope, Session
from steelyard.store.schema import annotators, api_tokens, handshakes, sessions

__all__ = ["Handshakes", "Sessions", "Tokens"]

USED_SECONDS = 60.0
"""When a session or token was used is written at most this often, so that reading does not become writing."""


class Sessions:
    """Logins, by the hash of their cookie."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(
        self,
        token_hash: str,
        annotator: str,
        csrf: str,
        *,
        expires: float,
        mode: Mode = "login",
        now: float | None = None,
    ) -> None:
        """Remember a login; sessions that are over are forgotten on the way.

        Raises:
            UnknownRecordError: nobody has this name.
        """
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            known_annotator(connection, annotator)
            connection.execute(sa.delete(sessions).where(sessions.c.expires <= at))
            values = {
                "token_hash": token_hash,
                "annotator": annotator,
                "csrf": csrf,
                "created": at,
                "expires": expires,
                "mode": fields.mode(mode),
                "used": at,
            }
            connection.execute(sa.insert(sessions).values(values))

    def find(
        self, token_hash: str, *, mode: Mode = "login", idle: float | None = None, now: float | None = None
    ) -> Session | None:
        """The login with this hash, or None: unknown, over, of another mode, or its annotator is inactive.

        Args:
            token_hash: of the cookie.
            mode: how the person has to have signed in.
            idle: seconds without a request after which a login is over; None for no such end. A request that finds
                the login valid counts as use.
            now: the time.
        """
        with self._db.reading() as connection:
            row = connection.execute(_SESSION, {"token_hash": token_hash, "mode": mode}).one_or_none()
            at = self._db.clock(connection, now)
        if row is None:
            return None
        csrf, created, expires, used, *rest = row
        if expires <= at or (idle is not None and used + idle <= at):
            return None
        if used < at - USED_SECONDS:
            with self._db.writing() as connection:
                mine = sessions.c.token_hash == token_hash
                connection.execute(sa.update(sessions).where(mine).values(used=at))
        return Session(Annotator(**dict(zip(annotators.c.keys(), rest, strict=True))), csrf, created, expires)

    def end(self, token_hash: str) -> None:
        """Log out."""
        with self._db.writing() as connection:
            connection.execute(sa.delete(sessions).where(sessions.c.token_hash == token_hash))

    def end_all(self, annotator: str) -> int:
        """Log an annotator out everywhere; returns from how many places."""
        with self._db.writing() as connection:
            return connection.execute(sa.delete(sessions).where(sessions.c.annotator == annotator)).rowcount


class Tokens:
    """Keys for machines, by the hash of their secret."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(
        self,
        token_hash: str,
        annotator: str,
        label: str,
        *,
        scope: Scope = "full",
        expires: float | None = None,
        mode: Mode = "login",
        now: float | None = None,
    ) -> ApiToken:
        """Remember a token for machines.

        Raises:
            UnknownRecordError: nobody has this name.
            ConflictError: the hash is known.
        """
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            known_annotator(connection, annotator)
            values = {
                "annotator": annotator,
                "label": fields.name(label, "a token's label"),
                "created": at,
                "mode": fields.mode(mode),
                "scope": fields.scope(scope),
                "expires": fields.time(expires, "the end of a token"),
            }
            insert = sa.insert(api_tokens).values(token_hash=token_hash, **values).returning(api_tokens.c.id)
            id = connection.execute(insert).scalar_one()
        return ApiToken(id=id, last_used=None, revoked=None, **values)  # type: ignore[arg-type]

    def find(self, token_hash: str, *, mode: Mode = "login", now: float | None = None) -> KnownToken | None:
        """Whose a token is and what it is for, or None: unknown, revoked, over, of another mode, or inactive."""
        with self._db.reading() as connection:
            row = connection.execute(_TOKEN, {"token_hash": token_hash, "mode": mode}).one_or_none()
            at = self._db.clock(connection, now)
        if row is None:
            return None
        id, last_used, scope, expires, *rest = row
        if expires is not None and expires <= at:
            return None
        if last_used is None or last_used < at - USED_SECONDS:
            with self._db.writing() as connection:
                connection.execute(sa.update(api_tokens).where(api_tokens.c.id == id).values(last_used=at))
        return KnownToken(Annotator(**dict(zip(annotators.c.keys(), rest, strict=True))), scope)

    def all(self, annotator: str | None = None) -> list[ApiToken]:
        """Tokens, revoked ones included, oldest first."""
        query = sa.select(*(c for c in api_tokens.c if c.name != "token_hash")).order_by(api_tokens.c.id)
        if annotator is not None:
            query = query.where(api_tokens.c.annotator == annotator)
        with self._db.reading() as connection:
            return [ApiToken(**row) for row in connection.execute(query).mappings()]

    def renew(self, id: int, token_hash: str) -> ApiToken:
        """Give a token a new secret; the old one stops working.

        Raises:
            UnknownRecordError: no token has this number.
        """
        with self._db.writing() as connection:
            mine = api_tokens.c.id == id
            connection.execute(sa.update(api_tokens).where(mine).values(token_hash=token_hash))
            query = sa.select(*(c for c in api_tokens.c if c.name != "token_hash")).where(mine)
            row = connection.execute(query).mappings().one_or_none()
            if row is None:
                raise UnknownRecordError(f"there is no token {id}")
            return ApiToken(**row)

    def revoke(self, id: int, *, now: float | None = None) -> None:
        """Revoke a token for good.

        Raises:
            UnknownRecordError: no token has this number.
        """
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            known = 0 < id <= fields.LARGEST
            if (
                not known
                or connection.execute(sa.select(api_tokens.c.id).where(api_tokens.c.id == id)).first() is None
            ):
                raise UnknownRecordError(f"there is no token {id}")
            ended = sa.update(api_tokens).where(api_tokens.c.id == id, api_tokens.c.revoked.is_(None))
            connection.execute(ended.values(revoked=at))


class Handshakes:
    """Sign-ons that were sent to a provider and have not come back."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def begin(
        self,
        state_hash: str,
        browser_hash: str,
        handshake: Handshake,
        *,
        seconds: float,
        most: int = 10_000,
        now: float | None = None,
    ) -> None:
        """Remember a sign-on that was sent to the provider.

        Anybody can begin one. When too many are under way the oldest makes room: refusing the new one would let
        whoever begins a few a second keep everybody out.

        Args:
            state_hash: of what comes back in the address.
            browser_hash: of what comes back in the cookie, so that nobody finishes another person's sign-on.
            handshake: what is needed then.
            seconds: until it is forgotten.
            most: how many may be under way at once.
            now: the time.
        """
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            connection.execute(sa.delete(handshakes).where(handshakes.c.expires <= at))
            count = connection.execute(sa.select(sa.func.count()).select_from(handshakes)).scalar_one()
            if count >= most:
                oldest = (
                    sa.select(handshakes.c.state_hash).order_by(handshakes.c.expires).limit(count - most + 1)
                )
                connection.execute(sa.delete(handshakes).where(handshakes.c.state_hash.in_(oldest)))
            values = {"nonce": handshake.nonce, "verifier": handshake.verifier, "back": handshake.back}
            connection.execute(
                sa.insert(handshakes).values(
                    state_hash=state_hash, browser_hash=browser_hash, expires=at + seconds, **values
                )
            )

    def end(self, state_hash: str, browser_hash: str, *, now: float | None = None) -> Handshake | None:
        """What was remembered, once; the same state a second time gets None."""
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            mine = (handshakes.c.state_hash == state_hash, handshakes.c.browser_hash == browser_hash)
            taken = sa.delete(handshakes).where(*mine).returning(
                handshakes.c.nonce, handshakes.c.verifier, handshakes.c.back, handshakes.c.expires
            )  # fmt: skip
            row = connection.execute(taken).one_or_none()
        return None if row is None or row.expires <= at else Handshake(row.nonce, row.verifier, row.back)


_SESSION = (
    sa.select(sessions.c.csrf, sessions.c.created, sessions.c.expires, sessions.c.used, annotators)
    .join(annotators, annotators.c.name == sessions.c.annotator)
    .where(
        sessions.c.token_hash == sa.bindparam("token_hash"),
        sessions.c.mode == sa.bindparam("mode"),
        annotators.c.active,
    )
)
_TOKEN = (
    sa.select(api_tokens.c.id, api_tokens.c.last_used, api_tokens.c.scope, api_tokens.c.expires, annotators)
    .join(annotators, annotators.c.name == api_tokens.c.annotator)
    .where(
        api_tokens.c.token_hash == sa.bindparam("token_hash"),
        api_tokens.c.mode == sa.bindparam("mode"),
        api_tokens.c.revoked.is_(None),
        annotators.c.active,
    )
)
