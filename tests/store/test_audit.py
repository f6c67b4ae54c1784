from __future__ import annotations

import pytest

from steelyard.store.errors import StoreError
from steelyard.store.store import Store


def test_who_did_what_and_when(store: Store) -> None:
    first = store.audit.add("kt", "log in", {"from": "127.0.0.1"}, now=5.0)
    store.audit.add("system", "export", now=6.0)
    one, two = store.audit.log()
    assert (one.seq, one.at, one.actor, one.action, one.detail) == (
        first,
        5.0,
        "kt",
        "log in",
        {"from": "127.0.0.1"},
    )
    assert (two.actor, two.detail) == ("system", {})
    assert store.audit.log(after=first) == [two]
    assert store.audit.log(limit=1) == [one]
    assert store.audit.latest(5) == [two, one]
    assert store.audit.latest(1) == [two]
    assert store.audit.latest(5, before=two.seq) == [one]
    assert store.audit.latest(5, before=first) == []
    with pytest.raises(StoreError, match="finite"):
        store.audit.add("kt", "x", {"a": float("inf")})
    with pytest.raises(StoreError, match="an action"):
        store.audit.add("kt", "")
