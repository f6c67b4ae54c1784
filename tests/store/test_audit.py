from __future__ import annotations

import pytest

from steelyard.store.errors import StoreError
from steelyard.store.store import Store


def test_who_did_what_and_when(store: Store) -> None:
    first = store.audit("kt", "log in", {"from": "127.0.0.1"}, now=5.0)
    store.audit("system", "export", now=6.0)
    one, two = store.audit_log()
    assert (one.seq, one.at, one.actor, one.action, one.detail) == (
        first,
        5.0,
        "kt",
        "log in",
        {"from": "127.0.0.1"},
    )
    assert (two.actor, two.detail) == ("system", {})
    assert store.audit_log(after=first) == [two]
    assert store.audit_log(limit=1) == [one]
    assert store.latest_audit(5) == [two, one]
    assert store.latest_audit(1) == [two]
    assert store.latest_audit(5, before=two.seq) == [one]
    assert store.latest_audit(5, before=first) == []
    with pytest.raises(StoreError, match="finite"):
        store.audit("kt", "x", {"a": float("inf")})
    with pytest.raises(StoreError, match="an action"):
        store.audit("kt", "")


def test_settings(store: Store) -> None:
    assert store.setting("question") is None
    assert store.setting("question", "Which?") == "Which?"
    store.set_setting("question", {"en": "Which is more severe?", "n": [1, 2.5, None]})
    store.set_setting("raters", 2)
    store.set_setting("raters", None)
    assert store.setting("raters", "default") is None
    assert store.settings() == {
        "question": {"en": "Which is more severe?", "n": [1, 2.5, None]},
        "raters": None,
    }
    with pytest.raises(StoreError, match="setting 'x'"):
        store.set_setting("x", float("nan"))
