"""Each further question gets a scale of its own: learnt, saved, shown, correlated, and no part of anything else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load
from scipy.stats import pearsonr, spearmanr
from typer.testing import CliRunner

import steelyard as sy
from steelyard.cli import app
from steelyard.errors import StudyError
from steelyard.exchange import write_table
from steelyard.rescue import backup_study, restore_study
from steelyard.study import Study
from tests.study.test_questions import ASK, BLEEDING, VESSELS, tell_all

RUN = CliRunner()


def features(study: Study) -> np.ndarray:
    rows: np.ndarray = np.load(study.folder.parent / "x.npy")
    return rows


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of three questions, each about another feature; the third has too few answers. Made once, copied for each test."""
    place = tmp_path_factory.mktemp("scales")
    np.save(place / "x.npy", np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32))
    catalog = sy.Catalog.from_features(place / "x.npy")
    settings = {"questions": [BLEEDING, VESSELS], "ask": ASK, "page": {"weight": 2.0}}
    with Study.create(place / "study", catalog, preset="features", **settings) as study:
        tell_all(study, 60, ("", "bleeding"))
        tell_all(study, 4)
        study.fit()
    return place


@pytest.fixture
def asked(made: Path, tmp_path: Path) -> Iterator[Study]:
    with Study.open(Path(shutil.copytree(made, tmp_path / "copy")) / "study") as study:
        yield study
        assert study.store.check() == []


def test_planted_scales_are_recovered(asked: Study) -> None:
    table, rows = asked.score(), features(asked)
    at = asked.catalog.rows_of(table["image"].tolist())
    assert spearmanr(table["score"], rows[at, 0])[0] > 0.9
    assert spearmanr(table["score_bleeding"], rows[at, 1])[0] > 0.9
    assert (table["uncertainty_bleeding"] > 0).all()
    assert table["score_vessels"].isna().all(), "four answers are too few"
    assert table["composite"].isna().all(), "and without it there is no composite"
    one = asked.score(question="bleeding")
    assert list(one.columns) == list(asked.score(question="main").columns)
    assert one["rank"].tolist() == sorted(one["rank"])
    both = table.merge(one, on="image", suffixes=("", "_own"))
    assert np.allclose(both["score_bleeding"], both["score_own"])
    with pytest.raises(
        StudyError, match="'vessels' has no scale yet: it has 4 answers, and a scale needs 10"
    ):
        asked.score(question="vessels")
    with pytest.raises(StudyError, match="no question 'colour'"):
        asked.score(question="colour")


def test_the_composite_is_the_weighted_mean_of_standardised_scales(asked: Study) -> None:
    tell_all(asked, 12)
    asked.fit()
    table = asked.score()
    parts = [table["score"], table["score_bleeding"], table["score_vessels"]]
    weights = np.array([2.0, 1.0, 0.5]) / 3.5
    expected = sum(w * (p - p.mean()) / p.std(ddof=0) for w, p in zip(weights, parts, strict=True))
    assert np.allclose(table["composite"], expected)
    stds = [table[f"uncertainty{key}"] for key in ("", "_bleeding", "_vessels")]
    squares = sum((w * s / p.std(ddof=0)) ** 2 for w, s, p in zip(weights, stds, parts, strict=True))
    assert np.allclose(table["uncertainty_composite"], np.sqrt(squares))
    asked.config = asked.config.with_changes(
        questions=[{**BLEEDING, "weight": -1.0}, {**VESSELS, "weight": 0.0}]
    )
    turned = asked.score()
    assert pearsonr(turned["composite"], 2 * turned["score"] / turned["score"].std() - turned["score_bleeding"] / turned["score_bleeding"].std())[0] > 0.999  # fmt: skip


def test_the_main_scale_is_what_it_would_be_alone(make_study: Callable[..., Study]) -> None:
    several, one = make_study(questions=[BLEEDING], ask=ASK), make_study(ask=ASK)
    tell_all(several, 30, ("", "bleeding"))
    tell_all(one, 30, ("",))
    several.fit()
    one.fit()
    assert several.score(question="main").equals(one.score())
    assert several.accuracy().to_dict() == one.accuracy().to_dict()
    following = [{frozenset((p.left, p.right)) for p in study.ask(5)} for study in (several, one)]
    assert following[0] == following[1], "and so are the pairs that follow"
    assert several.status()["answers"] == one.status()["answers"] == 30
    assert several.status()["answers to further questions"] == {"bleeding": 30}
    assert "answers to further questions" not in one.status()


