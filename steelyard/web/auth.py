"""Who is asking: sessions, personal links, passwords, API tokens, roles, CSRF.

On 127.0.0.1 one person works without signing in. On any other address everybody signs in, with a password (argon2) or
a personal link; the session lives in the store and only its hash is kept there. Programs send an API token instead of
a cookie. A request that changes something and is known by its cookie must carry the session's CSRF token as well.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Literal

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from steelyard.store.records import Annotator, Role
from steelyard.store.store import Store
from steelyard.web.problems import Problem

__all__ = ["COOKIE", "LOCAL_NAME", "Accounts", "Limiter", "Principal", "digest", "new_secret"]

COOKIE = "steelyard_session"
LOCAL_NAME = "you"
SESSION_SECONDS = 14 * 24 * 3600
REMEMBER_SECONDS = 10.0  # how long a looked-up session is believed without asking the database again
_RANK: dict[str, int] = {"annotator": 0, "lead": 1, "admin": 2}
_SAFE = {"GET", "HEAD", "OPTIONS"}


def new_secret() -> str:
    """256 random bits as text."""
    return secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """What the store keeps of a secret. The secret is random, so a plain hash is enough."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who may do something.

    Attributes:
        name: the annotator's.
        role: annotator, lead or admin.
        via: how they are known.
        csrf: token that must come with changes, None for API tokens.
        session: hash of the session, None where there is none.
    """

    name: str
    role: Role
    via: Literal["local", "session", "token"]
    csrf: str | None = field(default=None, repr=False)
    session: str | None = field(default=None, repr=False)

    def may(self, role: Role) -> bool:
        """Whether the role is at least this one."""
        return _RANK[self.role] >= _RANK[role]


class Limiter:
    """At most `most` failures in `seconds` for one key; a success does not count."""

    def __init__(self, most: int, seconds: float) -> None:
        self.most, self.seconds = most, seconds
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, key: str) -> float:
        """Seconds until the key may try again; 0 for now."""
        with self._lock:
            times = self._failures.get(key)
            while times and times[0] < time.monotonic() - self.seconds:
                times.popleft()
            if not times or len(times) < self.most:
                return 0.0
            return times[0] + self.seconds - time.monotonic()

    def fail(self, key: str) -> None:
        """Count a failure."""
        with self._lock:
            self._failures.setdefault(key, deque(maxlen=self.most)).append(time.monotonic())
            self._failures.move_to_end(key)
            while len(self._failures) > 10_000:  # an attacker must not fill the memory
                self._failures.popitem(last=False)


class Accounts:
    """Signing in and being recognised.

    Args:
        store: where annotators, sessions and tokens are.
        login: whether everybody has to sign in.
    """

    def __init__(self, store: Store, *, login: bool) -> None:
        self.store, self.login = store, login
        self.by_address = Limiter(20, 300)
        self.by_name = Limiter(10, 300)
        self._hasher = PasswordHasher()
        self._nobody = self._hasher.hash(secrets.token_hex(16))
        self._hashing = threading.Semaphore(2)  # each hash takes 64 MB and a core
        self._known: OrderedDict[str, tuple[float, Principal]] = OrderedDict()
        self._lock = threading.Lock()
        self._local_csrf = "" if login else self._kept_csrf()

    def _kept_csrf(self) -> str:
        # Kept in the store: a page that was open while the server restarted goes on working.
        token = self.store.setting("local csrf")
        if not isinstance(token, str):
            token = new_secret()
            self.store.set_setting("local csrf", token)
        return token

    # ------------------------------------------------------------------ being recognised

    async def recognise(self, request: Request) -> Principal | None:
        """Who sends this request, or None. Raises for a bad token or a change without its CSRF token."""
        header = request.headers.get("authorization")
        if header is not None:
            kind, _, token = header.partition(" ")
            if kind.lower() != "bearer" or not token:
                raise Problem(401, "The Authorization header is “Bearer TOKEN”.", headers=_challenge())
            found = await self._lookup("token:" + digest(token.strip()), self._by_token)
            if found is None:
                raise Problem(401, "This API token is unknown or was revoked; make a new one on the page.",
                              headers=_challenge())  # fmt: skip
            return found
        cookie = request.cookies.get(COOKIE)
        principal = await self._lookup("session:" + digest(cookie), self._by_session) if cookie else None
        if principal is None and not self.login:
            principal = Principal(LOCAL_NAME, "admin", "local", self._local_csrf)
        if principal is not None and request.method not in _SAFE:
            check_origin(request)
            given = request.headers.get("x-csrf-token", "")
            # Bytes: compare_digest refuses text beyond ASCII.
            if not hmac.compare_digest(given.encode("utf-8", "replace"), (principal.csrf or "").encode()):
                raise Problem(403, "The CSRF token is missing or wrong; reload the page.", code="csrf")
        return principal

    async def _lookup(self, key: str, find: object) -> Principal | None:
        with self._lock:
            kept = self._known.get(key)
        if kept is not None and kept[0] > time.monotonic():
            return kept[1]
        principal: Principal | None = await run_in_threadpool(find, key.partition(":")[2])  # type: ignore[arg-type]
        with self._lock:
            self._known.pop(key, None)
            if principal is not None:
                self._known[key] = (time.monotonic() + REMEMBER_SECONDS, principal)
                while len(self._known) > 1000:
                    self._known.popitem(last=False)
        return principal

    def _by_session(self, token_hash: str) -> Principal | None:
        session = self.store.session(token_hash)
        if session is None:
            return None
        return Principal(session.annotator.name, session.annotator.role, "session", session.csrf, token_hash)

    def _by_token(self, token_hash: str) -> Principal | None:
        owner = self.store.token_owner(token_hash)
        return None if owner is None else Principal(owner.name, owner.role, "token")

    def forget(self) -> None:
        """Believe nothing that was looked up before (somebody was changed, or signed out)."""
        with self._lock:
            self._known.clear()

    # ------------------------------------------------------------------ signing in and out

    def sign_in(self, address: str, *, name: str = "", password: str = "", link: str = "") -> Annotator:
        """The annotator that a password or a personal link belongs to.

        Raises:
            Problem: 401 for a wrong one, 429 after too many.
        """
        keys = [(self.by_address, address)] + ([(self.by_name, name)] if not link else [])
        wait = max(limiter.wait(key) for limiter, key in keys)
        if wait > 0:
            raise Problem(
                429, f"Too many attempts. Try again in {int(wait / 60) + 1} min.",
                headers={"Retry-After": str(int(wait) + 1)},
            )  # fmt: skip
        annotator = self.store.annotator_by_link(digest(link)) if link else self._by_password(name, password)
        if annotator is None:
            for limiter, key in keys:
                limiter.fail(key)
            self.store.audit(name if not link else "?", "sign-in refused", {"address": address})
            text = (
                "This link is unknown or was replaced; ask for a new one."
                if link
                else "Name or password is wrong."
            )
            raise Problem(401, text, code="credentials", headers=_challenge())
        return annotator

    def _by_password(self, name: str, password: str) -> Annotator | None:
        annotator = next((a for a in self.store.annotators() if a.name == name and a.active), None)
        known = annotator.password_hash if annotator else None
        with self._hashing:
            try:
                # An unknown name costs the same time as a wrong password.
                self._hasher.verify(known or self._nobody, password)
            except (VerificationError, InvalidHashError):
                return None
            if annotator is not None and known is not None and self._hasher.check_needs_rehash(known):
                self.store.set_annotator(name, password_hash=self._hasher.hash(password))
        return annotator if known else None

    def hash_password(self, password: str) -> str:
        """Argon2 of a password."""
        with self._hashing:
            return self._hasher.hash(password)

    def start_session(self, annotator: Annotator, request: Request, response: Response) -> Principal:
        """A new session with a new id, whatever cookie came along (so that nobody can plant one)."""
        old = request.cookies.get(COOKIE)
        if old:
            self.store.end_session(digest(old))
        secret, csrf = new_secret(), new_secret()
        self.store.add_session(digest(secret), annotator.name, csrf, expires=time.time() + SESSION_SECONDS)
        self.forget()
        response.set_cookie(
            COOKIE, secret, max_age=SESSION_SECONDS, httponly=True, samesite="lax", path="/",
            secure=request.url.scheme == "https",
        )  # fmt: skip
        self.store.audit(annotator.name, "signed in", {"address": client_address(request)})
        return Principal(annotator.name, annotator.role, "session", csrf, digest(secret))

    def end_session(self, principal: Principal, response: Response) -> None:
        """Sign out."""
        if principal.session:
            self.store.end_session(principal.session)
            self.store.audit(principal.name, "signed out")
        self.forget()
        response.delete_cookie(COOKIE, path="/")


def client_address(request: Request) -> str:
    """Where a request comes from, as far as it is known."""
    return request.client.host if request.client else "unknown"


def check_origin(request: Request) -> None:
    """Refuse changes that a page of another site sends.

    Raises:
        Problem: 403.
    """
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    same = origin is None or origin.partition("://")[2] == request.headers.get("host", "")
    if site in ("cross-site", "same-site") or not same:
        raise Problem(403, "This request comes from another site and was refused.", code="origin")


def _challenge() -> dict[str, str]:
    return {"WWW-Authenticate": "Bearer"}
