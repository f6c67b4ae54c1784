"""Choosing the next pairs while nobody waits.

A request only hands out pairs that are already up. A thread keeps enough of them up: it has new ones chosen when few are
left, and the choice knows the last answers (continuous mode). How many, and what is left to the trainer, is said in
`loop/policy.py`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Literal

from steelyard.errors import SteelyardError
from steelyard.store.records import NewPair
from steelyard.study import Study

__all__ = ["Asker", "State"]

State = Literal["open", "choosing", "elsewhere", "done"]

ACTIVE_SECONDS = 300.0
REST_SECONDS = 0.1
IDLE_SECONDS = 30.0
LOOK_SECONDS = 1.0  # between two looks whether images have joined the study
log = logging.getLogger("steelyard.web")


class Asker:
    """Keeps enough pairs up for everybody who is working.

    Args:
        study: what is asked about.
        draft: chooses that many pairs (see `Questions.draft_for_page`); None does so in this process.
        rest: called when nobody has taken pairs for a while; pairs are then put up only when somebody comes. None works ahead.

    Attributes:
        exhausted: there is no pair left that was not asked.
        problem: why the last choice failed, empty if it did not.
    """

    def __init__(
        self,
        study: Study,
        draft: Callable[[int], list[NewPair] | None] | None = None,
        *,
        rest: Callable[[], None] | None = None,
    ) -> None:
        self.study = study
        self._draft, self._rest, self._resting = draft or self._draft_here, rest, rest is not None
        self.exhausted = False
        self.problem = ""
        self.lock = threading.Lock()  # the study's belief is for one thread at a time
        self._seen: dict[str, float] = {}
        self._known = (0, 0)
        self._beyond: dict[str, float] = {}
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, *, at_once: bool = False) -> None:
        """Start the thread; `at_once` it puts pairs up before anybody asks, so that whoever opens the page finds some."""
        self._stop.clear()
        if at_once:
            self._wake.set()
        self._thread = threading.Thread(target=self._run, name="asker", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Ask it to stop."""
        self._stop.set()
        self._wake.set()

    def stop(self) -> None:
        """Stop it and wait for what it is doing."""
        self.end()
        if self._thread is not None:
            self._thread.join(timeout=10)
            self._thread = None

    def want(self, annotator: str, *, beyond: bool = False) -> None:
        """Somebody is here and takes pairs; `beyond`: also when the planned answers are in."""
        self._seen[annotator] = time.monotonic()
        if beyond:
            self._beyond[annotator] = time.monotonic()
        self._wake.set()

    def changed(self) -> None:
        """Images were excluded or taken in, the budget moved: what was exhausted may not be."""
        self.exhausted = False
        self._wake.set()

    def state(self, annotator: str, *, handed: int, answered: int, beyond: bool = False) -> State:
        """What to tell somebody who was handed that many pairs, and perhaps goes on beyond the plan."""
        if handed:
            return "open"
        if answered >= self.study.budget and not beyond:
            return "done"
        # The thread may put pairs up between these questions, so what they would hide is asked last: pairs counted
        # as open before nothing was missing and nothing was free are surely in other hands.
        up = self.study.store.pairs.open_count()
        if not self.exhausted and self.missing() > 0:
            return "choosing"
        if self.study.store.pairs.free_count(annotator):
            return "choosing"  # they came up since: the next request gets them
        if up:
            return "elsewhere"
        return "done" if self.exhausted else "choosing"

    def missing(self) -> int:
        """How many pairs should be put up now."""
        now = time.monotonic()
        people, beyond = (
            sum(now - seen < ACTIVE_SECONDS for seen in list(times.values()))
            for times in (self._seen, self._beyond)
        )
        store = self.study.store
        # A pair that waits for a second opinion cannot be handed to whoever gave the first.
        up = store.pairs.open_count(unanswered=self.study.config.ask.second_opinions)
        return self.study.policy.page_wants(
            people=people, up=up, answered=store.answers.count(), beyond=beyond
        )

    def top_up(self) -> int:
        """Put missing pairs up; gives how many."""
        n = self.missing()
        if not n or self.exhausted:
            return 0
        known = self._now_known()
        chosen = self._draft(n)
        if chosen is None:
            return 0  # the trainer brings better ones
        self.exhausted, self._known = not chosen, known
        return len(self.study.store.pairs.add_all(chosen)) if chosen else 0

    def _somebody(self) -> bool:
        now = time.monotonic()
        return any(now - seen < ACTIVE_SECONDS for seen in list(self._seen.values()))

    def _now_known(self) -> tuple[int, int]:
        """How many images there are, and the model; where either changes, what was exhausted may not be."""
        newest = self.study.store.models.newest()
        return len(self.study.catalog), newest.id if newest else 0

    def _more_to_ask(self) -> bool:
        """Whether images have joined the study, or a model that knows them has come when nothing was left to ask."""
        grew = self.study.follow()
        if self.exhausted and self._now_known() != self._known:
            self.exhausted = False
            return True
        return grew

    def _run(self) -> None:
        looked = time.monotonic()
        while not self._stop.is_set():
            woken = self._wake.wait(timeout=LOOK_SECONDS)
            self._wake.clear()
            if self._stop.is_set():
                return
            if self._rest is not None and not self._somebody():
                if not self._resting:
                    self._rest()
                self._resting = True
                continue
            self._resting = False
            try:
                if not self._more_to_ask() and not woken and time.monotonic() - looked < IDLE_SECONDS:
                    continue
                looked = time.monotonic()
                self.top_up()
                self.problem = ""
                # A crowd wakes it with every answer; a few choices a second are enough for any crowd.
                self._stop.wait(REST_SECONDS)
            except SteelyardError as error:
                if self._stop.is_set():
                    return  # the process that chooses was ended under it
                self.problem = str(error)
                log.error("choosing pairs failed: %s", error)
                self._stop.wait(2)
            except Exception as error:  # the thread must outlive any one failure
                self.problem = f"choosing pairs failed: {error}"
                log.exception("choosing pairs failed")
                self._stop.wait(5)

    def _draft_here(self, n: int) -> list[NewPair] | None:
        with self.lock:
            return self.study.questions.draft_for_page(n)
