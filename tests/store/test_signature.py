"""Signatures: who vouched for what, held against the logs."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.store.chain import LOGS
from steelyard.store.errors import StoreError
from steelyard.store.evidence import verify
from steelyard.store.records import NewGrade, NewModel, NewPair
from steelyard.store.signature import Signing, signed_heads, unfounded
from steelyard.store.soundness import problems
from steelyard.store.store import Store

from .conftest import image_id
from .test_chain import tampering

WHAT = Signing("kt", "reviewed and approved", "password", "c0" * 32, "ca" * 16)


@pytest.fixture
def signed(store: Store, say: Any) -> Store:
    """Three answers, a grade and a model; signed by kt."""
    for k, pair in enumerate(store.pairs.add_all([NewPair(row, row + 1) for row in range(3)])):
        store.answers.add(say.on(store, pair, "kt", id=f"a{k}"))
    store.grades.add(NewGrade(image_id(1), "kt", 1))
    store.models.add(NewModel(0, "models/round-000", "f1" * 16, 3, 1))
    store.audit.sign(WHAT, now=5.0)
    return store


def test_a_signature_says_who_when_what_and_for_what(signed: Store, say: Any) -> None:
    [one] = signed.audit.signatures()
    assert (one.signer, one.meaning, one.via, one.at) == ("kt", "reviewed and approved", "password", 5.0)
    assert (one.model, one.configuration, one.catalog) == ("f1" * 16, "c0" * 32, "ca" * 16)
    assert [(head.log, head.seq) for head in one.heads] == list(zip(LOGS, (3, 1, 0), strict=True))
    assert one.heads[:2] == signed.audit.heads()[:2]
    assert (one.answers_since, one.grades_since) == (0, 0)
    [entry] = signed.audit.log()
    assert (entry.seq, entry.actor, entry.action) == (one.seq, "kt", "signed")
    assert b'"signer":"kt"' in one.statement

    [pair] = signed.pairs.add_all([NewPair(5, 6)])
    signed.answers.add(say.on(signed, pair, "kt", id="late"))
    signed.answers.undo("late", "kt", id="u")
    signed.grades.add(NewGrade(image_id(2), "kt", 1))
    assert signed.check() == []
    assert (signed.audit.signatures()[0].answers_since, signed.audit.signatures()[0].grades_since) == (2, 1)
    signed.audit.sign(WHAT)
    assert [s.answers_since for s in signed.audit.signatures()] == [2, 0]


def test_an_empty_study_can_be_signed(store: Store) -> None:
    assert store.audit.sign(WHAT).model is None
    assert [head.seq for head in store.audit.signatures()[0].heads] == [0, 0, 0]


def test_answers_that_are_cut_off_or_written_anew_after_a_signature_are_found(signed: Store) -> None:
    """The signature is a head that was noted: here within the database, so both logs would have to be forged."""
    with tampering(signed) as connection:
        connection.exec_driver_sql("DELETE FROM comparisons WHERE seq = 3")
        found = verify(connection, signed_heads(connection))
        assert found == [
            "row 3 of comparisons was signed by 'kt', audit row 1 and is gone: the log ends at row 2"
        ]
        assert set(found) <= set(problems(connection))
    with tampering(signed) as connection:
        connection.exec_driver_sql("UPDATE comparisons SET answer = 'right' WHERE seq = 2")
        assert verify(connection)[0].startswith("comparisons: row 2 changed")


def test_a_signature_that_is_changed_or_removed_is_found(signed: Store) -> None:
    signed.audit.add("kt", "look")
    with tampering(signed) as connection:
        connection.exec_driver_sql("UPDATE audit SET actor = 'sam' WHERE seq = 1")
        assert verify(connection)[0].startswith("audit: row 1 changed")
    with tampering(signed) as connection:
        connection.exec_driver_sql("DELETE FROM audit WHERE seq = 1")
        assert verify(connection)[0].startswith("audit: row 1 removed")
    with tampering(signed) as connection:
        connection.exec_driver_sql("DELETE FROM models")
        assert unfounded(connection) == [
            f"the model {'f1' * 16} that 'kt' signed (audit row 1) is not announced any more"
        ]


@pytest.mark.parametrize("detail", ["{}", "[]", '{"heads": 7}', '{"heads": ["audit:1:x"]}'])
def test_an_entry_that_only_looks_like_a_signature_is_named(signed: Store, detail: str) -> None:
    with tampering(signed) as connection:
        connection.exec_driver_sql(f"UPDATE audit SET detail = '{detail}'")
        assert unfounded(connection) == ["audit row 1 says that 'kt' signed, but is no signature"]
        assert signed_heads(connection) == []


@pytest.mark.parametrize("meaning", ["", "   ", "x" * 501])
def test_a_signature_has_a_meaning(store: Store, meaning: str) -> None:
    with pytest.raises(StoreError, match="the meaning of a signature"):
        store.audit.sign(Signing("kt", meaning, "password", "", ""))
    with pytest.raises(StoreError, match="signer"):
        store.audit.sign(Signing("", "seen", "password", "", ""))
    assert store.audit.signatures() == []
