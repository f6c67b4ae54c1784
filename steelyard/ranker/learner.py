"""Answers in, a fitted ranker out: what the convex ranker and the network have in common.

A learner is given the inputs of all images, but whatever it *fits* – scaling, principal axes, weights – is fitted on the pool
alone. Other images are only ever pushed through.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.arrays import Rows
from steelyard.config import RankerConfig
from steelyard.errors import RankerError
from steelyard.progress import Progress
from steelyard.ranker.convex_ranker import ConvexLearner, ConvexRanker
from steelyard.ranker.inputs import check_inputs
from steelyard.ranker.judges import Said
from steelyard.ranker.network_ranker import NetworkLearner, NetworkRanker
from steelyard.ranker.ranker import Ranker

if TYPE_CHECKING:
    from steelyard.ranker.posterior import Posterior

__all__ = ["Learner"]


class Learner:
    """Fits rankers of one configuration on the images of one catalog, as often as answers come in.

    Args:
        config: the ranker's settings.
        inputs: of all images, from `read_inputs`; may be a memory map.
        pool: rows that may be learnt from, ascending; None is all.
        seed: seed of a network; the convex ranker needs none.
        validation: pairs and answers that stop a network early; None holds back `validation_share` of the answers.

    Raises:
        RankerError: the inputs are not what this ranker takes.
    """

    def __init__(
        self,
        config: RankerConfig,
        inputs: NDArray[Any],
        *,
        pool: Rows | None = None,
        seed: int = 0,
        validation: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> None:
        check_inputs(inputs, config)
        self.config, self.pool = config, pool
        self.size = len(inputs)
        self._learner: ConvexLearner | NetworkLearner
        if config.kind == "convex":
            self._learner = ConvexLearner(config, inputs, pool)
        else:
            self._learner = NetworkLearner(config, inputs, pool, seed, validation)

    @property
    def learns_reserved(self) -> bool:
        """As of the rankers it fits: whether answers held back for measuring may be learnt from as well."""
        return isinstance(self._learner, ConvexLearner)

    def fit(
        self,
        pairs: ArrayLike,
        answers: ArrayLike,
        *,
        grades: ArrayLike | None = None,
        start: Ranker | None = None,
        folder: Path | None = None,
        progress: Progress | None = None,
        said: Said | None = None,
    ) -> Ranker:
        """Fit on answered pairs.

        Args:
            pairs: rows (i, j), shape (n, 2).
            answers: P1, shape (n,).
            grades: absolute labels, shape (N,), NaN where unknown: learns them as well (P6).
            start: a ranker of the same configuration that a network is trained on from; the convex ranker's one optimum needs none.
            folder: where a network writes a checkpoint after each epoch, and resumes.
            progress: told how far it is.
            said: who gave each answer and how the pair was shown; the convex ranker learns its judges from it.

        Raises:
            RankerError: pairs, answers or grades that do not fit or are not of the pool; a start of another kind; grades are to be
                learnt and there are none.
        """
        self._check_pool(pairs, grades)
        config = self.config
        if grades is not None and not config.multitask:
            config = config.with_changes(multitask=True)
        if config.multitask and grades is None:
            raise RankerError(
                "multitask training (P6) needs grades; give them or set ranker.multitask to false"
            )
        if config.kind == "convex":
            assert isinstance(self._learner, ConvexLearner)
            if not isinstance(start, ConvexRanker | None):
                raise RankerError(
                    "a convex ranker starts from a convex ranker, not from a network; leave the start out"
                )
            return self._learner.fit(config, pairs, answers, grades, said)
        assert isinstance(self._learner, NetworkLearner)
        if not isinstance(start, NetworkRanker | None):
            raise RankerError(
                "a network starts from a network, not from a convex ranker; leave the start out"
            )
        return self._learner.fit(config, pairs, answers, grades, start, folder, progress)

    def posterior(
        self, ranker: Ranker, *, rows: Rows | None = None, progress: Progress | None = None
    ) -> Posterior:
        """Scores of the learner's own images, with their uncertainty; what was prepared for fitting is used again.

        Args:
            ranker: from `fit`, or another of the same configuration.
            rows: which images, in this order; None is all.
            progress: told how far it is.
        """
        if isinstance(self._learner, ConvexLearner) and isinstance(ranker, ConvexRanker):
            return self._learner.posterior(ranker, rows)
        return ranker.posterior(self._learner.inputs, rows=rows, progress=progress)

    def _check_pool(self, pairs: ArrayLike, grades: ArrayLike | None) -> None:
        if self.pool is None:
            return
        outside = np.ones(self.size, dtype=bool)
        outside[self.pool] = False
        used = np.asarray(pairs).ravel()
        # What is no row at all is named by whoever checks pairs.
        inside = used[(used >= 0) & (used < self.size)].astype(np.int64)
        if outside[inside].any():
            raise RankerError(
                f"image {int(inside[outside[inside]][0])} was compared, but is not in the pool to be learnt from"
            )
        if grades is not None and not np.isnan(np.asarray(grades, dtype=float)[outside]).all():
            raise RankerError(
                "there are grades of images that are not in the pool to be learnt from; give NaN for them"
            )
