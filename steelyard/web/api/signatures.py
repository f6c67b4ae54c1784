"""Signing a finished study: who, when, with which meaning."""

from __future__ import annotations

import hashlib

from fastapi import APIRouter, Request

from steelyard.store.signature import Signature
from steelyard.study.signing import changed_since, sign_study
from steelyard.web.api.schema.fields import ChangeId
from steelyard.web.api.schema.signatures import SignatureIn, SignatureList, SignatureOut
from steelyard.web.context import Lead, Web, WebOf
from steelyard.web.problems import Problem, responses

__all__ = ["router"]

router = APIRouter(tags=["study"])


@router.get("/signatures", responses=responses(401, 403, 503))
def list_signatures(web: WebOf, who: Lead) -> SignatureList:
    """Who signed the study, oldest first, and what has changed since each."""
    return SignatureList(signatures=[_out(web, one) for one in web.store.audit.signatures()])


@router.post("/signatures", status_code=201, responses=responses(401, 403, 409, 422, 429, 503))
def sign(body: SignatureIn, web: WebOf, who: Lead, request: Request, key: ChangeId = None) -> SignatureOut:
    """Sign the study as it is now. Where people sign in, your password is asked again."""
    if who.via == "token":
        raise Problem(403, "Only a person can sign, not a token: sign in on the page.")
    via = "local"
    if web.accounts.login:
        try:
            web.accounts.by_password(request, who.name, body.password)
        except Problem as problem:
            if problem.status != 401:
                raise
            # Not 401: the session is fine, and a page that hears 401 sends people to sign in again.
            raise Problem(
                403,
                "The password is wrong. Somebody who signs in without one cannot sign; an admin can give you one.",
                code="credentials",
            ) from None
        via = "password"
    what = f"sign {hashlib.sha256(body.meaning.encode()).hexdigest()}"
    with web.store.change(key, who.name, what) as change:
        if change.first:
            return _out(web, sign_study(web.study, who.name, body.meaning, via=via, now=change.at))
    mine = [one for one in web.store.audit.signatures() if (one.signer, one.at) == (who.name, change.at)]
    return _out(web, mine[-1])


def _out(web: Web, one: Signature) -> SignatureOut:
    return SignatureOut(
        number=one.seq, at=one.at, signer=one.signer, meaning=one.meaning, via=one.via,
        heads=[str(head) for head in one.heads], model=one.model, configuration=one.configuration, catalog=one.catalog,
        key=one.key, changed_since=changed_since(web.study, one),
    )  # fmt: skip
