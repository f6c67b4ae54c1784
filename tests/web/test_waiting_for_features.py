"""While features are computed people compare random pairs, and the page says so and for how long."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from steelyard.images.catalog import Catalog
from steelyard.study import Study
from steelyard.web.trainer import pending_work, run_worker
from tests.web.actors import Client, Open

COMPUTING = {"stage": "describe", "done": 340, "total": 2000, "text": "features", "left": 176.0, "log": []}
SAID = "Features 340 of 2,000, about 3 minutes left; pairs are random until then"


def compute(study: Study, progress: dict[str, object] | None = None) -> None:
    """As a trainer that computes features now, or has finished."""
    trainer = study.store.models.trainer
    if progress is None:
        trainer.release("trainer", {"stage": "done"})
    else:
        assert trainer.claim("trainer", 60)
        trainer.heartbeat("trainer", progress, seconds=60)


@pytest.fixture(autouse=True)
def look_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.web.context.NOTE_SECONDS", 0.0)


def test_whoever_takes_pairs_is_told_what_the_study_waits_for(local: Client) -> None:
    study = local.server.study
    lease = {"json": {"count": 1}}
    assert local.post("/api/v1/pairs/lease", **lease).json()["note"] == ""
    compute(study, COMPUTING)
    assert local.post("/api/v1/pairs/lease", **lease).json()["note"] == SAID
    assert local.get("/api/v1/study").json()["note"] == SAID
    trainer = local.get("/api/v1/progress").json()["trainer"]
    assert trainer["sentence"] == (
        "Computing features of the images: features 340 of 2,000, about 3 minutes left."
    )
    compute(study)
    assert local.post("/api/v1/pairs/lease", **lease).json()["note"] == ""


@pytest.mark.parametrize(
    ("progress", "sentence"),
    [
        ({"stage": "fit", "text": ""}, "Training a model."),
        ({"stage": "start", "text": ""}, "Choosing the first pairs."),
        ({}, "The trainer is starting."),
        (
            {"stage": "fit", "done": 3, "total": 300, "text": "epochs: loss 0.41", "left": 7200},
            "Training a model: epochs 3 of 300, loss 0.41, about 2 hours left.",
        ),
    ],
)
def test_the_trainer_says_what_it_is_doing(local: Client, progress: dict[str, object], sentence: str) -> None:
    compute(local.server.study, progress)
    said = local.get("/api/v1/progress").json()["trainer"]["sentence"]
    assert said == sentence
    assert local.get("/api/v1/study").json()["note"] == ""


@pytest.mark.browser
def test_the_page_says_so_and_stops_when_it_is_over(local: Client, window: Open) -> None:
    study = local.server.study
    compute(study, COMPUTING)
    user = window(local.server)
    page = user.compare()
    page.wait_for_function("(text) => document.querySelector('#note').textContent === text", arg=SAID)
    user.shot("features")
    user.press("ArrowLeft")
    compute(study)
    page.wait_for_function("() => document.querySelector('#note').textContent === ''")
    user.saved()


def test_features_come_before_everything_else_and_with_a_forecast(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trainer computes them first, and while it does the study tells how far it is."""
    catalog = Catalog.from_csv(pictures / "labels.csv", root=pictures).subset(range(24))
    with Study.create(tmp_path / "lite", catalog, preset="quick", ranker={"backbone": "lite0"}) as study:
        assert pending_work(study) == "describe"
        told: list[tuple[str, int, int]] = []

        def watch(self: object, done: int, total: int, text: str) -> None:
            told.append((text, done, total))

        monkeypatch.setattr("steelyard.study.lease.TrainerLease.progress", watch)
        assert run_worker(study.folder, once=True, nice=False) == 2  # describe, then the first pairs
        assert told[0] == ("features", 0, 24)
        assert told[-1] == ("features", 24, 24)
        assert {pair.strategy for pair in study.store.pairs.all()} <= {"spread", "random"}
        assert "spread" in {pair.strategy for pair in study.store.pairs.all()}


def test_a_trainer_that_finds_everything_computed_goes_on_at_once(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog.from_csv(pictures / "labels.csv", root=pictures).subset(range(24))
    with Study.create(tmp_path / "lite", catalog, preset="quick", ranker={"backbone": "lite0"}) as study:
        study.seen()
        assert study.described
        assert pending_work(study) == "start"
        monkeypatch.setattr(
            "steelyard.images.cache.RowFiles.append", lambda *_: pytest.fail("computed again")
        )
        assert run_worker(study.folder, once=True, nice=False) == 1
        assert study.store.pairs.open_count() >= 12


def test_while_features_are_computed_nobody_waits_for_pairs_that_others_hold(
    pictures: Path, tmp_path: Path
) -> None:
    catalog = Catalog.from_csv(pictures / "labels.csv", root=pictures).subset(range(24))
    with Study.create(tmp_path / "lite", catalog, preset="quick", ranker={"backbone": "lite0"}) as study:
        study.questions.put_up(study.questions.draft_for_page(30) or [])
        assert study.questions.draft_for_page(30) is None, "there are some: better ones will come"
        up, rng = study.store.pairs.open_count(), np.random.default_rng(0)
        assert len(study.store.pairs.lease("gone home", up, seconds=900, rng=rng)) == up
        study.questions.put_up(study.questions.draft_for_page(30) or [])
        assert study.store.pairs.lease("still here", 1, seconds=900, rng=rng)


def test_with_features_at_hand_nobody_is_asked_at_random(pictures: Path, tmp_path: Path) -> None:
    """However slowly the trainer starts: the page finds what `init` computed, and does so without torch."""
    catalog = Catalog.from_csv(pictures / "labels.csv", root=pictures).subset(range(24))
    with Study.create(tmp_path / "lite", catalog, preset="quick", ranker={"backbone": "lite0"}) as study:
        few = study.questions.draft_for_page(5)
        assert few is not None
        assert {pair.strategy for pair in few} == {"random"}
        study.seen()
    code = (
        "import sys; from steelyard.study import Study; study = Study.open(sys.argv[1]); "
        "print(*{pair.strategy for pair in study.questions.draft_for_page(12)}, 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "lite")], capture_output=True, text=True, check=True
    )
    *strategies, torch = done.stdout.split()
    assert torch == "False"
    assert "spread" in strategies
