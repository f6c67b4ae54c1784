"""A small discrete-event simulation: stations with servers and a queue in order of arrival, and customers that walk through them.

A customer is a generator. It yields seconds to let time pass, a `Station` to wait for one of its servers (and calls `leave` when it
is done), or a `Signal` to wait until somebody gives it. Same seed, same run: events at the same time happen in the order they were
planned in. `tests/web/test_queueing.py` holds it against closed forms.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Generator
from itertools import count

__all__ = ["Customer", "Signal", "Simulation", "Station", "erlang_c", "machine_repair", "pollaczek_khinchine"]


class Station:
    """Some servers and one queue before them.

    Args:
        clock: whose time it is.
        servers: customers served at once.

    Attributes:
        waits: seconds that each customer waited for a server since `forget`.
    """

    def __init__(self, clock: Simulation, servers: int) -> None:
        self._clock, self.servers = clock, servers
        self._free, self._queue = servers, deque[tuple[float, Customer]]()
        self.waits: list[float] = []
        self._busy, self._looked, self._since = 0.0, clock.now, clock.now

    def enter(self, customer: Customer) -> None:
        """Called by the simulation when a customer yields the station."""
        self._queue.append((self._clock.now, customer))
        self._serve()

    def leave(self) -> None:
        """A customer is done; its server takes the next."""
        self._count()
        self._free += 1
        self._serve()

    def _serve(self) -> None:
        while self._free and self._queue:
            self._count()
            came, customer = self._queue.popleft()
            self._free -= 1
            self.waits.append(self._clock.now - came)
            self._clock.after(0.0, customer)

    def _count(self) -> None:
        self._busy += (self.servers - self._free) * (self._clock.now - self._looked)
        self._looked = self._clock.now

    def forget(self) -> None:
        """What was measured so far was the start."""
        self._count()
        self._busy, self._since = 0.0, self._clock.now
        self.waits.clear()

    @property
    def utilisation(self) -> float:
        """Share of the servers' time that they were busy in, since `forget`."""
        self._count()
        return self._busy / (self.servers * max(self._clock.now - self._since, 1e-12))


class Signal:
    """What customers wait for until somebody gives it; who comes later goes on at once."""

    def __init__(self, clock: Simulation) -> None:
        self._clock, self._waiting, self._given = clock, list[Customer](), False

    def enter(self, customer: Customer) -> None:
        """Called by the simulation when a customer yields the signal."""
        if self._given:
            self._clock.after(0.0, customer)
        else:
            self._waiting.append(customer)

    def give(self) -> None:
        """Everybody goes on."""
        self._given = True
        for customer in self._waiting:
            self._clock.after(0.0, customer)
        self._waiting.clear()


Customer = Generator["float | Station | Signal", None, None]


class Simulation:
    """Time, and what happens when."""

    def __init__(self) -> None:
        self.now = 0.0
        self._numbers = count()
        self._plan: list[tuple[float, int, Customer]] = []

    def after(self, seconds: float, customer: Customer) -> None:
        """A customer goes on (or begins) so many seconds from now."""
        heapq.heappush(self._plan, (self.now + seconds, next(self._numbers), customer))

    def run(self, until: float) -> None:
        """Let happen what happens before a time."""
        while self._plan and self._plan[0][0] <= until:
            self.now, _, customer = heapq.heappop(self._plan)
            wish = next(customer, None)
            if wish is None:
                continue
            if isinstance(wish, Station | Signal):
                wish.enter(customer)
            else:
                self.after(wish, customer)
        self.now = max(self.now, until)


def erlang_c(rate: float, service: float, servers: int) -> float:
    """Mean wait in M/M/c: arrivals a second, mean seconds of service, servers. With one server, M/M/1.

    >>> round(erlang_c(0.5, 1.0, 1), 9)  # ρ / (μ − λ)
    1.0
    """
    load = rate * service
    if load >= servers:
        return math.inf
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    waits = last / (sum(load**k / math.factorial(k) for k in range(servers)) + last)
    return waits * service / (servers - load)


def pollaczek_khinchine(rate: float, mean: float, second_moment: float) -> float:
    """Mean wait in M/G/1: arrivals a second, mean and second moment of the seconds of service.

    >>> round(pollaczek_khinchine(0.5, 1.0, 2.0), 9)  # exponential: M/M/1
    1.0
    """
    return rate * second_moment / (2 * (1 - rate * mean)) if rate * mean < 1 else math.inf


def machine_repair(people: int, think: float, service: float) -> tuple[float, float]:
    """The closed model M/M/1//N: each of N people thinks, then is served by one server, both exponential.

    Returns:
        Answers a second, and mean seconds from a request to its end (by mean-value analysis, which is exact here).
    """
    queue = rate = response = 0.0
    for n in range(1, people + 1):
        response = service * (1 + queue)
        rate = n / (think + response)
        queue = rate * response
    return rate, response
