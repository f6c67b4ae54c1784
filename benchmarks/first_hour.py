"""The first minutes of a new study, as a person lives them: from `steelyard init` to scores, in a real browser.

    python benchmarks/first_hour.py [--images 120] [--side 640] [--busy 1] [--seconds 1.5]

Draws images (not counted), lets `--busy` other processes keep a core busy each, runs `steelyard init` and `steelyard serve` as a person would,
opens the printed link in Chromium, and answers by how red the pictures are, a moment for each pair. Everything is counted from the
start of `init`. Prints the seconds to the first pair on the screen, to the first one that was chosen (not drawn at random), to
the twentieth answer, to the first model and to the scores in a file, and how many pairs were answered at random before.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from steelyard.study import Study

WAIT_SECONDS = 120
DRAWN, LARGEST = 100, 256  # pictures, pixels
ENOUGH = 20  # answers; the first model is made from so many
REDNESS = """() => [...document.querySelectorAll('.stage img.now')].map((image) => {
  const canvas = new OffscreenCanvas(16, 16), pen = canvas.getContext('2d');
  pen.drawImage(image, 0, 0, 16, 16);
  const all = pen.getImageData(0, 0, 16, 16).data;
  let red = 0, sum = 1;
  for (let k = 0; k < all.length; k += 4) { red += all[k]; sum += all[k] + all[k + 1] + all[k + 2]; }
  return red / sum;
})"""
# The page marks the moment when both pictures are on the screen; keys count from then on.
PAINTED = "(pairs) => performance.getEntriesByName('pair painted').length > pairs"
DONE = "() => document.querySelector('#finished-title').textContent.startsWith('Done')"
COMMAND = [sys.executable, "-m", "steelyard.cli"]


def draw_images(folder: Path, n: int, side: int, seed: int = 3) -> None:
    """JPEGs of drawn mucosa, no two alike: drawing takes a while, so a hundred are drawn and the others are made of them."""
    import numpy as np
    from PIL import Image

    from steelyard.images.synthetic import draw

    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    drawn = draw(min(n, DRAWN), size=min(side, LARGEST), seed=seed, workers=1).images
    for k in range(n):
        picture = drawn[k % len(drawn)].astype(np.float32)
        if k >= len(drawn):  # seen from elsewhere, in another light
            picture = np.roll(picture, rng.integers(-side // 8, side // 8 + 1, 2), axis=(0, 1))
            picture = picture[:: rng.choice([-1, 1]), :: rng.choice([-1, 1])] * rng.uniform(0.8, 1.1, 3)
        image = Image.fromarray(picture.clip(0, 255).astype(np.uint8)).resize((side, side))
        grain = np.asarray(image) + rng.normal(0, 3, (side, side, 1))  # every camera has some
        image = Image.fromarray(grain.clip(0, 255).astype(np.uint8))
        image.save(folder / f"image-{k:05d}.jpg", quality=92)


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Other programs that take all they can get."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


@contextmanager
def serving(study: Path) -> Iterator[str]:
    """`steelyard serve` on a free port; gives the link it prints."""
    process = subprocess.Popen(
        [*COMMAND, "serve", str(study), "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if found := re.search(r"https?://\S+", line):
                yield found.group()
                break
        else:
            raise RuntimeError("serve ended without a link")
    finally:
        process.terminate()
        process.wait(timeout=60)
        process.stderr.close()


def answer(page: Any, given: int, seconds: float) -> None:
    """Look at the pair, then press the key of the redder picture and wait for the next one, or for the end."""
    page.wait_for_timeout(1000 * seconds)
    left, right = page.evaluate(REDNESS)
    page.keyboard.press("ArrowLeft" if left > right else "ArrowRight")
    page.wait_for_function(
        f"(pairs) => ({PAINTED})(pairs) || ({DONE})()", arg=given + 1, timeout=WAIT_SECONDS * 1000
    )


def walk(images: Path, place: Path, browser: Any, *, seconds: float = 1.5) -> dict[str, float]:
    """From a folder of images to scores.

    Args:
        images: the folder.
        place: of the study, which is not there yet.
        browser: of Playwright.
        seconds: that a person looks at a pair.

    Returns:
        Seconds since the start by what happened, and how many pairs were answered at random before the first chosen one.
    """
    began = time.time()
    subprocess.run([*COMMAND, "init", str(place), "--images", str(images)], check=True, capture_output=True)
    found = {"init": time.time() - began}
    with serving(place) as link, Study.open(place) as study:
        found["link"] = time.time() - began
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(link)
        page.wait_for_function(PAINTED, arg=0, timeout=WAIT_SECONDS * 1000)
        found["first pair"] = time.time() - began
        answers = 0
        while study.store.models.newest() is None and not page.evaluate(DONE):
            answer(page, answers, seconds)
            answers += 1
            if answers == ENOUGH:
                found["20 answers"] = time.time() - began
        found["answers"] = answers
        end = time.monotonic() + WAIT_SECONDS
        while (model := study.store.models.newest()) is None:
            if time.monotonic() > end:
                raise RuntimeError(f"no model came within {WAIT_SECONDS} s of {answers} answers")
            time.sleep(0.2)
        found["first model"] = model.created - began
        strategies = {pair.id: pair.strategy for pair in study.store.pairs.all()}
        shown = [(c.shown_at or 0.0, strategies[c.pair]) for c in study.store.answers.log()]
        # Some random pairs are mixed in on purpose, to measure accuracy; what counts is when choice begins.
        chosen = [k for k, (_, strategy) in enumerate(shown) if strategy != "random"]
        found["first chosen pair"] = shown[chosen[0]][0] - began if chosen else float("nan")
        found["random before it"] = chosen[0] if chosen else len(shown)
        page.close()
    scores = place.parent / "scores.csv"
    subprocess.run([*COMMAND, "score", str(place), "-o", str(scores)], check=True, capture_output=True)
    found["scores"] = time.time() - began
    assert len(scores.read_text(encoding="utf-8").splitlines()) == len(list(images.iterdir())) + 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, nargs="+", default=[120])
    parser.add_argument("--side", type=int, default=640)
    parser.add_argument("--busy", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.5)
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("STEELYARD_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for n in options.images:
            with tempfile.TemporaryDirectory(prefix="steelyard-first-hour-") as folder:
                draw_images(Path(folder) / "images", n, options.side)
                with busy(options.busy):
                    found = walk(
                        Path(folder) / "images", Path(folder) / "study", browser, seconds=options.seconds
                    )
            print(f"{n} images, {options.busy} other busy process(es)")
            for name, value in found.items():
                print(
                    f"  {name:<18} {value:8.1f}" + ("" if name in ("answers", "random before it") else " s")
                )
            print(
                json.dumps({"images": n, "busy": options.busy} | {k: round(v, 1) for k, v in found.items()}),
                flush=True,
            )
        browser.close()


if __name__ == "__main__":
    main()
