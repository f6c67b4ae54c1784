"""Annotators by name, as commands and experiments ask for them."""

from __future__ import annotations

import inspect
from typing import Any

from numpy.typing import ArrayLike

from steelyard.annotators.knowing import NoisyAnnotator, PerfectAnnotator, TieProneAnnotator
from steelyard.annotators.virtual import VirtualAnnotator
from steelyard.annotators.wrapping import SideBiasedAnnotator, TiringAnnotator
from steelyard.errors import ConfigError, did_you_mean

__all__ = ["annotator_names", "make_annotator"]

_ALONE = {"perfect": PerfectAnnotator, "noisy": NoisyAnnotator, "tie_prone": TieProneAnnotator}
_WRAPPING = {"tiring": TiringAnnotator, "side_biased": SideBiasedAnnotator}


def annotator_names() -> tuple[str, ...]:
    """Names that `make_annotator` knows."""
    return (*_ALONE, *_WRAPPING)


def make_annotator(name: str, values: ArrayLike, **options: Any) -> VirtualAnnotator:
    """An annotator by name, who knows the severity of each image.

    `tiring` and `side_biased` wrap a noisy annotator and hand it `scale` and `lapse`.

    >>> type(make_annotator("noisy", [0, 1], scale=0.3)).__name__
    'NoisyAnnotator'

    Raises:
        ConfigError: there is no such annotator or option.
    """
    if name not in annotator_names():
        names = annotator_names()
        raise ConfigError(
            f"unknown annotator '{name}'{did_you_mean(name, names)}; there are {', '.join(names)}"
        )
    kinds: list[type] = [_ALONE[name]] if name in _ALONE else [_WRAPPING[name], NoisyAnnotator]
    known = [
        key
        for kind in kinds
        for key in inspect.signature(kind).parameters
        if key not in ("values", "annotator")
    ]
    for key in options:
        if key not in known:
            raise ConfigError(
                f"annotator '{name}' has no option '{key}'; it knows {', '.join(known) or 'none'}"
            )
    if name in _ALONE:
        alone: VirtualAnnotator = _ALONE[name](values, **options)
        return alone
    inner = {key: options.pop(key) for key in ("scale", "lapse") if key in options}
    wrapping: VirtualAnnotator = _WRAPPING[name](NoisyAnnotator(values, **inner), **options)
    return wrapping
