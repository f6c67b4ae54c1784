"""Key press → next pair painted, in a real browser, with 100,000 images behind the page.

    python benchmarks/page_latency.py [--images 100000] [--answers 100]

The clock starts at the browser's time stamp of the key event and stops in the second animation frame after both new
pictures are decoded, so it includes the frame that paints them and, if anything, says too much.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import web_study
from playwright.sync_api import sync_playwright

LISTEN = """() => {
  window.pressed = []; window.painted = [];
  addEventListener('keydown', (e) => window.pressed.push(e.timeStamp), true);
  new PerformanceObserver((list) => { for (const m of list.getEntries()) if (m.name === 'pair painted') window.painted.push(m.startTime); })
    .observe({ entryTypes: ['mark'] });
}"""


def measure(page: object, answers: int, pause: float) -> np.ndarray:
    """Milliseconds from key to paint for each answer, with a pause between paint and the next key."""
    page.evaluate("() => { window.pressed = []; window.painted = []; }")  # type: ignore[attr-defined]
    for k in range(answers):
        page.keyboard.press(("ArrowLeft", "ArrowRight", "ArrowDown")[k % 3])  # type: ignore[attr-defined]
        page.wait_for_function(f"() => window.painted.length > {k}")  # type: ignore[attr-defined]
        page.wait_for_timeout(pause)  # type: ignore[attr-defined]
    pressed, painted = (np.array(page.evaluate(f"() => window.{name}")) for name in ("pressed", "painted"))  # type: ignore[attr-defined]
    return painted[: len(pressed)] - pressed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=web_study.N)
    parser.add_argument("--answers", type=int, default=100)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "steelyard-bench-web")
    options = parser.parse_args()
    study = web_study.make(options.folder, n=options.images)
    chromium = os.environ.get("STEELYARD_CHROMIUM") or shutil.which("chromium")
    with web_study.Server(study) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(server.link)
        page.wait_for_url("**/compare")
        page.wait_for_function("() => document.querySelectorAll('.stage img.now').length === 2")
        page.wait_for_timeout(2000)
        page.evaluate(LISTEN)
        results = {}
        for name, pause in (("calm", 600.0), ("quick", 150.0)):
            times = measure(page, options.answers, pause)
            median, p95 = (float(np.percentile(times, q)) for q in (50, 95))
            results[name] = {"median ms": round(median, 1), "p95 ms": round(p95, 1), "answers": len(times)}
            print(
                f"{name:6} {len(times)} answers, {pause:.0f} ms between: median {median:.1f} ms "
                f"({median / 50:.2f} of 50), 95% {p95:.1f} ms ({p95 / 100:.2f} of 100)"
            )
        browser.close()
    print(json.dumps({"images": options.images, **results}))


if __name__ == "__main__":
    main()
