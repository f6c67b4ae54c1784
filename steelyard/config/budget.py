"""`ask.budget`: how many answers are planned, as a share of the images or as a number.

0.5     half as many answers as there are images, from each rater; grows with the images
120     120 answers in all, whoever gives them; stays when images are added
"300%"  three times as many answers as there are images, from each rater
"""

from __future__ import annotations

import math
import re
from typing import Any

from steelyard.errors import ConfigError

__all__ = ["Budget", "budget_in_words", "budget_of_0_1", "planned_answers", "read_budget"]

Budget = float | int | str
"""A share up to 1 is a float, a number of answers an int, a share above 1 a percentage in a text."""

MOST = 1_000_000_000
_EXPECTED = 'a share of the images up to 1, a whole number of answers from 2 on, or a percentage as in "300%"'


def read_budget(given: Any) -> Budget:
    """A budget as it is kept.

    >>> read_budget(0.5), read_budget(1), read_budget(120), read_budget("40%"), read_budget("300 %")
    (0.5, 1.0, 120, 0.4, '300%')

    Raises:
        ConfigError: it is neither a share nor a number of answers, or could be both; says what is expected.
    """
    share: float | None = None
    if isinstance(given, str) and (found := re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*%\s*", given)):
        share = float(found[1]) / 100
    elif isinstance(given, (int, float)) and not isinstance(given, bool) and math.isfinite(given):
        if isinstance(given, int) and 2 <= given <= MOST:
            return given
        if 0 < given <= 1:
            share = float(given)
        elif isinstance(given, float) and given > 1:
            raise ConfigError(
                f"is {_EXPECTED}; {given!r} could be either: for answers write {max(2, math.ceil(given))}, for a share of the "
                f'images "{given * 100:g}%"'
            )
    if share is None or share <= 0:
        raise ConfigError(f"is {_EXPECTED}, above 0; not {given!r}")
    return share if share <= 1 else f"{share * 100:.12g}%"


def planned_answers(budget: Budget, *, images: int, raters: int) -> int:
    """How many answers that is, 1 at least."""
    if isinstance(budget, int):
        return budget
    return max(1, round(_share(budget) * images * raters))


def budget_in_words(budget: Budget, *, images: int, raters: int) -> str:
    """How a budget is meant, beside the answers it makes.

    >>> budget_in_words(0.5, images=120, raters=2)
    '50% of 120 images, from 2 raters each'
    """
    if isinstance(budget, int):
        return "answers, whoever gives them"
    each = f", from {raters} raters each" if raters > 1 else ""
    return f"{_share(budget) * 100:g}% of {images:,} images{each}"


def budget_of_0_1(value: Any) -> Any:
    """What 0.1 wrote, where every number was a share: 3.0 was three times the images. A whole number is somebody's own."""
    return (
        f"{value * 100:.12g}%" if isinstance(value, float) and math.isfinite(value) and value > 1 else value
    )


def _share(budget: float | str) -> float:
    return float(budget.rstrip("%")) / 100 if isinstance(budget, str) else budget
