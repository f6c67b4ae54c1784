"""The two addresses of a sign-on (OIDC): going to the provider and coming back."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from steelyard.store import fields
from steelyard.store.errors import ConflictError, StoreError, UnknownRecordError
from steelyard.store.records import Annotator, Handshake, Role
from steelyard.web.auth import LOCAL_NAME, digest, new_secret
from steelyard.web.context import Web, web_of
from steelyard.web.oidc import Provider
from steelyard.web.pages import way_back
from steelyard.web.problems import Problem

__all__ = ["router"]

SECONDS = 600
router = APIRouter(include_in_schema=False)
_RANK: tuple[Role, ...] = ("annotator", "lead", "admin")


@router.get("/login/oidc")
def begin(request: Request, next: str = "") -> Response:
    """Go to the provider."""
    web = web_of(request)
    state, browser = new_secret(), new_secret()
    made = Handshake(nonce=new_secret(), verifier=new_secret(), back=way_back(web, next))
    there = _provider(web).address(
        state=state, nonce=made.nonce, verifier=made.verifier, redirect=_redirect(web, request)
    )
    web.store.people.handshakes.begin(digest(state), digest(browser), made, seconds=SECONDS)
    response = RedirectResponse(there, 303, {"Cache-Control": "no-store"})
    response.set_cookie(
        _cookie(web), browser, max_age=SECONDS, httponly=True, samesite="lax", path="/login/oidc",
        secure=request.url.scheme == "https",
    )  # fmt: skip
    return response


@router.get("/login/oidc/callback", name="oidc_callback")
def come_back(request: Request, state: str = "", code: str = "", error: str = "") -> Response:
    """Come back with a code; the session begins here."""
    web = web_of(request)
    browser = request.cookies.get(_cookie(web), "")
    kept = web.store.people.handshakes.end(digest(state), digest(browser)) if state and browser else None
    if kept is None:
        raise Problem(
            403,
            "This sign-on has expired or began in another browser. Try again from the login page.",
            code="sign-on",
        )
    if error or not code:
        raise Problem(403, "The provider did not sign you on. Try again from the login page.", code="sign-on")
    claims = _provider(web).claims(
        code=code, nonce=kept.nonce, verifier=kept.verifier, redirect=_redirect(web, request)
    )
    annotator = _annotator(web, claims)
    response = RedirectResponse(kept.back, 303, {"Cache-Control": "no-store"})
    web.accounts.start_session(annotator, request, response)
    response.delete_cookie(_cookie(web), path="/login/oidc")
    return response


def _cookie(web: Web) -> str:
    """What holds a sign-on to the browser that began it; another study of this machine may have one under way."""
    return f"steelyard_oidc_{web.accounts.study}"


def _provider(web: Web) -> Provider:
    provider = web.accounts.provider
    assert provider is not None  # the routes are there only with one
    return provider


def _redirect(web: Web, request: Request) -> str:
    own = urlsplit(str(request.url_for("oidc_callback")))
    host = web.accounts.access.public or f"{own.scheme}://{own.netloc}"
    return _provider(web).settings.redirect or f"{host}{web.base}{own.path}"


def _annotator(web: Web, claims: dict[str, Any]) -> Annotator:
    """The annotator of whoever signed on: by subject, which never changes, and by name only the first time."""
    settings, store = _provider(web).settings, web.store
    subject = f"{claims['iss']}|{claims['sub']}"
    found = store.people.find_by_subject(subject) or _first_time(web, claims, subject)
    if not found.active:
        raise Problem(403, "Your account was deactivated; ask the admin of the study.", code="unknown")
    if settings.role_claim:
        given = claims.get(settings.role_claim, [])
        values = given if isinstance(given, list) else [given]
        roles = [
            settings.roles[value] for value in values if isinstance(value, str) and value in settings.roles
        ]
        role: Role = max(roles, key=_RANK.index) if roles else "annotator"
        if role != found.role:
            found = store.people.update(found.name, role=role)
            store.audit.add("provider", "annotator changed", {"name": found.name, "role": role})
            web.accounts.forget()
    return found


def _first_time(web: Web, claims: dict[str, Any], subject: str) -> Annotator:
    settings, store = _provider(web).settings, web.store
    stranger = Problem(
        403, "You signed on, but nobody added you to this study; ask its admin.", code="unknown"
    )
    try:
        name = fields.name(claims.get(settings.name))
    except StoreError:
        raise stranger from None
    if settings.name == "email" and claims.get("email_verified") is not True:
        raise stranger
    try:
        found = store.people.get(name)
        # People may choose their names at some providers: a name alone takes over no account that matters.
        if found.role == "admin" or found.password_hash or name == LOCAL_NAME:
            raise stranger
    except UnknownRecordError:
        if not web.accounts.access.create or name == LOCAL_NAME:
            raise stranger from None
        web.accounts.add_unknown(name, "provider")
    try:
        return store.people.set_subject(name, subject)
    except ConflictError:
        raise stranger from None
