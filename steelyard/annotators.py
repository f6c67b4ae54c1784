"""Virtual annotators: they answer pairs from what is known about the images, as people do or might.

    PerfectAnnotator(grades)            the higher grade is more severe, equal grades are equal (the paper's)
    NoisyAnnotator(values)              errs, the more the closer the two are
    TieProneAnnotator(values)           says "equal" when the two are close
    TiringAnnotator(annotator)          makes more and more slips of another annotator until it has had a break
    SideBiasedAnnotator(annotator)      prefers a side where another annotator is undecided, or now and then anyway
    ReplayAnnotator.read_csv(path)      what somebody really answered

All answer in the terms of P1: 1 the first image of the pair is more severe, 0.5 equal, 0 the second; NaN cannot judge.
The last three wrap or replay, so that `TiringAnnotator(SideBiasedAnnotator(NoisyAnnotator(values)))` is one too.
"""

from __future__ import annotations

import csv
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from steelyard.arrays import Floats
from steelyard.errors import ConfigError, PairError, did_you_mean
from steelyard.pairs import check_pairs

__all__ = [
    "Annotator",
    "NoisyAnnotator",
    "PerfectAnnotator",
    "ReplayAnnotator",
    "SideBiasedAnnotator",
    "TieProneAnnotator",
    "TiringAnnotator",
    "annotator_names",
    "make_annotator",
    "parse_annotator",
]


class Annotator(Protocol):
    """Somebody who compares."""

    def answer(self, pairs: ArrayLike, rng: np.random.Generator) -> Floats:
        """Answer pairs in the order given.

        Args:
            pairs: catalog rows (i, j) as shown: i on the left. Shape (n, 2).
            rng: where the chance comes from.

        Returns:
            P1's labels for (i, j), shape (n,): 1, 0.5, 0, or NaN for "cannot judge".
        """
        ...  # pragma: no cover - a protocol has no body


class PerfectAnnotator:
    """Knows the severities: C_ij from the grades (PAPER.md, evaluation protocol).

    >>> PerfectAnnotator([0, 1, 1]).answer([(1, 0), (1, 2), (0, 2)], np.random.default_rng(0)).tolist()
    [1.0, 0.5, 0.0]

    Args:
        values: grades or latent severities by catalog row, shape (N,); an image with NaN cannot be judged.
    """

    def __init__(self, values: ArrayLike) -> None:
        self.values = _check_values(values)

    def answer(self, pairs: ArrayLike, rng: np.random.Generator) -> Floats:
        """1 where the first is greater, 0.5 where they are equal, 0 where the second is."""
        difference = _differences(self.values, pairs)
        return np.asarray(np.where(np.isnan(difference), np.nan, (np.sign(difference) + 1.0) / 2.0))


class NoisyAnnotator:
    """Errs by P2: P(first) = σ(difference / scale). Never says "equal".

    Args:
        values: latent severities by catalog row, shape (N,).
        scale: difference at which the more severe image is found in 73% of cases; the greater, the noisier.
        lapse: share of answers given without looking.

    Raises:
        PairError: the scale is not above 0, or the lapse no share.
    """

    def __init__(self, values: ArrayLike, scale: float = 0.5, lapse: float = 0.0) -> None:
        self.values = _check_values(values)
        self.scale = _check_above("scale", scale, 0.0)
        self.lapse = _check_share("lapse", lapse)

    def answer(self, pairs: ArrayLike, rng: np.random.Generator) -> Floats:
        """Draw answers from the logistic model."""
        difference = _differences(self.values, pairs)
        chance = self.lapse / 2.0 + (1.0 - self.lapse) * expit(difference / self.scale)
        drawn = (rng.random(len(difference)) < chance).astype(np.float64)
        return np.asarray(np.where(np.isnan(difference), np.nan, drawn))


class TieProneAnnotator:
    """Says "equal" where the two are close, by Rao and Kupper: P(first) = σ((difference − threshold) / scale).

    Args:
        values: latent severities by catalog row, shape (N,).
        threshold: difference below which "equal" becomes likely.
        scale: softness of that border; 0 makes it sharp.

    Raises:
        PairError: threshold or scale is below 0.
    """

    def __init__(self, values: ArrayLike, threshold: float = 0.5, scale: float = 0.25) -> None:
        self.values = _check_values(values)
        self.threshold = _check_above("threshold", threshold, 0.0, equal=True)
        self.scale = _check_above("scale", scale, 0.0, equal=True)

    def answer(self, pairs: ArrayLike, rng: np.random.Generator) -> Floats:
        """Draw one of the three answers."""
        difference = _differences(self.values, pairs)
        if self.scale == 0.0:
            sharp = np.where(np.abs(difference) <= self.threshold, 0.5, (np.sign(difference) + 1.0) / 2.0)
            return np.asarray(np.where(np.isnan(difference), np.nan, sharp))
        first = expit((difference - self.threshold) / self.scale)
        second = expit((-difference - self.threshold) / self.scale)
        luck = rng.random(len(difference))
        drawn = np.where(luck < first, 1.0, np.where(luck >= 1.0 - second, 0.0, 0.5))
        return np.asarray(np.where(np.isnan(difference), np.nan, drawn))


