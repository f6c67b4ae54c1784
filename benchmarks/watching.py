"""1,000 images join a served study while two people answer: is anything lost, and how soon are they asked about?

    python benchmarks/watching.py [--images 1000] [--every 2]

Starts `steelyard serve` (with its trainer) and `steelyard watch` as people do, drops files into the watched folder, and
answers with two threads through the API. Ends with an error when an acknowledged answer is missing, an image did not join,
no new image was asked about, or the server is not the process that was started.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

import httpx
import numpy as np
from PIL import Image

from steelyard.images.catalog import Catalog
from steelyard.study import Study
from steelyard.web.auth import digest

FIRST = 40
RANKER = {"image_size": 32, "epochs": 2, "draws": 4, "patience": 2}


def draw(path: Path, k: int) -> None:
    """A small picture of its own."""
    noise = np.random.default_rng(k).integers(0, 40 + k % 200, (40, 40, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)


class Person(threading.Thread):
    """Answers through the API until told to stop."""

    def __init__(self, url: str, link: str, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.stop, self.acknowledged, self.shown, self.failed = stop, list[str](), set[str](), 0
        self.client = httpx.Client(base_url=url, timeout=120)
        session = self.client.post("/api/v1/session", json={"link": link})
        self.client.headers["X-CSRF-Token"] = session.json()["csrf"]

    def run(self) -> None:
        """Ask, look, answer."""
        while not self.stop.is_set():
            pairs = self.client.post("/api/v1/pairs/lease", json={"count": 1}).json().get("pairs", [])
            for pair in pairs[:1]:
                id = str(uuid.uuid4())
                sides = {side: pair[side] for side in ("left", "right")}
                body = {"id": id, "pair": pair["id"], "answer": "left", **sides}
                reply = self.client.post("/api/v1/comparisons", json=body)
                if reply.status_code == 201:
                    self.acknowledged.append(id)
                    self.shown.update(sides.values())
                else:
                    self.failed += 1
            self.stop.wait(0.2)


def until(condition: object, what: str, seconds: float = 1800.0) -> None:
    """Wait for something."""
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not happen within {seconds:.0f} s")
        time.sleep(0.2)


def main() -> None:
    """Run it and print what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--every", type=float, default=2.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for place in ("images", "incoming"):
            (folder / place).mkdir()
        for k in range(FIRST):
            draw(folder / "images" / f"i{k:05}.png", k)
        settings = {"ask": {"start": "random", "budget": "1000%"}, "ranker": RANKER, "refit_after": 60}
        catalog = Catalog.from_folder(folder / "images")
        study = Study.create(folder / "study", catalog, preset="small", **settings)
        links = {name: secrets.token_urlsafe(24) for name in ("ada", "ben")}
        for name, link in links.items():
            study.store.people.add(name, role="annotator", link_hash=digest(link))
        command = [sys.executable, "-m", "steelyard.cli"]
        server = subprocess.Popen(
            [*command, "serve", str(study.folder), "--port", "0"],
            stderr=subprocess.PIPE, text=True, env={**os.environ, "STEELYARD_LOGIN": "1"},
        )  # fmt: skip
        assert server.stderr is not None
        url = next(filter(None, (re.search(r"http://[\d.]+:\d+", line) for line in server.stderr)))[0]
        threading.Thread(target=lambda: list(server.stderr), daemon=True).start()  # type: ignore[arg-type]
        watch = subprocess.Popen(
            [*command, "watch", str(study.folder), str(folder / "incoming"), "--every", str(given.every)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        stop = threading.Event()
        people = [Person(url, link, stop) for link in links.values()]
        try:
            for person in people:
                person.start()
            until(lambda: all(person.acknowledged for person in people), "the first answers")
            began = time.monotonic()
            for k in range(FIRST, FIRST + given.images):
                draw(folder / "incoming" / f"i{k:05}.png", k)
            dropped = time.monotonic() - began
            total = FIRST + given.images
            until(
                lambda: len(Catalog.open(study.folder / "catalog.arrow")) == total, "all images in the study"
            )
            joined = time.monotonic() - began
            until(lambda: len(people[0].shown | people[1].shown) > FIRST, "a question about a new image")
            asked = time.monotonic() - began
            same = server.poll() is None
        finally:
            stop.set()
            for person in people:
                person.join()
            watch.send_signal(signal.SIGINT)
            watch.wait()
            server.terminate()
            server.wait()
        kept = {comparison.id for comparison in study.store.answers.log()}
        sent = [id for person in people for id in person.acknowledged]
        lost = len(set(sent) - kept)
        print(f"{given.images} files written in {dropped:.0f} s, all joined after {joined:.0f} s")
        print(
            f"a new image was asked about after {asked:.0f} s; {len(study.store.models.all())} models trained meanwhile"
        )
        print(f"{len(sent)} answers acknowledged, {lost} lost, {len(kept) - len(sent)} more in the store, "
              f"{sum(person.failed for person in people)} requests failed; server restarted: {'no' if same else 'YES'}")  # fmt: skip
        problems = study.store.check()
        study.close()
        if lost or problems or not same:
            raise SystemExit(f"lost {lost}, {problems}")


if __name__ == "__main__":
    main()
