"""A fitted ranker: scores of any images, with their uncertainty. Complete in itself, in memory and on disk.

Two kinds behind one face: the convex ranker (numpy only) and the network with dropout (torch, loaded when needed).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from steelyard.arrays import Rows
from steelyard.config import RankerConfig
from steelyard.errors import ConfigError, RankerError
from steelyard.progress import Progress
from steelyard.ranker import checkpoint

if TYPE_CHECKING:
    from steelyard.ranker.posterior import Posterior

__all__ = ["Ranker", "load_ranker"]


class Ranker(Protocol):
    """What can be done with a fitted ranker; a `Learner` makes one, `load_ranker` reads one."""

    @property
    def config(self) -> RankerConfig:
        """Its settings."""

    @property
    def metrics(self) -> dict[str, Any]:
        """Figures of the fit."""

    @property
    def learns_reserved(self) -> bool:
        """Whether it learns from answers held back for measuring as well, because it can leave each of them out again."""

    def posterior(
        self, inputs: NDArray[Any], *, rows: Rows | None = None, progress: Progress | None = None
    ) -> Posterior:
        """Scores of any images, with their uncertainty.

        Args:
            inputs: of any images, from `read_inputs`.
            rows: which of them, in this order; None is all.
            progress: told how far it is.
        """

    def save(self, folder: Path) -> None:
        """Write everything that is needed to score images, so that `load_ranker` finds it."""


def load_ranker(folder: Path) -> Ranker:
    """What `Ranker.save` wrote, in this version or an earlier one.

    Raises:
        RankerError: nothing there, or damaged.
    """
    saved = checkpoint.load(folder)
    if "kind" not in saved.extra:
        raise RankerError(f"{folder} holds a training that was not finished; train again")
    try:
        if saved.extra["kind"] == "convex":
            from steelyard.ranker.convex_ranker import ConvexRanker

            return ConvexRanker.from_checkpoint(saved)
        from steelyard.ranker.network_ranker import NetworkRanker

        return NetworkRanker.from_checkpoint(saved, folder)
    except (ConfigError, KeyError, TypeError, ValueError) as error:
        raise RankerError(f"the model in {folder} cannot be read ({error}); train again") from None
