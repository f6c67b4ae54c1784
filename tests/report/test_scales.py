"""Further questions in the report of a study: a line, a scale and its ends each, and how the scales go together."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import steelyard as sy
from steelyard.report import write_report
from steelyard.study import Study

ULCERS = {"key": "ulcers", "question": "Which has more ulcers?", "weight": -0.5}
BLEEDING = {"key": "bleeding", "question": "Which has more bleeding?"}
VESSELS = {"key": "vessels", "question": "Which shows fewer vessels?", "weight": 0.0}


def make(folder: Path, *keys: str, answers: int = 60) -> None:
    """Bleeding goes by a feature close to the main one, ulcers by another."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 5)).astype(np.float32)
    rows[:, 1] = 0.7 * rows[:, 0] + 0.7 * rows[:, 1]
    np.save(folder / "x.npy", rows)
    ask = {"start": "random", "random_share": 0.5}
    with Study.create(
        folder / "study", sy.Catalog.from_features(folder / "x.npy"), preset="features",
        questions=[BLEEDING, ULCERS, VESSELS], ask=ask,
    ) as study:  # fmt: skip
        for pair in study.ask(answers):
            left, right = study.catalog.rows_of([pair.left, pair.right])
            for column, key in enumerate(("", "bleeding", "ulcers")):
                if not key or key in keys:
                    study.tell(
                        pair, "left" if rows[left, column] > rows[right, column] else "right", question=key
                    )
        study.fit()


def files(folder: Path, kind: str) -> set[str]:
    return {path.stem for path in (folder / "report_files" / kind).iterdir()}


def test_scales_are_reported(tmp_path: Path) -> None:
    make(tmp_path, "bleeding", "ulcers")
    text = write_report(tmp_path / "study", tmp_path / "report.html", formats=("svg",)).read_text("utf-8")
    assert "The further questions" in text
    assert "bleeding go together most: correlation 0." in text
    assert "“Which shows fewer vessels?” has no scale yet." in text
    assert {"scales", "correlations", "ends-bleeding", "ends-ulcers"} <= files(tmp_path, "tables")
    assert "ends-vessels" not in files(tmp_path, "tables")
    assert {"scales", "correlations"} <= files(tmp_path, "figures")
    with Study.open(tmp_path / "study") as study:
        found = study.scales()
    table = (tmp_path / "report_files" / "tables" / "scales.csv").read_text("utf-8").splitlines()
    for row, line in zip(found.questions, table[1:], strict=True):
        share = "not known yet" if row["accuracy"] is None else f"{row['accuracy']:.0%}"
        assert line.startswith(f"{row['question']} ({row['key']}),{row['answers']},{row['learnt']},{share}")
    [first, *_] = found.correlations
    pairs = (tmp_path / "report_files" / "tables" / "correlations.csv").read_text("utf-8")
    assert (
        f"main – bleeding,{first['pearson']:.2f} ({first['pearson_low']:.2f} to {first['pearson_high']:.2f})"
        in pairs
    )


def test_a_question_that_nobody_answered_is_named(tmp_path: Path) -> None:
    make(tmp_path)
    text = write_report(tmp_path / "study", tmp_path / "report.html", formats=("svg",)).read_text("utf-8")
    assert "“Which has more bleeding?” has no scale yet." in text
    assert "correlations" not in files(tmp_path, "tables")
    assert "scales" not in files(tmp_path, "figures")
