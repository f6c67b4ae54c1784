"""For machines that watch over the server: is it alive, can it work, how is it doing.

Strangers learn yes or no. What exactly is wrong, and the trainer's state, is for admins.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from typing import Any

from anyio import to_thread
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from steelyard.errors import SteelyardError
from steelyard.web.auth import Principal
from steelyard.web.context import Web, maybe, web_of
from steelyard.web.metrics import MEDIA_TYPE
from steelyard.web.problems import Problem
from steelyard.web.security import is_loopback

__all__ = ["Readiness", "router"]

FRESH_SECONDS = 1.0
PATIENCE_SECONDS = 5.0
router = APIRouter(include_in_schema=False)
_NO_STORE = {"Cache-Control": "no-store"}


class Readiness:
    """Whether the store can be used; asked at most once a second, however many ask us."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._asked = -FRESH_SECONDS
        self._problem: str = ""

    async def problem(self, web: Web) -> str:
        """Why the store cannot be used, empty if it can."""
        async with self._lock:
            if time.monotonic() - self._asked >= FRESH_SECONDS:
                self._problem = await self._ask(web)
                self._asked = time.monotonic()
            return self._problem

    async def _ask(self, web: Web) -> str:
        try:
            asking = to_thread.run_sync(web.store.probe, abandon_on_cancel=True)
            await asyncio.wait_for(asking, PATIENCE_SECONDS)
        except SteelyardError as error:
            return str(error)
        except asyncio.TimeoutError:
            return f"the database did not answer within {PATIENCE_SECONDS:.0f} s"
        return ""


async def _known(request: Request) -> Principal | None:
    """Who asks; a probe must be answered even when that cannot be looked up."""
    try:
        return await maybe(request)
    except (Problem, SteelyardError):
        return None


@router.get("/healthz")
async def healthz() -> Response:
    """The process is alive."""
    return PlainTextResponse("ok\n", headers=_NO_STORE)


@router.get("/readyz")
async def readyz(request: Request) -> Response:
    """The store answers and can be written."""
    web = web_of(request)
    problem = await request.app.state.readiness.problem(web)
    body: dict[str, Any] = {"ready": not problem}
    who = await _known(request)
    if who is not None and who.may("admin"):
        body |= {"store": problem or "ok", "chooser": web.asker.problem or "ok"}
        if not problem:
            state = await to_thread.run_sync(lambda: web.store.models.trainer.state())
            body["trainer"] = {
                "busy": state.owner is not None,
                "stage": str((state.progress or {}).get("stage", "")),
                "heartbeat": state.heartbeat,
            }
    return JSONResponse(body, 503 if problem else 200, _NO_STORE | ({"Retry-After": "3"} if problem else {}))


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Numbers for Prometheus: from this machine, with the configured token, or to an admin."""
    if not _is_scraper(request):
        who = await maybe(request)
        if who is None or not who.may("admin"):
            raise Problem(
                403, "Metrics are for this machine, for STEELYARD_METRICS_TOKEN, and for admins.", code="role"
            )
    web, known = web_of(request), request.app.state.metrics
    return Response(await to_thread.run_sync(known.text, web.store), media_type=MEDIA_TYPE, headers=_NO_STORE)


def _is_scraper(request: Request) -> bool:
    token = request.app.state.metrics_token
    given = request.headers.get("authorization", "").partition(" ")[2].strip()
    if token and hmac.compare_digest(given.encode("utf-8", "replace"), token.encode()):
        return True
    # A proxy on this machine comes from here too, but says for whom.
    forwarded = any(name in request.headers for name in ("x-forwarded-for", "forwarded", "via"))
    return request.client is not None and is_loopback(request.client.host) and not forwarded and not given
