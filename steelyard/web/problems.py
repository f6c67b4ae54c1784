"""Errors as problem documents (RFC 9457): translated here and nowhere else.

Whatever goes wrong below, a caller of the API gets `application/problem+json` with `type`, `title`, `status`,
`detail`, and a person gets a page that says what happened, whether something was lost, and what to do.

Who is not an admin is told an error's `public` text only: messages may name files, hosts and database users. Everything
from 500 up is logged here, once, with its trace (an outage without); the document carries the id of the request, so that both can be joined.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from steelyard.errors import CatalogError, ConfigError, ImageError, RankerError, SteelyardError, StudyError
from steelyard.store.errors import (
    BusyError,
    ConflictError,
    DamagedError,
    NotHandedOutError,
    StoreError,
    UnavailableError,
    UnknownRecordError,
)

__all__ = ["Problem", "ProblemDocument", "Unexpected", "answered", "install", "problem_response", "responses"]

MEDIA_TYPE = "application/problem+json"
log = logging.getLogger("steelyard.web")

_STATUS: tuple[tuple[type[SteelyardError], int], ...] = (
    (UnknownRecordError, 404),
    (ConflictError, 409),
    (NotHandedOutError, 403),
    (UnavailableError, 503),
    (DamagedError, 500),
    (StoreError, 422),
    (ImageError, 422),
    (CatalogError, 404),
    (ConfigError, 422),
    (StudyError, 409),
)

# What to tell whoever is not an admin of an error that is not known to be free of paths and hosts.
_HIDDEN = {
    500: "Something went wrong in the server and was logged. Answers in your browser are kept; they are sent again.",
    503: "The server cannot do this right now. Try again in a moment; answers in your browser are kept.",
}
_REFUSED = "The server cannot do this as asked, and the reason is for whoever runs it: tell them the request's number."


class Problem(Exception):
    """Something a caller did or met that has an HTTP status.

    Attributes:
        status: HTTP status.
        detail: one sentence: what happened and what to do.
        code: a word for programs, `csrf`, `login`, …
        headers: to send along.
    """

    def __init__(
        self, status: int, detail: str, *, code: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.code, self.headers = status, detail, code, dict(headers or {})


class ProblemDocument(BaseModel):
    """The body of every error."""

    type: str = Field("about:blank", description="What kind of problem, as a URI.")
    title: str = Field(description="The HTTP status in words.")
    status: int = Field(ge=400, le=599)
    detail: str = Field(description="What happened and what to do.")
    code: str = Field("", description="A word for programs.")
    request_id: str = Field("", description="Of this request, as in the server's log; with every 5xx.")


def responses(
    *statuses: int, also: dict[int | str, dict[str, Any]] | None = None
) -> dict[int | str, dict[str, Any]]:
    """The errors a route documents, and `also` what else it may answer."""
    return dict(also or {}) | {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
        }
        for status in statuses
    }


def problem_response(
    status: int,
    detail: str,
    *,
    code: str = "",
    headers: Mapping[str, str] | None = None,
    request_id: str = "",
) -> Response:
    """A problem document as a response."""
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
    }
    if request_id:
        body["request_id"] = request_id
    return JSONResponse(
        body, status, {"Cache-Control": "no-store", **dict(headers or {})}, media_type=MEDIA_TYPE
    )


def status_of(error: SteelyardError) -> int:
    """The HTTP status of an error of ours."""
    if isinstance(error, (CatalogError, ConfigError, RankerError, StudyError)) and _disk_failed(error):
        return 503
    return next((number for kind, number in _STATUS if isinstance(error, kind)), 500)


def _disk_failed(error: BaseException) -> bool:
    """Whether a disk that is full, read-only or failing is behind an error; a missing file is something else."""
    cause = error.__cause__ or error.__context__
    return isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError)


def _answer(
    request: Request, status: int, detail: str, code: str = "", headers: Mapping[str, str] | None = None,
    number: str = "",
) -> Response:  # fmt: skip
    number = number or (_number(request) if status >= 500 else "")
    if request.url.path.startswith("/api/"):
        return problem_response(status, detail, code=code, headers=headers, request_id=number)
    from steelyard.web.pages import error_page

    return error_page(request, status, detail, headers=headers, number=number)


def _number(request: Request) -> str:
    return str(getattr(request.state, "request_id", ""))


def _is_admin(request: Request) -> bool:
    who = getattr(request.state, "principal", None)
    return who is not None and bool(who.may("admin"))


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return _answer(request, error.status, error.detail, error.code, error.headers)


async def _ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, SteelyardError)
    status = status_of(error)
    # An outage brings hundreds: what happened is enough, the way there says nothing new.
    if isinstance(error, UnavailableError):
        log.error("a request failed with 503: %s", error)
    elif status >= 500:
        log.error("a request failed with %s", status, exc_info=error)
    headers = {"Retry-After": "1" if isinstance(error, BusyError) else "3"} if status == 503 else None
    if _is_admin(request):
        return _answer(request, status, str(error), headers=headers)
    if error.public is not None:
        return _answer(request, status, error.public, headers=headers)
    if status < 500:
        log.warning("a request was refused with %s: %s", status, error)
    return _answer(request, status, _HIDDEN.get(status, _REFUSED), headers=headers, number=_number(request))


async def _disk(request: Request, error: Exception) -> Response:
    """A disk that is full, read-only or failing: nothing is wrong with the request."""
    log.error("a request failed with 503", exc_info=error)
    return _answer(request, 503, _HIDDEN[503], headers={"Retry-After": "3"})


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = {404: "There is nothing at this address.", 405: "This address does not take that method."}
    text = detail.get(error.status_code, str(error.detail))
    return _answer(request, error.status_code, text, headers=error.headers)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    parts = []
    for item in error.errors()[:5]:
        place = ".".join(str(step) for step in item["loc"] if step not in ("body", "query", "path"))
        parts.append(f"{place or 'the body'}: {item['msg']}")
    return _answer(request, 422, "; ".join(parts))


async def answered(request: Request, error: Exception) -> Response:
    """The response to an error that is met before the app is reached."""
    if isinstance(error, Problem):
        return await _problem(request, error)
    return await (_http if isinstance(error, HTTPException) else _ours)(request, error)


def install(app: FastAPI) -> None:
    """Make every error of the app a problem document, or a page where a person was reading one."""
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(SteelyardError, _ours)
    app.add_exception_handler(OSError, _disk)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)


class Unexpected:
    """The innermost layer: what nobody foresaw becomes a 500 and one entry in the log.

    A handler for `Exception` would answer outside all other layers, without their headers, and hand the error on to the
    server, which logs it a second time.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except Exception as error:
            if scope["type"] != "http":
                raise
            log.error("a request failed with 500", exc_info=error)
            if begun:
                raise  # half an answer is out: only closing the line tells the other side
            await _answer(Request(scope), 500, _HIDDEN[500])(scope, receive, send)
