"""What 0.1 wrote is still read: a study, a model, a run. The files are made by tests/files/make_study_0_1.py."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import steelyard as sy
from steelyard.pairs import Answer
from steelyard.store.store import Store
from steelyard.study import Study

FILES = Path(__file__).parent / "files"
EXPECTED: dict[str, Any] = json.loads((FILES / "expected-0.1.json").read_text(encoding="utf-8"))
SAID = EXPECTED["study"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the study, somewhere else than where it was made."""
    return Path(shutil.copytree(FILES / "study-0.1", tmp_path / "moved" / "study"))


@pytest.fixture
def study(folder: Path) -> Iterator[Study]:
    with Study.open(folder) as opened:
        yield opened
        assert opened.store.check() == []


def test_every_answer_and_grade_of_0_1_is_there(study: Study) -> None:
    comparisons = [
        [c.id, c.annotator, c.answer.value if c.answer else None, c.left, c.right, c.supersedes, c.note]
        for c in study.store.answers.log()
    ]
    assert comparisons == SAID["comparisons"]
    assert {row[2] for row in comparisons} == {"left", "right", "equal", "cannot judge", None}
    grades = [[g.id, g.image, g.annotator, g.grade, g.supersedes] for g in study.store.grades.log()]
    assert grades == SAID["grades"]
    assert {image.id for image in study.store.images.all() if image.excluded} == set(SAID["excluded"])
    assert study.store.answers.count() == SAID["answers"]
    assert study.store.pairs.open_count() == SAID["open pairs"]
    assert len(study.store.pairs.columns().rows) == SAID["pairs"]


def test_people_models_and_the_audit_log_of_0_1_are_there(study: Study) -> None:
    assert {a.name: [a.role, a.active] for a in study.store.people.all()} == SAID["annotators"]
    alma = study.store.people.get("alma")
    assert str(alma.password_hash).startswith("$argon2")
    assert [token.label for token in study.store.people.tokens.all("alma")] == ["nightly export"]
    assert [[m.round, m.path, m.fingerprint] for m in study.store.models.all()] == SAID["models"]
    audit = [[entry.actor, entry.action] for entry in study.store.audit.log()]
    assert audit[: len(SAID["audit"])] == SAID["audit"]  # a migration may add to it, never take away


def test_scores_are_the_numbers_that_0_1_gave(study: Study) -> None:
    table = study.score()
    scores = dict(zip(table["image"], table["score"], strict=True))
    # 0.1 listed images that were excluded; nothing else has changed.
    expected = {image: score for image, score in SAID["scores"].items() if image not in SAID["excluded"]}
    assert scores == pytest.approx(expected, abs=1e-6)  # 0.1 summed them in float32
    posterior = study.posterior
    assert posterior is not None
    assert np.allclose(posterior.mean, SAID["posterior"], atol=1e-9)
    status = study.status()
    graded = SAID["graded"] - len(SAID["excluded"])  # 0.1 counted what was excluded, too
    assert (status["answers"], status["graded"], status["models"]) == (SAID["answers"], graded, 2)


def test_pictures_are_found_beside_a_moved_study(study: Study) -> None:
    assert [str(id) for id in study.catalog.ids] == SAID["images"]
    assert study.catalog.read(3).shape == (16, 16, 3)


def test_a_study_of_0_1_goes_on(study: Study) -> None:
    asked = study.ask(5, annotator="kt")
    assert len(asked) == 5
    for pair in asked:
        study.tell(pair, Answer.LEFT, annotator="kt", require_lease=True)
    study.tell_grade(SAID["images"][7], 1, annotator="kt")
    model = study.fit()
    assert model.round == 2
    assert study.store.answers.count() == SAID["answers"] + 5
    assert len(study.score()) == len(SAID["images"]) - len(SAID["excluded"])


