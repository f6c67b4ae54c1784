"""Images join a study while it is served: they are asked about, shown and ranked without a restart."""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from steelyard.images.catalog import Catalog
from steelyard.study import Study
from steelyard.web.chooser import Chooser
from steelyard.web.trainer import run_worker
from tests.waiting import until
from tests.web.actors import Client, Enter, Serve, Server

N = 8
RANKER = {"image_size": 32, "epochs": 2, "draws": 4, "patience": 2}


def draw(folder: Path, rows: range) -> Path:
    folder.mkdir(exist_ok=True)
    for k in rows:
        noise = np.random.default_rng(k).integers(0, 30 + 12 * k, (40, 40, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / f"i{k:02d}.png")
    return folder


@pytest.fixture
def growing(tmp_path: Path, store_url: str) -> Iterator[Study]:
    """A study of eight files."""
    settings = {
        "ask": {"start": "random", "budget": "400%"},
        "ranker": RANKER,
        "refit_after": 6,
        "store": store_url,
    }
    catalog = Catalog.from_folder(draw(tmp_path / "images", range(N)))
    with Study.create(tmp_path / "study", catalog, preset="small", **settings) as study:
        yield study


def add(study: Study, folder: Path) -> None:
    """As somebody at another terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "steelyard.cli", "add", str(study.folder), str(folder)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def answer_all(client: Client, n: int) -> set[str]:
    """Answer n pairs; the public ids of what was shown."""
    seen: set[str] = set()
    for _ in range(n):
        for pair in client.lease(1)[:1]:
            assert client.answer(pair).status_code == 201
            seen |= {pair["left"], pair["right"]}
    return seen


def test_new_images_are_asked_shown_and_ranked_by_a_running_server(
    growing: Study, tmp_path: Path, serve: Serve, enter: Enter
) -> None:
    server = serve(growing, people={"kt": "annotator", "lea": "lead"})
    client, lead = enter(server, "kt"), enter(server, "lea")
    answer_all(client, 8)
    run_worker(growing.folder, once=True, nice=False)
    assert lead.get("/api/v1/ranking/summary").json()["total"] == N
    add(growing, draw(tmp_path / "later", range(N, N + 4)))
    fresh = Catalog.open(growing.folder / "catalog.arrow").ids.tolist()[N:]
    public = {str(server.app.state.web.ids.public(id)) for id in fresh}

    for id in public:  # known by name, without a score yet
        info = lead.get(f"/api/v1/images/{id}").json()
        assert (info["score"], info["rank"]) == (None, None)
        assert lead.get(f"/api/v1/images/{id}/pixels?size=thumb").status_code == 200
    assert lead.get("/api/v1/ranking/summary").json()["total"] == N  # the old model stays in use
    until(lambda: lead.get("/api/v1/study").json()["images"] == N + 4, "the number of images")

    run_worker(growing.folder, once=True, nice=False)  # the trainer fits again by itself
    assert lead.get("/api/v1/ranking/summary").json()["total"] == N + 4
    ranked = lead.get("/api/v1/ranking?limit=100").json()
    assert public <= {image["id"] for image in ranked["images"]}
    seen = until(lambda: answer_all(client, 1) & public, "a question about a new image", every=0)
    assert client.get(f"/api/v1/images/{seen.pop()}/pixels").status_code == 200


def test_whoever_was_done_is_asked_again(growing: Study, tmp_path: Path, serve: Serve, enter: Enter) -> None:
    growing.config = growing.config.with_changes(ask={"budget": 0.5})
    growing.config.save(growing.folder / "study.toml")
    client = enter(serve(growing))
    answer_all(client, 4)
    assert client.post("/api/v1/pairs/lease", json={"count": 1}).json()["state"] == "done"
    add(growing, draw(tmp_path / "later", range(N, N + 8)))
    until(lambda: client.post("/api/v1/pairs/lease", json={"count": 1}).json()["pairs"], "another question")


def test_the_process_that_chooses_follows(growing: Study, tmp_path: Path) -> None:
    chooser = Chooser(growing.folder)
    try:
        assert chooser.draft(3)
        add(growing, draw(tmp_path / "later", range(N, N + 8)))
        chosen = chooser.draft(60)
        assert chosen is not None
        assert max(max(pair.first, pair.second) for pair in chosen) >= N
        growing.store.pairs.add_all(chosen)  # the store knows them
    finally:
        chooser.stop()


@pytest.fixture
def running() -> Iterator[Callable[[Path], Server]]:
    """`steelyard serve` with its trainer, as people start it."""
    started: list[subprocess.Popen[str]] = []

    def run(folder: Path) -> Any:
        process = subprocess.Popen(
            [sys.executable, "-m", "steelyard.cli", "serve", str(folder), "--port", "0"],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(r"(http://\S+)/login#key=(\S+)", line):
                return found[1], found[2]
        raise AssertionError("the server ended")

    yield run
    for process in started:
        process.terminate()
        process.communicate(timeout=60)


def test_a_real_server_with_its_trainer(
    growing: Study, tmp_path: Path, running: Callable[[Path], tuple[str, str]]
) -> None:
    url, key = running(growing.folder)
    with httpx.Client(base_url=url, timeout=60) as client:
        reply = client.post("/api/v1/session", json={"key": key})
        client.headers["X-CSRF-Token"] = reply.json()["csrf"]
        seen: set[str] = set()

        def answer() -> int:
            pairs = client.post("/api/v1/pairs/lease", json={"count": 1}).json()["pairs"]
            for pair in pairs[:1]:
                body = {key: pair[key] for key in ("left", "right")} | {"pair": pair["id"], "answer": "left"}
                sent = client.post("/api/v1/comparisons", json={**body, "id": str(uuid.uuid4())})
                assert sent.status_code == 201, sent.text
                seen.update((pair["left"], pair["right"]))
            return len(growing.store.models.all())

        until(answer, "the first model", seconds=180)
        known = set(seen)
        add(growing, draw(tmp_path / "later", range(N, N + 6)))

        def ranked() -> bool:
            answer()
            return bool(client.get("/api/v1/ranking/summary").json()["total"] == N + 6)

        until(ranked, "a ranking of all images", seconds=180)
        until(
            lambda: (answer(), len(seen) > max(N, len(known)))[1], "a question about a new image", seconds=180
        )
    assert growing.store.check() == []
