"""How a greedy strategy searches: the options that `pair_bald`, `dopt`, `epig`, `guro` and `entropy` share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from steelyard.acquire.candidates import Candidates, draw_candidates
from steelyard.acquire.choice import Choice, Strategy, check_request
from steelyard.acquire.design import design_covariance
from steelyard.acquire.greedy import Curvature, Outlook, View, Where, pick
from steelyard.acquire.heard import Heard
from steelyard.acquire.mixing import COMMON_OPTIONS
from steelyard.acquire.needs import needs
from steelyard.acquire.reasons import explain
from steelyard.errors import AcquireError, did_you_mean
from steelyard.pairs import PairSet
from steelyard.ranker.posterior import Posterior

__all__ = ["Search", "greedy_strategy", "search_greedily"]


@dataclass(frozen=True)
class Search:
    """Options of a greedy choice.

    Attributes:
        images: size of the pool that pairs are sought in, at most; 0 takes 4,000, or 8 per pair asked for if that is more.
        candidates: pairs looked at, at most; 0 takes 16,000, or 32 per pair asked for if that is more.
        near: share of the candidates made of images that are close in score.
        noise: scale of Gumbel noise on the logarithm of the scores; 0 takes the best.
        balance: each earlier use of an image divides the scores of its pairs by 1 + balance.
        reselect: whether images that were already compared may be chosen.
        curvature: σ̇ at the `mean` difference, or `expected` over the Gaussian difference.
        uncertainty: `design`, what the asked pairs leave open whatever was answered (see `design`), or `posterior`, the
            model's own covariance. Posteriors of draws and of dropout always keep their own.
        heard: what was said about asked pairs, where somebody else may be asked about them again; a study gives it.
    """

    images: int = 0
    candidates: int = 0
    near: float = 0.0
    noise: float = 0.0
    balance: float = 0.0
    reselect: bool = True
    curvature: Curvature = "mean"
    uncertainty: Literal["design", "posterior"] = "design"
    heard: Heard | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any], n: int, *, strategy: str) -> Search:
        """From a strategy's keyword arguments, sizes filled in for n pairs.

        Raises:
            AcquireError: an option that is not known.
        """
        known = [f.name for f in fields(cls)]
        given = {name: value for name, value in options.items() if name in known}
        for name in options:
            if name not in known and name not in COMMON_OPTIONS:
                raise AcquireError(
                    f"strategy '{strategy}' has no option '{name}'{did_you_mean(name, known)}; it knows {', '.join(known)}"
                )
        search = cls(**given)
        sizes = {
            "images": search.images or max(4_000, 8 * n),
            "candidates": search.candidates or max(16_000, 32 * n),
        }
        return cls(**{**given, **sizes})

    def belief(self, posterior: Posterior, candidates: Candidates, taken: PairSet) -> Posterior:
        """The posterior that is chosen with.

        Raises:
            AcquireError: an uncertainty that is neither.
        """
        if self.uncertainty not in ("design", "posterior"):
            raise AcquireError(f"'uncertainty' is 'design' or 'posterior', not {self.uncertainty!r}")
        if self.uncertainty == "posterior" or posterior.kind != "laplace":
            return posterior
        return Posterior(
            posterior.offset_N,
            posterior.features_N_D,
            posterior.weights_D,
            design_covariance(posterior, candidates, taken, self.heard),
            posterior.kind,
            posterior.tau,
            panel=posterior.panel,
        )


def greedy_strategy(
    name: str, score: Callable[[Outlook, Where], NDArray[np.float64]], ending: str
) -> Strategy:
    """A strategy that picks the best pairs one by one; its options are those of `Search`.

    Args:
        name: what it is called.
        score: what the candidates at some positions are worth, 0 or more; says what the strategy is after.
        ending: of the sentence that says why, see `explain`.
    """

    @needs("model")
    def choose(
        posterior: Posterior | None, n: int, /, *, taken: PairSet, rng: np.random.Generator, **options: Any
    ) -> Choice:
        return search_greedily(
            score, posterior, n, taken=taken, rng=rng, strategy=name, ending=ending, options=options, outlook=Outlook
        )  # fmt: skip

    choose.__name__, choose.__doc__ = name, score.__doc__
    return choose


def search_greedily(
    score: Callable[[View, Where], NDArray[np.float64]],
    posterior: Posterior | None,
    n: int,
    *,
    taken: PairSet,
    rng: np.random.Generator,
    strategy: str,
    ending: str,
    options: Mapping[str, Any],
    outlook: Callable[[Posterior, Candidates, Curvature], View],
    lazy: bool = False,
) -> Choice:
    """Sample candidates, pick the best one by one, and say why: what the greedy strategies have in common.

    Args:
        score: what the candidates at some positions are worth in an outlook, 0 or more.
        posterior: what the model believes.
        n: pairs wanted.
        taken: pairs that may not be chosen; not changed.
        rng: source of randomness.
        strategy: its name, for messages.
        ending: of the sentence that says why, see `explain`.
        options: the strategy's keyword arguments, see `Search`.
        outlook: makes the view of the candidates that `score` is of.
        lazy: whether a pick never raises another candidate's score, see `pick`.

    Returns:
        At most n pairs, best first; fewer when the pool has fewer free pairs.

    Raises:
        AcquireError: there is no posterior, or an option is unknown or out of range.
    """
    check_request(posterior, n, taken, strategy=strategy)
    assert posterior is not None
    search = Search.of(options, n, strategy=strategy)
    candidates = draw_candidates(
        posterior,
        taken=taken,
        rng=rng,
        images=search.images,
        candidates=search.candidates,
        least=n,
        near=search.near,
        reselect=search.reselect,
        heard=search.heard,
    )
    if n == 0 or len(candidates) == 0:
        return Choice.empty()
    view = outlook(search.belief(posterior, candidates, taken), candidates, search.curvature)
    variance_m = view.variance_m
    uses = None
    if search.balance and len(taken):
        uses = taken.uses[candidates.rows_P].astype(np.float64)
    picked, worth = pick(
        view,
        score,
        n,
        rng=rng,
        noise=search.noise,
        balance=search.balance,
        uses_P=uses,
        lazy=lazy,
    )
    reasons = explain(view.mean_m[picked], variance_m[picked], ending)
    return Choice(candidates.pairs[picked], worth, reasons)
