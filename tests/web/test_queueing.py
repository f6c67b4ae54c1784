"""The simulation behind benchmarks/annotator_queue.py agrees with what queueing theory knows in closed form."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from _queueing import (
    Customer,
    Signal,
    Simulation,
    Station,
    erlang_c,
    machine_repair,
    pollaczek_khinchine,
)

Draw = Callable[[np.random.Generator], float]
SECONDS = 40_000.0


def open_queue(rate: float, draw: Draw, servers: int, seed: int) -> Station:
    """Customers that come by chance, `rate` a second, after a start that is forgotten."""
    rng, simulation = np.random.default_rng(seed), Simulation()
    station = Station(simulation, servers)

    def one() -> Customer:
        yield station
        yield draw(rng)
        station.leave()

    def arrivals() -> Customer:
        while True:
            yield float(rng.exponential(1 / rate))
            simulation.after(0.0, one())

    simulation.after(0.0, arrivals())
    simulation.run(500.0)
    station.forget()
    simulation.run(500.0 + SECONDS)
    return station


@pytest.mark.parametrize(("rate", "servers"), [(0.5, 1), (0.8, 1), (1.6, 2), (3.2, 4)])
def test_exponential_service_waits_as_erlang_says(rate: float, servers: int) -> None:
    found = [open_queue(rate, lambda rng: rng.exponential(), servers, seed) for seed in range(3)]
    mean = np.mean([np.mean(station.waits) for station in found])
    assert mean == pytest.approx(erlang_c(rate, 1.0, servers), rel=0.06)
    assert np.mean([station.utilisation for station in found]) == pytest.approx(rate / servers, rel=0.02)


@pytest.mark.parametrize("sigma", [0.0, 0.5, 1.0])
def test_any_service_waits_as_pollaczek_and_khinchine_say(sigma: float) -> None:
    rate = 0.7
    second = float(np.exp(sigma**2))  # of a log-normal of mean 1
    found = [
        np.mean(open_queue(rate, lambda rng: rng.lognormal(-(sigma**2) / 2, sigma), 1, seed).waits)
        for seed in range(3)
    ]
    assert np.mean(found) == pytest.approx(pollaczek_khinchine(rate, 1.0, second), rel=0.08)


@pytest.mark.parametrize("people", [1, 5, 20])
def test_people_who_think_and_are_served_by_one_are_the_repairman_s_machines(people: int) -> None:
    rng, simulation = np.random.default_rng(people), Simulation()
    station, responses = Station(simulation, 1), list[float]()

    def person() -> Customer:
        while True:
            yield float(rng.exponential(9.0))
            came = simulation.now
            yield station
            yield float(rng.exponential(1.0))
            station.leave()
            responses.append(simulation.now - came)

    for _ in range(people):
        simulation.after(0.0, person())
    simulation.run(500.0)
    station.forget()
    responses.clear()
    simulation.run(500.0 + SECONDS)
    rate, response = machine_repair(people, 9.0, 1.0)
    assert len(responses) / SECONDS == pytest.approx(rate, rel=0.02)
    assert np.mean(responses) == pytest.approx(response, rel=0.04)


def test_one_person_never_waits() -> None:
    assert machine_repair(1, 3.0, 0.5) == pytest.approx((1 / 3.5, 0.5))


def test_more_than_a_server_can_do_waits_for_ever() -> None:
    assert erlang_c(2.0, 1.0, 2) == pollaczek_khinchine(1.0, 1.0, 1.0) == float("inf")


def test_a_signal_wakes_those_who_wait_and_lets_pass_who_comes_later() -> None:
    simulation, told = Simulation(), list[tuple[str, float]]()
    signal = Signal(simulation)

    def waits(name: str) -> Customer:
        yield signal
        told.append((name, simulation.now))

    def gives() -> Customer:
        yield 2.0
        signal.give()

    for customer in (waits("before"), gives()):
        simulation.after(0.0, customer)
    simulation.after(5.0, waits("after"))
    simulation.run(10.0)
    assert told == [("before", 2.0), ("after", 5.0)]


def test_the_queue_is_in_order_of_arrival() -> None:
    simulation, served = Simulation(), list[int]()
    station = Station(simulation, 1)

    def one(number: int) -> Customer:
        yield station
        served.append(number)
        yield 10.0 - number
        station.leave()

    for number in range(5):
        simulation.after(number / 10, one(number))
    simulation.run(100.0)
    assert served == [0, 1, 2, 3, 4]
