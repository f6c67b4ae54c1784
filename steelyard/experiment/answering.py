"""Who answers in an experiment: a virtual annotator who knows the grades, named with options after colons."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import ConfigError

__all__ = ["answer", "check_annotator", "parse_options"]


def answer(
    annotator: str, grades: NDArray[np.int64], pairs: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Relative labels (P1) of pairs.

    Args:
        annotator: `perfect` says what the grades say; others are those of `steelyard.annotators`.
        grades: code of each image, shape (N,).
        pairs: catalog rows, shape (n, 2).
        rng: where mistakes come from.

    Returns:
        1, 0.5 or 0 a pair, shape (n,).
    """
    if annotator == "perfect":
        return np.asarray((np.sign(grades[pairs[:, 0]] - grades[pairs[:, 1]]) + 1) / 2, dtype=np.float64)
    from steelyard.annotators import make_annotator

    name, options = parse_options(annotator)
    return np.asarray(make_annotator(name, grades, **options).answer(pairs, rng), dtype=np.float64)


def check_annotator(annotator: str) -> None:
    """Make sure that there is such an annotator before anything long begins.

    Raises:
        ConfigError: there is not.
    """
    if annotator != "perfect":
        answer(annotator, np.array([0, 1]), np.array([[0, 1]]), np.random.default_rng(0))


def parse_options(spec: str) -> tuple[str, dict[str, Any]]:
    """`name:key=value:…` → name and options; numbers and true/false become what they look like.

    >>> parse_options("noisy:error=0.1")
    ('noisy', {'error': 0.1})

    Raises:
        ConfigError: a part is no key=value.
    """
    name, *parts = spec.split(":")
    options: dict[str, Any] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or not key:
            raise ConfigError(f"'{part}' in '{spec}' is no option; options look like start=spread")
        options[key] = _value(value)
    return name, options


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
