"""Drawn mucosa: reproducible, as uneven as the paper's set, and decided by severity rather than by colour."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from steelyard.errors import ConfigError
from steelyard.images.catalog import Catalog
from steelyard.images.mucosa import Traits, draw_traits, render
from steelyard.images.synthetic import PAPER_SHARES, WORST, draw, severities, write
from steelyard.images.texture import TILE, bank, read


def traits(patient: int = 1) -> Traits:
    return draw_traits(np.random.default_rng([77, patient]))


def scene(severity: float, number: int = 0, size: int = 96, patient: int = 1) -> np.ndarray:
    """The same view of the same patient, whatever the severity."""
    return render(severity, traits(patient), np.random.default_rng([78, number]), size)


def red(picture: np.ndarray) -> float:
    """Red against green: what a linear eye calls redness."""
    mean = picture.reshape(-1, 3).mean(axis=0)
    return float(np.log(mean[0] / mean[1]))


def test_same_seed_same_images_and_another_seed_others() -> None:
    one, again, other = draw(5, size=64, seed=3), draw(5, size=64, seed=3), draw(5, size=64, seed=4)
    assert np.array_equal(one.images, again.images)
    assert np.array_equal(one.severity, again.severity)
    assert (one.images != other.images).any(axis=(1, 2, 3)).all()


def test_workers_do_not_change_the_result() -> None:
    alone, together = draw(20, size=48, seed=1, workers=1), draw(20, size=48, seed=1, workers=2)
    assert np.array_equal(alone.images, together.images)
    assert alone.groups.tolist() == together.groups.tolist()


def test_shapes_and_types() -> None:
    drawn = draw(4, size=64, patients=2)
    assert drawn.images.shape == (4, 64, 64, 3)
    assert drawn.images.dtype == np.uint8
    assert drawn.severity.shape == drawn.grades.shape == drawn.groups.shape == (4,)
    assert drawn.grades.dtype == np.int64
    assert set(drawn.groups) == {"patient-001", "patient-002"}
    assert len(drawn) == 4


def test_no_two_pictures_are_the_same() -> None:
    drawn = draw(12, size=48, patients=2)
    assert len({picture.tobytes() for picture in drawn.images}) == 12


@pytest.mark.parametrize(("n", "within"), [(200, 0.04), (5000, 0.015)])
def test_grades_are_as_uneven_as_the_papers(n: int, within: float) -> None:
    _, grades, _ = severities(n, seed=2)
    shares = np.bincount(grades, minlength=4) / n
    assert np.abs(shares - PAPER_SHARES).max() < within


def test_other_shares_can_be_asked_for() -> None:
    severity, _, _ = severities(1000, shares=(0.25, 0.25, 0.25, 0.25))
    assert np.bincount(np.floor(severity).astype(int)).tolist() == [250, 250, 250, 250]


def test_grades_are_cut_from_the_severity_with_some_noise_at_the_cuts() -> None:
    severity, grades, _ = severities(5000)
    assert severity.min() >= 0
    assert severity.max() < WORST
    wrong = grades != np.floor(severity)
    assert 0.02 < wrong.mean() < 0.20
    to_cut = np.abs(severity[wrong] - np.round(severity[wrong]))
    assert to_cut.max() < 0.75
    assert np.median(to_cut) < 0.15


def test_patients_differ_in_severity_but_not_altogether() -> None:
    severity, _, patient = severities(5000, patients=100)
    within = np.array([severity[patient == p].var() for p in range(100)]).mean()
    assert 0.3 < within / severity.var() < 0.85


def test_every_patient_has_an_image() -> None:
    _, _, patient = severities(30, patients=30)
    assert sorted(patient) == list(range(30))


def test_size_is_resolution_and_not_another_scene() -> None:
    def middle(number: int, size: int) -> np.ndarray:
        picture = Image.fromarray(scene(1.5, number, size=size)).resize((64, 64), Image.Resampling.BOX)
        return np.asarray(picture, dtype=float)[12:52, 12:52, 1].ravel()

    assert np.corrcoef(middle(0, 64), middle(0, 192))[0, 1] > 0.9
    assert np.corrcoef(middle(0, 64), middle(1, 64))[0, 1] < 0.8


def test_a_little_worse_looks_a_little_different() -> None:
    healthy = scene(0.0).astype(float)
    steps = [np.abs(scene(s).astype(float) - healthy).mean() for s in (0.5, 1.5, 2.5, 3.5)]
    assert steps == sorted(steps)
    assert steps[0] < steps[-1] / 3


def test_redness_grows_in_one_view_but_differs_more_between_patients() -> None:
    views = range(6)
    grown = np.mean([red(scene(1.6, v)) - red(scene(0.6, v)) for v in views])
    assert grown > 0.01
    well = [red(scene(0.3, v, size=64, patient=p)) for p, v in enumerate(range(40))]
    assert np.std(well) > grown, "mean colour must mislead across patients"


def test_vessels_fade() -> None:
    def shown(severity: float) -> float:
        """What the vessels change in a view."""
        pictures = [
            render(severity, replace(traits(), vessels=contrast), np.random.default_rng(79), 96).astype(float)
            for contrast in (1.3, 0.0)
        ]
        return float(np.abs(pictures[0] - pictures[1]).mean())

    healthy, mild, moderate = shown(0.1), shown(1.0), shown(2.6)
    assert healthy > 1.2 * mild
    assert moderate < 0.05 * healthy


def test_fibrin_and_blood_come_late() -> None:
    def pale_and_bloody(severity: float) -> tuple[float, float]:
        pictures = [scene(severity, k).reshape(-1, 3).astype(float) for k in range(5)]
        pixels = np.concatenate(pictures)
        lit = pixels.max(axis=1) > 90
        pale = (pixels[:, 1] > 0.78 * pixels[:, 0]) & lit
        bloody = (pixels[:, 1] < 0.25 * pixels[:, 0]) & lit
        return float(pale.mean()), float(bloody.mean())

    early, late = pale_and_bloody(1.0), pale_and_bloody(3.4)
    assert late[0] > early[0] + 0.05
    assert late[1] > early[1] + 0.01


@pytest.mark.parametrize("window", ["octagon", "round", "square"])
def test_window_of_the_camera_is_black_outside(window: str) -> None:
    picture = render(1.0, replace(traits(), window=window), np.random.default_rng(0), 96)
    assert picture[0, 0].max() == 0
    assert picture[48, 48:].max() > 30


def test_tiles_have_no_seam() -> None:
    u = np.linspace(0, 2 * TILE, 40, dtype=np.float32)
    for tile in (bank().vessels[0], bank().noise[0], bank().spots[0]):
        once = read(tile, u, np.zeros_like(u), np.random.default_rng(0))
        around = read(tile, u + TILE, np.zeros_like(u) - 3 * TILE, np.random.default_rng(0))
        np.testing.assert_allclose(once, around, atol=1e-3)


def test_written_images_are_read_back_as_drawn(tmp_path: Path) -> None:
    drawn = draw(6, size=48, patients=3, seed=5)
    table = write(tmp_path / "pictures", drawn)
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["image", "grade", "group", "severity"]
    assert [int(row["grade"]) for row in rows] == drawn.grades.tolist()
    assert [row["group"] for row in rows] == drawn.groups.tolist()
    np.testing.assert_allclose([float(row["severity"]) for row in rows], drawn.severity, atol=1e-6)
    for row, pixels in zip(rows, drawn.images, strict=True):
        with Image.open(table.parent / row["image"]) as picture:
            assert np.array_equal(np.asarray(picture), pixels)


def test_the_catalog_reads_them(tmp_path: Path) -> None:
    drawn = draw(6, size=48, patients=3, seed=5)
    table = write(tmp_path, drawn)
    catalog = Catalog.from_csv(table, tmp_path)
    assert len(catalog) == 6
    order = [int(Path(str(path)).stem.split("-")[1]) for path in catalog.paths]
    assert catalog.grades is not None
    names = [catalog.grade_names[code] for code in catalog.grades]
    assert names == [str(drawn.grades[i]) for i in order]
    assert [str(group) for group in catalog.groups] == [drawn.groups[i] for i in order]
    assert np.array_equal(catalog.read(0), drawn.images[order[0]])


def test_progress_reaches_the_end(tmp_path: Path) -> None:
    heard: list[tuple[int, int, str]] = []
    drawn = draw(10, size=32, progress=lambda *told: heard.append(told))
    write(tmp_path, drawn, progress=lambda *told: heard.append(told))
    drawing = [done for done, total, text in heard if text == "drawing images" and total == 10]
    assert drawing == sorted(drawing)
    assert drawing[-1] == 10
    assert heard[-1] == (10, 10, "writing images")


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"n": 0}, "'n' is 1 image or more, not 0"),
        ({"size": 16}, "'size' is 32 to 1024 pixels, not 16"),
        ({"patients": 4}, "number of images (3), not 4"),
        ({"patients": 0}, "not 0"),
        ({"seed": -1}, "'seed' is 0 or more, not -1"),
        ({"workers": -2}, "not -2"),
        ({"shares": (0.5, 0.5)}, "four numbers"),
        ({"shares": (0.5, 0.5, 0.5, -0.5)}, "above 0"),
        ({"shares": (0.5, 0.5, 0.5, 0.5)}, "add up to 1"),
    ],
)
def test_bad_numbers_are_named(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError) as error:
        draw(**{"n": 3, **wrong})  # type: ignore[arg-type]
    assert named in str(error.value)
