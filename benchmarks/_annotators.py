"""Annotators at a server on PostgreSQL, simulated: what each request does where, with service times that were measured.

A request holds one of a web process's 40 threads. It computes in its process, which does one thing at a time, before and after the
database. Taking pairs asks the database once. Answers of one process are written together (`web/scribe.py`): who comes while a batch is
written waits for the next, of at most 64. A batch computes on a core of the database, then takes the lock of the log, which is one for
the study, and holds it until the disk has the commit. What is up is handed out; the chooser puts more up (`loop/policy.py` says how many).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from _queueing import Customer, Signal, Simulation, Station

from steelyard.arrays import Floats
from steelyard.loop.policy import AHEAD
from steelyard.web.asker import REST_SECONDS
from steelyard.web.scribe import MOST

__all__ = ["Found", "Site", "Times", "thinking"]

THREADS = 40  # of a web process, as Starlette has them
Pace = Callable[[np.random.Generator], float]


@dataclass(frozen=True)
class Times:
    """Seconds, as measured with one person at a server.

    Attributes:
        web_answer: processor time of the web process for an answer.
        web_lease: for taking pairs.
        database_answer: processor time of the database for an answer that is written alone.
        database_more: for each further one of a batch.
        database_lease: for taking pairs.
        commit: what the disk takes for a batch, besides.
        held: how long the log's lock is held for an answer that is written alone, `commit` included.
        shape_answer: seconds of single requests ÷ their mean: how much they scatter.
        shape_lease: the same.
        client: processor time of the client for a request, where it runs on the same cores.
    """

    web_answer: float
    web_lease: float
    database_answer: float
    database_more: float
    database_lease: float
    commit: float
    held: float
    shape_answer: Floats
    shape_lease: Floats
    client: float = 0.0


@dataclass
class Found:
    """What came of a simulation, after its start.

    Attributes:
        seconds: how long it was.
        answers: milliseconds from arrival to reply of each answer.
        leases: of each request for pairs.
        alone: what an answer takes at the mean when nobody else is there, in milliseconds.
        busy: share of its time that each station was busy: `web`, `database`, `log lock`.
        batch: answers written together, at the mean.
        starved: share of requests for pairs that found none.
        drafts: pairs that the chooser put up, each time.
    """

    seconds: float
    alone: float
    answers: list[float] = field(default_factory=list)
    leases: list[float] = field(default_factory=list)
    busy: dict[str, float] = field(default_factory=dict)
    batch: float = 0.0
    starved: float = 0.0
    drafts: list[int] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.answers) / self.seconds


def thinking(mean: float, sigma: float = 0.6) -> Pace:
    """Log-normal seconds from seeing a pair to the key: people's times of reaction are skewed about so."""
    return lambda rng: float(rng.lognormal(np.log(mean) - sigma**2 / 2, sigma))


class _Process:
    """One web process: its threads, its one interpreter, and who writes for all."""

    def __init__(self, clock: Simulation) -> None:
        self.threads, self.interpreter = Station(clock, THREADS), Station(clock, 1)
        self.waiting: list[Signal] = []
        self.writing = False


