"""Several studies behind one address: each below `/s/NAME/`, and a page at `/` that lists what somebody may see.

Each study is the same app as alone, with its own accounts, sessions and tokens, unless people live in one of them
(guests.py): it sees paths without its prefix, and what it
answers (redirects, paths of cookies) gets the prefix on the way out. Nobody is listed a study that does not know them.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from steelyard.errors import ConfigError, SteelyardError, command
from steelyard.web import pages
from steelyard.web.access import Access
from steelyard.web.context import START, Web
from steelyard.web.problems import Problem
from steelyard.web.proxies import Proxied
from steelyard.web.requests import STUDY, Requests
from steelyard.web.security import Guard

__all__ = ["Many", "base_of", "create_many", "find_studies", "names_of", "read_people"]

_NO_STORE = {"Cache-Control": "no-store"}
_PATH = re.compile(r"(;\s*path=)/(?=[^;\s])", re.IGNORECASE)


def base_of(name: str) -> str:
    """What stands before every path of a study."""
    return f"/s/{name}"


def find_studies(folder: Path) -> list[Path]:
    """The studies that lie in a folder, by name.

    Raises:
        ConfigError: there is none.
    """
    found = sorted(path.parent for path in folder.glob("*/study.toml"))
    if not found:
        raise ConfigError(
            f"--studies {folder} holds no study; name a folder whose subfolders are studies, or make one with: "
            + command("init", folder / "NAME", "--images", "DIR")
        )
    return found


def names_of(folders: Sequence[Path]) -> dict[str, Path]:
    """A name in addresses for each study, after its folder.

    Raises:
        ConfigError: two have the same, or one has none.
    """
    names: dict[str, Path] = {}
    for folder in folders:
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", folder.resolve().name).strip("-")
        if not name or name in names:
            raise ConfigError(
                f"studies are told apart by the names of their folders, and {folder} has "
                + (
                    f"that of {names[name]}; rename one of the two"
                    if name
                    else "none that an address can hold"
                )
            )
        names[name] = folder
    return names


def read_people(name: str, called: Mapping[str, Path], access: Access) -> str | None:
    """The name of the study where the people of all live, None where each has its own.

    Raises:
        ConfigError: it is not served, or does not go with how people get in.
    """
    if not name:
        return None
    if "" in called:
        raise ConfigError(
            f"--people {name} is for several studies behind one address; name more than one, or use --studies DIR"
        )
    if name not in called:
        raise ConfigError(f"--people {name} is no study of this server; it serves {', '.join(called)}")
    if access.header:
        raise ConfigError(
            f"--people {name} does not go with --auth-header {access.header}: the proxy says already who somebody is in all studies"
        )
    if not access.login:
        raise ConfigError(f"--people {name} says where people sign in; it does not go with nobody signing in")
    return name


class Many:
    """Sends a request to the study in its path, and everything else to the start page.

    Args:
        start: answers what belongs to no study.
        studies: apps by name, each made with `base=base_of(name)`.
    """

    def __init__(self, start: ASGIApp, studies: Mapping[str, FastAPI]) -> None:
        self._start, self._studies = start, studies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _, first, name, *rest = [*scope.get("path", "").split("/", 3), "", ""][:4]
        study = self._studies.get(name) if scope["type"] == "http" and first == "s" else None
        if study is None:
            await self._start(scope, receive, send)
            return
        base = base_of(name)
        path = "/" + (rest[0] if rest else "")
        inner = {
            **scope,
            STUDY: name,
            "path": path,
            "raw_path": quote(path, safe="/:@!$&'()*+,;=~-._").encode(),
        }
        host = Headers(scope=scope).get("host", "")

        async def outwards(message: Message) -> None:
            if message["type"] == "http.response.start":
                _put_below(MutableHeaders(scope=message), base, host, path)
            await send(message)

        await study(inner, receive, outwards)


def _put_below(headers: MutableHeaders, base: str, host: str, path: str) -> None:
    """Let addresses that a study gives, and cookies that belong to a part of it, be those of the world outside.

    A whole address of our own host is ours only where the router mends the slash at the end of the path that was asked for: a
    provider of sign-ons may live on the same host.
    """
    where = headers.get("location", "")
    to = urlsplit(where)
    # No path of a study begins so: it sends somebody to another study, or to the start page.
    elsewhere = where == START or where.startswith(f"{START}/")
    if where.startswith("/") and not where.startswith("//") and not elsewhere:
        headers["location"] = base + where
    elif to.netloc and to.netloc == host and to.path.rstrip("/") == path.rstrip("/"):
        headers["location"] = to._replace(path=base + to.path).geturl()
    cookies = headers.getlist("set-cookie")
    if cookies:
        del headers["set-cookie"]
        for cookie in cookies:
            headers.append("set-cookie", _PATH.sub(rf"\g<1>{base}/", cookie))


def create_many(studies: Mapping[str, FastAPI], *, access: Access, hosts: Sequence[str] = ()) -> Many:
    """The app for several studies.

    Args:
        studies: apps by name, each made with `base=base_of(name)`.
        access: how people get in, the same for all of them.
        hosts: names the server answers to; empty takes any when people sign in.
    """
    webs: dict[str, Web] = {name: app.state.web for name, app in studies.items()}

    home = next((web.home for web in webs.values() if web.home is not None), None)

    async def start(request: Request) -> Response:
        """The studies that know whoever asks."""
        found, away = [], False
        who = None
        with suppress(SteelyardError, Problem):  # what follows tells of it
            who = await home.accounts.recognise(request) if home is not None else None
        for name, web in webs.items():
            try:
                entry = await _entry(request, name, web)
            except SteelyardError:
                entry, away = None, True
            if entry is not None:
                found.append(entry)
        return pages.render(
            "start.html", study="Studies", base="", here="/", pages=[], who=None, login=access.login, studies=found, away=away,
            unknown="name" in request.query_params, home=home.base if home is not None else "", person=who,
            data={"base": home.base, "csrf": who.csrf} if home is not None and who is not None else {},
        )  # fmt: skip

    async def choose(request: Request) -> Response:
        """From the name that somebody typed to where they sign in."""
        name = request.query_params.get("name", "").strip()
        to = (
            f"{base_of(name)}/login" if name in webs else "/?name=" if "name" in request.query_params else "/"
        )
        return RedirectResponse(to, 303, _NO_STORE)

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n", headers=_NO_STORE)

    async def readyz(_: Request) -> Response:
        """Ready when all are; `/s/NAME/readyz` says it of one."""
        problems = [await app.state.readiness.problem(app.state.web) for app in studies.values()]
        ready = not any(problems)
        return JSONResponse({"ready": ready}, 200 if ready else 503, _NO_STORE)

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for app in studies.values():
                await stack.enter_async_context(app.router.lifespan_context(app))
            yield

    root = Starlette(
        routes=[
            Route("/", start),
            Route("/s", choose),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Mount(f"/static/{pages.static_version()}", pages.Forever(directory=pages.STATIC)),
        ],
        # The first one is the outermost.
        middleware=[
            Middleware(Proxied, access=access),
            Middleware(Requests),
            Middleware(Guard, local=not access.login, hosts=hosts, tls=access.tls),
        ],
        lifespan=life,
    )
    return Many(root, studies)


async def _entry(request: Request, name: str, web: Web) -> dict[str, Any] | None:
    """What the start page says of a study; None for whom it does not know."""
    try:
        who = await web.accounts.recognise(request)
    except Problem:
        return None
    if who is None:
        return None
    mine = await run_in_threadpool(web.training.mine, who.name)
    done = await run_in_threadpool(web.training.answered)
    config = web.study.config
    return {
        "name": config.name, "base": base_of(name), "question": config.page.question, "role": who.role, "who": who.name,
        "mine": mine, "done": done, "wanted": web.training.wanted,
    }  # fmt: skip
