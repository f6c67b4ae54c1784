"""Signing in and out, annotators, API tokens."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from steelyard.store.records import Annotator
from steelyard.web.api.schema.fields import ChangeId, Name, RowId
from steelyard.web.api.schema.people import (
    AnnotatorChange,
    AnnotatorInfo,
    AnnotatorList,
    Credentials,
    Link,
    Me,
    NewAnnotator,
    NewLink,
    NewToken,
    Password,
    SignedIn,
    TokenInfo,
    TokenList,
    TokenMade,
)
from steelyard.web.auth import Principal, check_origin, client_address, digest, new_secret
from steelyard.web.context import Admin, Anyone, Lead, Owner, Web, WebOf
from steelyard.web.problems import Problem, responses

__all__ = ["router"]

router = APIRouter(tags=["people"])
Who = Annotated[Name, Path(description="The annotator's name.")]


@router.post("/session", responses=responses(401, 403, 422, 429, 503))
def sign_in(
    body: Credentials, web: WebOf, request: Request, response: Response, key: ChangeId = None
) -> SignedIn:
    """Sign in with name and password, the secret of a personal link, or the key of this start; sets the session cookie."""
    check_origin(request)
    web.accounts.check_own()
    if body.key:
        annotator = web.accounts.by_key(body.key)
    elif body.link:
        annotator = web.accounts.by_link(body.link, client_address(request), key)
    elif body.name and body.password:
        annotator = web.accounts.by_password(request, body.name, body.password)
    else:
        raise Problem(422, "Give a name and a password, or the secret of a personal link.")
    principal = web.accounts.start_session(annotator, request, response)
    response.headers["Cache-Control"] = "no-store"
    # A link that worked once is gone: without a password the next visit would need another one.
    stranded = web.accounts.login and not annotator.password_hash and not annotator.link_hash
    return SignedIn(**_me(principal).model_dump(), needs_password=stranded)


@router.delete("/session", status_code=204, responses=responses(401, 403))
def sign_out(web: WebOf, who: Anyone, response: Response) -> None:
    """Sign out; the session is gone from the server too."""
    web.accounts.end_session(who, response)


@router.get("/me", responses=responses(401, 403))
def me(who: Anyone, response: Response) -> Me:
    """Who is asking."""
    response.headers["Cache-Control"] = "no-store"
    return _me(who)


def _me(who: Principal) -> Me:
    return Me(name=who.name, role=who.role, via=who.via, csrf=who.csrf, scope=who.scope)


# ---------------------------------------------------------------------- annotators


def _info(web: Web, annotator: Annotator, answers: int) -> AnnotatorInfo:
    elsewhere = web.home is not None  # its own secrets open nothing, and are not told
    return AnnotatorInfo(
        name=annotator.name, role=annotator.role, active=annotator.active, answers=answers,
        has_password=annotator.password_hash is not None and not elsewhere,
        has_link=annotator.link_hash is not None and not elsewhere,
        link_expires=annotator.link_expires, link_once=annotator.link_once,
        at_home=web.accounts.knows(annotator.name) if elsewhere else None,
    )  # fmt: skip


def _counts(web: Web) -> dict[str, int]:
    return {row.annotator: row.answers for row in web.store.answers.by_annotator()}


@router.get("/annotators", responses=responses(401, 403, 503))
def list_annotators(web: WebOf, who: Lead) -> AnnotatorList:
    """Everybody, with how much they answered."""
    counts = _counts(web)
    return AnnotatorList(
        annotators=[_info(web, a, counts.get(a.name, 0)) for a in web.store.people.all()],
        home=web.home.study.config.name if web.home is not None else "",
        # Who works on other studies is no lead's business.
        offered=web.accounts.offered() if who.may("admin") else [],
    )


@router.post("/annotators", status_code=201, responses=responses(401, 403, 409, 422, 503))
def add_annotator(body: NewAnnotator, web: WebOf, who: Admin, key: ChangeId = None) -> AnnotatorInfo:
    """Somebody new. Without a link or a password nobody can sign in under the name yet.

    Where people live in another study, only somebody who is there can be added.
    """
    if not web.accounts.knows(body.name):
        title = web.home.study.config.name if web.home is not None else ""
        raise Problem(
            422, f"“{title}”, where people of this server sign in, has nobody active called {body.name}; an admin there invites them first.",
            code="home",
        )  # fmt: skip
    with web.store.change(key, who.name, f"add annotator {body.name} ({body.role})") as change:
        if change.first:
            web.store.people.add(body.name, role=body.role)
            web.store.audit.add(who.name, "annotator added", {"name": body.name, "role": body.role})
        return _info(web, web.store.people.get(body.name), 0)


@router.patch("/annotators/{name}", responses=responses(401, 403, 404, 409, 422, 503))
def change_annotator(
    name: Who, body: AnnotatorChange, web: WebOf, who: Admin, key: ChangeId = None
) -> AnnotatorInfo:
    """Another role, or active or not. Answers stay whatever happens to their annotator."""
    asked = body.model_dump(exclude_none=True)
    with web.store.change(key, who.name, f"change annotator {name} {asked}") as change:
        annotator = web.store.people.get(name)
        loses = (body.role not in (None, "admin")) or body.active is False
        others = [
            a
            for a in web.store.people.all()
            if a.role == "admin" and a.active and a.name != name and web.accounts.knows(a.name)
        ]
        if change.first and web.accounts.login and annotator.role == "admin" and loses and not others:
            raise Problem(409, f"{name} is the only admin; make somebody else admin first.")
        if change.first:
            if body.role is not None:
                annotator = web.store.people.update(name, role=body.role)
            if body.active is not None:
                annotator = web.store.people.update(name, active=body.active)
            web.store.audit.add(who.name, "annotator changed", {"name": name, **asked})
    web.accounts.forget()
    return _info(web, annotator, _counts(web).get(name, 0))


@router.post("/annotators/{name}/link", status_code=201, responses=responses(401, 403, 404, 409, 422, 503))
def new_link(
    name: Who, web: WebOf, who: Admin, request: Request, response: Response, body: NewLink | None = None,
    key: ChangeId = None,
) -> Link:  # fmt: skip
    """A new personal link; an earlier one stops working. The secret stands behind “#”, so no server logs it."""
    web.accounts.check_own()
    if name == who.name:
        _in_person(who)
    wanted = body or NewLink()
    secret, expires = new_secret(), _end(wanted.days)
    made = {"name": name, "days": wanted.days, "reusable": wanted.reusable}
    with web.store.change(key, who.name, f"make link {made}") as change:
        # Sent again, the first secret never arrived and cannot be read any more: another one takes its place.
        web.store.people.set_link(name, digest(secret), expires=expires, once=not wanted.reusable)
        if change.first:
            web.store.audit.add(who.name, "link made", made)
    response.headers["Cache-Control"] = "no-store"
    link = f"/login#link={secret}"
    return Link(link=web.base + link, url=web.link(request, link), expires=expires, reusable=wanted.reusable)


