"""Signing in and out, annotators, API tokens."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from steelyard.store.errors import ConflictError
from steelyard.store.records import Annotator
from steelyard.web.api.schema.fields import Name, RowId
from steelyard.web.api.schema.people import (
    AnnotatorChange,
    AnnotatorInfo,
    AnnotatorList,
    Credentials,
    Link,
    Me,
    NewAnnotator,
    NewToken,
    Password,
    TokenInfo,
    TokenList,
    TokenMade,
)
from steelyard.web.auth import check_origin, client_address, digest, new_secret
from steelyard.web.context import Admin, Anyone, Lead, Web, WebOf
from steelyard.web.problems import Problem, responses

__all__ = ["router"]

router = APIRouter(tags=["people"])
Who = Annotated[Name, Path(description="The annotator's name.")]


@router.post("/session", responses=responses(401, 403, 422, 429))
def sign_in(body: Credentials, web: WebOf, request: Request, response: Response) -> Me:
    """Sign in with name and password, or with the secret of a personal link; sets the session cookie."""
    check_origin(request)
    if not body.link and not (body.name and body.password):
        raise Problem(422, "Give a name and a password, or the secret of a personal link.")
    annotator = web.accounts.sign_in(
        client_address(request), name=body.name, password=body.password, link=body.link
    )
    principal = web.accounts.start_session(annotator, request, response)
    response.headers["Cache-Control"] = "no-store"
    return Me(name=principal.name, role=principal.role, via=principal.via, csrf=principal.csrf)


@router.delete("/session", status_code=204, responses=responses(401, 403))
def sign_out(web: WebOf, who: Anyone, response: Response) -> None:
    """Sign out; the session is gone from the server too."""
    web.accounts.end_session(who, response)


@router.get("/me", responses=responses(401, 403))
def me(who: Anyone, response: Response) -> Me:
    """Who is asking."""
    response.headers["Cache-Control"] = "no-store"
    return Me(name=who.name, role=who.role, via=who.via, csrf=who.csrf)


# ---------------------------------------------------------------------- annotators


def _info(annotator: Annotator, answers: int) -> AnnotatorInfo:
    return AnnotatorInfo(
        name=annotator.name, role=annotator.role, active=annotator.active, answers=answers,
        has_password=annotator.password_hash is not None, has_link=annotator.link_hash is not None,
    )  # fmt: skip


def _counts(web: Web) -> dict[str, int]:
    return {row.annotator: row.answers for row in web.store.counts()}


@router.get("/annotators", responses=responses(401, 403, 503))
def list_annotators(web: WebOf, who: Lead) -> AnnotatorList:
    """Everybody, with how much they answered."""
    counts = _counts(web)
    return AnnotatorList(annotators=[_info(a, counts.get(a.name, 0)) for a in web.store.annotators()])


@router.post("/annotators", status_code=201, responses=responses(401, 403, 409, 422, 503))
def add_annotator(body: NewAnnotator, web: WebOf, who: Admin) -> AnnotatorInfo:
    """Somebody new. Without a link or a password nobody can sign in under the name yet."""
    added = web.store.add_annotator(body.name, role=body.role)
    web.store.audit(who.name, "annotator added", {"name": body.name, "role": body.role})
    return _info(added, 0)


@router.patch("/annotators/{name}", responses=responses(401, 403, 404, 409, 422, 503))
def change_annotator(name: Who, body: AnnotatorChange, web: WebOf, who: Admin) -> AnnotatorInfo:
    """Another role, or active or not. Answers stay whatever happens to their annotator."""
    annotator = web.store.annotator(name)
    loses = (body.role not in (None, "admin")) or body.active is False
    others = [a for a in web.store.annotators() if a.role == "admin" and a.active and a.name != name]
    if web.accounts.login and annotator.role == "admin" and loses and not others:
        raise Problem(409, f"{name} is the only admin; make somebody else admin first.")
    if body.role is not None:
        annotator = web.store.set_annotator(name, role=body.role)
        web.store.end_sessions(name)  # a session keeps the role it began with
    if body.active is not None:
        annotator = web.store.set_annotator(name, active=body.active)
    web.accounts.forget()
    web.store.audit(who.name, "annotator changed", {"name": name, **body.model_dump(exclude_none=True)})
    return _info(annotator, _counts(web).get(name, 0))


@router.post("/annotators/{name}/link", status_code=201, responses=responses(401, 403, 404, 422, 503))
def new_link(name: Who, web: WebOf, who: Admin, response: Response) -> Link:
    """A new personal link; an earlier one stops working. The secret stands behind “#”, so no server logs it."""
    web.store.annotator(name)
    secret = new_secret()
    web.store.set_annotator(name, link_hash=digest(secret))
    web.store.audit(who.name, "link made", {"name": name})
    response.headers["Cache-Control"] = "no-store"
    return Link(link=f"/login#link={secret}")


@router.post("/annotators/{name}/password", status_code=204, responses=responses(401, 403, 404, 422, 503))
def set_password(name: Who, body: Password, web: WebOf, who: Anyone) -> None:
    """Set a password: your own, or anybody's as an admin. Other sessions of that person end."""
    if name != who.name and not who.may("admin"):
        raise Problem(403, "Only an admin sets other people's passwords.", code="role")
    web.store.annotator(name)
    web.store.set_annotator(name, password_hash=web.accounts.hash_password(body.password))
    if name != who.name:
        web.store.end_sessions(name)
    web.accounts.forget()
    web.store.audit(who.name, "password set", {"name": name})


# ---------------------------------------------------------------------- tokens


@router.get("/tokens", responses=responses(401, 403, 503))
def list_tokens(web: WebOf, who: Anyone) -> TokenList:
    """Your API tokens; an admin sees everybody's."""
    found = web.store.tokens(None if who.may("admin") else who.name)
    return TokenList(
        tokens=[
            TokenInfo(
                id=t.id, annotator=t.annotator, label=t.label, created=t.created, last_used=t.last_used,
                revoked=t.revoked,
            )
            for t in found
        ]
    )  # fmt: skip


@router.post("/tokens", status_code=201, responses=responses(401, 403, 422, 503))
def add_token(body: NewToken, web: WebOf, who: Anyone, response: Response) -> TokenMade:
    """A token for programs; it may do what you may do, and is shown once."""
    if who.via == "local":
        _make_known(web, who.name)
    secret = new_secret()
    token = web.store.add_token(digest(secret), who.name, body.label)
    web.store.audit(who.name, "token made", {"label": body.label})
    response.headers["Cache-Control"] = "no-store"
    return TokenMade(id=token.id, token=secret)


@router.delete("/tokens/{id}", status_code=204, responses=responses(401, 403, 404, 422, 503))
def revoke_token(id: Annotated[RowId, Path()], web: WebOf, who: Anyone) -> None:
    """Revoke a token of yours; an admin revokes anybody's."""
    token = next((t for t in web.store.tokens() if t.id == id), None)
    if token is None or (token.annotator != who.name and not who.may("admin")):
        raise Problem(404, "There is no such token of yours.")
    if token.revoked is None:
        web.store.revoke_token(id)
        web.store.audit(who.name, "token revoked", {"label": token.label})
    web.accounts.forget()


def _make_known(web: Web, name: str) -> None:
    """The person at this machine may have no row yet, and is an admin here."""
    try:
        web.store.add_annotator(name, role="admin")
    except ConflictError:
        web.store.set_annotator(name, role="admin")
