from __future__ import annotations

from typing import Any

import pytest

from steelyard.store.errors import ConflictError, StoreError, UnknownRecordError
from steelyard.store.records import Handshake
from steelyard.store.store import Store


def test_somebody_comes_back_as_added(store: Store) -> None:
    added = store.people.add("Kadota", role="lead", password_hash="p", link_hash="l", now=3.0)
    assert added == store.people.get("Kadota")
    assert (added.role, added.active, added.created, added.password_hash, added.link_hash) == (
        "lead",
        True,
        3.0,
        "p",
        "l",
    )
    assert "password_hash" not in repr(added)
    store.people.add("A")
    assert [a.name for a in store.people.all()] == ["A", "Kadota"]
    with pytest.raises(ConflictError, match="'A' already"):
        store.people.add("A")
    with pytest.raises(ConflictError):
        store.people.add("B", link_hash="l")
    with pytest.raises(UnknownRecordError, match="no annotator 'B'"):
        store.people.get("B")


@pytest.mark.parametrize("bad", [{"name": ""}, {"name": "x" * 101}, {"name": "a\tb"}, {"role": "king"}])
def test_bad_names_and_roles_are_refused(store: Store, bad: dict[str, Any]) -> None:
    with pytest.raises(StoreError):
        store.people.add(**{"name": "x", **bad})
    assert store.people.all() == []


def test_changes_leave_the_rest(store: Store) -> None:
    store.people.add("a", password_hash="p", link_hash="l")
    assert store.people.update("a", role="admin").password_hash == "p"
    assert store.people.update("a", password_hash=None).role == "admin"
    changed = store.people.update("a", link_hash="m", active=False)
    assert (changed.link_hash, changed.active, changed.password_hash) == ("m", False, None)
    assert store.people.update("a") == changed
    with pytest.raises(StoreError, match="annotator, lead, admin"):
        store.people.update("a", role="king")  # type: ignore[arg-type]
    with pytest.raises(UnknownRecordError):
        store.people.update("b", active=True)


def test_links_lead_to_active_people_only(store: Store) -> None:
    store.people.add("a", link_hash="l")
    found = store.people.take_link("l")
    assert found is not None
    assert found.name == "a"
    assert store.people.take_link("x") is None
    store.people.update("a", active=False)
    assert store.people.take_link("l") is None


def test_sessions_end(store: Store) -> None:
    store.people.add("a", role="lead")
    store.people.sessions.add("hash", "a", "csrf", expires=200.0, now=100.0)
    session = store.people.sessions.find("hash", now=199.0)
    assert session is not None
    assert (session.annotator.name, session.annotator.role, session.csrf, session.created) == (
        "a",
        "lead",
        "csrf",
        100.0,
    )
    assert "csrf" not in repr(session)
    assert store.people.sessions.find("hash", now=200.0) is None
    assert store.people.sessions.find("other", now=100.0) is None
    store.people.sessions.add("later", "a", "csrf", expires=900.0, now=301.0)
    assert store.people.sessions.find("hash", now=100.0) is None, "what is over was forgotten"
    store.people.sessions.end("later")
    assert store.people.sessions.find("later", now=302.0) is None
    with pytest.raises(UnknownRecordError):
        store.people.sessions.add("x", "nobody", "csrf", expires=9.0)


def test_who_is_made_inactive_or_gets_a_new_password_is_logged_out(store: Store) -> None:
    for change in ({"active": False}, {"active": True, "password_hash": "new"}):
        if not store.people.all():
            store.people.add("a")
        store.people.update("a", active=True)
        store.people.sessions.add("one", "a", "c", expires=900.0, now=1.0)
        store.people.update("a", **change)
        assert store.people.sessions.find("one", now=2.0) is None
    store.people.sessions.add("one", "a", "c", expires=900.0, now=1.0)
    store.people.sessions.add("two", "a", "c", expires=900.0, now=1.0)
    assert store.people.sessions.end_all("a") == 2


def test_tokens(store: Store) -> None:
    store.people.add("a")
    token = store.people.tokens.add("hash", "a", "notebook", now=5.0)
    assert store.people.tokens.all() == [token]
    found = store.people.tokens.find("hash", now=10.0)
    assert found is not None
    assert (found.annotator.name, found.scope) == ("a", "full")
    assert store.people.tokens.all("a")[0].last_used == 10.0
    store.people.tokens.find("hash", now=20.0)
    assert store.people.tokens.all()[0].last_used == 10.0, "written at most once a minute"
    store.people.tokens.find("hash", now=80.0)
    assert store.people.tokens.all()[0].last_used == 80.0
    assert store.people.tokens.find("other") is None
    store.people.update("a", active=False)
    assert store.people.tokens.find("hash") is None
    store.people.update("a", active=True)
    store.people.tokens.revoke(token.id, now=90.0)
    store.people.tokens.revoke(token.id, now=99.0)
    assert store.people.tokens.find("hash") is None
    assert store.people.tokens.all()[0].revoked == 90.0
    assert store.people.tokens.all("nobody") == []
    with pytest.raises(ConflictError):
        store.people.tokens.add("hash", "a", "again")
    with pytest.raises(UnknownRecordError):
        store.people.tokens.add("new", "nobody", "x")
    for id in (0, 999, 10**30):
        with pytest.raises(UnknownRecordError, match=f"no token {id}"):
            store.people.tokens.revoke(id)


def test_whoever_begins_many_sign_ons_keeps_nobody_out(store: Store) -> None:
    """Sign-ons that a stranger begins and leaves push each other out, and the newest always has a place."""
    for k in range(8):
        store.people.handshakes.begin(
            f"s{k}", "b", Handshake("n", "v", "/"), seconds=600, most=5, now=1000.0 + k
        )
    assert store.people.handshakes.end("s2", "b", now=1010.0) is None
    found = [store.people.handshakes.end(f"s{k}", "b", now=1010.0) for k in range(3, 8)]
    assert found == [Handshake("n", "v", "/")] * 5
