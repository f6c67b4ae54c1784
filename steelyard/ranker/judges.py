"""The people behind the answers: how much each tells, how often each lapses, how drawn to a side, how ready to say "equal".

An annotator k who sees a difference Δ = f(first) − f(second) answers by the likelihood of `likelihood.py` at

    u = slope_k · Δ ± pull_k,    τ_k = tie_k · τ,

with + where the first image is on the left, and in a share lapse_k of the answers presses left or right without looking:

    P(answer) = (1 − lapse_k) P(answer | u, τ_k) + lapse_k · ½  (a tie is never a lapse).

A judge's four numbers have priors around those of an ordinary judge, so that ten answers move them little, and slopes are
relative: those who tell most have 1. Fit, belief, choice of pairs and the honest predictions behind accuracy all take
them from here. numpy only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.arrays import Floats
from steelyard.errors import RankerError
from steelyard.ranker.likelihood import curvature, log_likelihood, outcomes, slope, step_to_mode

__all__ = ["ORDINARY", "Judge", "Judging", "Panel", "Said"]


@dataclass(frozen=True)
class Judge:
    """How one person answers, beside the others of the same study.

    Attributes:
        slope: reliability: how many times the usual weight a difference has for them; 0 is guessing.
        lapse: share of answers given without looking.
        pull: towards the image on the left, in units of score; below 0 towards the right.
        tie: how many times as wide a difference they call equal.
        answers: that this was learnt from.
        guessing: log of how much better their answers are explained by guessing than by an ordinary judge.
    """

    slope: float = 1.0
    lapse: float = 0.0
    pull: float = 0.0
    tie: float = 1.0
    answers: int = 0
    guessing: float = 0.0

    @property
    def flagged(self) -> bool:
        """Whether their answers look like guesses: ten times as likely as from an ordinary judge."""
        return self.guessing > _TEN_TIMES

    @property
    def worth(self) -> float:
        """How many answers of an ordinary judge one of theirs is worth where the outcome is open."""
        return float(self.information(0.0, 0.0) / ORDINARY.information(0.0, 0.0))

    def outcomes(
        self, mean: ArrayLike, variance: ArrayLike, tau: float, *, left_first: ArrayLike | None = None
    ) -> Floats:
        """P(first), P(tie), P(second) of their answers when Δ ~ N(mean, variance), shape (n, 3).

        Args:
            mean: of the differences, shape (n,).
            variance: of the same.
            tau: half-width of an ordinary judge's tie.
            left_first: whether the first image is on the left, shape (n,); None is one as often as the other.
        """
        m, v = self.slope * np.asarray(mean, dtype=np.float64), self.slope**2 * np.asarray(variance)
        if left_first is None:
            both = [outcomes(m + side * self.pull, v, self.tie * tau) for side in (1.0, -1.0)]
            seen = (both[0] + both[1]) / 2
        else:
            side = np.where(np.asarray(left_first, dtype=bool), 1.0, -1.0)
            seen = outcomes(m + side * self.pull, v, self.tie * tau)
        return np.asarray((1.0 - self.lapse) * seen + self.lapse * _GUESS, dtype=np.float64)

    def information(self, difference: ArrayLike, tau: float) -> Floats:
        """What an answer of theirs is expected to tell about a difference: Fisher's information, over both sides.

        For an ordinary judge it is `expected_curvature`; lapses take most of it where the answer is all but known, because an
        odd answer is then more likely a lapse.
        """
        d, own = np.asarray(difference, dtype=np.float64), self.tie * tau
        total = np.zeros(d.shape)
        for side in (1.0, -1.0):
            u = self.slope * d + side * self.pull
            for answer in (1.0, 0.5, 0.0) if tau > 0 else (1.0, 0.0):
                said = np.full(u.shape, answer)
                p = (1.0 - self.lapse) * np.exp(log_likelihood(u, said, own))
                share = p / np.maximum(p + (0.5 * self.lapse if answer != 0.5 else 0.0), 1e-300)
                total = total + 0.5 * p * share * slope(u, said, own) ** 2
        return np.asarray(self.slope**2 * total, dtype=np.float64)


ORDINARY = Judge()
_TEN_TIMES = 2.302585  # log 10
_GUESS = np.array([0.5, 0.0, 0.5])
_GRID = np.concatenate([np.arange(0.0, 20.0, 0.01), np.linspace(20.0, 200.0, 1801)])  # differences


@dataclass(frozen=True)
class Said:
    """Who gave each answer, and how the pair was shown.

    Attributes:
        annotator: codes into `names`, shape (n,).
        names: of the annotators.
        left_first: whether the first image of the pair stood on the left, shape (n,).
    """

    annotator: NDArray[np.int64]
    names: Sequence[str]
    left_first: NDArray[np.bool_]

    def __post_init__(self) -> None:
        codes = np.asarray(self.annotator)
        if codes.shape != np.asarray(self.left_first).shape:
            raise RankerError(
                f"{codes.shape} annotators have {np.asarray(self.left_first).shape} sides; give one for each answer"
            )
        if len(codes) and not (codes.min() >= 0 and codes.max() < len(self.names)):
            raise RankerError(
                f"annotators are numbers below {len(self.names)}, as many as there are names; not {codes.max()}"
            )

    def __getitem__(self, kept: NDArray[np.bool_] | NDArray[np.int64]) -> Said:
        return Said(np.asarray(self.annotator)[kept], self.names, np.asarray(self.left_first)[kept])

    @property
    def people(self) -> int:
        """How many gave any answer."""
        return len(np.unique(self.annotator))


@dataclass(frozen=True)
class Judging:
    """The judges' numbers answer by answer.

    Attributes:
        slope: shape (n,).
        pull: towards the first image of the pair, shape (n,).
        tie: factor on τ, shape (n,).
        lapse: shape (n,).
    """

    slope: Floats
    pull: Floats
    tie: Floats
    lapse: Floats

    def log_likelihood(self, difference: Floats, answers: Floats, tau: float) -> Floats:
        """log P(answer | Δ, judge), elementwise."""
        u = self.slope * difference + self.pull
        return np.asarray(
            np.logaddexp(
                np.log1p(-self.lapse) + log_likelihood(u, answers, self.tie * tau), self._guess(answers)
            )
        )

    def attention(self, difference: Floats, answers: Floats, tau: float) -> Floats:
        """P(the judge has looked | answer), elementwise: 1 without lapses, near 0 where the answer is absurd."""
        u = self.slope * difference + self.pull
        looked = np.log1p(-self.lapse) + log_likelihood(u, answers, self.tie * tau)
        return np.asarray(np.exp(looked - np.logaddexp(looked, self._guess(answers))), dtype=np.float64)

    def pulls(self, difference: Floats, answers: Floats, tau: float) -> Floats:
        """∂ log P / ∂Δ, elementwise."""
        u = self.slope * difference + self.pull
        own = slope(u, answers, self.tie * tau)
        return np.asarray(self.slope * self.attention(difference, answers, tau) * own, dtype=np.float64)

    def bends(self, difference: Floats, answers: Floats, tau: float) -> Floats:
        """−∂² log P / ∂Δ², elementwise, and 0 where that is negative: an answer that looks like a lapse settles nothing."""
        u, own = self.slope * difference + self.pull, self.tie * tau
        looked = self.attention(difference, answers, tau)
        bend = looked * curvature(u, answers, own) - looked * (1 - looked) * slope(u, answers, own) ** 2
        return np.asarray(self.slope**2 * np.maximum(bend, 0.0), dtype=np.float64)

    def _guess(self, answers: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.where(answers == 0.5, 0.0, 0.5 * self.lapse)), dtype=np.float64)


@dataclass(frozen=True)
class Panel:
    """The judges of a study, by name; who is not among them is taken for an ordinary one."""

    judges: Mapping[str, Judge]
    _tables: dict[float, Floats] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __getitem__(self, name: str) -> Judge:
        return self.judges.get(name, ORDINARY)

    def __len__(self) -> int:
        return len(self.judges)

    def judging(self, said: Said) -> Judging:
        """Their numbers answer by answer."""
        table = np.array([[j.slope, j.pull, j.tie, j.lapse] for j in (self[name] for name in said.names)])
        own = table.reshape(-1, 4)[np.asarray(said.annotator, dtype=np.int64)]
        side = np.where(said.left_first, 1.0, -1.0)
        return Judging(own[:, 0], side * own[:, 1], own[:, 2], own[:, 3])

    def step_to_mode(
        self, mean: float, spread: float, answer: float, tau: float, share: float, said: Said
    ) -> float:
        """How far one answer moves the mode along its line: as `likelihood.step_to_mode`, on the judge's own scale
        u = slope·Δ ± pull, and counted as far as they are likely to have looked."""
        own = self.judging(said)
        steep, pull, tie = float(own.slope[0]), float(own.pull[0]), float(own.tie[0])
        counts = share * float(own.attention(np.array([mean]), np.array([answer]), tau)[0])
        return (
            steep * counts * step_to_mode(steep * mean + pull, counts * steep**2 * spread, answer, tie * tau)
        )

    def information(self, difference: ArrayLike, tau: float) -> Floats:
        """What the next answer is expected to tell about differences: the mean over judges, by how much they answer.

        Every question asks it of thousands of pairs, and there may be a thousand judges; but it is one smooth, even function of
        a difference, so it is computed once on a grid and its logarithm, nearly a line far out, read off between the points
        (within two thousandths of itself, mostly 10⁻⁵, `tests/ranker/test_judges.py`).
        """
        if tau not in self._tables:
            self._tables[tau] = np.log(np.maximum(self._information(_GRID, tau), 1e-300))
        return np.asarray(np.exp(np.interp(np.abs(difference), _GRID, self._tables[tau])), dtype=np.float64)

    def _information(self, difference: Floats, tau: float) -> Floats:
        weight = np.array([j.answers for j in self.judges.values()], dtype=np.float64)
        if not weight.any():
            weight = np.ones(len(weight))
        total = np.zeros(len(difference))
        for judge, share in zip(self.judges.values(), weight / weight.sum(), strict=True):
            total += share * judge.information(difference, tau)
        return total

    def to_dict(self) -> dict[str, dict[str, float]]:
        """As plain values, for JSON."""
        return {name: asdict(judge) for name, judge in self.judges.items()}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Mapping[str, float]]) -> Panel:
        """What `to_dict` gave; what a later version adds is passed over."""
        known = Judge.__dataclass_fields__
        return cls(
            {name: Judge(**{k: v for k, v in own.items() if k in known}) for name, own in saved.items()}  # type: ignore[arg-type]
        )
