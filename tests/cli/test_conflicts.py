"""`steelyard conflicts`: who said what, and what was decided, in words, JSON and tables."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from steelyard.cli import app
from steelyard.pairs import Answer
from steelyard.store.records import NewComparison, NewPair
from steelyard.study import Study
from tests.exchange.files import make_study


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Two conflicts, one of them decided."""
    with make_study(tmp_path / "s") as made:
        ids = [str(id) for id in made.catalog.ids]
        for k in range(3):
            [pair] = made.store.pairs.add_all([NewPair(2 * k, 2 * k + 1, raters=2)])
            first, second = ids[2 * k], ids[2 * k + 1]
            answers = (Answer.LEFT, (Answer.RIGHT, Answer.EQUAL, Answer.LEFT)[k])
            for who, said in zip(("ann", "=bo"), answers, strict=True):
                made.store.answers.add(NewComparison(pair, who, said, first, second))
            if k == 0:
                made.store.decisions.add(
                    NewComparison(
                        pair, "lea", Answer.LEFT, second, first, id="d", note="vessels", answered_at=9.5
                    )
                )
        return made.folder


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["conflicts", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output


def test_in_words(study: Path) -> None:
    text = run(study)
    assert "1.00  ward/i0.png – ward/i1.png: ann left, =bo right; decided: right (lea)" in text
    assert "0.50  ward/i2.png – ward/i3.png: ann left, =bo equal" in text
    assert text.endswith("2 conflicts, 1 decided\n")
    assert "i0.png" not in run(study, "--open")


def test_as_json_and_as_files(study: Path, tmp_path: Path) -> None:
    found = json.loads(run(study, "--json"))
    assert [one["disagreement"] for one in found] == [1.0, 0.5]
    assert [one["annotator"] for one in found[0]["said"]] == ["ann", "=bo"]
    assert found[0]["decision"] | {"answered_at": 9.5} == found[0]["decision"]
    assert "2 conflicts, 1 decided; written to" in run(study, "-o", tmp_path / "c.json").replace("\n", "")
    assert json.loads((tmp_path / "c.json").read_text()) == found
    run(study, "-o", tmp_path / "c.csv")
    table = pd.read_csv(tmp_path / "c.csv", keep_default_na=False)
    assert table["said"].tolist() == ["ann: left; =bo: right", "ann: left; =bo: equal"]
    assert table["said_right"].tolist() == [1, 0]
    assert table["decision"].tolist() == ["right", ""]
    assert table["decided_at_utc"].tolist() == ["1970-01-01T00:00:09.500Z", ""]
    run(study, "-o", tmp_path / "c.parquet")
    assert len(pd.read_parquet(tmp_path / "c.parquet")) == 2


def test_no_conflicts_and_a_wrong_ending(study: Path, tmp_path: Path) -> None:
    with make_study(tmp_path / "calm") as calm:
        folder = calm.folder
    assert run(folder) == "0 conflicts, 0 decided\n"
    run(folder, "-o", tmp_path / "none.csv")
    assert (tmp_path / "none.csv").read_text().startswith("pair,left,right")
    done = CliRunner().invoke(app, ["conflicts", str(study), "-o", str(tmp_path / "c.txt")])
    assert done.exit_code != 0
    assert "ends in .csv, .json or .parquet" in str(done.exception)
    with Study.open(study) as opened:
        assert opened.store.check() == []
