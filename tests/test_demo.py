"""The demo: a small one end to end, and that its words say what its numbers say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steelyard.demo import DemoResult, run_demo
from steelyard.errors import ConfigError, StudyError
from steelyard.images.catalog import Catalog
from steelyard.study import Study


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[DemoResult, Path, list[tuple[int, int, str]]]:
    heard: list[tuple[int, int, str]] = []
    place = tmp_path_factory.mktemp("demo")
    result = run_demo(place, images=40, size=48, seed=1, runs=2, progress=lambda *told: heard.append(told))
    return result, place, heard


def test_curves_are_accuracies_after_rising_numbers_of_answers(
    small: tuple[DemoResult, Path, object],
) -> None:
    result, _, _ = small
    assert result.answers.tolist() == sorted(set(result.answers.tolist()))
    assert result.answers[-1] == 20
    assert result.well.shape == result.random.shape == (2, len(result.answers))
    for curve in (result.well, result.random):
        assert ((curve >= 0) & (curve <= 1)).all()
    # Forty images and twenty noisy answers teach something, whoever asks.
    assert result.well[:, -1].mean() > 0.55
    assert (result.well[0] != result.well[1]).any(), "runs have different luck"


def test_the_study_opens_with_answers_and_a_model(small: tuple[DemoResult, Path, object]) -> None:
    result, place, _ = small
    assert result.study == place / "study"
    with Study.open(result.study) as study:
        assert len(study.catalog) == 40
        assert study.catalog.groups is not None
        answers = study.store.answers.arrays()
        assert len(answers.labels) == result.given == 12
        assert result.planned == study.budget == 20
        assert len(study.store.models.all()) == 6
        assert study.store.pairs.open_count() >= 6, "the page opens on a pair, whoever is busy choosing more"
        scores = study.score()
        assert len(scores) == 40
        assert np.isfinite(scores["score"]).all()
        assert len(study.ask(1, annotator="me")) == 1


def test_the_tour_is_three_lines_about_pages_that_there_are(small: tuple[DemoResult, Path, object]) -> None:
    result, _, _ = small
    names, lines = zip(*result.tour, strict=True)
    assert names == ("Compare", "Progress", "Ranking")
    assert "12 of 20 planned answers" in lines[0]
    assert "all 40 images" in lines[2]


def test_images_are_a_csv_catalog(small: tuple[DemoResult, Path, object]) -> None:
    _, place, _ = small
    assert len(Catalog.from_csv(place / "images" / "labels.csv", place / "images")) == 40


def test_progress_tells_every_stage_to_its_end(
    small: tuple[DemoResult, Path, list[tuple[int, int, str]]],
) -> None:
    last = {text: (done, total) for done, total, text in small[2]}
    for stage in ("drawing images", "writing images", "features of unseen patients", "asking and training"):
        done, total = last[stage]
        assert done == total > 0


def test_table_plot_and_dictionary_agree(small: tuple[DemoResult, Path, object], tmp_path: Path) -> None:
    result, _, _ = small
    assert [len(row) for row in result.rows] == [len(result.columns)] * len(result.answers)
    told = result.to_dict()
    assert told["runs"] == 2
    assert [f"{100 * point['well']:.1f}%" for point in told["curve"]] == [row[2] for row in result.rows]
    assert result.plot(tmp_path / "deep" / "curve.png").read_bytes()[:4] == b"\x89PNG"
    assert "<svg" in result.plot(tmp_path / "curve.svg").read_text(encoding="utf-8")


def test_same_seed_same_figures(small: tuple[DemoResult, Path, object], tmp_path: Path) -> None:
    again = run_demo(tmp_path, images=40, size=48, seed=1, runs=2)
    np.testing.assert_array_equal(again.well, small[0].well)
    np.testing.assert_array_equal(again.random, small[0].random)


def made(well: list[list[float]], random: list[list[float]]) -> DemoResult:
    answers = 10 * np.arange(1, len(well[0]) + 1)
    return DemoResult(Path("study"), 100, 50, "spread, then epig", answers, np.array(well), np.array(random))


def test_summary_says_how_many_answers_chance_needs() -> None:
    won = made([[0.7, 0.8, 0.9, 0.92], [0.71, 0.8, 0.9, 0.92]], [[0.5, 0.6, 0.7, 0.8], [0.5, 0.6, 0.7, 0.8]])
    assert won.beats_random
    assert "Asking at random does not get there with 40." in won.summary
    late = made([[0.8] * 5] * 2, [[0.5, 0.6, 0.7, 0.7, 0.85]] * 2)
    assert "40 answers to 100 images order 80.0%" in late.summary
    assert "Asking at random needs 50 for that." in late.summary


def test_summary_is_honest_when_it_does_not_help() -> None:
    lost = made([[0.5, 0.6], [0.51, 0.6]], [[0.7, 0.8], [0.7, 0.8]])
    assert not lost.beats_random
    assert "worse than asking at random" in lost.summary
    even = made([[0.7, 0.8], [0.6, 0.7]], [[0.6, 0.7], [0.7, 0.8]])
    assert not even.beats_random
    assert "no clear difference" in even.summary


def test_a_used_folder_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "study.toml").write_text("")
    with pytest.raises(StudyError, match="is a study already"):
        run_demo(tmp_path, images=40)
    assert not (tmp_path / "images").exists()


@pytest.mark.parametrize(("wrong", "named"), [({"images": 39}, "not 39"), ({"runs": 1}, "not 1")])
def test_too_little_is_refused(wrong: dict[str, int], named: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=named):
        run_demo(tmp_path, **wrong)
