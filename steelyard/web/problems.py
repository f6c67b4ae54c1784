"""Errors as problem documents (RFC 9457): translated here and nowhere else.

Whatever goes wrong below, a caller of the API gets `application/problem+json` with `type`, `title`, `status`,
`detail`, and a person gets a page that says what happened, whether something was lost, and what to do.
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

from steelyard.errors import CatalogError, ConfigError, ImageError, SteelyardError, StudyError
from steelyard.store.errors import BusyError, ConflictError, NotHandedOutError, StoreError, UnknownRecordError

__all__ = ["Problem", "ProblemDocument", "install", "problem_response", "responses"]

MEDIA_TYPE = "application/problem+json"
log = logging.getLogger("steelyard.web")

_STATUS: tuple[tuple[type[SteelyardError], int], ...] = (
    (UnknownRecordError, 404),
    (ConflictError, 409),
    (NotHandedOutError, 403),
    (BusyError, 503),
    (StoreError, 422),
    (ImageError, 422),
    (CatalogError, 404),
    (ConfigError, 422),
    (StudyError, 409),
)


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
    status: int, detail: str, *, code: str = "", headers: Mapping[str, str] | None = None
) -> Response:
    """A problem document as a response."""
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
    }
    return JSONResponse(
        body, status, {"Cache-Control": "no-store", **dict(headers or {})}, media_type=MEDIA_TYPE
    )


def install(app: FastAPI) -> None:
    """Make every error of the app a problem document, or a page where a person was reading one."""

    def answer(
        request: Request, status: int, detail: str, code: str = "", headers: Mapping[str, str] | None = None
    ) -> Response:
        if request.url.path.startswith("/api/"):
            return problem_response(status, detail, code=code, headers=headers)
        from steelyard.web.pages import error_page

        return error_page(request, status, detail)

    async def problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return answer(request, error.status, error.detail, error.code, error.headers)

    async def ours(request: Request, error: Exception) -> Response:
        status = next((number for kind, number in _STATUS if isinstance(error, kind)), 500)
        if status >= 500:
            log.error("%s %s: %s", request.method, request.url.path, error)
        return answer(request, status, str(error), headers={"Retry-After": "1"} if status == 503 else None)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        detail = {
            404: f"There is nothing at {request.url.path}.",
            405: "This address does not take that method.",
        }
        text = detail.get(error.status_code, str(error.detail))
        return answer(request, error.status_code, text, headers=error.headers)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        parts = []
        for item in error.errors()[:5]:
            place = ".".join(str(step) for step in item["loc"] if step not in ("body", "query", "path"))
            parts.append(f"{place or 'the body'}: {item['msg']}")
        return answer(request, 422, "; ".join(parts))

    async def unexpected(request: Request, error: Exception) -> Response:
        log.exception("%s %s failed", request.method, request.url.path, exc_info=error)
        text = (
            "Something went wrong in the server and was logged. Answers in your browser are kept; try again."
        )
        return answer(request, 500, text)

    app.add_exception_handler(Problem, problem)
    app.add_exception_handler(SteelyardError, ours)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(Exception, unexpected)