class Site:
    """A server, its database and the people at them.

    Args:
        times: what was measured.
        people: how many annotators.
        pace: seconds from one pair to its answer.
        processes: web processes, each with a core.
        cores: cores of the database; with `shared` of everything, client included.
        shared: whether web processes, database and client share these cores.
        draft: seconds that the chooser takes for so many pairs; None has pairs always up.
        most: pairs that it chooses at once, at most; 0 is no limit; the product has `policy.AT_ONCE`.
        steady: people answer at fixed times, as the crowd of server_load.py does: a late reply does not push the next answer back.
        seed: of chance.
    """

    def __init__(
        self,
        times: Times,
        people: int,
        pace: Pace,
        *,
        processes: int = 1,
        cores: int = 1,
        shared: bool = False,
        draft: Callable[[int], float] | None = None,
        most: int = 0,
        steady: bool = False,
        seed: int = 0,
    ) -> None:
        self.times, self.people, self.pace, self.steady = times, people, pace, steady
        self._rng, self._clock = np.random.default_rng(seed), Simulation()
        self._cores = Station(self._clock, cores)
        self._shared = self._cores if shared else None
        self._lock = Station(self._clock, 1)
        self._processes = [_Process(self._clock) for _ in range(processes)]
        self._draft, self._most = draft, most
        self._up, self._held = (people + 1) * AHEAD, 0
        self._batches: list[int] = []
        self._asked = self._empty = 0
        alone = times.web_answer + times.database_answer + times.commit
        self.found = Found(0.0, 1e3 * alone)

    def run(self, seconds: float, start: float = 30.0) -> Found:
        """Let people work; what happens in the first `start` seconds is not counted."""
        for number in range(self.people):
            place = self._processes[number % len(self._processes)]
            self._clock.after(float(self._rng.uniform(0, min(6.0, start))), self._person(place))
        if self._draft is not None:
            self._clock.after(0.0, self._chooser(self._draft))
        self._clock.run(start)
        stations = [self._cores, self._lock, *(one.interpreter for one in self._processes)]
        for station in stations:
            station.forget()
        for list_ in (self.found.answers, self.found.leases, self.found.drafts, self._batches):
            list_.clear()
        self._asked = self._empty = 0
        self._clock.run(start + seconds)
        found = self.found
        found.seconds = seconds
        found.busy = {
            "web": float(np.mean([one.interpreter.utilisation for one in self._processes])),
            "database": self._cores.utilisation,
            "log lock": self._lock.utilisation,
        }
        found.batch = float(np.mean(self._batches)) if self._batches else 0.0
        found.starved = self._empty / max(self._asked, 1)
        return found

    def _person(self, place: _Process) -> Customer:
        held, due = 0, self._clock.now
        while True:
            if held < 3:
                yield from self._lease(place)
                got = AHEAD - held if self._draft is None else min(AHEAD - held, self._up)
                self._asked, self._empty = self._asked + 1, self._empty + (held + got == 0)
                self._up -= got if self._draft else 0
                self._held += got
                held += got
                if not held:
                    yield 1.0  # the page asks again
                    continue
            yield float(self._rng.uniform(0, 0.3)) if self.steady else self.pace(self._rng)
            held, self._held = held - 1, self._held - 1
            yield from self._answer(place)
            if self.steady:
                due = max(due + self.pace(self._rng), self._clock.now)
                yield due - self._clock.now

    def _compute(self, place: _Process, seconds: float) -> Customer:
        yield place.interpreter
        if self._shared is not None:
            yield self._shared
        yield seconds
        if self._shared is not None:
            self._shared.leave()
        place.interpreter.leave()

    def _client(self) -> Customer:
        if self._shared is not None and self.times.client:
            yield self._shared
            yield self.times.client
            self._shared.leave()

    def _lease(self, place: _Process) -> Customer:
        yield from self._client()
        came, scatter = self._clock.now, float(self._rng.choice(self.times.shape_lease))
        yield place.threads
        yield from self._compute(place, scatter * self.times.web_lease / 2)
        yield self._cores
        yield scatter * self.times.database_lease
        self._cores.leave()
        yield from self._compute(place, scatter * self.times.web_lease / 2)
        place.threads.leave()
        self.found.leases.append(1e3 * (self._clock.now - came))

    def _answer(self, place: _Process) -> Customer:
        yield from self._client()
        came, scatter = self._clock.now, float(self._rng.choice(self.times.shape_answer))
        yield place.threads
        yield from self._compute(place, scatter * self.times.web_answer / 2)
        written = Signal(self._clock)
        place.waiting.append(written)
        if not place.writing:
            place.writing = True
            self._clock.after(0.0, self._write(place))
        yield written
        yield from self._compute(place, scatter * self.times.web_answer / 2)
        place.threads.leave()
        self.found.answers.append(1e3 * (self._clock.now - came))

    def _write(self, place: _Process) -> Customer:
        """Batch after batch, while somebody waits."""
        times = self.times
        while place.waiting:
            batch, place.waiting = place.waiting[:MOST], place.waiting[MOST:]
            scatter = float(self._rng.choice(times.shape_answer))
            computing = times.database_answer + times.database_more * (len(batch) - 1)
            # Checks come before the lock, rows and hashes after it: the share of both is that of an answer alone.
            inside = min(max(times.held - times.commit, 0.0) / times.database_answer, 1.0)
            yield self._cores
            yield scatter * computing * (1 - inside)
            self._cores.leave()
            yield self._lock
            yield self._cores
            yield scatter * computing * inside
            self._cores.leave()
            yield scatter * times.commit
            self._lock.leave()
            self._batches.append(len(batch))
            for written in batch:
                written.give()
        place.writing = False

    def _chooser(self, draft: Callable[[int], float]) -> Customer:
        """As `Asker.top_up`: nothing while enough is up, else all that is missing, at once unless limited."""
        target = (self.people + 1) * AHEAD * 2
        while True:
            up = self._up + self._held  # a pair that somebody holds is open, too
            if up > target - max(AHEAD, self.people):
                yield REST_SECONDS
                continue
            new = min(target - up, self._most or target)
            yield draft(new)
            self._up += new
            self.found.drafts.append(new)
            yield REST_SECONDS