@dataclass
class TiringAnnotator:
    """Makes slips that grow with the number of answers since the last break: a slip exchanges left and right.

    The share of slips rises from 0 towards `worst`, half of it after `stamina` answers. The only annotator with a memory.

    Args:
        annotator: who answers while awake.
        stamina: answers after which half of the tiring is done.
        worst: share of slips when worn out; 0.5 is guessing.
        pause: answers after which a break is taken of its own accord; 0 never.
    """

    annotator: Annotator
    stamina: int = 200
    worst: float = 0.3
    pause: int = 0
    answered: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        _check_above("stamina", self.stamina, 0.0)
        _check_share("worst", self.worst)
        _check_above("pause", self.pause, 0.0, equal=True)

    def rest(self) -> None:
        """Take a break."""
        self.answered = 0

    def answer(self, pairs: ArrayLike, rng: np.random.Generator) -> Floats:
        """The wrapped annotator's answers, some of them exchanged."""
        given = self.annotator.answer(pairs, rng)
        since = self.answered + np.arange(len(given))
        self.answered += len(given)
        if self.pause:
            since %= self.pause
            self.answered %= self.pause
        slips = rng.random(len(given)) < self.worst * since / (since + self.stamina)
        return np.asarray(np.where(slips, 1.0 - given, given))


@dataclass
class SideBiasedAnnotator:
    """Prefers a side: takes it instead of "equal", and now and then whatever is there.

    Args:
        annotator: who answers without the bias.
        side: the preferred one; the first image of a pair is on the left.
        strength: share of answers that go to that side regardless.
        ties: share of "equal" that become that side.
    """

    annotator: Annotator
    side: Literal["left", "right"] = "left"
    strength: float = 0.05
    ties: float = 0.5

    def __post_init__(self) -> None:
        if self.side not in ("left", "right"):
            raise PairError(f"a side is 'left' or 'right', not {self.side!r}")
        _check_share("strength", self.strength)
        _check_share("ties", self.ties)

    def answer(self, pairs: ArrayLike, rng: np.random.Generator) -> Floats:
        """The wrapped annotator's answers, some of them moved to the side."""
        given = self.annotator.answer(pairs, rng)
        luck = rng.random(len(given))
        moved = (luck < self.strength) | (
            (given == 0.5) & (luck < self.strength + (1.0 - self.strength) * self.ties)
        )
        return np.asarray(np.where(moved & ~np.isnan(given), 1.0 if self.side == "left" else 0.0, given))


