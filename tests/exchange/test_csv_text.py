"""CSV is what pandas would write, but for text that a spreadsheet would compute."""

from __future__ import annotations

import csv
import io

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from steelyard.exchange import csv_text
from steelyard.exchange.cells import restored

CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)


def test_numbers_truth_times_and_what_is_missing_are_written_as_pandas_does() -> None:
    table = pd.DataFrame(
        {
            "whole": [1, -2],
            "real": [0.1, np.nan],
            "small": np.array([0.1, -1e-7], dtype=np.float32),
            "endless": [np.inf, -np.inf],
            "yes": [True, False],
            "perhaps": pd.Series([True, None], dtype=object),
            "maybe": pd.Series([1, None], dtype="Int64"),
            "day": pd.to_datetime(["2026-11-18", None]),
            "text": ['a "b", c', None],
            "line": ["one\ntwo", ""],
        }
    )
    assert csv_text(table) == table.to_csv(index=False, lineterminator="\n")
    assert csv_text(table, header=False) == table.to_csv(index=False, header=False, lineterminator="\n")
    assert csv_text(table[:0]) == ",".join(table.columns) + "\n"


@given(st.lists(st.tuples(CELLS, CELLS, st.floats(allow_nan=False)), min_size=1, max_size=6))
def test_text_comes_back_whatever_it_is(rows: list[tuple[str, str, float]]) -> None:
    text = csv_text(pd.DataFrame(rows, columns=["a", "b", "x"]))
    read = list(csv.reader(io.StringIO(text, newline="")))[1:]
    assert [(restored(a), restored(b), float(x)) for a, b, x in read] == rows


@given(CELLS.filter(bool))
def test_no_cell_begins_a_formula(cell: str) -> None:
    text = csv_text(pd.DataFrame({"x": [cell], "n": [1]}), header=False)
    first = text.removeprefix('"')
    assert not first.startswith(tuple("=+-@\t\r\n＝＋－＠"))
