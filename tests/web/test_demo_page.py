"""The demo's page: a pair at once, on a busy machine too, and numbers on the progress page that are true."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from steelyard.demo import _NOISE, DemoResult, run_demo
from steelyard.images.synthetic import draw
from steelyard.study import Study
from tests.web.actors import Open, Serve
from tests.web.test_shutdown import Process, sign_in

SEED, IMAGES, SIZE = 1, 80, 48


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> DemoResult:
    return run_demo(tmp_path_factory.mktemp("demo"), images=IMAGES, size=SIZE, seed=SEED, runs=2)


@pytest.fixture
def busy() -> Iterator[None]:
    """Other programs that keep the machine busy for as long as the test takes, and for two minutes at most."""
    spin = "import time; end = time.monotonic() + 120\nwhile time.monotonic() < end: pass"
    running = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(2)]
    yield
    for one in running:
        one.kill()
        one.wait()


def test_the_first_request_gets_pairs_on_a_busy_machine(demo: DemoResult, busy: None) -> None:
    process = Process(demo.study)
    try:
        with contextlib.closing(sign_in(process)) as client:
            first = client.post("/api/v1/pairs/lease", json={"count": 6}).json()
            assert (first["state"], len(first["pairs"])) == ("open", 6)
            assert first["answered"] == demo.given
    finally:
        process.stop()


@pytest.mark.browser
def test_the_page_opens_on_a_pair_though_nobody_chooses_any(
    demo: DemoResult, serve: Serve, window: Open
) -> None:
    with Study.open(demo.study) as study:
        server = serve(study)
        server.app.state.web.asker._draft = lambda n: None
        user = window(server)
        page = user.compare()
        assert page.locator("#finished").is_hidden()
        assert page.locator("#pace").inner_text() == f"0 by you · {demo.given} of {demo.planned} by all"
        page = user.open("/progress")
        page.wait_for_selector("#spread svg")
        page.wait_for_selector("#next-list li")
        assert "100%" not in page.locator("#accuracy .sentence").inner_text()


def test_what_the_progress_page_says_of_accuracy_holds(demo: DemoResult) -> None:
    """The drawn severities are known, and so is how often the virtual annotator agrees with an order."""
    severity = draw(IMAGES, size=SIZE, seed=SEED).severity
    with Study.open(demo.study) as study:
        order = [int(Path(path).stem.rpartition("-")[2]) for path in map(str, study.catalog.paths)]
        said, table = study.accuracy(), study.score().set_index("image")
        scores = table["score"].loc[[str(id) for id in study.catalog.ids]].to_numpy()
    first, second = np.triu_indices(IMAGES, 1)
    gap = severity[order][first] - severity[order][second]
    agrees = 1 / (1 + np.exp(-np.where(scores[first] > scores[second], gap, -gap) / _NOISE))
    assert agrees.mean() > 0.6
    if said.estimate is not None:  # so few answers may leave it open
        assert said.low is not None
        assert said.high is not None
        assert said.low <= agrees.mean() <= said.high
