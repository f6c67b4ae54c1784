"""Learning the judges: answers held against predictions that know nothing of the pairs they are about.

Scores and judges are learnt in turns: a head with the judges as they are known, then each judge's four numbers by the
likelihood of their answers under that head's predictions without the pair. An answer's own part in the scores would make
everybody look more reliable than they are. Two turns settle it; slopes are relative, which fixes the scale.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from steelyard.arrays import Floats
from steelyard.ranker.convex import ConvexHead
from steelyard.ranker.judges import Judge, Judging, Panel, Said
from steelyard.ranker.left_out import predicted
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.temper import Temper

__all__ = ["fit_with_judges"]

_TURNS = 2
_LAPSE = -4.0  # logit of an ordinary judge's lapses, 1.8%
# Deviations of log slope, logit lapse, pull and log tie among judges: ten answers move a judge little, fifty much.
_SPREAD = np.array([0.6, 1.5, 0.5, 0.5])
_BOUNDS = [(-4.0, 2.0), (-8.0, 3.0), (-6.0, 6.0), (-3.0, 3.0)]


def fit_with_judges(
    fit: Callable[[Judging | None, ConvexHead | None], ConvexHead],
    posterior: Callable[[ConvexHead], Posterior],
    pairs: ArrayLike,
    answers: Floats,
    said: Said,
) -> tuple[ConvexHead, Panel]:
    """A head and the judges that go with it.

    Args:
        fit: fits the head with what is known of the judges, from an earlier head.
        posterior: of the images that the pairs are rows of.
        pairs: rows (i, j), shape (n, 2).
        answers: P1, shape (n,).
        said: who gave them.
    """
    head = fit(None, None)
    panel = Panel({})
    for _ in range(_TURNS):
        belief = posterior(head)
        belief.panel = panel
        mean, variance = predicted(belief, pairs, answers, said if len(panel) else None)
        panel = _judges(mean, variance, answers, said, head.temper or Temper(1.0, head.tau))
        head = fit(panel.judging(said), head)
    return head, panel


def _judges(mean: Floats, variance: Floats, answers: Floats, said: Said, temper: Temper) -> Panel:
    found = {}
    for code, name in enumerate(said.names):
        own = said.annotator == code
        if own.any():
            found[name] = _judge(mean[own], variance[own], answers[own], said.left_first[own], temper)
    # What most of the information comes from is ordinary, so that somebody who guesses does not make the others extraordinary.
    slopes, many = (np.array([getattr(j, name) for j in found.values()]) for name in ("slope", "answers"))
    usual = float(np.exp(np.average(np.log(slopes), weights=many * slopes**2)))
    return Panel(
        {
            name: Judge(j.slope / usual, j.lapse, j.pull, j.tie, j.answers, j.guessing)
            for name, j in found.items()
        }
    )


def _judge(mean: Floats, variance: Floats, answers: Floats, left_first: np.ndarray, temper: Temper) -> Judge:
    """The most likely numbers of one judge, under their prior."""
    # Probabilities are stated on the tempered scale; a pull is meant on the scores' own.
    m, v = temper.scale * mean, (temper.spread or temper.scale) ** 2 * variance
    column = np.where(answers == 1.0, 0, np.where(answers == 0.5, 1, 2))
    at = np.arange(len(answers))

    def judge(numbers: Floats) -> Judge:
        steep, lapse, pull, tie = numbers
        return Judge(float(np.exp(steep)), float(1 / (1 + np.exp(-lapse))), float(pull), float(np.exp(tie)))

    def log_likelihood(who: Judge) -> float:
        p = who.outcomes(m, v, temper.tau, left_first=left_first)
        if temper.tau == 0:  # half a win and half a loss
            p[:, 1] = np.sqrt(p[:, 0] * p[:, 2])
        return float(np.sum(np.log(np.maximum(p[at, column], 1e-12))))

    usual = np.array([0.0, _LAPSE, 0.0, 0.0])

    def loss(numbers: Floats) -> float:
        return float(np.sum(((numbers - usual) / _SPREAD) ** 2) / 2 - log_likelihood(judge(numbers)))

    best = judge(minimize(loss, usual, method="L-BFGS-B", bounds=_BOUNDS).x)
    ordinary = Judge(1.0, best.lapse if best.lapse < 0.05 else 0.05, best.pull, best.tie)
    tied = (np.sum(column == 1) + 0.5) / (len(column) + 1.0) if temper.tau > 0 else 0.0
    guess = np.log(np.where(column == 1, max(tied, 1e-12) if temper.tau > 0 else 0.5, (1 - tied) / 2))
    return Judge(
        best.slope, best.lapse, best.pull / temper.scale, best.tie, len(answers), float(guess.sum()) - log_likelihood(ordinary)
    )  # fmt: skip
