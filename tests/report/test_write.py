from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from steelyard.errors import ExperimentError
from steelyard.experiment.folder import RunFolder
from steelyard.report import write_report
from steelyard.report.palette import grade_colors, method_styles

FIGURES = {
    "accuracy_labels",
    "scores_grades",
    "grades_asked",
    "uncertainty_grades",
    "map",
    "reliability",
    "cost_curves",
}


@pytest.fixture(scope="module")
def report(run: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(
        run.path, tmp_path_factory.mktemp("out") / "report.html", formats=("svg", "pdf", "png")
    )


class Reader(HTMLParser):
    """Open and close tags have to match; ids are collected."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in ("meta", "br", "link"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_ids_are_unique(report: Path) -> None:
    reader = Reader()
    reader.feed(report.read_text(encoding="utf-8"))
    assert not reader.open
    assert len(reader.ids) == len(set(reader.ids))
    assert set(reader.ids) >= FIGURES


def test_the_page_needs_nothing_from_elsewhere(report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    outside = set(re.findall(r'(?:src|href)="([^"#][^"]*)"', text))
    assert not outside, outside
    assert "@import" not in text
    assert "<script" not in text


def test_the_page_says_how_to_repeat_it(report: Path, run: RunFolder) -> None:
    text = report.read_text(encoding="utf-8")
    about = run.describe()
    for needed in (
        about["data"]["fingerprint"],
        about["commands"][0],
        about["versions"]["numpy"],
        "identical rows",
    ):
        assert needed in text
    assert "1_2 &amp; more" in text


def test_every_figure_and_table_is_there_in_every_format(report: Path) -> None:
    beside = report.with_name("report_files")
    for ending in ("svg", "pdf", "png"):
        assert {path.stem for path in (beside / "figures").glob(f"*.{ending}")} == FIGURES
    assert (beside / "figures" / "map.png").read_bytes()[:4] == b"\x89PNG"
    for ending in ("md", "csv", "tex"):
        names = {path.stem for path in (beside / "tables").glob(f"*.{ending}")}
        assert {"accuracy", "cost", "classification", "calibration", "efficiency", "difference_ubs"} <= names


def test_the_same_run_gives_the_same_page(report: Path, run: RunFolder, tmp_path: Path) -> None:
    again = write_report(run.path, tmp_path / "report.html", formats=("svg",))
    assert again.read_bytes() == report.read_bytes()


def test_a_run_of_one_method_and_one_cell_is_reported_as_well(run: RunFolder, tmp_path: Path) -> None:
    small = RunFolder(tmp_path / "RUN")
    shutil.copytree(run.path, small.path)
    for cell in small.cells.iterdir():
        if cell.name != "random-f0-s0":
            shutil.rmtree(cell)
    small.assemble()
    (small.path / "classification.csv").unlink()
    text = write_report(small.path, tmp_path / "one.html", formats=("svg",)).read_text(encoding="utf-8")
    assert "random" in text
    assert "nan" not in re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL).lower().replace("finance", "")


def test_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="neither an experiment"):
        write_report(tmp_path, tmp_path / "report.html")


def test_colours_are_distinct_and_grades_darken() -> None:
    styles = method_styles(
        ["random", "ubs", "coreset", "epig", "dopt", "guro", "entropy", "pair_bald", "x", "y"]
    )
    looks = {(s["color"], str(s["linestyle"])) for s in styles.values()}
    assert len(looks) == len(styles)
    light = [sum(int(c[k : k + 2], 16) for k in (1, 3, 5)) for c in grade_colors(6)]
    assert light == sorted(light, reverse=True)
