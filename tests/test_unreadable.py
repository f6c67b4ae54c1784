"""An image that cannot be read costs itself and nothing else, is mentioned once, and comes back when its file does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import steelyard as sy
from steelyard.errors import ImageError, StudyError
from steelyard.report import write_report
from steelyard.study import Study
from steelyard.study.models import load_absent
from steelyard.web.ranking import Rankings
from steelyard.web.trainer import run_worker

N = 12
RANKERS: dict[str, dict[str, Any]] = {
    "quick": {"ranker": {"backbone": "lite0", "image_size": 64}},
    "small": {"ranker": {"image_size": 32, "epochs": 2, "draws": 4, "patience": 2}},
}


def draw(path: Path, k: int) -> None:
    rng = np.random.default_rng(k)
    Image.fromarray(rng.integers(0, 40 + 15 * k, (40, 40, 3), dtype=np.uint8)).save(path)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    for k in range(N):
        draw(folder / f"i{k:02d}.png", k)
    return folder


def make_study(tmp_path: Path, images: Path, preset: str, **changes: Any) -> Study:
    catalog = sy.Catalog.from_folder(images)
    settings = {key: {**value} for key, value in RANKERS[preset].items()}
    return Study.create(tmp_path / "study", catalog, preset=preset, refit_after=4, **{**settings, **changes})


def answer(study: Study, n: int = 10, strategy: str = "random") -> list[int]:
    """Higher file numbers are more severe; returns the rows that were asked about."""
    names = {str(id): str(path) for id, path in zip(study.catalog.ids, study.catalog.paths, strict=True)}
    asked = []
    study.propose(n, strategy=strategy)
    for pair in study.ask(n, annotator="kt"):
        worse = sy.Answer.LEFT if names[pair.left] > names[pair.right] else sy.Answer.RIGHT
        study.tell(pair, worse, annotator="kt")
        asked += [study.catalog.index_of(pair.left), study.catalog.index_of(pair.right)]
    return asked


def delete(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:200])


def garble(path: Path) -> None:
    path.write_bytes(b"no image at all" * 20)


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("preset", ["quick", "small"])
@pytest.mark.parametrize("harm", [delete, truncate, garble, empty])
def test_training_goes_on_and_the_image_comes_back(
    tmp_path: Path, images: Path, preset: str, harm: Any
) -> None:
    with make_study(tmp_path, images, preset) as study:
        answer(study)
        row = int(study.store.answers.arrays().pairs[0, 0])  # somebody has answered about it
        path = images / str(study.catalog.paths[row])
        content = path.read_bytes()
        harm(path)

        model = study.fit()
        assert model.note == "1 image cannot be read and is left out"
        assert len(model.unreadable) == 1
        assert path.name in model.unreadable[0]
        assert load_absent(model.folder).tolist() == [row]
        answers = study.store.answers.arrays()
        about = (answers.pairs == row).any(axis=1)
        held_back = answers.reserved & (preset == "small")  # a network does not learn from these
        assert model.answers == int((~about & ~held_back & ~np.isnan(answers.labels)).sum())

        scores = study.score()
        assert len(scores) == N - 1
        assert path.name not in set(scores["path"])
        assert sorted(scores["rank"]) == list(range(1, N))
        assert np.isfinite(scores["score"]).all()
        assert study.left_out() == [path.name]
        assert study.status()["unreadable"] == 1
        assert study.accuracy() is not None
        study.agreement()
        ranking = Rankings(study).newest()
        assert ranking is not None
        assert row not in ranking.order

        assert row not in answer(study, 20), "nobody is asked about it"
        again = study.fit()
        assert again.note == "", "said once"
        assert len(again.unreadable) == 1

        path.write_bytes(content)
        assert path.name in set(study.score()["path"]), "scored at once, without a new model"
        back = study.fit()
        assert back.note == "1 image can be read again"
        assert back.unreadable == ()
        assert len(load_absent(back.folder)) == 0
        assert len(study.score()) == N
        assert study.left_out() == []


@pytest.mark.parametrize("excluded", [False, True])
def test_the_trainer_goes_on(tmp_path: Path, images: Path, excluded: bool) -> None:
    with make_study(tmp_path, images, "small") as study:
        answer(study)
        row = int(study.store.answers.arrays().pairs[0, 0])
        (images / str(study.catalog.paths[row])).unlink()
        if excluded:
            study.store.images.exclude(str(study.catalog.ids[row]), "kt")
        assert run_worker(study.folder, once=True, nice=False) == 2  # it looks at the pictures, then learns
        model = study.store.models.newest()
        assert model is not None
        said = "\n".join(study.store.models.trainer.state().progress["log"])
        assert ("1 image cannot be read" in said) == (not excluded), "an excluded one is no news"
        assert str(study.catalog.paths[row]) not in said, "annotators read this"
        answer(study)
        assert run_worker(study.folder, once=True, nice=False) == 2  # it looks at the pictures, then learns
        assert "cannot be read" not in "\n".join(study.store.models.trainer.state().progress["log"])


@pytest.mark.parametrize("strategy", ["spread", "random"])
def test_the_first_pairs_leave_it_out(tmp_path: Path, images: Path, strategy: str) -> None:
    with make_study(tmp_path, images, "small") as study:
        garble(images / "i03.png") if strategy == "spread" else delete(images / "i03.png")
        gone = [k for k, path in enumerate(study.catalog.paths) if str(path) == "i03.png"]
        assert not set(gone) & set(answer(study, 15, strategy))


def test_a_file_that_vanishes_after_the_fit_is_not_asked_about(tmp_path: Path, images: Path) -> None:
    with make_study(tmp_path, images, "quick") as study:
        answer(study)
        study.fit()
        for name in ("i01.png", "i07.png"):
            (images / name).unlink()
        gone = {k for k, path in enumerate(study.catalog.paths) if str(path) in ("i01.png", "i07.png")}
        assert not gone & set(answer(study, 15, "epig"))
        assert len(study.score()) == N, "what was read before has its score"
        for path in images.iterdir():
            path.unlink()
        with pytest.raises(StudyError, match="not one of the 12 images is where it was"):
            study.propose(2)


def test_no_image_at_all_is_an_error(tmp_path: Path, images: Path) -> None:
    with make_study(tmp_path, images, "small") as study:
        answer(study)
        for path in images.iterdir():
            garble(path)
        with pytest.raises(ImageError, match="and 11 more unreadable images"):
            study.fit()


def test_excluded_images_teach_nothing_and_have_no_rank(tmp_path: Path, images: Path) -> None:
    with make_study(tmp_path, images, "quick") as study:
        answer(study)
        row = int(study.store.answers.arrays().pairs[0, 0])
        id = str(study.catalog.ids[row])
        before = study.fit()
        study.store.images.exclude(id, "kt")
        after = study.fit()
        assert after.answers < before.answers
        assert id not in set(study.score()["image"])
        study.store.images.include(id, "kt")
        assert id in set(study.score()["image"]), "its features were there all the time"
        assert study.fit().answers == before.answers


def test_a_study_on_features_needs_no_files(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(N, 3)).astype(np.float32))
    (tmp_path / "labels.csv").write_text("image\n" + "\n".join(f"i{k:02d}.png" for k in range(N)))
    catalog = sy.Catalog.from_features(tmp_path / "x.npy", tmp_path / "labels.csv")
    with Study.create(tmp_path / "study", catalog, preset="features") as study:
        answer(study)
        study.store.images.exclude(str(study.catalog.ids[3]), "kt")
        assert study.fit().unreadable == ()
        assert len(study.score()) == N - 1


def test_grades_and_the_report_leave_it_out(tmp_path: Path, images: Path) -> None:
    with make_study(tmp_path, images, "quick", page={"grades": ["mild", "severe"]}) as study:
        answer(study)
        (images / "i00.png").unlink()
        for path in ("i00.png", "i01.png", "i02.png", "i10.png", "i11.png"):
            [row] = [k for k, p in enumerate(study.catalog.paths) if str(p) == path]
            study.tell_grade(str(study.catalog.ids[row]), int(path > "i05"), annotator="kt")
        study.fit()
        table = study.grade()
        assert len(table) == N - 1
        assert "i00.png" not in set(table["path"])
        assert "i00.png" not in {
            str(study.catalog.paths[study.catalog.index_of(id)]) for id in study.suggest_grading(N)
        }
    assert write_report(tmp_path / "study", tmp_path / "report.html").exists()
