"""What a strategy returns, and what a strategy is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.errors import AcquireError
from steelyard.pairs import PairSet

if TYPE_CHECKING:
    from steelyard.ranker.posterior import Posterior

__all__ = ["Choice", "PairRole", "Strategy", "check_request"]

PairRole = Literal["chosen", "random", "repeat", "second"]


@dataclass(frozen=True, eq=False)
class Choice:
    """Pairs to ask next, best first.

    Attributes:
        pairs: shape (m, 2), different pairs of different images. m may be below what was asked for, when nothing
            is left.
        scores: shape (m,), what the strategy thinks each pair is worth; comparable inside one choice only.
        reasons: m sentences, one per pair, for the person who is asked.
        roles: m words. `chosen` by the strategy; `random`, drawn uniformly and fit to estimate accuracy with;
            `repeat`, asked before and fit to measure agreement with; `second`, chosen by the strategy though somebody has
            answered it: another opinion teaches more than a new pair.
    """

    pairs: NDArray[np.int64]
    scores: NDArray[np.float64]
    reasons: list[str]
    roles: list[PairRole] = field(default_factory=list)

    def __post_init__(self) -> None:
        pairs = np.asarray(self.pairs, dtype=np.int64).reshape(-1, 2)
        scores = np.asarray(self.scores, dtype=np.float64).reshape(-1)
        roles: list[PairRole] = list(self.roles) or ["chosen"] * len(pairs)
        if not len(pairs) == len(scores) == len(self.reasons) == len(roles):
            raise AcquireError(
                f"a choice has one score, one reason and one role a pair: there are {len(pairs)} pairs, "
                f"{len(scores)} scores, {len(self.reasons)} reasons and {len(roles)} roles"
            )
        if not np.isfinite(scores).all():
            bad = int(np.flatnonzero(~np.isfinite(scores))[0])
            raise AcquireError(
                f"the score of pair {tuple(pairs[bad].tolist())} is {scores[bad]}; scores are finite numbers"
            )
        for name, value in (
            ("pairs", pairs),
            ("scores", scores),
            ("reasons", list(self.reasons)),
            ("roles", roles),
        ):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: ArrayLike | slice) -> Choice:
        """Some of the pairs, by a slice, positions or a mask."""
        rows = np.atleast_1d(np.arange(len(self))[index if isinstance(index, slice) else np.asarray(index)])
        positions: list[int] = rows.tolist()
        return Choice(
            self.pairs[rows],
            self.scores[rows],
            [self.reasons[k] for k in positions],
            [self.roles[k] for k in positions],
        )

    @classmethod
    def empty(cls) -> Choice:
        """Nothing to ask."""
        return cls(np.empty((0, 2), dtype=np.int64), np.empty(0), [])

    @classmethod
    def join(cls, parts: Sequence[Choice]) -> Choice:
        """One choice after the other."""
        if not parts:
            return cls.empty()
        return cls(
            np.concatenate([part.pairs for part in parts]),
            np.concatenate([part.scores for part in parts]),
            [reason for part in parts for reason in part.reasons],
            [role for part in parts for role in part.roles],
        )


class Strategy(Protocol):
    """posterior → next pairs. No model, no dataset, no store in sight."""

    def __call__(
        self,
        posterior: Posterior | None,
        n: int,
        /,
        *,
        taken: PairSet,
        rng: np.random.Generator,
        **options: Any,
    ) -> Choice:
        """Choose at most n pairs outside `taken`."""
        ...  # pragma: no cover - a protocol has no body


def check_request(
    posterior: Posterior | None, n: int, taken: PairSet, *, strategy: str, model: bool = True
) -> int:
    """The number of images, after checking what every strategy is given.

    Args:
        posterior: what the model believes, or None before there is one.
        n: pairs wanted.
        taken: pairs that may not be chosen.
        strategy: its name, for the message.
        model: whether the strategy needs a posterior.

    Raises:
        AcquireError: n is negative, the posterior is missing, or it and `taken` count different images.
    """
    if n < 0:
        raise AcquireError(f"'{strategy}' was asked for {n} pairs; ask for 0 or more")
    if posterior is None:
        if model:
            raise AcquireError(
                f"'{strategy}' needs a fitted model; start with 'spread' or 'random', then fit"
            )
        return taken.size
    size = len(posterior)
    if size != taken.size:
        raise AcquireError(
            f"'{strategy}': the posterior is about {size} images and the taken pairs about {taken.size}; "
            "they have to be of the same catalog"
        )
    return size
