"""Who is asking: sessions, personal links, passwords, the key of a start, API tokens, roles, CSRF.

On 127.0.0.1 one person works without an account; the link that the server prints carries a key, so that the machine's
other users stay out. On any other address everybody signs in, with a password (argon2), a personal link, or at a proxy
that was named. A session lives in the store, which keeps its hash only. Programs send an API token instead of a cookie.
A request that changes something and is known by anything but a token must carry the session's CSRF token as well.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from steelyard.store import fields
from steelyard.store.errors import ConflictError, StoreError, UnknownRecordError
from steelyard.store.records import Annotator, Mode, Role, Scope, new_id
from steelyard.store.store import Store
from steelyard.web.access import Access
from steelyard.web.devices import Devices
from steelyard.web.oidc import Provider
from steelyard.web.passwords import Passwords
from steelyard.web.problems import Problem
from steelyard.web.proxies import BY_PROXY

__all__ = ["COOKIE", "LOCAL_NAME", "Accounts", "Principal", "Via", "digest", "new_secret"]

COOKIE = "steelyard_session"
"""Begins the name of a session's cookie. Alone it was 0.1's, for every study; such sessions go on until they end."""
LOCAL_NAME = "you"
SESSION_SECONDS = 14 * 24 * 3600
REMEMBER_SECONDS = 10.0  # how long a looked-up session is believed without asking the database again
Via = Literal["local", "session", "token", "proxy"]
_RANK: dict[str, int] = {"annotator": 0, "lead": 1, "admin": 2}
_SCOPE: dict[str, int] = {"read": 0, "answer": 1, "full": 2}
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
        scope: what a token is for; a person may do all that the role allows.
    """

    name: str
    role: Role
    via: Via
    csrf: str | None = field(default=None, repr=False)
    session: str | None = field(default=None, repr=False)
    scope: Scope = "full"

    def may(self, role: Role) -> bool:
        """Whether the role is at least this one."""
        return _RANK[self.role] >= _RANK[role]

    def reaches(self, scope: Scope) -> bool:
        """Whether a token's scope is at least this one."""
        return _SCOPE[self.scope] >= _SCOPE[scope]


