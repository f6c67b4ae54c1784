"""A report in a real browser: nothing is cut off at the right edge of a usual window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.experiment.folder import RunFolder
from steelyard.report import write_report
from steelyard.report.html import Section, page
from steelyard.report.tables import Table
from tests.chromium import chromium_options

WIDER = """() => [...document.querySelectorAll('.scroll')].filter(box => box.scrollWidth > box.clientWidth)
    .map(box => `${box.querySelector('table').id}: ${box.scrollWidth} > ${box.clientWidth}`)"""


@pytest.fixture(scope="module")
def window() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**chromium_options())
        yield browser.new_page(viewport={"width": 1200, "height": 900})
        browser.close()


def wide_page(folder: Path) -> Path:
    """Seven grades, long names of methods and grades, deviations, stars and daggers everywhere."""
    heads = ["method", "labels", "overall", *(f"{a} – {b}" for a, b in zip(["0", "0-1", "1", "1-2", "2", "2-3"], ["0-1", "1", "1-2", "2", "2-3", "3"], strict=True)),
             "neighboring"]  # fmt: skip
    names = [
        "baseline (all data)",
        "random (proposed w/o UBS)",
        "EPIG, start=spread, r=5, targets=600, components=64",
    ]
    rows = [[name, "100 %", *[".861 ± .012* †"] * (len(heads) - 2)] for name in names]
    text = page(
        "Wide", "A lead.", [], [Section("Accuracy", tables=[Table("wide", "Wide", heads, rows, "Note.")])]
    )
    file = folder / "wide.html"
    file.write_text(text, encoding="utf-8")
    return file


def test_tables_fit_into_1200_pixels(run: RunFolder, tmp_path: Path, window: Any) -> None:
    report = write_report(run.path, tmp_path / "report.html", formats=("svg",))
    for file in (report, wide_page(tmp_path)):
        window.goto(file.as_uri())
        assert window.evaluate(WIDER) == []
        assert window.evaluate("document.documentElement.scrollWidth") <= 1200


def test_a_number_and_its_marks_stay_together(tmp_path: Path, window: Any) -> None:
    window.goto(wide_page(tmp_path).as_uri())
    heights = window.evaluate(
        "[...document.querySelectorAll('#table-wide .sd')].map(s => s.getClientRects().length)"
    )
    assert set(heights) == {1}, "a deviation is broken in two"


def test_on_a_phone_a_table_scrolls_and_the_page_does_not(tmp_path: Path, window: Any) -> None:
    window.set_viewport_size({"width": 375, "height": 800})
    window.goto(wide_page(tmp_path).as_uri())
    assert window.evaluate("document.documentElement.scrollWidth") <= 375
    window.set_viewport_size({"width": 1200, "height": 900})
