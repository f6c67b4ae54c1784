"""The web app: put together here, served here."""

from __future__ import annotations

import atexit
import gc
import html
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import webbrowser
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.middleware.gzip import GZipMiddleware

from steelyard.environment import read_secret
from steelyard.errors import StudyError
from steelyard.images.presence import look_for_files, say_where
from steelyard.study import Study
from steelyard.web import health, logs, pages, problems, sign_on
from steelyard.web.access import Access, read_access
from steelyard.web.addresses import UNSPECIFIED, listen, listening_address
from steelyard.web.api import (
    agreement,
    answers,
    conflicts,
    images,
    models,
    people,
    progress,
    questions,
    ranking,
    signatures,
    training,
)
from steelyard.web.api import study as study_routes
from steelyard.web.auth import digest, new_secret
from steelyard.web.bodies import Bodies
from steelyard.web.certificate import read_certificate
from steelyard.web.context import Web
from steelyard.web.guests import settle
from steelyard.web.health import Readiness
from steelyard.web.many import base_of, create_many, names_of, read_people
from steelyard.web.metrics import Metrics
from steelyard.web.proxies import Proxied
from steelyard.web.requests import Requests
from steelyard.web.security import ETags, Guard, is_loopback
from steelyard.web.trainer import TrainerProcess

__all__ = ["create_app", "first_link", "serve"]

FLUSH_SECONDS = 5.0
log = logging.getLogger("steelyard.web")


def create_app(
    study: Study,
    *,
    login: bool = False,
    hosts: Sequence[str] = (),
    apart: bool = False,
    access: Access | None = None,
    metrics_token: str = "",
    base: str = "",
    home: FastAPI | None = None,
) -> FastAPI:
    """The whole app for one study. It never imports torch.

    Args:
        study: open; whoever opened it closes it.
        login: whether everybody has to sign in. Without it, only requests to this very machine are answered, and only
            those of whoever has the key of this start (`app.state.web.accounts.key`).
        hosts: names the server answers to; empty takes any when people sign in.
        apart: choose pairs in a process of their own instead of a thread, as a server for many does, and before anybody asks.
        access: all about how people get in, instead of `login`.
        metrics_token: lets its bearer read /metrics from elsewhere; empty lets nobody but admins.
        base: what stands before its paths where `many.py` serves several; its processes then run on demand.
        home: the app of the study where its people live, if that is another one.
    """
    access = access or Access(login=login)
    if home is not None:
        access = replace(access, provider=None)  # whom the provider signs on, it signs on at home
    web = Web(study, access=access, apart=apart, base=base, home=home.state.web if home is not None else None)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        web.asker.start(at_once=apart and not base)
        web.keeper.start()
        web.courier.start()
        yield
        # Requests are over, or have had their time; an answer on its way to the disk is waited for all the same.
        if not web.scribe.flush(FLUSH_SECONDS):
            log.warning("answers were still being written when the server stopped; browsers send them again")
        web.keeper.stop()
        web.courier.stop()
        web.asker.end()
        if web.chooser is not None:
            web.chooser.stop()
        web.asker.stop()
        web.placer.stop()

    app = FastAPI(
        title="Steelyard", version=_version(), lifespan=life, docs_url=None, redoc_url=None,
        openapi_url="/api/v1/openapi.json",
        description="Compare images, grade them, read the ranking. Errors are problem documents (RFC 9457).",
        # FastAPI reports requests where an environment says so; here nothing is ever reported to anybody.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )  # fmt: skip
    app.state.web = web
    app.state.metrics, app.state.readiness = Metrics(), Readiness()
    app.state.metrics_token = metrics_token
    rooms = (
        answers,
        conflicts,
        images,
        ranking,
        progress,
        agreement,
        models,
        people,
        questions,
        study_routes,
        signatures,
        training,
    )
    for room in rooms:
        app.include_router(room.router, prefix="/api/v1")
    app.include_router(pages.router)
    app.include_router(health.router)
    if access.provider is not None:
        app.include_router(sign_on.router)
    app.mount(f"/static/{pages.static_version()}", pages.Forever(directory=pages.STATIC), name="static")
    problems.install(app)
    app.add_exception_handler(pages._SignIn, pages.to_login)
    # The last one added is the outermost.
    app.add_middleware(Bodies)
    app.add_middleware(problems.Unexpected)
    app.add_middleware(ETags)
    app.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=5)
    app.add_middleware(Guard, local=not access.login, hosts=hosts, tls=access.tls)
    app.add_middleware(Requests, observe=app.state.metrics.observe)
    app.add_middleware(Proxied, access=access)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


