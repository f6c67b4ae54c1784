"""Virtual annotators: they know the truth and answer like people do – perfectly, noisily, with ties, tired, one-sided.

    annotator.answer(pairs, rng) → relative labels of P1, shape (n,); NaN where a pair cannot be judged

All but the perfect one err at random, so two that share a seed give the same answers. `TiringAnnotator` and `SideBiasedAnnotator` wrap another
one: `TiringAnnotator(NoisyAnnotator(severity))`.
"""

from __future__ import annotations

import csv
import difflib
import inspect
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.errors import ConfigError, PairError

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

Floats = NDArray[np.float64]


class Annotator(Protocol):
    """Somebody who answers."""

    def answer(self, pairs: ArrayLike, rng: np.random.Generator) -> Floats:
        """Relative labels (P1) of pairs as shown: first on the left. Shape (n,), NaN where it cannot be judged."""


class PerfectAnnotator:
    """Says what the truth says; equal values are a tie (the paper's virtual annotator).

    >>> PerfectAnnotator([0, 1, 1]).answer([(1, 0), (1, 2), (0, 2)], np.random.default_rng(0)).tolist()
    [1.0, 0.5, 0.0]
    """

    def __init__(self, values: ArrayLike) -> None:
        self.values = _values(values)

    def answer(self, pairs: ArrayLike, rng: np.random.Generator) -> Floats:
        """The sign of the difference."""
        return np.asarray((np.sign(_gaps(self.values, pairs)) + 1) / 2, dtype=np.float64)


class NoisyAnnotator:
    """Errs the more often the closer two images are: P(first) = σ(difference / scale), the likelihood of P2.

    Args:
        values: true severity of each image, shape (N,).
        scale: difference at which 73% of the answers are right.
        lapse: share of answers given without looking.
    """

    def __init__(self, values: ArrayLike, *, scale: float = 0.5, lapse: float = 0.0) -> None:
        self.values = _values(values)
        self.scale, self.lapse = _positive("scale", scale), _share("lapse", lapse)

    def answer(self, pairs: ArrayLike, rng: np.random.Generator) -> Floats:
        """First or second; a tie never."""
        gaps = _gaps(self.values, pairs)
        chance = _sigmoid(gaps / self.scale) * (1 - self.lapse) + self.lapse / 2
        return np.asarray(rng.random(len(gaps)) < chance, dtype=np.float64)


class TieProneAnnotator:
    """Calls close images equal: Rao–Kupper, P(first) = σ((d − τ)/scale), P(second) = σ((−d − τ)/scale), a tie the rest.

    Args:
        values: true severity of each image, shape (N,).
        tau: half-width of a tie, in units of severity.
        scale: of the noise.
    """

    def __init__(self, values: ArrayLike, *, tau: float = 0.5, scale: float = 0.25) -> None:
        self.values = _values(values)
        self.tau, self.scale = _positive("tau", tau), _positive("scale", scale)

    def answer(self, pairs: ArrayLike, rng: np.random.Generator) -> Floats:
        """First, tie or second."""
        gaps = _gaps(self.values, pairs)
        first, second = _sigmoid((gaps - self.tau) / self.scale), _sigmoid((-gaps - self.tau) / self.scale)
        luck = rng.random(len(gaps))
        return np.where(luck < first, 1.0, np.where(luck < first + second, 0.0, 0.5))


class TiringAnnotator:
    """Answers ever more often without looking, until a break.

    After k answers since the last break a share `most · (1 − exp(−k / stamina))` of the answers is a coin toss.

    Args:
        rested: how the same person answers when rested.
        stamina: answers after which tiredness has grown to 63% of its most.
        most: share of coin tosses when fully tired.
        session: answers between two breaks; 0 never takes one.
    """

    def __init__(
        self, rested: Annotator, *, stamina: float = 300.0, most: float = 0.3, session: int = 0
    ) -> None:
        if session < 0:
            raise ConfigError(f"'session' is 0 (no break) or a number of answers, not {session}")
        self.rested, self.session = rested, session
        self.stamina, self.most = _positive("stamina", stamina), _share("most", most)
        self.given = 0

    def rest(self) -> None:
        """Take a break: start again rested."""
        self.given = 0

    def answer(self, pairs: ArrayLike, rng: np.random.Generator) -> Floats:
        """As rested, except where tiredness tosses a coin."""
        answers = self.rested.answer(pairs, rng)
        count = self.given + np.arange(len(answers))
        since = count % self.session if self.session else count
        tired = rng.random(len(answers)) < self.most * -np.expm1(-since / self.stamina)
        self.given += len(answers)
        return np.where(tired, rng.integers(2, size=len(answers)).astype(np.float64), answers)


