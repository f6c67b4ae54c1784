"""Fifty annotators, one answer a second each, while a model trains on the same two cores. Locust does the asking.

    python benchmarks/server_load.py [--images 100000] [--people 50] [--seconds 45] [--store URL]

"Server share" is what the server itself measures (its Server-Timing header): from the request's arrival to the
response's start. Locust's own times include the client, which runs on the same cores.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

TRAIN = """
import sys
from steelyard.study import Study
from steelyard.web.priority import step_back
step_back(15)  # as the trainer does
with Study.open(sys.argv[1]) as study:
    inputs, answers = study.inputs(), study.store.effective_arrays()
    from steelyard.ranker.model import fit_ranker
    print("training", flush=True)
    while True:
        ranker = fit_ranker(inputs, answers.pairs, answers.labels, config=study.config.ranker, seed=0)
        ranker.posterior(inputs)
"""

if "LOCUST_STEELYARD" in os.environ:
    from locust import HttpUser, constant_pacing, events, task

    SHARES: dict[str, list[float]] = {}

    class Annotator(HttpUser):
        """Holds a few pairs, answers one a second, takes more when few are left."""

        wait_time = constant_pacing(1)
        _tokens = iter(json.loads(os.environ["LOCUST_STEELYARD"]))

        def on_start(self) -> None:
            self.client.headers["Authorization"] = f"Bearer {next(self._tokens)}"
            self.held: list[dict[str, object]] = []
            time.sleep(random.uniform(0, 6))  # fifty people do not press their keys in step

        @task
        def answer(self) -> None:
            if len(self.held) < 3:
                with self.client.post("/api/v1/pairs/lease", json={"count": 6}, catch_response=True) as reply:
                    known = {pair["id"] for pair in self.held}
                    self.held += [p for p in reply.json()["pairs"] if p["id"] not in known]
                    reply.success()
            if not self.held:
                return
            pair = self.held.pop(0)
            # What a page does with the reply is not measured; that people are not metronomes is.
            time.sleep(random.uniform(0, 0.3))
            body = {"id": str(uuid.uuid4()), "pair": pair["id"], "left": pair["left"], "right": pair["right"],
                    "answer": "left", "shown_at": time.time() - 2, "answered_at": time.time()}  # fmt: skip
            self.client.post("/api/v1/comparisons", json=body)

    @events.request.add_listener
    def note(name: str, response: object, **_: object) -> None:
        timing = getattr(response, "headers", {}).get("Server-Timing", "")
        if "dur=" in timing:
            SHARES.setdefault(name, []).append(float(timing.partition("dur=")[2]))

    @events.quitting.add_listener
    def tell(environment: object, **_: object) -> None:
        stats = environment.stats.total  # type: ignore[attr-defined]
        Path(os.environ["LOCUST_OUT"]).write_text(
            json.dumps({"shares": SHARES, "requests": stats.num_requests, "failures": stats.num_failures})
        )


def main() -> None:
    import numpy as np
    import web_study

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=web_study.N)
    parser.add_argument("--people", type=int, default=50)
    parser.add_argument("--seconds", type=int, default=45)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "steelyard-bench-web")
    parser.add_argument("--store", default="", help="URL of an empty PostgreSQL database instead of SQLite")
    options = parser.parse_args()
    folder = web_study.make(options.folder, n=options.images, store=options.store)

    from steelyard.study import Study
    from steelyard.web.auth import digest, new_secret

    tokens = []
    with Study.open(folder) as study:
        known = {annotator.name for annotator in study.store.annotators()}
        for k in range(options.people):
            if f"load-{k}" not in known:
                study.store.add_annotator(f"load-{k}")
            tokens.append(new_secret())
            study.store.add_token(digest(tokens[-1]), f"load-{k}", "load", mode="local")
        study.propose(options.people * 6)  # as after a few minutes of work: a buffer is up

    out = options.folder / "locust.json"
    environment = os.environ | {"LOCUST_STEELYARD": json.dumps(tokens), "LOCUST_OUT": str(out)}
    with web_study.Server(folder) as server:
        trainer = subprocess.Popen(
            [sys.executable, "-c", TRAIN, str(folder)],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            assert trainer.stdout is not None
            trainer.stdout.readline()
            subprocess.run(
                [sys.executable, "-m", "locust", "-f", __file__, "--headless", "-u", str(options.people), "-r", "25",
                 "-t", f"{options.seconds}s", "--host", server.url, "--only-summary", "--loglevel", "ERROR"],
                env=environment, check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
        finally:
            trainer.kill()
            trainer.wait()
    found = json.loads(out.read_text())
    print(
        f"{options.people} people, {options.images:,} images: {found['requests']} requests, {found['failures']} failed"
    )
    shares = found["shares"]
    shares["all requests"] = [value for values in found["shares"].values() for value in values]
    for name, values in sorted(shares.items()):
        p50, p99 = np.percentile(values, [50, 99])
        print(
            f"{name:24} {len(values):5} requests, server share p50 {p50:6.1f} ms, p99 {p99:6.1f} ms ({p99 / 50:.2f} of 50)"
        )


if __name__ == "__main__":
    main()