def _document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with problem documents as the only errors and the two ways to be known."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        schemas = document["components"]["schemas"]
        schemas["ProblemDocument"] = problems.ProblemDocument.model_json_schema()
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        document["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"},
            "session": {"type": "apiKey", "in": "cookie", "name": app.state.web.accounts.cookie},
        }
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if (path, method) != ("/api/v1/session", "post"):
                    operation["security"] = [{"token": []}, {"session": []}]
                operation["responses"].setdefault("400", problems.responses(400)[400])
                operation["responses"].setdefault("422", problems.responses(422)[422])
                operation["responses"]["500"] = problems.responses(500)[500]
        app.openapi_schema = document
    return app.openapi_schema


def first_link(study: Study) -> str | None:
    """Where everybody has to sign in and nobody can yet: the path of a personal link for a first admin."""
    now = time.time()
    able = [
        a
        for a in study.store.people.all()
        if a.active
        and a.role == "admin"
        and (a.password_hash or a.subject or (a.link_hash and (a.link_expires or now + 1) > now))
    ]
    if able:
        return None
    secret = new_secret()
    if "admin" not in {a.name for a in study.store.people.all()}:
        study.store.people.add("admin", role="admin")
    study.store.people.update("admin", role="admin", active=True)
    # It works once: whoever comes by it signs in, or asks for a password, before anybody who finds it later.
    study.store.people.set_link("admin", digest(secret), once=True)
    study.store.audit.add("server", "first admin link made")
    return f"/login#link={secret}"


