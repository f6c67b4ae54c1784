"""The convex ranker: a reduction of features learnt from the pool, a convex head learnt from answers. numpy only."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.arrays import Rows
from steelyard.config import ConvexConfig, ranker_from_saved
from steelyard.progress import Progress
from steelyard.ranker import checkpoint
from steelyard.ranker.convex import ConvexHead
from steelyard.ranker.judges import Judging, Panel, Said
from steelyard.ranker.panel_fit import fit_with_judges
from steelyard.ranker.reduction import Reduction

if TYPE_CHECKING:
    from steelyard.ranker.posterior import Posterior

__all__ = ["ConvexLearner", "ConvexRanker"]


@dataclass(frozen=True)
class ConvexRanker:
    """A fitted convex head as a `Ranker`."""

    config: ConvexConfig
    head: ConvexHead
    panel: Panel | None = None

    learns_reserved = True

    @property
    def metrics(self) -> dict[str, Any]:
        """Figures of the fit."""
        return {
            "precision": self.head.precision,
            "log_evidence": self.head.log_evidence,
            "tau": self.head.tau,
            "share": self.head.share,
            "temper": None if self.head.temper is None else asdict(self.head.temper),
            **({} if self.head.effects is None else {"image_effects": self.head.effects.deviation}),
        }

    def posterior(
        self, inputs: NDArray[Any], *, rows: Rows | None = None, progress: Progress | None = None
    ) -> Posterior:
        """Laplace's posterior of the scores."""
        return _with_panel(self.head.posterior(inputs if rows is None else inputs[rows]), self.panel)

    def save(self, folder: Path) -> None:
        """Write weights, covariance, reduction and configuration."""
        extra = {"kind": "convex", "ranker": self.config.to_dict(), "metrics": self.metrics}
        if self.panel is not None:
            extra["judges"] = self.panel.to_dict()
        checkpoint.save_model(folder, self.head.to_arrays(), config=self.config, extra=extra)

    @classmethod
    def from_checkpoint(cls, saved: checkpoint.Checkpoint) -> ConvexRanker:
        """What `save` wrote."""
        judges = saved.extra.get("judges")
        return cls(
            ranker_from_saved(saved.extra["ranker"], "convex"),
            ConvexHead.from_arrays(dict(saved.weights)),
            None if judges is None else Panel.from_dict(judges),
        )


class ConvexLearner:
    """Fits convex rankers on one set of features; the reduction is learnt once, from the pool, compared or not."""

    def __init__(self, config: ConvexConfig, inputs: NDArray[Any], pool: Rows | None) -> None:
        self.config, self.inputs = config, inputs
        self.reduction = Reduction.fit(
            inputs, pool=pool, components=config.components, whitening=config.whitening, kernel=config.kernel
        )

    @cached_property
    def rows(self) -> NDArray[np.float32]:
        """Reduced features of all images, computed once for all fits."""
        return self.reduction.transform(self.inputs)

    def fit(
        self,
        config: ConvexConfig,
        pairs: ArrayLike,
        answers: ArrayLike,
        grades: ArrayLike | None,
        said: Said | None = None,
    ) -> ConvexRanker:
        """Fit on answered pairs; with the judges where several people answered."""

        def fit(judging: Judging | None, start: ConvexHead | None) -> ConvexHead:
            return ConvexHead.fit(
                self.inputs,
                pairs,
                answers,
                reduction=self.reduction,
                rows=self.rows,
                ties=config.ties,
                grades=grades,
                start=start,
                judging=judging,
                image_effects=config.image_effects,
            )

        if not config.judges or said is None or said.people < 2:
            return ConvexRanker(config, fit(None, None))
        head, panel = fit_with_judges(
            fit,
            lambda head: head.posterior(rows=self.rows, images=np.arange(len(self.rows))),
            pairs,
            np.asarray(answers, dtype=np.float64),
            said,
        )
        return ConvexRanker(config, head, panel)

    def posterior(self, ranker: ConvexRanker, rows: Rows | None) -> Posterior:
        """Of all images or of some rows; of a ranker of this learner from the rows that it keeps."""
        if ranker.head.reduction is not self.reduction:
            return ranker.posterior(self.inputs, rows=rows)
        images = np.arange(len(self.rows)) if rows is None else rows
        own = ranker.head.posterior(rows=self.rows if rows is None else self.rows[rows], images=images)
        return _with_panel(own, ranker.panel)


def _with_panel(posterior: Posterior, panel: Panel | None) -> Posterior:
    posterior.panel = panel
    return posterior
