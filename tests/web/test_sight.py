"""Sight: remembers exactly what was shown, in a bit an image."""

from __future__ import annotations

import sys
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from steelyard.web.sight import Sight


class Nothing:
    """A store in which nobody has seen anything."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: False


ROWS = st.lists(st.integers(0, 5_000), max_size=60)


@given(shown=st.lists(st.tuples(st.sampled_from(["kt", "mo"]), ROWS), max_size=6), asked=ROWS)
def test_it_remembers_what_was_shown_to_whom_and_nothing_else(
    shown: list[tuple[str, list[int]]], asked: list[int]
) -> None:
    sight, known = Sight(Nothing(), tuple), {"kt": set[int](), "mo": set[int]()}  # type: ignore[arg-type]
    for who, rows in shown:
        sight.show(who, rows)
        known[who] |= set(rows)
    for who, rows in known.items():
        for row in {*asked, *rows}:
            assert sight.remembers(who, row) == (row in rows)


def test_memory_is_bounded_by_the_images_not_by_the_answers() -> None:
    sight = Sight(Nothing(), tuple)  # type: ignore[arg-type]
    for start in range(0, 100_000, 10):
        sight.show("kt", range(start, start + 10))
    assert sys.getsizeof(sight._seen["kt"]) < 2 * 100_000 / 8
