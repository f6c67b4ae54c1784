"""What error messages have in common."""

from __future__ import annotations

from steelyard.errors import did_you_mean


def test_the_nearest_known_word_is_suggested_and_none_that_is_far() -> None:
    assert did_you_mean("epgi", ["random", "epig"]) == " – did you mean 'epig'?"
    assert did_you_mean("xyz", ["random", "epig"]) == ""