@router.post(
    "/annotators/{name}/password", status_code=204, responses=responses(401, 403, 404, 409, 422, 503)
)
def set_password(name: Who, body: Password, web: WebOf, who: Owner, key: ChangeId = None) -> None:
    """Set a password: your own, or anybody's as an admin. Other sessions, the link and tokens of that person end."""
    web.accounts.check_own()
    if name != who.name and not who.may("admin"):
        raise Problem(403, "Only an admin sets other people's passwords.", code="role")
    if name == who.name:
        _in_person(who)
    web.store.people.get(name)
    web.accounts.passwords.refuse_weak(body.password, [name, web.study.config.name, "steelyard"])
    own = who.session if name == who.name else None
    hashed = web.accounts.passwords.hash(
        body.password
    )  # slow on purpose, so not while others wait for the store
    with web.store.change(key, who.name, f"set password of {name}") as change:
        if change.first:
            web.store.people.set_password(name, hashed, keep=own)
            web.store.audit.add(who.name, "password set", {"name": name})
    web.accounts.forget()
    # The note of a change cannot hold a password; whether it was this one the password itself says.
    known = None if change.first else web.store.people.get(name).password_hash
    if not change.first and not web.accounts.passwords.verify(known, body.password):
        raise Problem(409, "This id was used for another password; make a new id for a new one.")