class ReplayAnnotator:
    """Gives recorded answers: one somebody gave about the pair, in either order; NaN where nobody did.

    Where a pair was answered several times, each asking gives one of the answers by chance.

    Args:
        pairs: rows (i, j), shape (n, 2).
        answers: P1's labels for them, shape (n,).

    Raises:
        PairError: shapes that do not match, or an answer that is none of 1, 0.5 and 0.
    """

    def __init__(self, pairs: ArrayLike, answers: ArrayLike) -> None:
        rows, given = check_pairs(pairs), np.asarray(answers, dtype=np.float64).reshape(-1)
        if len(rows) != len(given):
            raise PairError(
                f"there are {len(rows)} recorded pairs and {len(given)} answers; give one answer a pair"
            )
        bad = ~np.isin(given, (0.0, 0.5, 1.0))
        if bad.any():
            raise PairError(
                f"recorded answer {int(np.flatnonzero(bad)[0])} is {given[bad][0]}; answers are 1, 0.5 or 0 (P1)"
            )
        self.recorded: dict[tuple[int, int], list[float]] = {}
        for (i, j), label in zip(rows.tolist(), given.tolist(), strict=True):
            key, value = ((i, j), label) if i < j else ((j, i), 1.0 - label)
            self.recorded.setdefault(key, []).append(value)

    @classmethod
    def read_csv(
        cls,
        path: str | Path,
        index: Mapping[str, int] | None = None,
        *,
        first: str = "image_a",
        second: str = "image_b",
        answer: str = "answer",
    ) -> ReplayAnnotator:
        """Read a CSV with a column for each image and one for the answer.

        Args:
            path: the file.
            index: catalog row by image id or path; None takes the columns for rows.
            first: column of the first image.
            second: column of the second image.
            answer: column of the answer: `1`, `0.5`, `0`, or the words `left`, `equal`, `right` (first image left);
                lines with `cannot judge` or nothing are passed over.

        Raises:
            PairError: the file or a column is missing, an image is unknown, or an answer is none.
        """
        words = {"left": 1.0, "equal": 0.5, "right": 0.0}
        pairs, answers = [], []
        try:
            with Path(path).open(newline="", encoding="utf-8-sig") as file:
                reader = csv.DictReader(file)
                missing = [name for name in (first, second, answer) if name not in (reader.fieldnames or ())]
                if missing:
                    raise PairError(
                        f"{path} has no column '{missing[0]}'; it has {', '.join(reader.fieldnames or ()) or 'none'}"
                    )
                for line, record in enumerate(reader, start=2):
                    said = (record[answer] or "").strip().lower()
                    if said in ("", "cannot judge"):
                        continue
                    try:
                        pairs.append(
                            tuple(
                                int(record[name]) if index is None else index[record[name]]
                                for name in (first, second)
                            )
                        )
                        answers.append(words[said] if said in words else float(said))
                    except KeyError as error:
                        raise PairError(
                            f"{path}, line {line}: image {error.args[0]!r} is not in the catalog"
                        ) from None
                    except ValueError as error:
                        raise PairError(f"{path}, line {line}: {error}") from None
        except FileNotFoundError:
            raise PairError(f"{path} does not exist; give a CSV of recorded answers") from None
        return cls(np.array(pairs, dtype=np.int64).reshape(-1, 2), answers)

    def answer(self, pairs: ArrayLike, rng: np.random.Generator) -> Floats:
        """What was answered about the pairs."""
        result = []
        for i, j in check_pairs(pairs).tolist():
            answers = self.recorded.get((min(i, j), max(i, j)))
            label = answers[int(rng.integers(len(answers)))] if answers else np.nan
            result.append(label if i < j else 1.0 - label)
        return np.array(result, dtype=np.float64)


_ALONE = {"perfect": PerfectAnnotator, "noisy": NoisyAnnotator, "tie_prone": TieProneAnnotator}
_WRAPPING = {"tiring": TiringAnnotator, "side_biased": SideBiasedAnnotator}


def annotator_names() -> tuple[str, ...]:
    """Names that `make_annotator` knows."""
    return (*_ALONE, *_WRAPPING)


def make_annotator(name: str, values: ArrayLike, **options: Any) -> Annotator:
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
        alone: Annotator = _ALONE[name](values, **options)
        return alone
    inner = {key: options.pop(key) for key in ("scale", "lapse") if key in options}
    wrapping: Annotator = _WRAPPING[name](NoisyAnnotator(values, **inner), **options)
    return wrapping


def parse_annotator(spec: str) -> tuple[str, dict[str, Any]]:
    """A name and its options as people write them.

    >>> parse_annotator("noisy:scale=0.3")
    ('noisy', {'scale': 0.3})

    Raises:
        ConfigError: a part is no key=value.
    """
    name, *parts = spec.split(":")
    options: dict[str, Any] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or not key:
            raise ConfigError(f"'{part}' in annotator '{spec}' is no option; options look like scale=0.3")
        try:
            options[key] = int(value) if value.isdigit() else float(value)
        except ValueError:
            options[key] = value
    return name, options


def _check_values(values: ArrayLike) -> Floats:
    checked = np.asarray(values, dtype=np.float64)
    if checked.ndim != 1:
        raise PairError(f"an annotator knows one severity an image, shape (N,), not {checked.shape}")
    return checked


def _differences(values: Floats, pairs: ArrayLike) -> Floats:
    rows = check_pairs(pairs, len(values), same=True)
    return np.asarray(values[rows[:, 0]] - values[rows[:, 1]])


def _check_share(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise PairError(f"'{name}' is a share between 0 and 1, not {value}")
    return value


def _check_above(name: str, value: float, bound: float, *, equal: bool = False) -> float:
    if not (np.isfinite(value) and (value > bound or (equal and value == bound))):
        raise PairError(f"'{name}' is {'at least' if equal else 'above'} {bound:g}, not {value}")
    return value
