"""A study gains images while two people answer: nothing is lost, the new ones are asked about, nothing is restarted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.images.catalog import Catalog
from steelyard.study import Study
from tests.study.growing import draw, sound
from tests.waiting import until
from tests.web.actors import Client, Enter, Serve

FIRST, LATER = 8, 60


@pytest.fixture
def growing(tmp_path: Path, store_url: str) -> Iterator[Study]:
    for k in range(FIRST):
        draw(tmp_path / "images" / f"i{k:04}.png", k)
    settings = {
        "ask": {"start": "random", "budget": "2000%"},
        "ranker": {"image_size": 32},
        "store": store_url,
    }
    catalog = Catalog.from_folder(tmp_path / "images")
    with Study.create(tmp_path / "study", catalog, preset="small", **settings) as study:
        yield study


class Person(threading.Thread):
    """Answers until told to stop; keeps what the server acknowledged and what was shown."""

    def __init__(self, client: Client, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.client, self.stop = client, stop
        self.acknowledged: list[str] = []
        self.shown: set[str] = set()
        self.failed: list[str] = []

    def run(self) -> None:
        while not self.stop.is_set():
            for pair in self.client.post("/api/v1/pairs/lease", json={"count": 1}).json()["pairs"][:1]:
                id = str(uuid.uuid4())
                reply = self.client.answer(pair, id=id)
                self.shown |= {pair["left"], pair["right"]}
                if reply.status_code == 201:
                    self.acknowledged.append(id)
                else:
                    self.failed.append(reply.text)


def test_images_that_come_while_two_people_answer(
    growing: Study, tmp_path: Path, serve: Serve, enter: Enter
) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    server = serve(growing, people={"ada": "annotator", "ben": "annotator"})
    stop = threading.Event()
    people = [Person(enter(server, name), stop) for name in ("ada", "ben")]
    watch = subprocess.Popen(
        [sys.executable, "-m", "steelyard.cli", "watch", str(growing.folder), str(incoming), "--every", "0.2"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        for person in people:
            person.start()
        for k in range(FIRST, FIRST + LATER):
            whole = draw(tmp_path / "made" / f"i{k:04}.png", k).read_bytes()
            with (incoming / f"i{k:04}.png").open("wb") as file:  # as a camera writes: not in one go
                file.write(whole[:100])
                file.flush()
                os.fsync(file.fileno())
                file.write(whole[100:])
        catalog = growing.folder / "catalog.arrow"
        until(lambda: len(Catalog.open(catalog)) == FIRST + LATER, "all images in the study", seconds=120)
        new = {str(server.app.state.web.ids.public(id)) for id in Catalog.open(catalog).ids.tolist()[FIRST:]}
        until(lambda: all(person.shown & new for person in people), "questions about new images", seconds=120)
    finally:
        stop.set()
        watch.send_signal(signal.SIGINT)
        said, told = watch.communicate(timeout=60)
        for person in people:
            person.join(timeout=60)
    assert watch.returncode == 0, told
    assert f"stopped; {LATER} images joined" in said
    assert "Traceback" not in told
    assert [person.failed for person in people] == [[], []]
    kept = {comparison.id for comparison in growing.store.answers.log()}
    for person in people:
        assert person.acknowledged
        assert set(person.acknowledged) <= kept
    assert len(kept) == sum(len(person.acknowledged) for person in people)
    growing.follow()
    assert growing.catalog.ids.tolist() == [image.id for image in growing.store.images.all()]
    assert growing.store.check() == []
    assert sound(growing)
