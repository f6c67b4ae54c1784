"""The hash chain in the database: continuing it, verifying it, reading a log with its hashes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.store import fields, schema
from steelyard.store.chain import FIELDS, LOGS, OPTIONAL, Head, Verifier, genesis, link
from steelyard.store.database import Database

__all__ = ["append_audit", "chained_rows", "continued", "head", "parsed", "verify"]

BLOCK = 10_000
"""Rows that are read at once: the log of a large study does not fit into memory."""


def chained_rows(database: Database, log: str, after: int, upto: int | None) -> Iterator[dict[str, Any]]:
    """See `Audit.rows`."""
    usual = {name: value for name, _, value in OPTIONAL[log]}
    names = [*(name for name, _ in FIELDS[log]), *usual, "hash"]
    while True:
        with database.reading() as connection:
            rows = _block(connection, log, after, upto)
        for row in rows:
            values = zip(names, row, strict=True)
            yield {name: value for name, value in values if name not in usual or value != usual[name]}
        if len(rows) < BLOCK:
            return
        after = rows[-1][0]


def head(connection: Connection, log: str) -> Head:
    """Where a log ends; hold its lock to go on from there."""
    row = connection.execute(_LAST[log]).one_or_none()
    return Head(log, 0, genesis(log)) if row is None else Head(log, row.seq, row.hash)


def continued(connection: Connection, log: str, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with the numbers and hashes that they get at the end of a log; the log's lock is held.

    Args:
        rows: with all fields of `chain.FIELDS` but `seq`.
    """
    last = head(connection, log)
    seq, hash = last.seq, last.hash
    done = []
    for row in rows:
        seq += 1
        hash = link(log, hash, {**row, "seq": seq})
        done.append({**row, "seq": seq, "hash": hash})
    return done


def append_audit(
    database: Database, connection: Connection, at: float, actor: str, action: str, detail: Mapping[str, Any]
) -> int:
    """Write an entry in a running transaction; the log's lock comes last, so call it at the end."""
    entry = {
        "at": at,
        "actor": actor,
        "action": fields.name(action, "an action"),
        "detail": fields.document(dict(detail), "the detail of an audit entry"),
    }
    database.lock_log(connection)
    [row] = continued(connection, "audit", [entry])
    connection.execute(sa.insert(schema.audit), row)
    return int(row["seq"])


def verify(connection: Connection, expect: Iterable[Head] = ()) -> list[str]:
    """Compute every hash again and say, in sentences, which rows are not what was written."""
    noted = list(expect)
    found: list[str] = []
    for log in LOGS:
        verifier = Verifier(log, noted)
        after: int | None = -(2**63)  # a row that somebody put in may have any number
        while after is not None:
            rows = _block(connection, log, after, None)
            verifier.read(rows)
            after = rows[-1][0] if len(rows) == BLOCK else None
        found += verifier.finish()
    return found


def _block(connection: Connection, log: str, after: int, upto: int | None) -> Sequence[Sequence[Any]]:
    limits = {"after": after, "upto": 2**63 - 1 if upto is None else upto}
    rows: Sequence[Any] = connection.execute(_ROWS[log], limits).all()
    if log == "audit":
        return [(*row[:-2], parsed(row[-2]), row[-1]) for row in rows]
    return rows


def parsed(detail: Any) -> Any:
    """A document of the audit log. Text that is no JSON becomes something that has no encoding, so its row counts as changed."""
    try:
        return json.loads(detail)
    except (TypeError, ValueError):
        return _Unreadable


class _Unreadable:
    """Stands for text that is no JSON."""


def _selected(log: str) -> sa.Select[Any]:
    table = schema.metadata.tables[log]
    left, right = schema.images.alias("left_image"), schema.images.alias("right_image")
    known: dict[str, Any] = {"left": left.c.id, "right": right.c.id, "image": left.c.id}
    names = [*(name for name, _ in FIELDS[log]), *(name for name, _, _ in OPTIONAL[log])]
    columns = [known[name] if name in known else table.c[name] for name in names]
    if log == "audit":
        columns[-1] = sa.cast(
            table.c.detail, sa.Text
        )  # parsed here: what somebody wrote there may be no JSON
    query = sa.select(*columns, table.c.hash)
    # Outer joins: a row whose image is gone must be found broken, not be passed over.
    if log == "comparisons":
        query = query.outerjoin(left, left.c.row == table.c.left_row)
        query = query.outerjoin(right, right.c.row == table.c.right_row)
    elif log == "grades":
        query = query.outerjoin(left, left.c.row == table.c.image_row)
    after, upto = sa.bindparam("after", type_=sa.BigInteger), sa.bindparam("upto", type_=sa.BigInteger)
    return query.where(table.c.seq > after, table.c.seq <= upto).order_by(table.c.seq).limit(BLOCK)


_LAST = {
    log: sa.select(table.c.seq, table.c.hash).order_by(table.c.seq.desc()).limit(1)
    for log, table in ((log, schema.metadata.tables[log]) for log in LOGS)
}
_ROWS = {log: _selected(log) for log in LOGS}
