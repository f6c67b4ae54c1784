"""What stands out about one person's answers, in plain sentences with what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["about"]


def about(person: Mapping[str, Any]) -> list[str]:
    """A sentence for each flag of a person, as `Person.to_dict` has them.

    >>> about({"flags": ["side"], "left_share": 0.71})
    ['chose the left image in 71% of clear answers: check their screen, and tell them that sides are drawn by chance.']
    """
    told = {
        "side": lambda: (
            f"chose the {'left' if person['left_share'] > 0.5 else 'right'} image in "
            f"{max(person['left_share'], 1 - person['left_share']):.0%} of clear answers: check their screen, and tell them that "
            "sides are drawn by chance."
        ),
        "guessing": lambda: (
            f"{person['circular']:,} of {person['triangles']:,} threes go round where a guesser makes "
            f"{person['circular_expected']:,.0f}: their answers follow no scale; talk about the question before they go on."
        ),
        "erratic": lambda: (
            f"answers surprise {person['infit'] / person['infit_others']:.1f} times as much as those of the others (infit "
            f"{person['infit']:.2f} beside {person['infit_others']:.2f}): look at some of them together; they may see something "
            "else, tire, or guess."
        ),
        "quick": lambda: (
            f"quick answers are in line {abs(person['quick_gap']):.0%} less often than slow ones, easier pairs reckoned in: "
            "ask them to take their time."
        ),
    }
    return [told[flag]() for flag in person["flags"] if flag in told]
