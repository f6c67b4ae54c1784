"""Tamper evidence: whoever goes around the store and its triggers is found out by the hash chain."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.pairs import Answer
from steelyard.store import chain
from steelyard.store.chain import FIELDS, OPTIONAL, Head, Verifier, genesis, link, read_heads
from steelyard.store.errors import StoreError
from steelyard.store.evidence import append_audit, verify
from steelyard.store.logfile import verify_log
from steelyard.store.records import NewGrade, NewPair
from steelyard.store.store import Store

from .conftest import image_id


@pytest.fixture
def filled(store: Store, say: Any) -> Store:
    """Eight answers, one of them an undo, three grades and four entries of the audit log."""
    ids = store.pairs.add_all([NewPair(row, row + 1) for row in range(7)])
    for k, pair in enumerate(ids):
        note = "Größe 3 → 4" if k == 3 else ""
        new = say.on(
            store, pair, "kt", Answer.RIGHT, id=f"a{k}", shown_at=k / 3, answered_at=k + 0.1, note=note
        )
        store.answers.add(new, now=100.0 + k)
    store.answers.undo("a6", "kt", id="u")
    for k in range(3):
        store.grades.add(NewGrade(image_id(k), "kt", k, id=f"g{k}"), now=7.0)
    for k in range(4):
        store.audit.add("kt", "look", {"k": k, "z": [1, 2.5, None, "é"], "a": {"y": 1e22, "x": True}})
    return store


@contextmanager
def tampering(store: Store) -> Iterator[sa.Connection]:
    """Somebody who owns the database: no trigger and no foreign key stops them. Taken back afterwards."""
    with store.database.engine.connect() as connection:
        connection.execution_options(writing=True)
        with connection.begin() as transaction:
            if store.database.sqlite:
                names = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'")
                for name in names.scalars().all():
                    connection.exec_driver_sql(f"DROP TRIGGER {name}")
            else:
                connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
            yield connection
            transaction.rollback()


_COLUMNS = (
    "(seq, id, pair, annotator, answer, left_row, right_row, shown_at, answered_at, received_at, supersedes, note, "
    "source, hash)"
)
ATTACKS = [
    ("UPDATE comparisons SET question = 'bleeding' WHERE seq = 2", "comparisons: row 2 changed"),
    ("UPDATE comparisons SET role = 'decision' WHERE seq = 2", "comparisons: row 2 changed"),
    ("UPDATE comparisons SET answer = 'left' WHERE seq = 3", "comparisons: row 3 changed"),
    ("UPDATE comparisons SET answered_at = answered_at + 0.001 WHERE seq = 5", "comparisons: row 5 changed"),
    ("UPDATE comparisons SET shown_at = NULL WHERE seq = 5", "comparisons: row 5 changed"),
    ("UPDATE comparisons SET note = 'Größe 3 → 5' WHERE seq = 4", "comparisons: row 4 changed"),
    ("UPDATE comparisons SET source = 'import' WHERE seq = 1", "comparisons: row 1 changed"),
    ("UPDATE comparisons SET left_row = right_row, right_row = left_row WHERE seq = 2", "comparisons: row 2 changed"),
    ("UPDATE comparisons SET hash = '' WHERE seq = 6", "comparisons: row 6 changed"),
    ("UPDATE comparisons SET supersedes = 'a5' WHERE seq = 8", "comparisons: row 8 changed"),
    ("UPDATE comparisons SET seq = 99 WHERE seq = 8", "comparisons: rows 8 to 98 removed, or row 99 changed"),
    ("UPDATE images SET id = 'another' WHERE row = 2", "comparisons: row 2 changed"),
    ("UPDATE grades SET grade = 2 WHERE seq = 1", "grades: row 1 changed"),
    ("UPDATE grades SET received_at = 8 WHERE seq = 3", "grades: row 3 changed"),
    ("UPDATE audit SET actor = 'sam' WHERE seq = 2", "audit: row 2 changed"),
    ("""UPDATE audit SET detail = '{"k": 2}' WHERE seq = 2""", "audit: row 2 changed"),
    ("DELETE FROM comparisons WHERE seq = 4", "comparisons: row 4 removed, or row 5 changed"),
    ("DELETE FROM comparisons WHERE seq IN (1, 2)", "comparisons: rows 1 to 2 removed, or row 3 changed"),
    ("DELETE FROM audit WHERE seq = 3", "audit: row 3 removed, or row 4 changed"),
    (
        f"INSERT INTO comparisons {_COLUMNS} SELECT 0, 'new', pair, annotator, answer, left_row, right_row, shown_at, answered_at, "
        "received_at, NULL, note, source, hash FROM comparisons WHERE seq = 1",
        "comparisons: row 0 changed or put in",
    ),
    (
        f"INSERT INTO comparisons {_COLUMNS} SELECT 9, 'new', pair, annotator, answer, left_row, right_row, shown_at, answered_at, "
        "received_at, NULL, note, source, hash FROM comparisons WHERE seq = 1",
        "comparisons: row 9 changed, put in or moved",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("attack", "found"), ATTACKS)
def test_whoever_goes_around_the_triggers_is_found(filled: Store, attack: str, found: str) -> None:
    assert filled.check() == []
    with tampering(filled) as connection:
        connection.exec_driver_sql(attack)
        assert verify(connection)[0].startswith(found)


def test_an_annotator_who_is_given_anothers_answer(filled: Store) -> None:
    filled.people.add("sam")
    with tampering(filled) as connection:
        connection.exec_driver_sql("UPDATE comparisons SET annotator = 'sam' WHERE seq = 2")
        [problem] = verify(connection)
    assert problem.startswith("comparisons: row 2 changed")


def test_two_rows_that_change_places(filled: Store) -> None:
    with tampering(filled) as connection:
        for old, new in ((2, -1), (3, 2), (-1, 3)):
            connection.exec_driver_sql(f"UPDATE comparisons SET seq = {new} WHERE seq = {old}")
        problems = verify(connection)
    assert [p.split(" changed")[0] for p in problems] == [f"comparisons: row {k}" for k in (2, 3, 4)]


def test_a_log_cut_off_at_its_end_is_found_against_a_noted_head(filled: Store) -> None:
    heads = filled.audit.heads()
    assert [head.seq for head in heads] == [8, 3, 4]
    assert filled.check(heads) == []
    with tampering(filled) as connection:
        connection.exec_driver_sql("DELETE FROM comparisons WHERE seq >= 7")
        connection.exec_driver_sql("DELETE FROM grades")
        assert verify(connection) == []  # nothing inside the database tells: hence the note
        assert verify(connection, heads) == [
            "row 8 of comparisons was noted and is gone: the log ends at row 6",
            "row 3 of grades was noted and is gone: the log ends at row 0",
        ]


def test_a_log_written_anew_is_found_against_a_noted_head(filled: Store) -> None:
    heads = filled.audit.heads()
    rows = list(filled.audit.rows("comparisons"))
    with tampering(filled) as connection:
        previous = genesis("comparisons")
        for row in rows:
            if row["seq"] == 2:
                row["answer"] = "equal"
            previous = link("comparisons", previous, row)
            values = {"seq": row["seq"], "answer": row["answer"], "hash": previous}
            connection.execute(
                sa.text("UPDATE comparisons SET answer = :answer, hash = :hash WHERE seq = :seq"), values
            )
        assert verify(connection) == []
        [problem] = verify(connection, heads)
    assert problem.startswith("row 8 of comparisons has another hash than was noted")


def test_what_was_noted_stays_true_while_the_log_grows(filled: Store, say: Any) -> None:
    heads = filled.audit.heads()
    [pair] = filled.pairs.add_all([NewPair(8, 9)])
    filled.answers.add(say.on(filled, pair, "kt"))
    filled.audit.add("kt", "look")
    assert filled.check(read_heads(" ".join(map(str, heads)))) == []
    assert [head.seq for head in filled.audit.heads()] == [9, 3, 5]


def test_numbers_have_no_gaps_even_after_a_transaction_that_failed(filled: Store) -> None:
    def fail() -> None:
        with filled.database.writing() as connection:
            append_audit(filled.database, connection, 1.0, "kt", "half", {})
            raise StoreError("the light went out")

    with pytest.raises(StoreError, match="light"):
        fail()
    assert filled.audit.add("kt", "look") == 5


def test_both_databases_make_the_same_chain(filled: Store) -> None:
    """The hashes of one row of each log, worked out here by hand from the definition."""
    first = next(filled.audit.rows("comparisons"))
    encoded = b"".join(
        [
            b"i" + struct.pack(">q", 1),
            _t("a0"),
            b"i" + struct.pack(">q", first["pair"]),
            _t("kt"),
            _t("right"),
            b"i" + struct.pack(">q", 0),
            b"i" + struct.pack(">q", 1),
            _t(image_id(0)),
            _t(image_id(1)),
            b"f" + struct.pack(">d", 0.0),
            b"f" + struct.pack(">d", 0.1),
            b"f" + struct.pack(">d", 100.0),
            b"n",
            _t(""),
            _t("page"),
        ]
    )
    start = hashlib.sha256(b"steelyard log 1: comparisons").hexdigest()
    assert first["hash"] == hashlib.sha256(start.encode() + encoded).hexdigest()
    assert first["hash"] == filled.answers.log()[0].hash

    entry = next(filled.audit.rows("audit"))
    detail = b'{"a":{"x":true,"y":1e+22},"k":0,"z":[1,2.5,null,"\\u00e9"]}'
    encoded = b"i" + struct.pack(">q", 1) + b"f" + struct.pack(">d", entry["at"]) + _t("kt") + _t("look")
    encoded += b"j" + len(detail).to_bytes(4, "big") + detail
    start = hashlib.sha256(b"steelyard log 1: audit").hexdigest()
    assert entry["hash"] == hashlib.sha256(start.encode() + encoded).hexdigest() == filled.audit.log()[0].hash
    assert filled.grades.log()[2].hash == list(filled.audit.rows("grades"))[2]["hash"]


def _t(text: str) -> bytes:
    return b"t" + len(text.encode()).to_bytes(4, "big") + text.encode()


def test_every_column_of_a_log_is_vouched_for() -> None:
    from steelyard.store.schema import metadata

    for log, fields in FIELDS.items():
        columns = {column.name for column in metadata.tables[log].c}
        assert columns - {"hash"} <= {name for name, _ in fields} | {name for name, _, _ in OPTIONAL[log]}


_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "integer": st.integers(-(2**63), 2**63 - 1),
    "time": st.floats(allow_nan=False),
    "text": st.text(),
    "document": st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=6,
    ),
}  # fmt: skip


def rows(log: str) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(
        *(_VALUES[kind] if kind == "document" else st.none() | _VALUES[kind] for _, kind in FIELDS[log]),
        *(st.just(usual) | st.none() | _VALUES[kind] for _, kind, usual in OPTIONAL[log]),
    )


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data())
def test_different_rows_are_encoded_differently(data: st.DataObject) -> None:
    log = data.draw(st.sampled_from(chain.LOGS))
    one, other = data.draw(rows(log)), data.draw(rows(log))
    # Half of the time the other differs in one place only, where mixing up would be easiest.
    if data.draw(st.booleans()):
        k = data.draw(st.integers(0, len(one) - 1))
        other = (*one[:k], other[k], *one[k + 1 :])
    same = json.dumps(_unsigned(one), sort_keys=True) == json.dumps(_unsigned(other), sort_keys=True)
    assert (chain.encode(log, one) == chain.encode(log, other)) == same


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data())
def test_text_cannot_move_from_one_field_to_the_next(data: st.DataObject) -> None:
    text, cut, other = (
        data.draw(_VALUES["text"]),
        data.draw(st.integers(0, 20)),
        data.draw(st.integers(0, 20)),
    )
    one, two = ((1, 0.0, text[:at], text[at:], {}) for at in (cut, other))
    assert (chain.encode("audit", one) == chain.encode("audit", two)) == (one == two)


def _unsigned(row: tuple[Any, ...]) -> list[Any]:
    """Zero without its sign in the fields that are times; within a document −0.0 is not 0.0."""
    return [value + 0.0 if isinstance(value, float) else value for value in row]


def test_a_log_taken_out_is_verified_without_the_database(filled: Store, tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    heads = filled.audit.export(file)
    verified = verify_log(file, heads)
    assert (verified.problems, verified.heads) == ([], heads)
    assert verified.rows == {"comparisons": 8, "grades": 3, "audit": 4}
    assert list(tmp_path.glob("*unfinished*")) == []
    lines = file.read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[0])["heads"] == [str(head) for head in filled.audit.heads()]
    assert "Größe 3 → 4" in lines[4]

    def found(*changed: str) -> list[str]:
        file.write_text("\n".join(changed) + "\n", encoding="utf-8")
        return verify_log(file).problems

    assert found(*lines) == []
    assert found(lines[0], lines[1].replace('"right"', '"left"', 1), *lines[2:])[0].startswith(
        "comparisons: row 1"
    )
    assert found(lines[0], lines[2], lines[1], *lines[3:])[0].startswith("comparisons: row 1 removed")
    assert found(*lines[:4], *lines[5:])[0].startswith("comparisons: row 4 removed")
    assert found(*lines[:-1]) == ["row 4 of audit was noted and is gone: the log ends at row 3"]
    assert found(*lines[:4], "{}", "[1]", "nonsense", *lines[4:]) == [
        f"line {k} is no row of a log" for k in (5, 6, 7)
    ]
    assert (
        found(lines[0], lines[1].replace('"seq": 1,', '"seq": true,'), *lines[2:])[0]
        == "line 2 is no row of a log"
    )
    assert found(lines[0], lines[1].replace('"note"', '"more": 1, "note"'), *lines[2:])[0].startswith(
        "line 2"
    )
    for first in ("", "{}", '{"steelyard log": 2}', "\x00"):
        with pytest.raises(StoreError, match="does not begin like a log"):
            found(first, *lines[1:])
    with pytest.raises(StoreError, match="no head"):
        found('{"steelyard log": 1}')
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(StoreError, match="UTF-8"):
        verify_log(file)
    with pytest.raises(StoreError, match="cannot be read"):
        verify_log(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="could not be written"):
        filled.audit.export(tmp_path / "nowhere" / "log.jsonl")


def test_a_head_is_one_line_that_reads_back() -> None:
    head = Head("grades", 12, "ab" * 32)
    assert read_heads(f"noted on Monday: {head}, by kt") == [head]
    with pytest.raises(StoreError, match="looks like comparisons:120"):
        read_heads("comparisons:12:abc")
    empty = Verifier("grades", [Head("grades", 0, "ab" * 32)])
    assert empty.finish()[0].startswith("row 0 of grades has another hash")


def test_text_where_a_number_belongs_is_a_changed_row(filled: Store) -> None:
    with tampering(filled) as connection:
        if not filled.database.sqlite:
            with pytest.raises(sa.exc.DBAPIError, match="invalid input syntax"):  # it does not get in
                connection.exec_driver_sql("UPDATE comparisons SET answered_at = 'noon' WHERE seq = 2")
            return
        connection.exec_driver_sql("UPDATE comparisons SET answered_at = 'noon' WHERE seq = 2")
        connection.exec_driver_sql("UPDATE audit SET detail = '{' WHERE seq = 1")
        problems = verify(connection)
    assert [problem[:20] for problem in problems] == ["comparisons: row 2 c", "audit: row 1 changed"]


def test_rows_of_before_get_their_hashes_when_a_study_is_migrated(empty_url: str) -> None:
    from .test_opening import make_old_study

    make_old_study(empty_url)
    with Store.open(empty_url) as store:
        [row] = store.audit.rows("comparisons")
        assert row["hash"] == link("comparisons", genesis("comparisons"), row)
        assert (row["left"], row["right"]) == ("i0", "i1")
        store.answers.undo("x", "kt", id="u")
        assert store.check() == []
        with pytest.raises(StoreError, match="append-only"), store.database.writing() as connection:
            connection.execute(sa.text("UPDATE comparisons SET note = 'x'"))