def test_undone_answers_and_excluded_images_teach_no_scale(asked: Study) -> None:
    before = asked.score(question="bleeding").set_index("image")["score"]
    for c in [c for c in asked.store.answers.log() if c.question == "bleeding"][:20]:
        asked.undo(c.id)
    gone = str(asked.catalog.ids[0])
    asked.store.images.exclude(gone, "kt", "blurred")
    model = asked.fit()
    assert 30 < model.metrics["questions"]["bleeding"]["answers"] <= 44
    after = asked.score(question="bleeding").set_index("image")["score"]
    assert gone not in after.index
    assert not np.allclose(before[after.index], after)
    assert [p.name for p in model.folder.glob("question-*")] == ["question-bleeding.safetensors"]


def test_new_images_are_scored_on_every_scale(
    asked: Study, later: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of images: the composite is in the unit of the study's own."""
    asked.config = asked.config.with_changes(questions=[BLEEDING, {**VESSELS, "weight": 0.0}])
    rows = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32)
    monkeypatch.setattr("steelyard.study.knowledge.read_inputs", lambda *_, **__: rows)
    table, own = asked.score(later), asked.score()
    assert len(table) == 3
    assert table[["score_bleeding", "uncertainty_bleeding", "composite"]].notna().all(axis=None)
    unit = sum(
        w * (table[n] - own[n].mean()) / own[n].std(ddof=0) / 3
        for w, n in ((2, "score"), (1, "score_bleeding"))
    )
    assert np.allclose(table["composite"], unit)
    one = asked.score(later, question="bleeding").set_index("image")
    assert np.allclose(one["score"][table["image"]], table["score_bleeding"])


def test_correlations_and_counts_by_command(asked: Study) -> None:
    done = RUN.invoke(app, ["questions", str(asked.folder), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [(row["key"], row["answers"], row["learnt"]) for row in found["questions"]] == [
        ("main", 64, 64), ("bleeding", 64, 64), ("vessels", 4, 0),
    ]  # fmt: skip
    [row] = found["correlations"]
    assert (row["one"], row["other"], row["images"]) == ("main", "bleeding", 40)
    truth = np.corrcoef(features(asked)[:, :2].T)[0, 1]
    assert row["pearson_low"] < truth < row["pearson_high"]
    assert row["spearman_low"] <= row["spearman"] <= row["spearman_high"]
    shown = RUN.invoke(app, ["questions", str(asked.folder)])
    assert "main – bleeding" in shown.stdout
    assert "bleeding?" in shown.stdout
    assert asked.scales().to_dict() == found, "the same every time"


def test_one_scale_by_command(asked: Study, tmp_path: Path) -> None:
    file = tmp_path / "scores.csv"
    done = RUN.invoke(app, ["score", str(asked.folder), "--question", "bleeding", "-o", str(file)])
    assert done.exit_code == 0, done.output
    write_table(asked.score(question="bleeding"), tmp_path / "again.csv")
    assert file.read_text(encoding="utf-8") == (tmp_path / "again.csv").read_text(encoding="utf-8")
    wrong = RUN.invoke(app, ["score", str(asked.folder), "--question", "bleding"])
    assert "did you mean 'bleeding'" in str(wrong.exception)


def test_before_there_is_a_model(make_study: Callable[..., Study]) -> None:
    study = make_study(questions=[BLEEDING])
    found = study.scales()
    assert [row["reliability"] for row in found.questions] == [None, None]
    assert found.correlations == []
    alone = make_study().scales()
    assert [row["key"] for row in alone.questions] == ["main"]


def test_a_backup_brings_scales_back(asked: Study, tmp_path: Path) -> None:
    backup_study(asked.folder, tmp_path / "backup.zip")
    restore_study(tmp_path / "backup.zip", tmp_path / "again")
    with Study.open(tmp_path / "again") as again:
        assert np.allclose(again.score()["score_bleeding"], asked.score()["score_bleeding"])


def test_a_damaged_scale_is_named(asked: Study) -> None:
    [file] = asked.store.models.all()[-1:]
    path = asked.folder / file.path / "question-bleeding.safetensors"
    assert "weights" in load(path.read_bytes())
    path.write_bytes(b"nonsense")
    with pytest.raises(
        StudyError, match=r"the scale 'bleeding' of the model in .* cannot be read.*train again"
    ):
        asked.score()
    assert len(asked.score(question="main")) == 40, "the main scale is not touched by that"
