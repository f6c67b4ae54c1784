"""A hash chain over the logs of answers, grades and the audit log (`store/chain.py` defines it).

Revision: 0005, after 0004. Rows that were there before get their hashes here: they are vouched for from now on.
"""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

from steelyard.store.chain import FIELDS, genesis, link
from steelyard.store.migrations.append_only import changeable

revision = "0005"
down_revision = "0004"

BLOCK = 10_000
# The fields of each log as they are hashed, by name; written out, because tables move on and migrations do not.
ROWS = {
    "comparisons": "SELECT c.*, l.id AS left, r.id AS right FROM comparisons c "
    "JOIN images l ON l.row = c.left_row JOIN images r ON r.row = c.right_row "
    "WHERE c.seq > :after ORDER BY c.seq LIMIT :n",
    "grades": "SELECT g.*, i.id AS image FROM grades g JOIN images i ON i.row = g.image_row "
    "WHERE g.seq > :after ORDER BY g.seq LIMIT :n",
    "audit": "SELECT a.seq, a.at, a.actor, a.action, CAST(a.detail AS TEXT) AS detail FROM audit a "
    "WHERE a.seq > :after ORDER BY a.seq LIMIT :n",
}


def upgrade() -> None:
    """Forwards; there is no way back but the backup copy."""
    for log in FIELDS:
        op.add_column(log, sa.Column("hash", sa.Text, nullable=False, server_default=""))
        with changeable(log):
            _fill(log)


def _fill(log: str) -> None:
    connection = op.get_bind()
    previous, after = genesis(log), -(2**63)
    while True:
        rows = connection.execute(sa.text(ROWS[log]), {"after": after, "n": BLOCK}).mappings().all()
        hashes = []
        for row in rows:
            previous = link(log, previous, _fields(row))
            hashes.append({"seq": row["seq"], "hash": previous})
        if hashes:
            _write(connection, log, hashes)
            after = hashes[-1]["seq"]
        if len(rows) < BLOCK:
            return


def _fields(row: Any) -> dict[str, Any]:
    fields = dict(row)
    if "detail" in fields:
        fields["detail"] = json.loads(fields["detail"])
    return fields


def _write(connection: sa.Connection, log: str, hashes: list[dict[str, Any]]) -> None:
    if connection.dialect.name == "sqlite":
        connection.execute(sa.text(f"UPDATE {log} SET hash = :hash WHERE seq = :seq"), hashes)
        return
    # One statement a block: a million single ones would take minutes.
    connection.execute(
        sa.text(
            f"UPDATE {log} SET hash = given.hash FROM unnest(CAST(:seqs AS bigint[]), CAST(:hashes AS text[])) "
            f"AS given(seq, hash) WHERE {log}.seq = given.seq"
        ),
        {"seqs": [one["seq"] for one in hashes], "hashes": [one["hash"] for one in hashes]},
    )
