"""Who is handed what, before and besides the pairs of the study: instructions, a warm-up, hidden pairs, limits.

Everything is decided here and by the server's clock; a page or program that does not play along is handed nothing. An answer
to a pair that was handed out is never refused for any of it.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal

import numpy as np

from steelyard.errors import ConfigError
from steelyard.store.records import Leased
from steelyard.study import Study
from steelyard.study.instructions import Instructions, read_instructions
from steelyard.web.handing import Handing
from steelyard.web.pair_numbers import PairNumbers

__all__ = ["Handed", "Training", "day_of"]

LOOK_SECONDS = 2.0  # how long a yes to “has agreed?” is believed: somebody may withdraw
SKIPPED = "warm-up skipped"


@dataclass(frozen=True)
class Handed:
    """What somebody gets.

    Attributes:
        pairs: with their sides, in the order in which they are to be shown.
        lacking: files are missing, so that others were held back.
        waits: why there is none, where that is the study's wish: `consent` or `limit`.
        again_at: when there may be some again, after a daily limit.
        warmup: how many pairs of the warm-up are done, and of how many; None when these are pairs of the study.
    """

    pairs: list[Leased] = field(default_factory=list)
    lacking: bool = False
    waits: Literal["consent", "limit"] | None = None
    again_at: float | None = None
    warmup: tuple[int, int] | None = None


class Training:
    """Prepares, checks and spares people; several threads may ask.

    Args:
        study: whose people.
        handing: hands out pairs of the study.
        numbers: of pairs, as they are told.
    """

    def __init__(self, study: Study, handing: Handing, numbers: PairNumbers) -> None:
        self._study, self._handing, self._numbers = study, handing, numbers
        self._read: tuple[object, int, Instructions | None] | None = None
        self._agreed: dict[str, tuple[str, float]] = {}
        self._warm: set[str] = set()
        self.instructions()  # an example that is no image is said when the server starts

    # ------------------------------------------------------------------ instructions

    def instructions(self) -> Instructions | None:
        """What people read; None where there is nothing."""
        config, images = self._study.config, len(self._study.catalog)
        if self._read is None or self._read[0] is not config or self._read[1] != images:
            try:
                self._read = (config, images, read_instructions(config, self._study.catalog))
            except ConfigError:
                if self._read is None:
                    raise
                self._read = (config, images, self._read[2])
        return self._read[2]

    def example_rows(self) -> set[int]:
        """Rows of the images that stand below the instructions."""
        found = self.instructions()
        return {row for row, _ in found.examples} if found else set()

    def to_read(self, name: str) -> bool:
        """Whether somebody has instructions before them that they have not read, or not agreed to."""
        found = self.instructions()
        if found is None:
            return False
        version, at = self._agreed.get(name, ("", 0.0))
        if version == found.version and time.monotonic() - at < LOOK_SECONDS:
            return False
        if not found.accepted(self._study.store, name):
            return True
        self._agreed[name] = (found.version, time.monotonic())
        return False

    def must_agree(self, name: str) -> bool:
        """Whether nothing is handed to somebody before they agree."""
        return self._study.config.people.consent and self.to_read(name)

    # ------------------------------------------------------------------ handing out

    def hand(self, name: str, count: int) -> Handed:
        """Up to so many pairs for somebody, those that they hold first."""
        if self.must_agree(name):
            return Handed(waits="consent")
        if warm := self._warmup(name, count):
            return warm
        left, again = self._left(name)
        if left <= 0:
            return Handed(waits="limit", again_at=again)
        if left == math.inf:
            return self._pairs(name, count)
        before = self._study.store.pairs.held(name)
        return self._within(name, self._pairs(name, int(min(count, left))), before)

    def _pairs(self, name: str, count: int) -> Handed:
        if self._study.config.people.gold_rate > 0:
            return self._mixed(name, count)
        return Handed(*self._handing.pairs(name, count))

    def _within(self, name: str, handed: Handed, before: set[int]) -> Handed:
        """Take new pairs back that are too many: answers that arrived while they were handed out made room for them twice."""
        left, again = self._left(name)
        new = [pair.pair for pair in handed.pairs if pair.pair not in before]
        extra = set(new[len(new) - int(min(len(new), max(0, len(handed.pairs) - left))) :])
        if not extra:
            return handed
        self._study.store.pairs.give_up(name, sorted(extra))
        pairs = [pair for pair in handed.pairs if pair.pair not in extra]
        return replace(handed, pairs=pairs) if pairs else Handed(waits="limit", again_at=again)

    def _warmup(self, name: str, count: int) -> Handed | None:
        store, wanted = self._study.store, self._study.config.people.warmup
        if not wanted or name in self._warm:
            return None
        done = store.known.count(name, "warm-up")
        if done < wanted and not self._skipped(name) and not store.answers.count(name):
            seconds = self._study.config.ask.lease_seconds
            pairs = store.known.lease(
                name, "warm-up", wanted - done, seconds=seconds, rng=np.random.default_rng()
            )
            if pairs := [pair for pair in pairs if self._there(pair)]:
                return Handed(pairs[:count], warmup=(done, done + len(pairs)))
        self._warm.add(name)
        return None

    def _skipped(self, name: str) -> bool:
        allowed = self._study.config.people.warmup_skip
        return allowed and bool(self._study.store.audit.latest(1, action=SKIPPED, actor=name))

    def skip_warmup(self, name: str) -> bool:
        """Somebody wants no warm-up; whether the study allows that."""
        if not self._study.config.people.warmup_skip:
            return False
        if name not in self._warm and not self._skipped(name):
            self._study.store.audit.add(name, SKIPPED, {})
        return True

    def _mixed(self, name: str, count: int) -> Handed:
        """Pairs of the study with hidden ones among them, by chance."""
        store, people = self._study.store, self._study.config.people
        self._numbers.begun()
        held, hidden, free = store.known.holding(name)
        rng = np.random.default_rng()
        more = min(int(rng.binomial(max(0, count - held - hidden), people.gold_rate)), free)
        ordinary = count - hidden - more
        pairs, lacking = self._handing.pairs(name, ordinary) if ordinary > 0 else ([], False)
        # Nobody is checked when there is nothing to ask: alone, a hidden pair would not be hidden.
        new = pairs[held:]
        if not new and store.pairs.free_count(name) <= held:
            more = 0
        beside = int(rng.choice([pair.pair for pair in new])) if new else None
        gold = store.known.lease(
            name, "gold", hidden + more, seconds=self._study.config.ask.lease_seconds, rng=rng, beside=beside
        )
        pairs = [*pairs, *(pair for pair in gold if self._there(pair))]
        handed = store.known.handed_at(name, [pair.pair for pair in pairs])
        pairs.sort(key=lambda pair: (handed[pair.pair], self._numbers.public(pair.pair)))
        return Handed(pairs[:count], lacking)

    def _there(self, pair: Leased) -> bool:
        return self._handing.there(pair.left_row) and self._handing.there(pair.right_row)

    def _left(self, name: str) -> tuple[float, float | None]:
        """How many answers somebody may still give, and when there may be more."""
        people, given = self._study.config.people, self._study.store.answers.given
        in_all = people.limit_per_person - given(name) if people.limit_per_person else math.inf
        if in_all <= 0 or not people.limit_per_day:
            return in_all, None
        begin, end = day_of(_now())
        today = people.limit_per_day - given(name, begin)
        return min(in_all, today), end

    # ------------------------------------------------------------------ what is told

    def feedback(self, comparison: str) -> tuple[str, bool] | None:
        """What the reference says about a pair of the warm-up as it was shown, and whether the answer says so too."""
        if not self._study.config.people.warmup:
            return None
        found = self._study.store.known.answer(comparison)
        if found is None or found.pair.kind != "warm-up":
            return None
        return found.expected.value, found.said is found.expected

    def answered(self, *, since: int | None = None) -> int:
        """How many answers there are, as whoever gives them would count."""
        store = self._study.store
        hidden = store.known.count(kind="gold") if self._study.config.people.gold_rate > 0 else 0
        return store.answers.count(since=since) + hidden

    def mine(self, name: str) -> int:
        """The same of one person."""
        store = self._study.store
        hidden = store.known.count(name, "gold") if self._study.config.people.gold_rate > 0 else 0
        return store.answers.count(name) + hidden

    @property
    def wanted(self) -> int:
        """How many answers are wanted, the hidden ones that come with them included."""
        return math.ceil(self._study.budget / (1 - self._study.config.people.gold_rate))

    @property
    def hides(self) -> bool:
        """Whether pairs are hidden, so that nothing an annotator is told may count without them."""
        return self._study.config.people.gold_rate > 0


def _now() -> float:
    return time.time()


def day_of(at: float) -> tuple[float, float]:
    """When the day of a time began and when it ends, by the clock and time zone of this machine."""
    midnight = datetime.fromtimestamp(at).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight.timestamp(), (midnight + timedelta(days=1)).timestamp()
