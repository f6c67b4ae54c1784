"""Simulated annotators (benchmarks/_annotators.py) keep the laws that any such place keeps, whatever the service times."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from _annotators import Site, Times, thinking
from _queueing import machine_repair

ONE = np.array([1.0])
TIMES = Times(0.004, 0.006, 0.002, 0.0005, 0.003, 0.001, 0.002, ONE, ONE)


def test_a_few_people_find_nobody_before_them() -> None:
    found = Site(TIMES, 3, thinking(3.0)).run(600.0)
    assert found.rate == pytest.approx(1.0, rel=0.1)
    assert np.median(found.answers) == pytest.approx(found.alone)
    assert found.batch == pytest.approx(1.0, abs=0.02)


def test_how_busy_a_station_is_follows_from_what_is_asked_of_it() -> None:
    found = Site(TIMES, 200, thinking(3.0), processes=2, cores=2).run(200.0)
    answers, leases = len(found.answers) / 200, len(found.leases) / 200
    assert found.busy["web"] == pytest.approx((answers * 0.004 + leases * 0.006) / 2, rel=0.02)
    # Batches save the database something: what it does lies between all alone and all as further ones.
    alone, further = ((answers * each + leases * 0.003) / 2 for each in (0.002, 0.0005))
    assert further < found.busy["database"] <= alone * 1.02


def test_one_process_writes_no_more_than_its_interpreter_can() -> None:
    found = Site(TIMES, 2_000, thinking(3.0)).run(120.0, start=120.0)
    web = len(found.answers) * 0.004 + len(found.leases) * 0.006
    assert web / 120.0 == pytest.approx(1.0, rel=0.02)
    assert found.busy["web"] == pytest.approx(1.0, abs=0.01)


def test_answers_of_a_crowd_are_written_together() -> None:
    slow = Times(0.001, 0.001, 0.002, 0.0001, 0.001, 0.05, 0.052, ONE, ONE)
    found = Site(slow, 500, thinking(3.0), processes=2, cores=2).run(100.0)
    assert found.batch > 3
    assert found.busy["log lock"] > 0.9
    assert found.rate > 1 / 0.052  # what one by one could not do


def test_exponential_thinking_and_one_station_is_the_repairman() -> None:
    rng = np.random.default_rng(0)
    shape = rng.exponential(size=20_000)
    # All time is the database's one core, none the web's, the disk's or the client's; three answers share a request for pairs.
    times = Times(0.0, 0.0, 0.05, 0.05, 0.0, 0.0, 0.05, shape / shape.mean(), ONE)
    found = Site(times, 30, lambda rng: float(rng.exponential(3.0))).run(3_000.0)
    # Written together the same seconds are spent, so that the rate is that of one by one.
    assert found.rate == pytest.approx(machine_repair(30, 3.0, 0.05)[0], rel=0.03)


def test_a_chooser_that_is_fast_enough_leaves_nobody_without_a_pair() -> None:
    found = Site(TIMES, 100, thinking(3.0), draft=lambda n: 0.2 + n * 1e-3).run(200.0)
    assert found.starved == 0
    assert sum(found.drafts) == pytest.approx(len(found.answers), rel=0.1)


def test_one_whose_cost_is_quadratic_falls_behind_unless_it_chooses_few_at_once() -> None:
    def cost(n: int) -> float:
        return 0.5 + 2e-6 * n * n

    people, pace = 600, thinking(3.0)
    without = Site(TIMES, people, pace, processes=4, cores=4, draft=cost).run(200.0, start=200.0)
    limited = Site(TIMES, people, pace, processes=4, cores=4, draft=cost, most=500).run(200.0, start=200.0)
    assert max(limited.drafts) <= 500
    assert limited.starved == 0
    assert without.starved > 0.3
    assert limited.rate > 1.3 * without.rate


def test_the_same_seed_is_the_same_run() -> None:
    first, second = (Site(TIMES, 50, thinking(3.0), seed=4).run(30.0).answers for _ in range(2))
    assert first == second
