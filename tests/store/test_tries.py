"""How many tries to sign in are let through, on both databases, one by one and all at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from steelyard.store.store import Store
from steelyard.store.tries import LONGEST_PAUSE, MOST, UNKNOWN_NAMES, WINDOW_SECONDS


def test_ten_tries_from_an_address_then_a_pause(store: Store) -> None:
    for k in range(MOST):
        assert store.people.tries.take("ada", "here", known=True, now=100.0 + k).id is not None
    refused = store.people.tries.take("ada", "here", known=True, now=120.0)
    assert (refused.id, refused.wait) == (None, 100.0 + WINDOW_SECONDS - 120.0)
    assert store.people.tries.take("kt", "here", known=True, now=120.0).id is not None, (
        "somebody else at the same address"
    )
    later = 100.0 + WINDOW_SECONDS
    assert store.people.tries.take("ada", "here", known=True, now=later + 0.5).id is not None
    assert store.people.tries.take("ada", "here", known=True, now=later + 0.6).id is None


def test_fifty_at_once_are_ten(url: str) -> None:
    """Two servers on one database, fifty threads: exactly ten get a place."""
    with Store.open(url, create=False) as one, Store.open(url, create=False) as two:
        gate = threading.Barrier(50)

        def attempt(k: int) -> bool:
            gate.wait()
            return (one, two)[k % 2].people.tries.take("ada", "here", known=True, now=500.0).id is not None

        with ThreadPoolExecutor(50) as pool:
            assert sum(pool.map(attempt, range(50))) == MOST
        with Store.open(url, create=False) as restarted:
            assert restarted.people.tries.take("ada", "here", known=True, now=501.0).id is None


def test_a_name_that_is_guessed_from_everywhere_slows_down(store: Store) -> None:
    """A thousand addresses get no more than one does, and the pause doubles up to its longest."""
    at, waits = 0.0, []
    for k in range(MOST + 12):
        tried = store.people.tries.take("ada", f"address {k}", known=True, now=at)
        if tried.id is None:
            waits.append(tried.wait)
            at += tried.wait + 0.001
            assert store.people.tries.take("ada", f"address {k} again", known=True, now=at).id is not None
    assert [round(wait) for wait in waits[:4]] == [1, 2, 4, 8]
    assert max(waits) <= LONGEST_PAUSE


def test_whoever_signed_in_before_is_not_locked_out(store: Store) -> None:
    for k in range(40):
        store.people.tries.take("ada", f"botnet {k}", known=True, now=100.0)
    assert store.people.tries.take("ada", "new PC", known=True, now=100.0).id is None
    for _ in range(MOST):
        assert store.people.tries.take("ada", "new PC", known=True, device="hers", now=100.0).id is not None
    assert store.people.tries.take("ada", "new PC", known=True, device="hers", now=100.0).id is None, (
        "a stolen cookie"
    )


def test_one_address_may_try_many_people_but_not_many_names_that_nobody_has(store: Store) -> None:
    for k in range(UNKNOWN_NAMES + 20):
        assert store.people.tries.take(f"nurse {k}", "hospital", known=True, now=100.0).id is not None
    for k in range(UNKNOWN_NAMES):
        assert store.people.tries.take(f"guess {k}", "hospital", known=False, now=101.0).id is not None
    assert store.people.tries.take("guess", "hospital", known=False, now=102.0).id is None
    assert store.people.tries.take("nurse", "hospital", known=True, now=102.0).id is None
    assert store.people.tries.take("nurse", "hospital", known=True, device="hers", now=102.0).id is not None
    assert store.people.tries.take("nurse", "hospital", known=True, now=101.1 + WINDOW_SECONDS).id is not None


def test_signing_in_forgives_ones_own_slips_only(store: Store) -> None:
    for k in range(MOST - 1):
        store.people.tries.take("ada", "here" if k % 2 else "elsewhere", known=True, now=100.0)
    store.people.tries.forgive("ada", "here")
    free = [
        store.people.tries.take("ada", f"address {k}", known=True, now=100.0).id is not None for k in range(8)
    ]
    assert free == [True] * 5 + [False] * 3, "those of the other address stay counted"


def test_a_place_is_given_back(store: Store) -> None:
    busy = store.people.tries.take("kt", "here", known=True, now=100.0)
    assert busy.id is not None
    store.people.tries.give_back(busy.id)
    places = [store.people.tries.take("kt", "here", known=True, now=100.0).id for _ in range(MOST + 1)]
    assert [place is None for place in places] == [False] * MOST + [True]