class SideBiasedAnnotator:
    """Now and then answers "left" whatever is shown there.

    Args:
        fair: how the same person answers otherwise.
        bias: share of answers that go to a side without looking; above 0 to the left, below to the right.
    """

    def __init__(self, fair: Annotator, *, bias: float = 0.1) -> None:
        if not -1 <= bias <= 1:
            raise ConfigError(f"'bias' is between -1 (always right) and 1 (always left), not {bias}")
        self.fair, self.bias = fair, bias

    def answer(self, pairs: ArrayLike, rng: np.random.Generator) -> Floats:
        """As fair, except where the side decides; the first image of a pair is on the left."""
        answers = self.fair.answer(pairs, rng)
        blind = rng.random(len(answers)) < abs(self.bias)
        return np.where(blind, 1.0 if self.bias > 0 else 0.0, answers)


class ReplayAnnotator:
    """Repeats recorded answers; what was never recorded cannot be judged (NaN).

    Where a pair was answered several times, one of its answers is drawn.

    Args:
        pairs: recorded pairs as rows, shape (n, 2).
        answers: their labels (P1), shape (n,).
    """

    def __init__(self, pairs: ArrayLike, answers: ArrayLike) -> None:
        rows, labels = _rows(pairs), np.asarray(answers, dtype=np.float64).reshape(-1)
        if len(rows) != len(labels):
            raise PairError(f"{len(rows)} recorded pairs have {len(labels)} answers; give one for each")
        self._known: dict[tuple[int, int], list[float]] = {}
        for (i, j), label in zip(rows.tolist(), labels.tolist(), strict=True):
            key, said = ((i, j), label) if i < j else ((j, i), 1 - label)
            self._known.setdefault(key, []).append(said)

    @classmethod
    def from_csv(cls, path: str | Path, rows: dict[str, int]) -> ReplayAnnotator:
        """Read recorded answers: columns `left`, `right` and `answer` (left, right, equal, or 1, 0, 0.5).

        Args:
            path: the file.
            rows: catalog row of each image by the name it has in the file.

        Raises:
            PairError: a column is missing, an image is unknown, or an answer is none; names the line.
        """
        words = {
            "left": 1.0,
            "right": 0.0,
            "equal": 0.5,
            "1": 1.0,
            "0": 0.0,
            "0.5": 0.5,
            "1.0": 1.0,
            "0.0": 0.0,
        }
        pairs, answers = [], []
        with Path(path).open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = {"left", "right", "answer"} - set(reader.fieldnames or ())
            if missing:
                raise PairError(
                    f"{path} lacks the column '{sorted(missing)[0]}'; it needs left, right and answer"
                )
            for record in reader:
                for side in ("left", "right"):
                    if record[side] not in rows:
                        raise PairError(
                            f"{path}, line {reader.line_num}: image {record[side]!r} is not known"
                        )
                said = str(record["answer"]).strip().lower()
                if said == "cannot judge":
                    continue
                if said not in words:
                    raise PairError(
                        f"{path}, line {reader.line_num}: {record['answer']!r} is no answer (left, right, equal)"
                    )
                pairs.append((rows[record["left"]], rows[record["right"]]))
                answers.append(words[said])
        return cls(np.array(pairs, dtype=np.int64).reshape(-1, 2), answers)

    def answer(self, pairs: ArrayLike, rng: np.random.Generator) -> Floats:
        """What was recorded."""
        answers = np.full(len(_rows(pairs)), np.nan)
        for k, (i, j) in enumerate(_rows(pairs).tolist()):
            said = self._known.get((min(i, j), max(i, j)))
            if said:
                label = said[int(rng.integers(len(said)))] if len(said) > 1 else said[0]
                answers[k] = label if i < j else 1 - label
        return answers


