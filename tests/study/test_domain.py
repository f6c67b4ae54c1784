"""A study says how unlike its images each image is, and says so when it does not know."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import steelyard as sy
from steelyard.images.synthetic import draw
from steelyard.study import Study
from steelyard.study.domain import load_check, load_domain
from tests.study.conftest import answer

FILE = "domain.safetensors"


def newest(study: Study) -> Path:
    model = study.store.models.newest()
    assert model is not None
    return study.folder / model.path


@pytest.fixture
def odd(tmp_path: Path) -> Study:
    """Forty images on feature rows, the fifth of another kind, the sixth excluded."""
    rows = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    rows[5] = 30
    np.save(tmp_path / "x.npy", rows)
    study = Study.create(tmp_path / "study", sy.Catalog.from_features(tmp_path / "x.npy"), preset="features")
    study.store.images.exclude(str(study.catalog.ids[6]), "alma", "dark")
    answer(study, 12)
    return study


def test_the_odd_one_is_flagged_in_the_tables(odd: Study) -> None:
    odd.fit()
    table = odd.score().set_index("path")
    assert len(table) == 39
    strange = str(odd.catalog.paths[5])
    assert table.loc[strange, "off_domain"] is True
    assert table.loc[strange, "unlike"] == pytest.approx(38 / 39)
    assert table["off_domain"].sum() == 1
    odd.config = odd.config.with_changes(page={"grades": ["mild", "severe"]})
    for row in range(40):
        odd.tell_grade(str(odd.catalog.ids[row]), row % 2, annotator="kt")
    grades = odd.grade().set_index("path")
    assert grades["unlike"].equals(table.loc[grades.index, "unlike"])
    assert grades["off_domain"].equals(table.loc[grades.index, "off_domain"])
    odd.close()


def test_what_has_not_changed_is_not_measured_again(odd: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    first = odd.fit().folder
    before = odd.score()
    monkeypatch.setattr("steelyard.ranker.domain.fit_domain", lambda *_, **__: pytest.fail("measured again"))
    answer(odd, 3)
    second = odd.fit().folder
    assert (second / FILE).read_bytes() == (first / FILE).read_bytes()
    assert (second / FILE).stat().st_ino == (first / FILE).stat().st_ino
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError("no links on this disk")))
    answer(odd, 3)
    third = odd.fit().folder
    assert (third / FILE).stat().st_ino != (first / FILE).stat().st_ino
    assert (
        odd.score()
        .set_index("image")["unlike"]
        .equals(before.set_index("image")["unlike"].loc[odd.score()["image"]])
    )
    monkeypatch.undo()
    odd.store.images.include(str(odd.catalog.ids[6]), "alma")
    odd.fit()
    assert (newest(odd) / FILE).read_bytes() != (first / FILE).read_bytes()
    assert load_check(newest(odd), 40).unlike_N[5] == pytest.approx(39 / 40)
    odd.close()


def test_a_model_made_before_says_so_and_scores_as_ever(odd: Study) -> None:
    odd.fit()
    scores = odd.score()["score"]
    (newest(odd) / FILE).unlink()
    table = odd.score()
    assert table["score"].equals(scores)
    assert table["unlike"].isna().all()
    assert table["off_domain"].isna().all()
    assert "made before" in table.attrs["domain"]
    assert "steelyard train" in table.attrs["domain"]
    answer(odd, 2)
    odd.fit()
    assert odd.score()["unlike"].notna().all()
    assert odd.score().attrs["domain"] == ""
    odd.close()


@pytest.mark.parametrize("content", [b"", b"\xff" * 5000, None])
def test_a_damaged_file_costs_the_flags_and_nothing_else(
    odd: Study, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    from steelyard.rescue import check_study

    odd.fit()
    path = newest(odd) / FILE
    path.write_bytes(path.read_bytes()[:300] if content is None else content)
    table = odd.score()
    assert table["unlike"].isna().all()
    assert "train again" in table.attrs["domain"]
    assert FILE in caplog.text
    assert load_domain(newest(odd)) is None
    assert any(FILE in f.sentence for f in check_study(odd.folder) if f.level == "problem")
    odd.fit()
    assert odd.score()["unlike"].notna().all()
    odd.close()


def test_a_small_study_says_that_it_is_too_small(tmp_path: Path) -> None:
    for n, groups in ((12, None), (60, 6), (60, 15)):
        np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(n, 5)).astype(np.float32))
        lines = [f"i{k},{'' if groups is None else f'p{k % groups}'}" for k in range(n)]
        (tmp_path / "labels.csv").write_text("\n".join(["image,group", *lines]) + "\n", encoding="utf-8")
        catalog = sy.Catalog.from_features(tmp_path / "x.npy", tmp_path / "labels.csv")
        with Study.create(tmp_path / f"study-{n}-{groups}", catalog, preset="features") as study:
            answer(study, 8)
            study.fit()
            table = study.score()
            assert table["off_domain"].isna().all()
            assert f"{groups or n} groups of images are too few" in table.attrs["domain"]
            assert table["unlike"].notna().all() == (groups == 15)


def test_new_pictures_are_measured_where_they_are_scored(tmp_path: Path) -> None:
    """A network on pixels: colour and detail tell, without any backbone."""
    drawn = draw(52, size=32, seed=3, workers=1)
    for name, pictures in (("own", drawn.images[:40]), ("more", drawn.images[40:])):
        (tmp_path / name).mkdir()
        for k, picture in enumerate(pictures):
            Image.fromarray(picture).save(tmp_path / name / f"{k:02d}.png")
            if name == "more":
                Image.fromarray(255 - picture).save(tmp_path / name / f"negative-{k:02d}.png")
    ranker = {"image_size": 32, "epochs": 1, "draws": 2, "patience": 1}
    with Study.create(
        tmp_path / "study", sy.Catalog.from_folder(tmp_path / "own"), preset="small", ranker=ranker
    ) as study:
        for pair in study.ask(6):
            study.tell(pair, sy.Answer.LEFT)
        study.fit()
        table = study.score(tmp_path / "more").set_index("path")
        negative = table.index.str.startswith("negative")
        assert table["off_domain"][negative].mean() == 1.0
        assert table["off_domain"][~negative].mean() < 0.3
        placed = study.place(255 - drawn.images[0])
        assert placed["off_domain"] is True
        assert placed["unlike"] == pytest.approx(40 / 41)
        assert placed["domain_note"] == ""
        (newest(study) / FILE).unlink()
        assert study.place(drawn.images[0])["off_domain"] is None
        assert "made before" in study.place(drawn.images[0])["domain_note"]