@router.delete(
    "/annotators/{name}/sessions", status_code=204, responses=responses(401, 403, 404, 409, 422, 503)
)
def end_sessions(name: Who, web: WebOf, who: Owner, key: ChangeId = None) -> None:
    """Sign out everywhere: yourself, or anybody as an admin. Links and tokens stay."""
    web.accounts.check_own()
    if name != who.name and not who.may("admin"):
        raise Problem(403, "Only an admin signs other people out.", code="role")
    web.store.people.get(name)
    with web.store.change(key, who.name, f"sign out {name}") as change:
        if change.first:
            web.store.people.sessions.end_all(name)
            web.store.audit.add(who.name, "signed out everywhere", {"name": name})
    web.accounts.forget()


def _in_person(who: Principal) -> None:
    """Refuse a token that would outlive itself: by another token, or as the person who made it.

    Raises:
        Problem: 403.
    """
    if who.via == "token":
        raise Problem(
            403, "A token cannot create tokens, links or passwords: sign in on the page.",
            code="person",
        )  # fmt: skip


def _end(days: int | None) -> float | None:
    return None if days is None else time.time() + days * 86400


# ---------------------------------------------------------------------- tokens


@router.get("/tokens", responses=responses(401, 403, 503))
def list_tokens(web: WebOf, who: Anyone) -> TokenList:
    """Your API tokens; an admin sees everybody's."""
    found = web.store.people.tokens.all(None if who.may("admin") else who.name)
    return TokenList(
        tokens=[
            TokenInfo(
                id=t.id, annotator=t.annotator, label=t.label, created=t.created, last_used=t.last_used,
                revoked=t.revoked, scope=t.scope, expires=t.expires, mode=t.mode,
            )
            for t in found
        ]
    )  # fmt: skip


@router.post("/tokens", status_code=201, responses=responses(401, 403, 409, 422, 503))
def add_token(body: NewToken, web: WebOf, who: Owner, response: Response, key: ChangeId = None) -> TokenMade:
    """A token for programs, shown once. It never does more than you may do, and ends by itself."""
    _in_person(who)
    secret, expires = new_secret(), _end(body.days)
    made = {"label": body.label, "scope": body.scope, "days": body.days}
    with web.store.change(key, who.name, f"make token {made}") as change:
        if change.first:
            token = web.store.people.tokens.add(
                digest(secret), who.name, body.label, scope=body.scope, expires=expires,
                mode=web.accounts.mode, now=change.at,
            )  # fmt: skip
            web.store.audit.add(who.name, "token made", made)
        else:
            # The first secret never arrived: another one takes its place.
            mine = [
                t
                for t in web.store.people.tokens.all(who.name)
                if (t.created, t.label) == (change.at, body.label)
            ]
            token = web.store.people.tokens.renew(mine[0].id, digest(secret))
    response.headers["Cache-Control"] = "no-store"
    return TokenMade(id=token.id, token=secret, scope=token.scope, expires=token.expires)


@router.delete("/tokens/{id}", status_code=204, responses=responses(401, 403, 404, 409, 422, 503))
def revoke_token(id: Annotated[RowId, Path()], web: WebOf, who: Owner, key: ChangeId = None) -> None:
    """Revoke a token of yours; an admin revokes anybody's."""
    token = next((t for t in web.store.people.tokens.all() if t.id == id), None)
    if token is None or (token.annotator != who.name and not who.may("admin")):
        raise Problem(404, "You have no such token.")
    with web.store.change(key, who.name, f"revoke token {id}") as change:
        if change.first and token.revoked is None:
            web.store.people.tokens.revoke(id)
            web.store.audit.add(who.name, "token revoked", {"label": token.label})
    web.accounts.forget()
