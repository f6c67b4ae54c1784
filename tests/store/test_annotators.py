from __future__ import annotations

from typing import Any

import pytest

from steelyard.store.errors import ConflictError, StoreError, UnknownRecordError
from steelyard.store.records import Handshake
from steelyard.store.store import Store


def test_somebody_comes_back_as_added(store: Store) -> None:
    added = store.add_annotator("Kadota", role="lead", password_hash="p", link_hash="l", now=3.0)
    assert added == store.annotator("Kadota")
    assert (added.role, added.active, added.created, added.password_hash, added.link_hash) == (
        "lead",
        True,
        3.0,
        "p",
        "l",
    )
    assert "password_hash" not in repr(added)
    store.add_annotator("A")
    assert [a.name for a in store.annotators()] == ["A", "Kadota"]
    with pytest.raises(ConflictError, match="'A' already"):
        store.add_annotator("A")
    with pytest.raises(ConflictError):
        store.add_annotator("B", link_hash="l")
    with pytest.raises(UnknownRecordError, match="no annotator 'B'"):
        store.annotator("B")


@pytest.mark.parametrize("bad", [{"name": ""}, {"name": "x" * 101}, {"name": "a\tb"}, {"role": "king"}])
def test_bad_names_and_roles_are_refused(store: Store, bad: dict[str, Any]) -> None:
    with pytest.raises(StoreError):
        store.add_annotator(**{"name": "x", **bad})
    assert store.annotators() == []


def test_changes_leave_the_rest(store: Store) -> None:
    store.add_annotator("a", password_hash="p", link_hash="l")
    assert store.set_annotator("a", role="admin").password_hash == "p"
    assert store.set_annotator("a", password_hash=None).role == "admin"
    changed = store.set_annotator("a", link_hash="m", active=False)
    assert (changed.link_hash, changed.active, changed.password_hash) == ("m", False, None)
    assert store.set_annotator("a") == changed
    with pytest.raises(StoreError, match="annotator, lead, admin"):
        store.set_annotator("a", role="king")  # type: ignore[arg-type]
    with pytest.raises(UnknownRecordError):
        store.set_annotator("b", active=True)


def test_links_lead_to_active_people_only(store: Store) -> None:
    store.add_annotator("a", link_hash="l")
    found = store.take_link("l")
    assert found is not None
    assert found.name == "a"
    assert store.take_link("x") is None
    store.set_annotator("a", active=False)
    assert store.take_link("l") is None


def test_sessions_end(store: Store) -> None:
    store.add_annotator("a", role="lead")
    store.add_session("hash", "a", "csrf", expires=200.0, now=100.0)
    session = store.session("hash", now=199.0)
    assert session is not None
    assert (session.annotator.name, session.annotator.role, session.csrf, session.created) == (
        "a",
        "lead",
        "csrf",
        100.0,
    )
    assert "csrf" not in repr(session)
    assert store.session("hash", now=200.0) is None
    assert store.session("other", now=100.0) is None
    store.extend_session("hash", expires=300.0)
    assert store.session("hash", now=250.0) is not None
    store.add_session("later", "a", "csrf", expires=900.0, now=301.0)
    assert store.session("hash", now=100.0) is None, "what is over was forgotten"
    store.end_session("later")
    assert store.session("later", now=302.0) is None
    with pytest.raises(UnknownRecordError):
        store.add_session("x", "nobody", "csrf", expires=9.0)


def test_who_is_made_inactive_or_gets_a_new_password_is_logged_out(store: Store) -> None:
    for change in ({"active": False}, {"active": True, "password_hash": "new"}):
        if not store.annotators():
            store.add_annotator("a")
        store.set_annotator("a", active=True)
        store.add_session("one", "a", "c", expires=900.0, now=1.0)
        store.set_annotator("a", **change)
        assert store.session("one", now=2.0) is None
    store.add_session("one", "a", "c", expires=900.0, now=1.0)
    store.add_session("two", "a", "c", expires=900.0, now=1.0)
    assert store.end_sessions("a") == 2


def test_tokens(store: Store) -> None:
    store.add_annotator("a")
    token = store.add_token("hash", "a", "notebook", now=5.0)
    assert store.tokens() == [token]
    found = store.known_token("hash", now=10.0)
    assert found is not None
    assert (found.annotator.name, found.scope) == ("a", "full")
    assert store.tokens("a")[0].last_used == 10.0
    store.known_token("hash", now=20.0)
    assert store.tokens()[0].last_used == 10.0, "written at most once a minute"
    store.known_token("hash", now=80.0)
    assert store.tokens()[0].last_used == 80.0
    assert store.known_token("other") is None
    store.set_annotator("a", active=False)
    assert store.known_token("hash") is None
    store.set_annotator("a", active=True)
    store.revoke_token(token.id, now=90.0)
    store.revoke_token(token.id, now=99.0)
    assert store.known_token("hash") is None
    assert store.tokens()[0].revoked == 90.0
    assert store.tokens("nobody") == []
    with pytest.raises(ConflictError):
        store.add_token("hash", "a", "again")
    with pytest.raises(UnknownRecordError):
        store.add_token("new", "nobody", "x")
    for id in (0, 999, 10**30):
        with pytest.raises(UnknownRecordError, match=f"no token {id}"):
            store.revoke_token(id)


def test_whoever_begins_many_sign_ons_keeps_nobody_out(store: Store) -> None:
    """Sign-ons that a stranger begins and leaves push each other out, and the newest always has a place."""
    for k in range(8):
        store.begin_handshake(f"s{k}", "b", Handshake("n", "v", "/"), seconds=600, most=5, now=1000.0 + k)
    assert store.end_handshake("s2", "b", now=1010.0) is None
    found = [store.end_handshake(f"s{k}", "b", now=1010.0) for k in range(3, 8)]
    assert found == [Handshake("n", "v", "/")] * 5