class Accounts:
    """Signing in and being recognised.

    Args:
        store: where annotators, sessions and tokens are.
        access: how people get in.

    Attributes:
        key: of this start, which lets the one person at this machine in; empty where people sign in.
        study: an id of the study, for the names of its cookies; no secret.
        cookie: name of the session's cookie.
    """

    def __init__(self, store: Store, access: Access) -> None:
        self.store, self.access, self.login = store, access, access.login
        self.mode: Mode = "login" if access.login else "local"
        self.passwords = Passwords()
        self.provider = Provider(access.provider) if access.provider else None
        self.key = "" if access.login else new_secret()
        # Cookies do not know ports: two studies served by one machine must not sign each other out.
        self.study = str(store.settings.keep("study id", new_id()[:16]))
        self.cookie = f"{COOKIE if access.login else 'steelyard_local'}_{self.study}"
        kept = str(store.settings.keep("device key", new_secret()))
        self.devices = Devices(kept)
        self._csrf_key = hashlib.sha256(b"csrf" + kept.encode()).digest()
        self._known: OrderedDict[str, tuple[float, Principal]] = OrderedDict()
        self._forgotten = 0
        self._lock = threading.Lock()

    # ------------------------------------------------------------------ being recognised

    async def recognise(self, request: Request) -> Principal | None:
        """Who sends this request, or None. Raises for a bad token or a change without its CSRF token."""
        header = request.headers.get("authorization")
        if header is not None:
            kind, _, token = header.partition(" ")
            if kind.lower() != "bearer" or not token:
                raise Problem(401, "The Authorization header must read “Bearer TOKEN”.", headers=_challenge())
            found = await self._lookup("token:" + digest(token.strip()), self._by_token)
            if found is None or not await self.lets_in(found.name):
                raise Problem(401, "This API token is unknown, expired or revoked; create a new one on the page.",
                              headers=_challenge())  # fmt: skip
            return found
        principal = await self._from_proxy(request)
        if principal is None:
            principal = await self._from_session(request)
        if principal is not None and request.method not in _SAFE:
            check_origin(request)
            given = request.headers.get("x-csrf-token", "")
            # Bytes: compare_digest refuses text beyond ASCII.
            if not hmac.compare_digest(given.encode("utf-8", "replace"), (principal.csrf or "").encode()):
                raise Problem(403, "The CSRF token is missing or wrong; reload the page.", code="csrf")
        return principal

    async def _from_session(self, request: Request) -> Principal | None:
        principal = None
        for cookie in self._brought(request):
            principal = principal or await self._lookup("session:" + digest(cookie), self._by_session)
        return principal

    async def lets_in(self, name: str) -> bool:
        """Whether the owner of a token may come in; the store looked at whether they are active."""
        return True

    def knows(self, name: str) -> bool:
        """Whether somebody of that name could sign in: anybody, where people live in this study."""
        return True

    def offered(self) -> list[str]:
        """Names that may be added, where people live in another study."""
        return []

    def check_own(self) -> None:
        """Refuse passwords, links and sessions where people live in another study.

        Raises:
            Problem: 403.
        """

    def _by_name(self, name: str) -> Principal | None:
        try:
            found = self.store.people.get(name)
        except UnknownRecordError:
            return None
        return Principal(name, found.role, "session") if found.active else None

    def _brought(self, request: Request) -> list[str]:
        """The secrets of sessions that come with a request: the study's own, then the one that 0.1 set."""
        names = (self.cookie, COOKIE) if self.login else (self.cookie,)
        return [secret for name in names if (secret := request.cookies.get(name))]

    async def _from_proxy(self, request: Request) -> Principal | None:
        """Who signed in at the proxy. The header counts only from a proxy that was named, and only once."""
        if not self.access.header or not request.scope.get(BY_PROXY):
            return None
        names = request.headers.getlist(self.access.header)
        if not names or names == [""]:
            return None
        found = await self._lookup("proxy:" + names[0], self._by_header) if len(names) == 1 else None
        if found is None:
            raise Problem(
                403, "You signed in, but nobody added you to this study; ask its admin.", code="unknown"
            )
        return found

    async def _lookup(self, key: str, find: Callable[[str], Principal | None]) -> Principal | None:
        with self._lock:
            kept, forgotten = self._known.get(key), self._forgotten
        if kept is not None and kept[0] > time.monotonic():
            return kept[1]
        principal = await run_in_threadpool(find, key.partition(":")[2])
        with self._lock:
            self._known.pop(key, None)
            # What was looked up while somebody signed out, or was changed, may be of before: it is good for this request only.
            if principal is not None and forgotten == self._forgotten:
                self._known[key] = (time.monotonic() + REMEMBER_SECONDS, principal)
                while len(self._known) > 1000:
                    self._known.popitem(last=False)
        return principal

    def _by_session(self, token_hash: str) -> Principal | None:
        idle = self.access.idle_seconds if self.login else None
        session = self.store.people.sessions.find(token_hash, mode=self.mode, idle=idle)
        if session is None:
            return None
        if not self.login:
            return Principal(LOCAL_NAME, "admin", "local", session.csrf, token_hash)
        return Principal(session.annotator.name, session.annotator.role, "session", session.csrf, token_hash)

    def _by_token(self, token_hash: str) -> Principal | None:
        token = self.store.people.tokens.find(token_hash, mode=self.mode)
        if token is None:
            return None
        owner = token.annotator
        role: Role = "admin" if not self.login and owner.name == LOCAL_NAME else owner.role
        # Whoever answers is blind: such a token sees what an annotator sees, whoever made it.
        return Principal(
            owner.name, "annotator" if token.scope == "answer" else role, "token", scope=token.scope
        )

    def _by_header(self, value: str) -> Principal | None:
        try:
            name = fields.name(value.encode("latin-1").decode())  # what comes in headers are bytes
        except (UnicodeError, StoreError):
            return None
        try:
            found = self.store.people.get(name)
        except UnknownRecordError:
            if not self.access.create:
                return None
            found = self.add_unknown(name, "proxy")
        csrf = hmac.new(self._csrf_key, name.encode(), "sha256").hexdigest()
        return Principal(name, found.role, "proxy", csrf) if found.active else None

    def add_unknown(self, name: str, by: str) -> Annotator:
        """Make an annotator of somebody whom the proxy or the provider knows."""
        try:
            added = self.store.people.add(name)
        except ConflictError:  # their other tab was faster
            return self.store.people.get(name)
        self.store.audit.add(by, "annotator added", {"name": name, "role": "annotator"})
        return added

    def forget(self) -> None:
        """Believe nothing that was looked up before (somebody was changed, or signed out)."""
        with self._lock:
            self._known.clear()
            self._forgotten += 1

    # ------------------------------------------------------------------ signing in and out

    def by_key(self, key: str) -> Annotator:
        """The one person at this machine, by the key of this start.

        Raises:
            Problem: 401.
        """
        if self.login or not hmac.compare_digest(digest(key), digest(self.key)):
            raise Problem(401, "This link is wrong or from an earlier start; open the one printed in the terminal.",
                          code="key", headers=_challenge())  # fmt: skip
        try:
            return self.store.people.update(LOCAL_NAME, active=True)
        except UnknownRecordError:
            return self.store.people.add(LOCAL_NAME)

    def by_link(self, link: str, address: str, change: str | None = None) -> Annotator:
        """The annotator whose personal link this is. A right one always works: 256 bits are not guessed.

        One that works once is also good for whoever used it and brings the same `change`: the reply may have been lost.

        Raises:
            Problem: 401.
        """
        annotator = self.store.people.take_link(digest(link), change=change) if self.login else None
        if annotator is None:
            # Only so many are written down: the audit log is forever, and anybody can send links.
            if self.store.people.tries.take("link", counted(address), known=True).id is not None:
                self.store.audit.add("?", "sign-in refused", {"address": address, "by": "link"})
            raise Problem(401, "This link is unknown, has expired or was used before; ask for a new one.", code="credentials",
                          headers=_challenge())  # fmt: skip
        self.forget()
        return annotator

    def by_password(self, request: Request, name: str, password: str) -> Annotator:
        """The annotator with this name and password.

        The try is counted before the password is looked at, so that many at once are not more than one by one.

        Raises:
            Problem: 401 for a wrong one, 429 after too many.
        """
        if not self.login:
            raise Problem(401, "On this machine nobody has a password; open the link printed in the terminal.",
                          code="key", headers=_challenge())  # fmt: skip
        address, name_hash = client_address(request), self.devices.hash_name(name)
        annotator = next((a for a in self.store.people.all() if a.name == name and a.active), None)
        device = self.devices.known(request, name)
        place = self.store.people.tries.take(
            name_hash, counted(address), known=annotator is not None, device=device
        )
        if place.id is None:
            raise Problem(
                429, f"Too many attempts. Try again in {_duration(place.wait)}.",
                headers={"Retry-After": str(int(place.wait) + 1)},
            )  # fmt: skip
        known = annotator.password_hash if annotator else None
        try:
            right = self.passwords.verify(known, password)
        except Problem:
            self.store.people.tries.give_back(place.id)
            raise
        if annotator is None or known is None or not right:
            # A name that nobody has may be a password typed in the wrong field: it is not written down.
            self.store.audit.add(
                annotator.name if annotator else "?", "sign-in refused", {"address": address}
            )
            raise Problem(401, "Name or password is wrong.", code="credentials", headers=_challenge())
        self.store.people.tries.forgive(name_hash, counted(address), device)
        if self.passwords.outdated(known):
            self.store.people.rehash_password(name, known, self.passwords.hash(password))
        return annotator

    def start_session(self, annotator: Annotator, request: Request, response: Response) -> Principal:
        """A new session with a new id, whatever cookie came along (so that nobody can plant one)."""
        for old in self._brought(request):
            self.store.people.sessions.end(digest(old))
        secret, csrf = new_secret(), new_secret()
        self.store.people.sessions.add(
            digest(secret), annotator.name, csrf, expires=time.time() + SESSION_SECONDS, mode=self.mode
        )
        self.forget()
        response.set_cookie(
            self.cookie, secret, max_age=SESSION_SECONDS, httponly=True, path="/",
            samesite="lax" if self.login else "strict", secure=request.url.scheme == "https",
        )  # fmt: skip
        if self.login:
            self.devices.remember(request, response, annotator.name)
        self.store.audit.add(annotator.name, "signed in", {"address": client_address(request)})
        role: Role = annotator.role if self.login else "admin"
        return Principal(annotator.name, role, "session" if self.login else "local", csrf, digest(secret))

    def end_session(self, principal: Principal, response: Response) -> None:
        """Sign out."""
        if principal.session:
            self.store.people.sessions.end(principal.session)
            self.store.audit.add(principal.name, "signed out")
        self.forget()
        response.delete_cookie(self.cookie, path="/")


def client_address(request: Request) -> str:
    """Where a request comes from, as far as it is known."""
    return request.client.host if request.client else "unknown"


def counted(address: str) -> str:
    """An address as attempts are counted: who has one of IPv6 has 2⁶⁴."""
    try:
        given = ipaddress.ip_address(address)
    except ValueError:
        return address[:100]
    if isinstance(given, ipaddress.IPv4Address):
        return str(given)
    if given.ipv4_mapped is not None:
        return str(given.ipv4_mapped)
    return str(ipaddress.ip_network((int(given), 64), strict=False))


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


def _duration(seconds: float) -> str:
    return f"{int(seconds) + 1} s" if seconds < 60 else f"{int(seconds / 60) + 1} min"


def _challenge() -> dict[str, str]:
    return {"WWW-Authenticate": "Bearer"}
