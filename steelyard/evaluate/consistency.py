"""How well a study's answers agree: between people, with themselves, with the model, and regardless of side."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.evaluate.agreement import cohen_kappa, fleiss_kappa, raw_agreement, side_bias

__all__ = ["consistency", "side_in_words"]


def consistency(
    pairs: ArrayLike,
    labels: ArrayLike,
    annotator: ArrayLike,
    annotators: list[str],
    left_first: ArrayLike,
    differences: ArrayLike | None = None,
) -> dict[str, Any]:
    """Agreement of everything with everything, as plain values.

    Args:
        pairs: rows (first, second) of each answer, shape (n, 2), first < second.
        labels: P1 for (first, second), NaN where nobody could judge, shape (n,).
        annotator: codes into `annotators`, shape (n,).
        annotators: names.
        left_first: whether `first` was shown on the left, shape (n,).
        differences: the model's score differences f(first) − f(second), shape (n,), or None without a model.

    Returns:
        `between people`: Fleiss' κ and, for each two who share pairs, raw agreement and Cohen's κ; `with themselves`:
        share of repeated questions answered alike; `with the model`: share of clear answers it orders alike; `side`:
        share of clear answers that chose the left image, with a binomial test. None where there is nothing to say.
    """
    rows, given = np.asarray(pairs).reshape(-1, 2), np.asarray(labels, dtype=np.float64)
    who = np.asarray(annotator)
    judged = ~np.isnan(given)
    by_pair: dict[tuple[int, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for k in np.flatnonzero(judged).tolist():
        by_pair[int(rows[k, 0]), int(rows[k, 1])][int(who[k])].append(float(given[k]))
    return {
        "answers": len(given),
        "could not judge": int((~judged).sum()),
        "equal": int((given == 0.5).sum()),
        "between people": _between(by_pair, annotators),
        "with themselves": _within(by_pair, annotators),
        "with the model": _with_model(given, who, annotators, differences),
        "side": _sides(given, np.asarray(left_first, dtype=bool)),
    }


def _between(
    by_pair: dict[tuple[int, int], dict[int, list[float]]], names: list[str]
) -> dict[str, Any] | None:
    shared = {
        key: {code: said[0] for code, said in people.items()}
        for key, people in by_pair.items()
        if len(people) > 1
    }
    if not shared:
        return None
    outcomes = (0.0, 0.5, 1.0)
    counts = [[sum(said == o for said in people.values()) for o in outcomes] for people in shared.values()]
    found: dict[str, Any] = {
        "pairs answered by several": len(shared),
        "fleiss kappa": _plain(fleiss_kappa(counts)),
    }
    for a in range(len(names)):
        for b in range(a + 1, len(names)):
            both = [(people[a], people[b]) for people in shared.values() if a in people and b in people]
            if both:
                one, other = np.array(both).T
                found[f"{names[a]} and {names[b]}"] = {
                    "pairs": len(both),
                    "agreement": _plain(raw_agreement(one, other)),
                    "cohen kappa": _plain(cohen_kappa(one, other)),
                }
    return found


def _within(
    by_pair: dict[tuple[int, int], dict[int, list[float]]], names: list[str]
) -> dict[str, Any] | None:
    again: dict[int, list[bool]] = defaultdict(list)
    for people in by_pair.values():
        for code, said in people.items():
            if len(said) > 1:
                again[code].extend(said[0] == later for later in said[1:])
    if not again:
        return None
    return {
        names[code]: {"repeats": len(same), "agreement": float(np.mean(same))}
        for code, same in sorted(again.items())
    }


def _with_model(
    given: NDArray[np.float64], who: NDArray[Any], names: list[str], differences: ArrayLike | None
) -> dict[str, Any] | None:
    clear = ~np.isnan(given) & (given != 0.5)
    if differences is None or not clear.any():
        return None
    delta = np.asarray(differences, dtype=np.float64)
    right = np.where(delta == 0, 0.5, (delta > 0) == (given == 1))
    found: dict[str, Any] = {"everybody": float(right[clear].mean())}
    for code, name in enumerate(names):
        own = clear & (who == code)
        if own.any():
            found[name] = float(right[own].mean())
    return found


def _sides(given: NDArray[np.float64], left_first: NDArray[np.bool_]) -> dict[str, Any] | None:
    clear = ~np.isnan(given) & (given != 0.5)
    if not clear.any():
        return None
    left = int(((given == 1) == left_first)[clear].sum())
    bias = side_bias(left, int(clear.sum()) - left)
    return {
        "left": bias.left,
        "right": bias.right,
        "share left": _plain(bias.share),
        "p": _plain(bias.p_value),
    }


def side_in_words(side: dict[str, Any]) -> str:
    """What the sides say, for people: how often left was chosen, and whether chance does that too.

    >>> side_in_words({"left": 7, "right": 4, "share left": 7 / 11, "p": 0.549})
    'left was chosen 7 of 11 times; chance alone is as uneven in 55 of 100 studies: no sign that anybody prefers a side'
    """
    left, total, p = side["left"], side["left"] + side["right"], side["p"]
    said = f"left was chosen {left} of {total} times"
    if p is None:
        return said
    often = f"{100 * p:.0f} of 100" if p >= 0.01 else "fewer than 1 of 100"
    verdict = "somebody may prefer a side" if p < 0.05 else "no sign that anybody prefers a side"
    return f"{said}; chance alone is as uneven in {often} studies: {verdict}"


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