_ALONE = {"perfect": PerfectAnnotator, "noisy": NoisyAnnotator, "tie_prone": TieProneAnnotator}
_WRAPPED = {"tiring": TiringAnnotator, "side_biased": SideBiasedAnnotator}


def annotator_names() -> tuple[str, ...]:
    """Names that `make_annotator` knows."""
    return (*_ALONE, *_WRAPPED)


def make_annotator(name: str, values: ArrayLike, **options: Any) -> Annotator:
    """An annotator by name, from the true severity of each image.

    `tiring` and `side_biased` answer like `noisy` otherwise and pass `scale` and `lapse` on to it.

    >>> type(make_annotator("noisy", [0, 1], scale=0.3)).__name__
    'NoisyAnnotator'

    Raises:
        ConfigError: there is no such annotator or option.
    """
    if name in _ALONE:
        _check_options(name, options, _ALONE[name])
        alone: Annotator = _ALONE[name](values, **options)
        return alone
    if name in _WRAPPED:
        _check_options(name, options, _WRAPPED[name], NoisyAnnotator)
        inner = {key: options.pop(key) for key in ("scale", "lapse") if key in options}
        wrapped: Annotator = _WRAPPED[name](NoisyAnnotator(values, **inner), **options)
        return wrapped
    close = difflib.get_close_matches(name, annotator_names(), n=1)
    hint = f" – did you mean '{close[0]}'?" if close else ""
    raise ConfigError(f"unknown annotator '{name}'{hint}; there are {', '.join(annotator_names())}")


def parse_annotator(spec: str) -> tuple[str, dict[str, float]]:
    """A name and its options as people write them.

    >>> parse_annotator("noisy:scale=0.3")
    ('noisy', {'scale': 0.3})

    Raises:
        ConfigError: a part is no key=number.
    """
    name, *parts = spec.split(":")
    options: dict[str, float] = {}
    for part in parts:
        key, _, value = part.partition("=")
        try:
            options[key] = int(value) if value.isdigit() else float(value)
        except ValueError:
            raise ConfigError(
                f"'{part}' in annotator '{spec}' is no option; options look like scale=0.3"
            ) from None
    return name, options


def _check_options(name: str, options: dict[str, Any], *kinds: type) -> None:
    known = [
        p.name
        for kind in kinds
        for p in inspect.signature(kind).parameters.values()
        if p.kind is p.KEYWORD_ONLY
    ]
    for key in options:
        if key not in known:
            raise ConfigError(
                f"annotator '{name}' has no option '{key}'; it knows {', '.join(known) or 'none'}"
            )


def _values(values: ArrayLike) -> Floats:
    known = np.asarray(values, dtype=np.float64).reshape(-1)
    if not np.isfinite(known).all():
        raise PairError("a virtual annotator needs the true severity of every image, and some are not finite")
    return known


def _rows(pairs: ArrayLike) -> NDArray[np.int64]:
    return np.asarray(pairs, dtype=np.int64).reshape(-1, 2)


def _gaps(values: Floats, pairs: ArrayLike) -> Floats:
    rows = _rows(pairs)
    if rows.size and (rows.min() < 0 or rows.max() >= len(values)):
        raise PairError(
            f"pairs name images {rows.min()} … {rows.max()}, but the annotator knows {len(values)}"
        )
    return np.asarray(values[rows[:, 0]] - values[rows[:, 1]], dtype=np.float64)


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(np.exp(-np.logaddexp(0.0, -x)), dtype=np.float64)


def _positive(name: str, value: float) -> float:
    if not value > 0:
        raise ConfigError(f"'{name}' is above 0, not {value}")
    return float(value)


def _share(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise ConfigError(f"'{name}' is a share between 0 and 1, not {value}")
    return float(value)