@pytest.mark.postgres
def test_the_tables_of_0_1_are_brought_up_to_date_on_postgresql_too(postgres_url: str) -> None:
    from sqlalchemy import inspect

    from steelyard.store.database import make_engine, read_url
    from steelyard.store.opening import upgrade
    from steelyard.store.schema import metadata

    engine = make_engine(read_url(postgres_url))
    with engine.begin() as connection:
        upgrade(connection, SAID["revision"])
    with Store.open(postgres_url, create=False) as store:
        assert store.check() == []
    assert set(metadata.tables) <= set(inspect(engine).get_table_names())
    engine.dispose()


def test_a_network_saved_by_0_1_gives_the_same_scores() -> None:
    from steelyard.ranker.ranker import load_ranker

    expected = EXPECTED["network"]
    posterior = load_ranker(FILES / "network-0.1").posterior(np.array(expected["inputs"], dtype=np.float32))
    assert np.allclose(posterior.mean, expected["mean"], atol=1e-5)
    assert np.allclose(posterior.variance, expected["variance"], atol=1e-5)


def test_a_run_of_0_1_is_read_and_reported(tmp_path: Path) -> None:
    from steelyard.experiment.folder import RunFolder
    from steelyard.report import write_report

    run = Path(shutil.copytree(FILES / "run-0.1", tmp_path / "run"))
    table = RunFolder(run).table("results")
    assert table["method"].tolist() == EXPECTED["run"]["method"]
    assert table["overall"].tolist() == pytest.approx(EXPECTED["run"]["overall"])
    page = write_report(run, tmp_path / "report.html", formats=("svg",))
    assert "ubs" in page.read_text(encoding="utf-8")


def test_a_study_from_before_the_second_recipe_keeps_its_features(tmp_path: Path) -> None:
    """Neither its own images nor those of a folder are ever described in another way than its model was taught."""
    from steelyard.images.synthetic import draw, write

    table = write(tmp_path / "images", draw(24, size=32, seed=1))
    catalog = sy.Catalog.from_csv(table, table.parent)
    place = tmp_path / "study"
    ranker = {"backbone": "lite0", "image_size": 32, "recipe": 1}
    with Study.create(place, catalog, preset="quick", ranker=ranker) as study:
        for pair in study.ask(20, annotator="kt"):
            study.tell(pair, Answer.LEFT, annotator="kt")
        study.fit()
        own, others = study.score(), study.score(tmp_path / "images")
        upload = study.place(study.catalog.read(0))
    # As it was written before: no word of a recipe in the settings, nor in the model.
    settings = place / "study.toml"
    lines = (
        settings.read_text(encoding="utf-8").replace("version = 3", "version = 2").splitlines(keepends=True)
    )
    before = "".join(line for line in lines if "recipe" not in line)
    assert "image_size = 32\n" in before
    settings.write_text(before, encoding="utf-8")
    for manifest in place.glob("models/*/checkpoint.json"):
        text = manifest.read_text(encoding="utf-8")
        assert text.count('"recipe": 1,') == 2
        manifest.write_text(text.replace('"recipe": 1,', ""), encoding="utf-8")
    caches = sorted(place.glob("cache/*/rows.dat"))
    with Study.open(place) as study:
        assert study.config.ranker.recipe == 1
        assert study.score()["score"].tolist() == own["score"].tolist()
        assert study.score(tmp_path / "images")["score"].tolist() == others["score"].tolist()
        assert study.place(study.catalog.read(0)) == upload
        study.inputs()
        assert sorted(place.glob("cache/*/rows.dat")) == caches, "nothing was computed by another recipe"
    # Asked for, the second recipe has a cache of its own; the model there is goes on seeing what it was taught with.
    settings.write_text(before.replace("[ranker]", "[ranker]\nrecipe = 2"), encoding="utf-8")
    with Study.open(place) as study:
        assert study.score(tmp_path / "images")["score"].tolist() == others["score"].tolist()
        study.inputs()
        assert len([*place.glob("cache/*/rows.dat")]) == len(caches) + 1
        study.fit()
        assert study.score(tmp_path / "images")["score"].tolist() != others["score"].tolist()
