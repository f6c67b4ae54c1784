"""People compare while features arrive, and the model grows with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import steelyard as sy
from steelyard.images import ordered
from steelyard.images.cache import cached_rows
from steelyard.ranker.inputs import missing_inputs
from steelyard.study import Study, describing
from steelyard.study.describing import Describer, outgrown
from steelyard.study.models import load_absent, load_waiting
from steelyard.web.trainer import pending_work, run_worker
from tests.study.growing import answer, draw

N = 40


@pytest.fixture(autouse=True)
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describing, "_TOGETHER", 6)
    monkeypatch.setattr(describing, "TURN_SECONDS", 0.0)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    for k in range(N):
        draw(tmp_path / "images" / f"i{k:02d}.png", k)
    return tmp_path / "images"


@pytest.fixture
def study(tmp_path: Path, images: Path) -> Iterator[Study]:
    """Nothing has been computed of its images."""
    with Study.create(
        tmp_path / "study", sy.Catalog.from_folder(images), ask={"start": "random"}, refit_after=6,
        ranker={"backbone": "lite0", "image_size": 32},
    ) as made:  # fmt: skip
        yield made


def missing(study: Study) -> set[int]:
    return set(missing_inputs(study.catalog, study.config.ranker, study.folder / "cache").tolist())


def test_a_turn_ends_in_time_and_begins_with_what_people_were_asked_about(study: Study) -> None:
    assert pending_work(study) == "describe"
    answer(study, 8)
    asked = set(study.store.pairs.columns().rows.reshape(-1).tolist())
    describer = Describer(study)
    told: list[tuple[int, int, str]] = []
    while asked & missing(study):
        describer.turn(lambda *call: told.append(call))
    assert describer.paused
    assert len(missing(study)) >= N - len(asked) - 6  # hardly anything else
    assert told[-1][:2] == (N - len(missing(study)), N)
    assert pending_work(study) == "describe"
    assert pending_work(study, some=True) == "fit"


def test_a_model_of_some_images_leaves_the_others_out_and_grows(study: Study) -> None:
    describer = Describer(study)
    describer.turn(None)
    answer(study, 8)
    describer.catch_up(None)
    first = study.fit()
    assert first.note == ""
    assert not first.unreadable
    folder = study.folder / study.store.models.all()[-1].path
    absent = set(load_absent(folder).tolist())
    assert absent == missing(study)
    assert load_waiting(folder) == first.metrics["waiting"] == len(absent)
    drafted = study.questions.draft_for_page(6)
    assert drafted
    assert not {row for pair in drafted for row in (pair.first, pair.second)} & absent
    assert not outgrown(study, study.store.models.newest())
    while len(missing(study)) > N - 2 * (N - len(absent)):
        describer.turn(None)
    assert outgrown(study, study.store.models.newest())
    assert pending_work(study, some=True) == "fit"
    describer.turn(None, seconds=1e9)
    assert not describer.paused
    assert study.described
    assert (
        pending_work(study) == "fit"
    )  # images that a model knows nothing of are neither asked about nor ranked
    whole = study.fit()
    assert "waiting" not in whole.metrics
    assert pending_work(study) != "fit"
    assert len(study.score()) == N


def test_a_trainer_makes_models_while_it_describes_and_ends_with_the_same(
    study: Study, tmp_path: Path, images: Path
) -> None:
    answer(study, 8)
    (images / "i39.png").write_bytes(b"no picture any more")
    run_worker(study.folder, once=True, nice=False)
    models = study.store.models.all()
    waiting = [model.metrics.get("waiting", 0) for model in models]
    assert len(models) >= 2
    assert waiting[0] > 0
    assert waiting == sorted(waiting, reverse=True)
    assert waiting[-1] == 0
    assert models[-1].metrics["unreadable"] == 1
    grown = study.score()
    for pairs in (study.store.pairs.columns().rows,):
        assert not (pairs == 39).any() or len(grown) == N - 1
    study.fit()  # what somebody makes who waited for everything
    np.testing.assert_allclose(
        study.score().sort_values("image")["score"], grown.sort_values("image")["score"], atol=1e-9
    )


def test_rows_in_any_order_are_mapped_in_the_studys_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gathered in memory, a million rows that workers computed in any order would take gigabytes."""
    ids = [f"{k:032x}" for k in range(9)]
    rows = np.arange(27, dtype=np.float32).reshape(9, 3)
    settings = {"what": "test"}

    def ask(which: list[int]) -> np.ndarray:
        return cached_rows(
            tmp_path, [ids[k] for k in which], lambda at: rows[np.array(which)[at]], row_shape=(3,), dtype=np.float32,
            settings=settings,
        )  # fmt: skip

    ask([5, 6, 7, 8])
    ask([2, 1, 0, 3, 4])
    monkeypatch.setattr(ordered, "GATHERED_BYTES", 10)
    monkeypatch.setattr(ordered, "_BLOCK_BYTES", 24)
    found = ask(list(range(9)))
    assert isinstance(found, np.memmap)
    np.testing.assert_array_equal(found, rows)
    [copy] = tmp_path.glob("*/ordered-*.dat")
    before = copy.stat().st_mtime_ns
    np.testing.assert_array_equal(ask(list(range(9))), rows)
    assert copy.stat().st_mtime_ns == before  # made once
    np.testing.assert_array_equal(ask([8, 0, 4]), rows[[8, 0, 4]])
    assert len(list(tmp_path.glob("*/ordered-*.dat"))) == 1  # and replaced
