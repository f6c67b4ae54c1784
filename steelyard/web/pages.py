"""The pages: server-rendered shells with what they need to know; the modules in static/ do the rest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from steelyard.config.questions import COMPOSITE
from steelyard.config.words import read_words
from steelyard.loop.policy import AHEAD
from steelyard.store.records import Role
from steelyard.trust.card_sections import card_sections
from steelyard.web.api.models import card_of
from steelyard.web.api.questions import asked, questions_set
from steelyard.web.api.study import study_info
from steelyard.web.auth import Principal
from steelyard.web.context import START, Web, maybe, web_of
from steelyard.web.problems import Problem
from steelyard.web.prose import read_prose

__all__ = ["Forever", "error_page", "render", "router", "static_version"]

HERE = Path(__file__).parent
STATIC = HERE / "static"
POLL_SECONDS = 3
router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

# name, address, least role
PAGES: tuple[tuple[str, str, Role], ...] = (
    ("Compare", "/compare", "annotator"),
    ("Grade", "/grade", "annotator"),
    ("Adjudicate", "/adjudicate", "lead"),
    ("Ranking", "/ranking", "lead"),
    ("Progress", "/progress", "annotator"),
    ("Agreement", "/agreement", "annotator"),
    ("Model", "/model", "lead"),
    ("Admin", "/admin", "lead"),
)

_OWN = re.compile(
    rf"({'|'.join(address for _, address, _ in PAGES)}|/instructions|/api)(\?[A-Za-z0-9_.=&-]{{0,200}})?"
)


class Forever(StaticFiles):
    """Static files under a version in their address: kept by browsers forever, never listed."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        if response.status_code == 200:
            response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


@cache
def static_version() -> str:
    """A name that changes with any static file, so that browsers may keep them forever."""
    seen = hashlib.blake2b(digest_size=6)
    for path in sorted(STATIC.iterdir()):
        seen.update(path.name.encode() + path.read_bytes())
    return seen.hexdigest()


@cache
def _templates() -> Environment:
    return Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip


def render(template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A page. It is never kept by a cache: it carries the session's CSRF token."""
    html = _templates().get_template(template).render(static=f"/static/{static_version()}", **values)
    return HTMLResponse(html, status, {"Cache-Control": "no-store"})


def _shell(web: Web, who: Principal | None, here: str, **data: Any) -> dict[str, Any]:
    """What every page knows; `data` goes to its scripts."""
    config = web.study.config
    words = config.page.words
    return {
        "study": config.name,
        "base": web.base,
        "words": words,
        "here": here,
        "pages": [
            *((name, address) for name, address, role in PAGES if who is not None and who.may(role)),
            *([("Instructions", "/instructions")] if who is not None and web.training.instructions() else []),
        ],
        "who": who,
        "login": web.accounts.login,
        "data": {
            "study": web.id,
            "base": web.base,
            "annotator": who.name if who else "",
            "csrf": who.csrf if who else "",
            "pollSeconds": POLL_SECONDS,
            "words": words.to_dict(),
            "wording": web.wording,
            **data,
        },
    }


async def _enter(request: Request, role: Role) -> Principal:
    principal = await maybe(request)
    if principal is None:
        raise _SignIn(request.url.path + (f"?{request.url.query}" if request.url.query else ""))
    if not principal.may(role):
        raise Problem(403, f"This page is for the role “{role}”; yours is “{principal.role}”.")
    return principal


class _SignIn(Exception):
    """Nobody is signed in: go to the login page and come back."""

    def __init__(self, back: str) -> None:
        self.back = back


async def to_login(request: Request, error: Exception) -> Response:
    """Send somebody to the login page."""
    assert isinstance(error, _SignIn)
    return RedirectResponse(f"/login?next={quote(error.back)}", 303, {"Cache-Control": "no-store"})


def _grades(web: Web) -> list[dict[str, str]]:
    grades = web.study.grade_list
    return [{"name": name, "text": text} for name, text in zip(grades.names, grades.definitions, strict=True)]


@router.get("/")
async def home() -> Response:
    """Straight to work."""
    return RedirectResponse("/compare", 307)


@router.get("/compare")
async def compare(request: Request) -> Response:
    """Two images, one question."""
    web, who = web_of(request), await _enter(request, "annotator")
    if await run_in_threadpool(web.training.to_read, who.name):
        return _to_instructions("/compare")
    config = web.study.config
    done = await run_in_threadpool(web.training.answered)
    mine = await run_in_threadpool(web.training.mine, who.name)
    web.asker.want(who.name)
    return render(
        "compare.html",
        question=config.page.question,
        reasons=config.page.reasons,
        **_shell(
            web, who, "/compare", reasons=config.page.reasons, keys=dict(config.page.keys), breakMinutes=config.page.break_minutes, ahead=AHEAD,
            breakAnswers=config.page.break_answers, leaseSeconds=config.ask.lease_seconds, done=done, mine=mine, wanted=web.training.wanted,
            questions=[one.model_dump() for one in asked(web)],
        ),
    )  # fmt: skip


@router.get("/grade")
async def grade(request: Request) -> Response:
    """One image, its grade."""
    web, who = web_of(request), await _enter(request, "annotator")
    if await run_in_threadpool(web.training.to_read, who.name):
        return _to_instructions("/grade")
    config = web.study.config
    keys = {name: key for name, key in config.page.keys.items() if name == "undo"}
    data = _shell(
        web,
        who,
        "/grade",
        grades=_grades(web),
        keys=keys,
        breakMinutes=config.page.break_minutes,
        breakAnswers=config.page.break_answers,
        done=0,
        wanted=0,
    )
    return render("grade.html", grades=_grades(web), **data)


@router.get("/adjudicate")
async def adjudicate(request: Request) -> Response:
    """Two images on which people disagree, and a decision."""
    web, who = web_of(request), await _enter(request, "lead")
    page = web.study.config.page
    shell = _shell(
        web, who, "/adjudicate", keys=dict(page.keys), breakMinutes=page.break_minutes, done=0, wanted=0
    )
    return render("adjudicate.html", question=page.question, **shell)


def _to_instructions(back: str) -> Response:
    return RedirectResponse(f"/instructions?next={quote(back)}", 303, {"Cache-Control": "no-store"})


@router.get("/instructions")
async def instructions(request: Request, next: str = "") -> Response:
    """What people read before their first pair, with examples; agreed to where the study asks for that."""
    web, who = web_of(request), await _enter(request, "annotator")
    found = web.training.instructions()
    if found is None:
        return RedirectResponse("/compare", 303, {"Cache-Control": "no-store"})
    web.sight.show(who.name, (row for row, _ in found.examples))
    return render(
        "instructions.html", blocks=read_prose(found.text), consent=found.consent,
        examples=[(web.ids.at(row), caption) for row, caption in found.examples],
        accepted=not await run_in_threadpool(web.training.to_read, who.name),
        **_shell(web, who, "/instructions", version=found.version, next=own_path(next) or "/compare"),
    )  # fmt: skip


@router.get("/ranking")
async def ranking(request: Request) -> Response:
    """All images in order."""
    web, who = web_of(request), await _enter(request, "lead")
    scales = _scales(web)
    return render(
        "ranking.html", grades=_grades(web), scales=scales, **_shell(web, who, "/ranking", scales=scales)
    )


def _scales(web: Web) -> list[dict[str, Any]]:
    """The scales that the ranking may be shown on; none where there is but one."""
    if not web.study.config.questions:
        return []
    words = read_words("", scale=COMPOSITE)
    whole = {"key": COMPOSITE, "question": "Composite of all scales", "words": words.to_dict()}
    return [*(one.model_dump() for one in asked(web)), whole]


@router.get("/progress")
async def progress(request: Request) -> Response:
    """How far the study is."""
    web, who = web_of(request), await _enter(request, "annotator")
    several = bool(web.study.config.questions) and who.may("lead")
    return render("progress.html", several=several, **_shell(web, who, "/progress", mayLead=who.may("lead")))


@router.get("/agreement")
async def agreement(request: Request) -> Response:
    """How well people agree; annotators see their own line."""
    web, who = web_of(request), await _enter(request, "annotator")
    return render("agreement.html", **_shell(web, who, "/agreement", lead=who.may("lead")))


@router.get("/model")
async def model(request: Request, id: int | None = None) -> Response:
    """What is known about a model, and what is not: to read and to print."""
    web, who = web_of(request), await _enter(request, "lead")
    models = await run_in_threadpool(web.store.models.all)
    chosen = [one for one in models if one.id == id] if id is not None else models[-1:]
    if id is not None and not chosen:
        raise Problem(404, f"There is no model {id}.")
    shown = await run_in_threadpool(card_of, web, chosen[0]) if chosen else None
    return render(
        "model.html", model=shown, sections=card_sections(shown.card) if shown and shown.card else [],
        earlier=[one for one in reversed(models) if chosen and one.id != chosen[0].id][:20],
        **_shell(web, who, "/model"),
    )  # fmt: skip


@router.get("/admin")
async def admin(request: Request) -> Response:
    """People, wording, export, backup, audit log."""
    web, who = web_of(request), await _enter(request, "lead")
    info = await run_in_threadpool(study_info, web)
    further = await run_in_threadpool(questions_set, web)
    return render(
        "admin.html", info=info, formats=("csv", "json", "parquet", "choix", "labelstudio"),
        asks_further=web.study.config.ranker.kind == "convex",
        home=web.home.study.config.name if web.home is not None else "",
        **_shell(
            web, who, "/admin", mayManage=who.may("admin"), asking=further.model_dump()["questions"],
            home=web.home.study.config.name if web.home is not None else "",
        ),
    )  # fmt: skip


@router.get("/login")
async def login(request: Request, next: str = "") -> Response:
    """Sign in with a password or a personal link."""
    web = web_of(request)
    if web.home is not None:
        back = quote(web.base + (own_path(next) or "/compare"))
        return RedirectResponse(f"{web.home.base}/login?next={back}", 303, {"Cache-Control": "no-store"})
    provider, back = web.accounts.access.provider, way_back(web, next)
    return render(
        "login.html",
        provider=provider.label if provider else "",
        **_shell(
            web,
            None,
            "/login",
            next=own_path(next) or (back if web.guests else ""),
            onwards=back if _elsewhere(back) else web.base + back,
        ),
    )


def _elsewhere(path: str) -> bool:
    return path == START or path.startswith(f"{START}/")


def way_back(web: Web, address: str) -> str:
    """Where somebody goes who has signed in: a page of this study, or one of a study whose people live here."""
    for base in web.guests:
        rest = own_path(address.removeprefix(base)) if address.startswith(f"{base}/") else ""
        if rest:
            return base + rest
    return own_path(address) or (START if web.guests else "/compare")


def own_path(address: str) -> str:
    """A page of ours with at most a plain query, or nothing: browsers read “//”, “/\\” and “/⇥/” as another site."""
    return address if _OWN.fullmatch(address) else ""


@router.get("/api")
async def api_reference(request: Request) -> Response:
    """The API, readable without a browser plug-in or the internet."""
    web = web_of(request)
    who = await maybe(request)
    document = request.app.openapi()
    routes = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return render("api.html", routes=routes, **_shell(web, who, "/api"))


def error_page(
    request: Request, status: int, detail: str, *, headers: Mapping[str, str] | None = None, number: str = ""
) -> Response:
    """A page for an error: what happened, what was not lost, what to do."""
    web = web_of(request)
    title = {
        403: "Not for you",
        404: "Nothing here",
        409: "Not yet",
        429: "A moment, please",
        500: "Something went wrong",
        503: "A moment, please",
    }.get(status, HTTPStatus(status).phrase)
    page = render(
        "error.html", status=status, title=title, detail=detail, number=number, **_shell(web, None, "")
    )
    for name, value in (headers or {}).items():
        page.headers[name] = value
    return page