def serve(
    study_folder: str | Path | Sequence[Path],
    host: str = "127.0.0.1",
    port: int = 8765,
    open_browser: bool = False,
    *,
    login: bool | None = None,
    hosts: Sequence[str] = (),
    proxies: Sequence[str] = (),
    auth_header: str = "",
    auth_create: bool = False,
    tls_cert: str | Path | None = None,
    tls_key: str | Path | None = None,
    public_url: str = "",
    train: bool = True,
    many: bool = False,
    people: str = "",
    log_format: str = "",
    say: Callable[[str], None] | None = None,
) -> None:
    """Serve a study until interrupted, with a trainer beside it.

    Args:
        study_folder: the study; of several, each is served below `/s/NAME/`, with one trainer for all.
        host: address to listen on; any but this machine's own makes everybody sign in.
        port: to listen on; 0 takes a free one.
        open_browser: show the page.
        login: make people sign in on this machine's own address too (behind a proxy); the environment variable
            STEELYARD_LOGIN=1 does the same.
        hosts: names the server answers to, STEELYARD_HOSTS=a,b does the same; empty takes any when people sign in.
        proxies: addresses or networks whose X-Forwarded-For and X-Forwarded-Proto are believed (STEELYARD_PROXIES).
        auth_header: in which those proxies name who signed in there (STEELYARD_AUTH_HEADER).
        auth_create: make annotators of people whom the proxy knows and the study does not (STEELYARD_AUTH_CREATE=1).
        tls_cert: certificate (chain) in PEM, to speak TLS without a proxy.
        tls_key: its key, if it is not in the same file.
        public_url: under which people find the page, for every link (STEELYARD_PUBLIC_URL).
        many: below `/s/NAME/` even if it is but one, for there may be others tomorrow.
        people: name of the study where the people of all of them live and sign in (STEELYARD_PEOPLE).
        train: start a trainer process; False where `steelyard worker` runs elsewhere.
        log_format: quiet, text or json; STEELYARD_LOG does the same.
        say: where a line for the person at the terminal goes; stderr by default.

    Raises:
        StudyError: there is no study, the address is taken, or login was turned off for an address others reach.
        ConfigError: proxies, header, certificate, port or public address cannot be used.
    """
    import uvicorn

    from steelyard.web.heads import Heads

    form = logs.chosen_format(log_format)
    logs.set_up(form)
    os.environ["STEELYARD_LOG"] = form  # for the processes beside this one
    tell = say or (lambda text: print(text, file=sys.stderr, flush=True))
    local = is_loopback(host)
    tls = read_certificate(tls_cert, tls_key)
    access = read_access(
        login=login, local=local, proxies=proxies, header=auth_header, create=auth_create, tls=bool(tls),
        public_url=public_url,
    )  # fmt: skip
    if not access.login and not local:
        raise StudyError(f"people must sign in where others can reach the page; {host} is not 127.0.0.1")
    names = list(hosts) or [name for name in os.environ.get("STEELYARD_HOSTS", "").split(",") if name]
    if names and access.public:
        names.append(urlsplit(access.public).hostname or "")
    folders = [Path(study_folder)] if isinstance(study_folder, str | Path) else list(study_folder)
    called = names_of(folders) if many or len(folders) > 1 else {"": folders[0]}
    lives = read_people(people or os.environ.get("STEELYARD_PEOPLE", ""), called, access)
    with ExitStack() as stack:
        apps: dict[str, FastAPI] = {}
        for name in sorted(called, key=lambda name: name != lives):  # the home first: the others refer to it
            apps[name] = create_app(
                stack.enter_context(Study.open(called[name])), hosts=names, apart=True, access=access, home=apps.get(lives or ""),
                metrics_token=read_secret("STEELYARD_METRICS_TOKEN"), base=base_of(name) if name else "",
            )  # fmt: skip
        apps = {name: apps[name] for name in called}
        webs: list[Web] = [app.state.web for app in apps.values()]
        app: Any = apps[""] if "" in apps else create_many(apps, access=access, hosts=names)
        config = uvicorn.Config(
            app, host=host, port=port, http=Heads, log_config=None, access_log=False, server_header=False,
            timeout_graceful_shutdown=5, timeout_keep_alive=30,
            proxy_headers=False,  # it would believe every program of this machine; see proxies.py
            **tls,
        )  # fmt: skip
        socket = listen(host, port)
        here = listening_address("https" if tls else "http", host, socket.getsockname()[1])
        address = access.public or here
        for web in webs:
            web.listening, web.accounts.key = here, webs[0].accounts.key  # whoever starts them may open all
        links = {web: first_link(web.study) for web in webs if web.home is None} if access.login else {}
        start = "/"
        if "" in apps:
            start = links.get(webs[0]) or ("/" if access.login else f"/login#key={webs[0].accounts.key}")
        elif not access.login:
            start = f"/#key={webs[0].accounts.key}&studies={','.join(apps)}"
        title = webs[0].study.config.name if "" in apps else f"{len(webs)} studies"
        tell(f"{title}: {address}{start}")
        for web, link in links.items():
            if web.base and link:
                tell(f"{web.study.config.name}: {address}{web.base}{link}")
        for web in webs:
            for line in settle(web.study, web.home.study) if web.home is not None else ():
                tell(line)
        if not access.login:
            tell("Open this link: its key keeps the machine's other users out. Press Ctrl+C to stop.")
        elif any(links.values()):
            tell("This link signs in the first admin; it works once. Press Ctrl+C to stop.")
        if host in UNSPECIFIED and not access.public:
            tell(f"Others reach it at {here} if the network lets them; --public-url says otherwise.")
        if not local and not tls and not (access.proxies and access.public.startswith("https:")):
            tell(
                "Warning: served to others over plain HTTP, so whoever listens on the network reads answers and "
                "sessions. Use --tls-cert and --tls-key, or a proxy with TLS (docs/operations.md)."
            )
        if access.header and (access.trusts("127.0.0.1") or access.trusts("::1")):
            tell(
                f"Warning: {access.header} is believed from this machine, so whoever has an account on it can claim to be "
                "anybody. Let nobody else on, or put the proxy on a machine of its own (docs/operations.md)."
            )
        for study in (web.study for web in webs):
            files = look_for_files(study.catalog, without=study.store.images.excluded_rows().tolist())
            if files.missing:
                tell(
                    f"Warning: {files.sentence}. Pairs with them are not asked; {say_where(study.folder)} (also while this runs)"
                )
        # Requests are answered in threads; none should wait the usual 5 ms for another's turn with Python's lock.
        sys.setswitchinterval(0.001)
        # What is there now stays: looking through it for cycles would make everybody wait for a tenth of a second.
        gc.collect()
        gc.freeze()
        if threading.current_thread() is threading.main_thread():
            # uvicorn raises the signal again when it has shut down; leave by the front door, trainer and all.
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        trainer = TrainerProcess(*folders) if train else None
        if trainer is not None:
            trainer.start()
        if open_browser:
            threading.Timer(1.0, _show, [f"{address}{start}"]).start()
        try:
            uvicorn.Server(config).run(sockets=[socket])
        except KeyboardInterrupt:
            pass
        finally:
            if trainer is not None:
                trainer.stop()
                for web in webs:
                    trainer.give_back(web.store)
            socket.close()


def _show(link: str) -> None:
    """Open a link in the browser without writing its secret where the machine's other users read it.

    The command line of a program is for everybody; a file that only its owner reads is not.
    """
    folder = Path(tempfile.mkdtemp(prefix="steelyard-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    page = folder / "open.html"
    page.write_text(f'<meta http-equiv="refresh" content="0; url={html.escape(link)}">', encoding="utf-8")
    webbrowser.open(page.as_uri())


def _version() -> str:
    try:
        return version("steelyard")
    except PackageNotFoundError:
        return "0"
