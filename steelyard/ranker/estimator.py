"""PairwiseRanker: the ranker alone, on arrays, with scikit-learn's conventions.

    ranker = PairwiseRanker().fit(X, pairs, answers)
    scores, std = ranker.predict(X, return_std=True)

It keeps scikit-learn's rules (constructor only stores, `fit` returns self and sets names that end in `_`, `clone`, `get_params`,
`set_params`, input validation, `NotFittedError`), with one difference in nature: what is learnt from are answers about pairs of
rows, so `fit` and `score` take `pairs` and `answers` where others take `y`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted, validate_data

from steelyard.arrays import Floats
from steelyard.config import Preset, RankerConfig, ranker_preset
from steelyard.errors import ConfigError, RankerError
from steelyard.pairs import check_pairs

if TYPE_CHECKING:
    from typing_extensions import Self

    from steelyard.ranker.posterior import Posterior

__all__ = ["PairwiseRanker"]


class InvalidInput(RankerError, ValueError):
    """Bad arrays: one of our errors, and the ValueError that scikit-learn's tools look for."""


class NotFitted(RankerError, NotFittedError):  # type: ignore[misc]
    """Used before `fit`."""


class PairwiseRanker(BaseEstimator):  # type: ignore[misc]
    """A severity score learnt from answers about pairs.

    >>> X = np.arange(6.0).reshape(6, 1)
    >>> ranker = PairwiseRanker().fit(X, pairs=[[1, 0], [3, 2], [4, 5]], answers=[1, 1, 0])
    >>> bool(np.all(np.diff(ranker.predict(X)) > 0))
    True

    Args:
        preset: `features` (X holds feature rows), or `quick`, `small`, `tuned`, `paper` (X holds uint8 pictures (N, H, W, 3)).
        head: `convex` or `mlp`; None keeps the preset's, as everywhere below.
        components: principal components kept by the convex head.
        kernel: `none` or `rbf`.
        ties: `half` or `rao_kupper`.
        posterior: `laplace`, `closed_form` or `draws`.
        options: any other field of the ranker's configuration, e.g. `{"epochs": 50}`.
        cache: folder that keeps backbone features of pictures.
        random_state: seed of a network; the convex ranker needs none.

    Attributes:
        config_: the settings that were used.
        ranker_: the fitted ranker.
        n_features_in_: number of features of a row (rows only).
        center_, scale_: by which a network's ranker standardises features.
    """

    def __init__(
        self,
        preset: Preset = "features",
        *,
        head: str | None = None,
        components: int | None = None,
        kernel: str | None = None,
        ties: str | None = None,
        posterior: str | None = None,
        options: dict[str, Any] | None = None,
        cache: str | Path | None = None,
        random_state: int = 0,
    ) -> None:
        self.preset = preset
        self.head = head
        self.components = components
        self.kernel = kernel
        self.ties = ties
        self.posterior = posterior
        self.options = options
        self.cache = cache
        self.random_state = random_state

    def fit(
        self, X: ArrayLike, pairs: ArrayLike, answers: ArrayLike, grades: ArrayLike | None = None
    ) -> Self:
        """Learn from answered pairs.

        Args:
            X: rows (N, D), or pictures (N, H, W, 3); those in no pair still help (they are the pool).
            pairs: rows (i, j) of X, shape (n, 2).
            answers: 1 where the first is more severe, 0 where the second is, 0.5 for equal (P1), shape (n,).
            grades: absolute labels, shape (N,), NaN or negative where unknown: learns them as well (P6).

        Raises:
            RankerError: bad arrays; also a ValueError.
            ConfigError: a setting that does not exist.
        """
        from steelyard.ranker.learner import Learner

        self.config_ = self._config(multitask=grades is not None)
        inputs = self._inputs(X, reset=True)
        known = None
        if grades is not None:
            known = np.asarray(grades, dtype=np.float64)
            known = np.where(known < 0, np.nan, known)
        index, given = (
            check_pairs(pairs, error=InvalidInput),
            np.asarray(answers, dtype=np.float64).reshape(-1),
        )
        try:
            learner = Learner(self.config_, inputs, seed=int(self.random_state))
            self.ranker_ = learner.fit(index, given, grades=known)
        except RankerError as error:
            raise InvalidInput(str(error)) from error
        if (scaling := getattr(self.ranker_, "scaling", None)) is not None:
            self.center_, self.scale_ = scaling.center_D, scaling.scale_D
        return self

    def predict(self, X: ArrayLike, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Scores, shape (N,), higher is more severe; with `return_std` their standard deviations too.

        Raises:
            RankerError: not fitted (also a NotFittedError), or bad arrays (also a ValueError).
        """
        posterior = self.predict_posterior(X)
        return (posterior.mean, np.sqrt(posterior.variance)) if return_std else posterior.mean

    def predict_posterior(self, X: ArrayLike) -> Posterior:
        """The joint posterior of the scores: covariances, differences, probabilities, samples."""
        try:
            check_is_fitted(self)
        except NotFittedError as error:
            raise NotFitted(str(error)) from None
        posterior: Posterior = self.ranker_.posterior(self._inputs(X, reset=False))
        return posterior

    def score(self, X: ArrayLike, pairs: ArrayLike, answers: ArrayLike) -> float:
        """Share of decided pairs that the scores order as answered; ties are left out, equal scores count one half.

        Raises:
            RankerError: there is no decided pair, or bad arrays.
        """
        scores = self.predict_posterior(X).mean
        index, given = (
            check_pairs(pairs, error=InvalidInput),
            np.asarray(answers, dtype=np.float64).reshape(-1),
        )
        if len(index) != len(given):
            raise InvalidInput(f"{len(index)} pairs have {len(given)} answers; give one for each")
        decided = given != 0.5
        if not decided.any():
            raise InvalidInput("no pair is decided; accuracy needs answers other than 0.5")
        gap = scores[index[decided, 0]] - scores[index[decided, 1]]
        return float(np.mean((np.sign(gap) * np.sign(given[decided] - 0.5) + 1) / 2))

    def _config(self, multitask: bool) -> RankerConfig:
        if "warm_start" in (self.options or {}):
            raise ConfigError(
                "'warm_start' is about rounds of a study, and `fit` begins anew each time; leave it out"
            )
        names = ("head", "components", "kernel", "ties", "posterior")
        chosen = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return ranker_preset(self.preset, **{"multitask": multitask, **chosen, **(self.options or {})})

    def _inputs(self, X: ArrayLike, *, reset: bool) -> NDArray[Any]:
        config: RankerConfig = self.config_
        if config.backbone == "none":
            try:
                return np.asarray(validate_data(self, X, reset=reset, dtype=[np.float64, np.float32]))
            except ValueError as error:
                raise InvalidInput(str(error)) from None
        pictures = np.asarray(X)
        if pictures.dtype != np.uint8 or pictures.ndim != 4 or pictures.shape[3] != 3:
            raise InvalidInput(
                f"the preset {self.preset!r} takes pictures: uint8 of the shape (N, height, width, 3), not {pictures.dtype} of "
                f"{pictures.shape}; for feature rows use preset='features'"
            )
        from steelyard.ranker.inputs import read_inputs

        return read_inputs(pictures, config, cache=None if self.cache is None else Path(self.cache))
