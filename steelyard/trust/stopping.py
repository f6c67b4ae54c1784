"""Is it enough? The estimate in words, and a recommendation."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from steelyard.trust.accuracy import ENOUGH

__all__ = ["AccuracyEstimate", "advise"]

_PLATEAU = 0.01


@dataclass(frozen=True)
class AccuracyEstimate:
    """Share of unseen pairs that are ordered as people order them.

    Attributes:
        estimate: the share, None before there is anything to estimate it from.
        low: lower end of the 95% interval (Wilson).
        high: upper end.
        pairs: reserved answers that it rests on, ties left out.
        stop: whether stopping is recommended.
        sentence: estimate and advice in words.
    """

    estimate: float | None
    low: float | None
    high: float | None
    pairs: int
    stop: bool
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def advise(
    accuracy: tuple[float, float, float, int], *, answers: int, budget: int, earlier: list[float]
) -> AccuracyEstimate:
    """Put an estimate and a recommendation into words.

    Stopping is recommended when the budget is used up, or when the estimate has not risen by more than a point over
    the last three models.

    Args:
        accuracy: from `estimate_accuracy`.
        answers: given so far.
        budget: planned.
        earlier: estimates of earlier models, oldest first, the present one last.
    """
    estimate, low, high, n = accuracy
    if math.isnan(estimate):
        none = "No random pair has been answered yet, so accuracy cannot be estimated."
        few = "There are too few answers yet to say how accurate the order is."
        return AccuracyEstimate(None, None, None, n, False, few if n else none)
    text = f"About {estimate:.0%} of unseen pairs are ordered as people order them ({low:.0%}–{high:.0%}, from {n} random pairs)."
    flat = len(earlier) >= 4 and n >= ENOUGH and max(earlier[-3:]) - earlier[-4] < _PLATEAU
    if answers >= budget:
        stop, advice = True, f"The planned {budget} answers are in: you can stop."
    elif n < ENOUGH:
        stop, advice = False, "Too few random pairs so far to advise on stopping."
    elif flat:
        stop, advice = True, "The last three models brought less than a point: you can stop."
    else:
        stop, advice = False, f"{budget - answers} more answers are planned."
    return AccuracyEstimate(estimate, low, high, n, stop, f"{text} {advice}")
