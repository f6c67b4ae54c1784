"""Studies with drawn pictures and known severity, on both databases; a server in a thread; a real browser."""

from __future__ import annotations

import inspect
import os
import shutil
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import uvicorn
from PIL import Image

from steelyard.images.catalog import Catalog
from steelyard.images.synthetic import SyntheticImages, draw, write
from steelyard.study import Study
from steelyard.web import ranking
from steelyard.web.app import create_app
from steelyard.web.auth import digest
from steelyard.web.heads import Heads
from tests.chromium import chromium_options
from tests.waiting import until
from tests.web.actors import (
    GRADES,
    PATIENCE,
    Client,
    Enter,
    MakeStudy,
    N,
    Open,
    Serve,
    Server,
    Teach,
    Team,
    Window,
    answer_truly,
)
from tests.web.blinded import FAR


@pytest.fixture(scope="session", autouse=True)
def patient_clients() -> Iterator[None]:
    """Requests that say nothing of a timeout wait as long as those of `Client`: httpx's own 5 s fail on a busy machine."""
    usual = (
        inspect.signature(httpx.get).parameters["timeout"].default
    )  # one object, shared by every function and client
    before = usual.as_dict()
    for part in before:
        setattr(usual, part, PATIENCE)
    assert httpx.Client().timeout == httpx.Timeout(PATIENCE)
    yield
    for part, seconds in before.items():
        setattr(usual, part, seconds)


@pytest.fixture(scope="session")
def drawn() -> SyntheticImages:
    """Sixty small pictures, drawn once."""
    return draw(N, size=96, seed=5, workers=1, shares=(0.35, 0.3, 0.2, 0.15))


