"""Images that join a study later: found by content, in rows behind the others, whatever happens in between."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import steelyard as sy
from steelyard.cli import app
from steelyard.errors import CatalogError, StudyError
from steelyard.rescue import backup_study, restore_study
from steelyard.study import Study
from steelyard.study.models import images_of
from steelyard.web.trainer import pending_work, run_worker
from tests.study.growing import N, answer, draw, sound
from tests.waiting import until


def test_new_images_get_the_next_rows_and_the_others_keep_theirs(
    make_growing: Callable[..., Study], later: Path, store_url: str
) -> None:
    study = make_growing(store=store_url)
    before, budget = study.catalog.ids.tolist(), study.budget
    done = study.add(later, by="ada")
    assert (done.images, done.known, done.total) == (3, 0, N + 3)
    assert study.catalog.ids.tolist()[:N] == before
    assert [image.id for image in study.store.images.all()] == study.catalog.ids.tolist()
    assert study.catalog.raw_path(N) == later / "i10.png"
    assert study.catalog.read(N).shape == (40, 40, 3)
    assert study.budget > budget  # shares follow the number of images
    entry = study.store.audit.latest(1)[0]
    assert (entry.actor, entry.action, entry.detail["images"], entry.detail["first_row"]) == (
        "ada",
        "add images",
        3,
        N,
    )
    assert study.catalog.verify() == ()
    assert sound(study)


def test_the_same_folder_again_adds_what_came_since(make_growing: Callable[..., Study], first: Path) -> None:
    study = make_growing()
    assert study.add(first).images == 0
    draw(first / "deep" / "i20.png", 20)
    done = study.add(first)
    assert (done.images, done.known) == (1, N)
    assert not done.report.duplicates  # the very same files, not copies
    assert study.catalog.paths[N] == "deep/i20.png"
    assert study.add(first).images == 0
    assert len(study.store.images.all()) == N + 1


def test_a_folder_above_the_first_one_names_its_images_as_before(
    make_growing: Callable[..., Study], first: Path, later: Path
) -> None:
    study = make_growing()
    done = study.add(first.parent)
    assert (done.images, done.known) == (3, N)
    assert not done.report.duplicates


def test_copies_changed_files_and_broken_ones_are_named(
    make_growing: Callable[..., Study], first: Path, later: Path
) -> None:
    study = make_growing()
    shutil.copy(first / "i03.png", later / "copy.png")
    shutil.copy(later / "i10.png", later / "twin.png")
    (later / "broken.png").write_bytes((later / "i11.png").read_bytes()[:300])
    done = study.add(later)
    assert (done.images, done.known) == (3, 1)
    told = " ".join(str(one) for one in done.report.duplicates)
    assert "copy.png: same bytes as i03.png" in told
    assert "twin.png: same bytes as i10.png" in told
    assert [Path(bad.path).name for bad in done.report.bad] == ["broken.png"]
    assert "broken.png" in str(sy.Catalog.open(study.folder / "catalog.arrow").report)

    draw(first / "i05.png", 99)  # another picture under the name of one that is in the study
    changed = study.add(first)
    assert changed.images == 0
    assert "other bytes" in changed.report.bad[0].reason


def test_grades_and_groups_come_from_a_new_table(
    make_growing: Callable[..., Study], first: Path, later: Path
) -> None:
    (first / "labels.csv").write_text(
        "image,grade,group\n" + "".join(f"i{k:02d}.png,{k % 2},p{k // 2}\n" for k in range(N))
    )
    study = make_growing(sy.Catalog.from_csv(first / "labels.csv"))
    (later / "more.csv").write_text("image,grade,group\ni10.png,1,p0\ni11.png,2,\ni12.png,,p9\n")
    done = study.add(later, labels=later / "more.csv")
    assert done.images == 3
    assert study.catalog.grade_names == ("0", "1", "2")  # a worse grade goes behind the others
    grades, groups = study.catalog.grades, study.catalog.groups
    assert grades is not None
    assert groups is not None
    assert grades.tolist()[N:] == [1, 2, -1]
    assert groups.tolist()[N:] == ["p0", study.catalog.ids[N + 1], "p9"]
    assert [image.grade for image in study.store.images.all()][N:] == [1, 2, None]

    (first / "other.csv").write_text("image,grade,group\ni00.png,1,p0\n")
    again = study.add(first, labels=first / "other.csv")
    assert again.images == 0
    assert "grade 1 instead of 0" in str(again.report)  # told, and not taken
    assert grades.tolist()[0] == 0


def test_a_grade_that_would_move_the_others_is_refused(
    make_growing: Callable[..., Study], first: Path, later: Path
) -> None:
    (first / "labels.csv").write_text(
        "image,grade\n" + "".join(f"i{k:02d}.png,{1 + k % 2}\n" for k in range(N))
    )
    study = make_growing(sy.Catalog.from_csv(first / "labels.csv"))
    (later / "more.csv").write_text("image,grade\ni10.png,0\n")
    with pytest.raises(CatalogError, match="grade '0' is none of the study's grades 1, 2"):
        study.add(later, labels=later / "more.csv")
    assert len(study.catalog) == len(study.store.images.all()) == N


def test_groups_may_come_with_the_later_ones(make_growing: Callable[..., Study], later: Path) -> None:
    study = make_growing()
    (later / "more.csv").write_text("image,group\ni10.png,a\ni11.png,a\ni12.png,b\n")
    study.add(later, labels=later / "more.csv")
    groups = study.catalog.groups
    assert groups is not None
    assert groups.tolist() == [*study.catalog.ids.tolist()[:N], "a", "a", "b"]  # the others stand alone


def test_folders_of_grades_are_read_as_the_first_were(tmp_path: Path) -> None:
    for k in range(4):
        draw(tmp_path / "images" / str(k % 2) / f"{k}.png", k)
        draw(tmp_path / "later" / str(k % 2) / f"{k}.png", 10 + k)
    settings = {"images": {"layout": "grades", "root": str(tmp_path / "images")}}
    with Study.create(
        tmp_path / "s", sy.Catalog.from_grades(tmp_path / "images"), preset="small", **settings
    ) as study:
        assert study.add(tmp_path / "later").images == 4
        assert study.catalog.grades is not None
        assert study.catalog.grades.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]


@pytest.fixture
def graded(tmp_path: Path) -> Iterator[Study]:
    """Of folders named mild, moderate and severe."""
    for k, grade in enumerate(("mild", "moderate", "severe")):
        draw(tmp_path / "graded" / grade / "a.png", k)
    images = {"layout": "grades", "root": str(tmp_path / "graded")}
    catalog = sy.Catalog.from_grades(tmp_path / "graded")
    with Study.create(tmp_path / "s", catalog, preset="small", images=images) as study:
        yield study


@pytest.mark.parametrize("grade", ["unsure", "blurry", "Severe 2"])
def test_a_word_that_is_none_of_the_grades_does_not_become_one(graded: Study, grade: str) -> None:
    root = graded.catalog.root
    assert root is not None
    draw(root / grade / "x.png", 20)
    draw(root / "Severe" / "y.png", 21)  # the same word
    with pytest.raises(
        CatalogError, match=f"{grade}/x.png: grade '{grade}' is none of .* mild, moderate, severe.*; give"
    ):
        graded.add(root)
    assert (len(graded.catalog), graded.catalog.grade_names) == (3, ("mild", "moderate", "severe"))
    (root / grade / "x.png").unlink()
    assert graded.add(root).images == 1
    assert graded.catalog.grades is not None
    assert graded.catalog.grades.tolist() == [0, 1, 2, 2]
    # An image that is in the study stays what it is, whatever its copy is said to be.
    shutil.copy(root / "mild" / "a.png", root / grade / "copy.png")
    told = graded.add(root)
    assert (told.images, graded.catalog.grade_names) == (0, ("mild", "moderate", "severe"))
    assert f"grade {grade} instead of mild" in str(told.report)


def test_a_grade_with_a_number_beyond_the_others_is_added_and_told(tmp_path: Path) -> None:
    for k, grade in enumerate(("Mayo 0", "Mayo 1", "Mayo 2")):
        draw(tmp_path / "graded" / grade / "a.png", k)
    images = {"layout": "grades", "root": str(tmp_path / "graded")}
    catalog = sy.Catalog.from_grades(tmp_path / "graded")
    with Study.create(tmp_path / "s", catalog, preset="small", images=images) as study:
        draw(tmp_path / "graded" / "Mayo 3" / "a.png", 20)
        told = study.add(tmp_path / "graded")
        assert "new grades, worse than Mayo 2: Mayo 3" in told.report.notes
        assert study.catalog.grade_names == ("Mayo 0", "Mayo 1", "Mayo 2", "Mayo 3")


def test_a_study_of_feature_rows_says_that_it_cannot_grow(tmp_path: Path, later: Path) -> None:
    catalog = sy.Catalog.from_features(np.eye(4, dtype=np.float32))
    with Study.create(tmp_path / "s", catalog, preset="features") as study:
        with pytest.raises(StudyError, match="this study compares features"):
            study.add(later)
        with pytest.raises(CatalogError, match="not features"):
            study.add(sy.Catalog.from_folder(later))


@pytest.mark.parametrize("preset", ["small", "quick"])
def test_the_newest_model_scores_them_at_once_and_the_next_knows_them(
    make_growing: Callable[..., Study], later: Path, preset: str
) -> None:
    quick = {"kind": "convex", "backbone": "lite0", "image_size": 64}
    study = make_growing(**({"ranker": quick} if preset == "quick" else {}))
    answer(study, 12)
    model = study.fit()
    before = study.score().set_index("image")["score"]
    study.add(later)
    scores = study.score().set_index("image")["score"]
    assert len(scores) == N + 3
    np.testing.assert_allclose(scores[before.index], before, atol=1e-5)  # still the same model
    assert len(study.left_out()) == 3  # until the next one
    study.accuracy(), study.agreement()
    status = study.status()
    assert (status["unreadable"], status["joined since the newest model"]) == (0, 3)
    assert status["next"].startswith("train:")
    assert study.posterior is not None
    assert len(study.posterior) == N + 3
    answer(study, 2)  # the loop goes on meanwhile

    assert images_of(model.folder) == N
    study.seen()
    assert pending_work(study) == "fit"
    study.fit()
    assert pending_work(study) != "fit"
    assert study.left_out() == []
    assert len(study.score()) == N + 3
    assert sound(study)


def test_pictures_too_large_for_the_study_are_not_scored_either(
    make_growing: Callable[..., Study], later: Path
) -> None:
    study = make_growing(images={"max_megapixels": 0.005})
    answer(study, 8)
    study.fit()
    Image.effect_noise((100, 100), 50).save(later / "large.png")
    assert sorted(study.score(later)["path"]) == ["i10.png", "i11.png", "i12.png"]
    told = CliRunner().invoke(app, ["score", str(study.folder), str(later)])
    assert "no score: large.png: " in told.stderr
    assert "large.png" not in told.stdout
    for path in later.glob("i*.png"):
        path.unlink()
    with pytest.raises(CatalogError, match=r"large\.png: .* more than the 0\.005 allowed"):
        study.score(later)


def test_a_second_process_follows_and_asks_about_them(
    make_growing: Callable[..., Study], later: Path
) -> None:
    study = make_growing()
    answer(study, 8)
    with Study.open(study.folder) as other:
        other.add(later)
    fresh = set(sy.Catalog.open(study.folder / "catalog.arrow").ids.tolist()[N:])
    asked = study.ask(30, strategy="random")
    assert len(study.catalog) == N + 3
    assert fresh & {id for pair in asked for id in (pair.left, pair.right)}
    for pair in asked:
        study.tell(pair, "left")
    study.fit()
    assert fresh <= set(study.score()["image"])


def test_more_first_pairs_are_chosen_for_more_images(
    make_growing: Callable[..., Study], tmp_path: Path
) -> None:
    study = make_growing(ask={"start": "spread", "start_share": 0.5, "budget": "1000%"})
    study.seen()
    assert pending_work(study) == "start"
    run_worker(study.folder, once=True, nice=False)
    assert pending_work(study) == ""
    up = study.store.pairs.open_count()
    for k in range(30):
        draw(tmp_path / "later" / f"x{k}.png", 30 + k)
    study.add(tmp_path / "later")
    assert pending_work(study) == "describe"
    study.seen()
    assert pending_work(study) == "start"
    run_worker(study.folder, once=True, nice=False)
    assert study.store.pairs.open_count() >= max(up, 20)
    assert pending_work(study) == ""  # once


def test_two_folders_one_of_which_moves(make_growing: Callable[..., Study], first: Path, later: Path) -> None:
    study = make_growing()
    study.add(later)
    later.rename(later.with_name("elsewhere"))
    assert study.relocate(later.with_name("elsewhere")) == []  # the others are where they were
    assert study.catalog.verify() == ()
    first.rename(first.with_name("moved"))
    assert study.relocate(first.with_name("moved")) == []
    assert study.catalog.verify() == ()
    draw(first.with_name("moved") / "new.png", 40)
    assert study.add(first.with_name("moved")).images == 1
    shutil.rmtree(later.with_name("elsewhere"))
    assert len(study.relocate(first.with_name("moved"))) == 3
    assert len(study.catalog) == N + 4


def test_a_folder_without_the_images_is_refused_and_nothing_changes(
    make_growing: Callable[..., Study], first: Path, tmp_path: Path
) -> None:
    study = make_growing()
    first.rename(first.with_name("moved"))
    (tmp_path / "empty").mkdir()
    before = study.config, study.catalog.paths.tolist(), (study.folder / "study.toml").read_bytes()
    for name, said in (("nowhere", "there is no folder"), ("empty", f"not one of the {N} images")):
        with pytest.raises(StudyError, match=said):
            study.relocate(tmp_path / name)
    assert (study.config, study.catalog.paths.tolist(), (study.folder / "study.toml").read_bytes()) == before
    assert study.relocate(first.with_name("moved")) == []


def test_backup_and_restore_have_them(
    make_growing: Callable[..., Study], later: Path, tmp_path: Path
) -> None:
    study = make_growing()
    answer(study, 8)
    study.fit()
    study.add(later)
    backup_study(study.folder, tmp_path / "b.steelyard.zip")
    restore_study(tmp_path / "b.steelyard.zip", tmp_path / "again")
    with Study.open(tmp_path / "again") as again:
        assert again.catalog.ids.tolist() == study.catalog.ids.tolist()
        assert again.catalog.verify() == ()
        assert sound(again)
        assert len(again.score()) == N + 3


def test_frames_of_one_file_keep_their_numbers(make_growing: Callable[..., Study], tmp_path: Path) -> None:
    from tests.images.test_dicom import dicom, stored

    pixels = np.random.default_rng(0).integers(0, 255, (3, 24, 24), dtype=np.uint8)
    (tmp_path / "scans").mkdir()
    (tmp_path / "scans" / "scan.dcm").write_bytes(stored(dicom(pixels)))
    draw(tmp_path / "scans" / "odd#3.png", 50).rename(tmp_path / "scans" / "odd#3")  # a name, not a frame
    study = make_growing()
    assert study.add(tmp_path / "scans").images == 4
    assert study.catalog.verify() == ()


def test_command(make_growing: Callable[..., Study], later: Path) -> None:
    study = make_growing()
    said = CliRunner().invoke(app, ["add", str(study.folder), str(later)])
    assert said.exit_code == 0, said.output
    assert "3 images added; the study has 13" in said.output
    again = CliRunner().invoke(app, ["add", str(study.folder), str(later), "--json"])
    assert '"added": 0' in again.output
    assert '"known": 3' in again.output


def test_nobody_takes_a_damaged_catalog_over(make_growing: Callable[..., Study], later: Path) -> None:
    study = make_growing()
    whole = (study.folder / "catalog.arrow").read_bytes()
    (study.folder / "new").write_bytes(whole[: len(whole) // 2])
    (study.folder / "new").replace(study.folder / "catalog.arrow")
    assert not study.follow()
    sy.Catalog.from_folder(later).save(study.folder / "catalog.arrow")
    assert not study.follow()  # of other images
    answer(study, 2)
    assert len(study.catalog) == N


def test_threads_that_follow_at_once_take_it_in_once(make_growing: Callable[..., Study], later: Path) -> None:
    study = make_growing()
    with Study.open(study.folder) as other:
        other.add(later)
    took: list[bool] = []
    threads = [threading.Thread(target=lambda: took.append(study.follow())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: len(study.catalog) == N + 3, "the new catalog")
    assert took.count(True) == 1
