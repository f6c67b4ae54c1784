"""A study of 100,000 images to measure the page with: features on disk, a model, a few hundred distinct pictures.

The pictures are drawn once and linked under 100,000 names, so that every request reads and decodes a real file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np

from steelyard.images.catalog import Catalog
from steelyard.images.synthetic import draw
from steelyard.pairs import Answer
from steelyard.study import Study

N = 100_000
DISTINCT = 48


def place(folder: Path, n: int, store: str) -> Path:
    """The folder of the study."""
    return folder / f"study-{n}{'-elsewhere' if store else ''}"


def make(folder: Path, *, n: int = N, size: int = 256, store: str = "") -> Path:
    """Make the study below a folder unless it is there, its store at a URL if one is given; gives the study's folder."""
    from PIL import Image

    study_folder = place(folder, n, store)
    if (study_folder / "study.toml").exists():
        return study_folder
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    drawn = draw(DISTINCT, size=size, seed=1)
    for k, pixels in enumerate(drawn.images):
        Image.fromarray(pixels).resize((640, 640)).save(images / f"original-{k}.jpg", quality=90)
    lines = ["image"]
    for k in range(n):
        name = f"{k:06d}.jpg"
        if not (images / name).exists():
            os.link(images / f"original-{k % DISTINCT}.jpg", images / name)
        lines.append(name)
    (folder / "labels.csv").write_text("\n".join(lines), encoding="utf-8")
    rng = np.random.default_rng(0)
    severity = drawn.severity[np.arange(n) % DISTINCT] + rng.normal(0, 0.3, n)
    np.save(folder / "features.npy", np.column_stack([severity, rng.normal(size=(n, 31))]).astype(np.float32))
    catalog = Catalog.from_features(folder / "features.npy", folder / "labels.csv", root=images)
    changes = {"ask": {"start": "random", "budget": 1.0}, **({"store": store} if store else {})}
    with Study.create(study_folder, catalog, preset="features", **changes) as study:
        for pair in study.ask(300, annotator="teacher"):
            left, right = catalog.index_of(pair.left), catalog.index_of(pair.right)
            study.tell(
                pair, Answer.LEFT if severity[left] > severity[right] else Answer.RIGHT, annotator="teacher"
            )
        study.fit()
    return study_folder


class Server:
    """The page in a process of its own, without a trainer."""

    def __init__(self, study: Path) -> None:
        code = (
            "import sys; from steelyard.web.app import serve; "
            "serve(sys.argv[1], port=0, train=False, say=lambda t: print(t, flush=True))"
        )
        self._child = subprocess.Popen(
            [sys.executable, "-c", code, str(study)], stdout=subprocess.PIPE, text=True
        )
        assert self._child.stdout is not None
        # “colon: http://127.0.0.1:8765/login#key=…”
        self.pid = self._child.pid
        self.link = self._child.stdout.readline().strip().split(": ", 1)[1]
        self.url = self.link.partition("/login")[0]
        for _ in range(600):
            try:
                httpx.get(f"{self.url}/api/v1/me")
                return
            except httpx.TransportError:
                time.sleep(0.1)
        raise RuntimeError("the server did not start")

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.terminate()
        self._child.wait(timeout=20)