@pytest.fixture(scope="session")
def pictures(drawn: SyntheticImages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of PNGs with labels.csv, and features that know the severity."""
    folder = tmp_path_factory.mktemp("pictures")
    table = write(folder, drawn)
    lines = table.read_text(encoding="utf-8").splitlines()
    for k in range(1, len(lines), 3):  # every third image has no grade yet
        image, _, *rest = lines[k].split(",")
        lines[k] = ",".join([image, "", *rest])
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    rng = np.random.default_rng(1)
    rows = np.column_stack([drawn.severity, rng.normal(size=(N, 5))]).astype(np.float32)
    np.save(folder / "features.npy", rows)
    return folder


@pytest.fixture
def make_study(pictures: Path, tmp_path: Path) -> Iterator[MakeStudy]:
    """Studies that are closed afterwards."""
    made: list[Study] = []

    def make(folder: str = "colon", **changes: Any) -> Study:
        catalog = Catalog.from_features(pictures / "features.npy", pictures / "labels.csv", root=pictures)
        settings = {"page": {"grades": GRADES}, "ask": {"budget": "200%", "start": "random"}, **changes}
        study = Study.create(tmp_path / folder, catalog, preset="features", **settings)
        made.append(study)
        return study

    yield make
    for study in made:
        study.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def store_url(request: pytest.FixtureRequest) -> str:
    """Where the store is: an empty URL is the study's own SQLite file."""
    return "" if request.param == "sqlite" else request.getfixturevalue("postgres_reused")()


@pytest.fixture
def teach(drawn: SyntheticImages) -> Teach:
    """Let somebody who knows the severities answer n pairs, then train."""

    def answer(study: Study, n: int, annotator: str = "kt") -> None:
        answer_truly(study, drawn, n, annotator)

    return answer


@pytest.fixture
def run_app() -> Iterator[Callable[[Any], str]]:
    """Runs an app in a thread and gives its address."""
    running: list[tuple[uvicorn.Server, threading.Thread, socket.socket]] = []

    def start(app: Any) -> str:
        config = uvicorn.Config(
            app, port=0, http=Heads, log_level="error", access_log=False, timeout_graceful_shutdown=1,
            proxy_headers=False,
        )  # fmt: skip
        listening = config.bind_socket()
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        until(lambda: server.started or not thread.is_alive(), "the server's start", every=0.01)
        assert server.started
        running.append((server, thread, listening))
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    yield start
    for server, thread, listening in running:
        server.should_exit = True
        thread.join(timeout=10)
        listening.close()


def admit(study: Study, people: dict[str, str]) -> dict[str, str]:
    """Add people (name → role) and give the secrets of their links."""
    secrets = {name: f"secret-of-{name}-{uuid.uuid4().hex}" for name in people}
    for name, role in people.items():
        study.store.people.add(name, role=role, link_hash=digest(secrets[name]))  # type: ignore[arg-type]
    return secrets


@pytest.fixture
def serve(run_app: Callable[[Any], str]) -> Serve:
    """Serve a study from a thread; `people` (name → role) makes everybody sign in."""

    def start(study: Study, people: dict[str, str] | None = None, **options: Any) -> Server:
        secrets = admit(study, people or {})
        app = create_app(study, login=bool(people), **options)
        return Server(study, run_app(app), secrets, app)

    return start


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One Chromium for all tests."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(**chromium_options())
        yield running
        running.close()


@pytest.fixture
def enter() -> Iterator[Enter]:
    """Somebody at a server: signed in by personal link, or the one person at this machine, with the key."""
    clients: list[Client] = []

    def person(server: Server, name: str = "", **options: Any) -> Client:
        client = Client(server, **options)
        clients.append(client)
        if name:
            return client.sign_in(name)
        if server.key and "headers" not in options:
            client.cookies.update(server.cookies())
            client.headers["X-CSRF-Token"] = client.csrf
        return client

    yield person
    for client in clients:
        client.close()


@pytest.fixture
def study(make_study: MakeStudy, store_url: str) -> Study:
    """A fresh study on either database."""
    return make_study(store=store_url)


@pytest.fixture
def local(study: Study, serve: Serve, enter: Enter) -> Client:
    """The one person at this machine, who opened the link of this start."""
    return enter(serve(study))


@pytest.fixture
def team(study: Study, serve: Serve, enter: Enter) -> Team:
    """Clients of a server where everybody signs in: ada (admin), lea (lead), kt and mo (annotators)."""
    server = serve(study, {"ada": "admin", "lea": "lead", "kt": "annotator", "mo": "annotator"})
    return lambda name="": enter(server, name)


@pytest.fixture
def window(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Windows that must not have complained when they are closed."""
    opened: list[Window] = []

    def open_window(server: Server, **options: Any) -> Window:
        made = Window(browser, server, **options)
        made.folder = tmp_path / "shots"
        opened.append(made)
        return made

    yield open_window
    complaints = [error for one in opened for error in one.errors]
    for one in opened:
        one.context.close()
    assert complaints == []


@pytest.fixture(scope="session")
def trained_once(pictures: Path, drawn: SyntheticImages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of what `trained` gives, answered and trained once; nobody opens it, everybody gets a copy."""
    folder = tmp_path_factory.mktemp("trained") / "colon"
    catalog = Catalog.from_features(pictures / "features.npy", pictures / "labels.csv", root=pictures)
    ask = {"random_share": 0.4, "start": "random", "budget": "200%"}
    with Study.create(folder, catalog, preset="features", page={"grades": GRADES}, ask=ask) as study:
        for n, who in ((25, "kt"), (20, "mo"), (15, "kt")):
            answer_truly(study, drawn, n, who)
    return folder


@pytest.fixture
def trained(trained_once: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Study]:
    """A study with answers of two people and three models; with larger pictures where they are for the docs."""
    if os.environ.get("STEELYARD_SCREENSHOTS"):
        yield request.getfixturevalue("gallery")
        return
    shutil.copytree(trained_once, tmp_path / "colon")
    with Study.open(tmp_path / "colon") as study:
        yield study


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[SyntheticImages, Path]:
    """Larger pictures and their table, drawn once."""
    drawn = draw(180, size=256, seed=11, workers=1)
    return drawn, write(tmp_path_factory.mktemp("large"), drawn)


@pytest.fixture
def gallery(tmp_path: Path, large: tuple[SyntheticImages, Path]) -> Iterator[Study]:
    """As `trained`, as it would look in earnest: larger pictures, a noisy annotator, weaker features."""
    n, rng = 180, np.random.default_rng(3)
    drawn, every = large
    table = tmp_path / "labels.csv"
    shutil.copy(every, table)
    lines = table.read_text(encoding="utf-8").splitlines()
    lines[1::3] = [",".join([line.split(",")[0], "", *line.split(",")[2:]]) for line in lines[1::3]]
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    features = np.column_stack([drawn.severity + rng.normal(0, 0.5, n), rng.normal(size=(n, 12))])
    np.save(tmp_path / "features.npy", features.astype(np.float32))
    catalog = Catalog.from_features(tmp_path / "features.npy", table, root=every.parent)
    changes = {"page": {"grades": GRADES}, "ask": {"random_share": 0.3, "start": "random", "budget": "200%"}}
    with Study.create(
        tmp_path / "colon", catalog, preset="features", name="Colitis severity", **changes
    ) as study:
        start = time.time() - 5 * 3600
        for turn in range(8):
            who = ("Dr Okafor", "Dr Lindqvist")[turn % 2]
            for k, pair in enumerate(study.ask(25, annotator=who)):
                rows = catalog.index_of(pair.left), catalog.index_of(pair.right)
                gap = drawn.severity[rows[0]] - drawn.severity[rows[1]] + rng.logistic(0, 0.15)
                said = "equal" if abs(gap) < 0.1 else "left" if gap > 0 else "right"
                at = start + turn * 2000 + k * 5
                study.tell(pair, said, annotator=who, shown_at=at - float(rng.gamma(4, 0.8)), answered_at=at)
            study.fit()
        yield study


@pytest.fixture
def named(drawn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Study]:
    """A study whose files are named like patients, with groups, grades, a model, an exclusion and a failed training."""
    source = tmp_path / "clinic-archive"
    lines = ["image,grade,group"]
    for k in range(N):
        name = f"okonkwo{k:02d}-adaeze/rectum{k:02d}-visit.png"
        (source / name).parent.mkdir(parents=True)
        Image.fromarray(drawn.images[k]).save(source / name)
        grade = "" if k % 3 else str(int(drawn.grades[k]))
        lines.append(f"{name},{grade},ward-{k // 2:02d}-kestrel")
    (source / "labels.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rng = np.random.default_rng(1)
    rows = np.column_stack([drawn.severity, rng.normal(size=(N, 5))]).astype(np.float32)
    np.save(source / "features.npy", rows)
    catalog = Catalog.from_features(source / "features.npy", source / "labels.csv", root=source)
    load = ranking.load_posterior

    def far(path: Path) -> Any:
        found = load(path)
        found.offset_N = found.offset_N + FAR
        return found

    monkeypatch.setattr(ranking, "load_posterior", far)
    settings = {"page": {"grades": GRADES}, "ask": {"budget": "300%", "start": "random"}, "name": "Colitis"}
    with Study.create(tmp_path / "colon", catalog, preset="features", **settings) as study:
        answer_truly(study, drawn, 60, "mo")
        study.store.images.exclude(catalog.ids[4], "lea", f"{catalog.paths[4]} is blurred")
        study.store.models.trainer.claim("trainer", 60)
        said = f"{catalog.paths[5]} is damaged"
        study.store.models.trainer.release("trainer", {"stage": "failed", "text": said, "log": [said]})
        yield study


@pytest.fixture
def clinic(named: Study, serve: Serve) -> Server:
    return serve(
        named, {"ada": "admin", "lea": "lead", "kt": "annotator", "ko": "annotator", "ke": "annotator"}
    )
