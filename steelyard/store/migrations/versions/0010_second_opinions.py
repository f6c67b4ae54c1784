"""Second opinions: a pair may wait for the person whose further answer is wanted first.

Revision: 0010. Pairs that were there wait for nobody. What waits for somebody else is handed out when there is nothing else.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_BEFORE = ("last bigint := 0;", "WHERE p.id > last AND p.open", "EXIT WHEN cardinality(locked) = 0;")
_NOW = (
    "last bigint := 0;\n    theirs boolean := false;",
    "WHERE p.id > last AND (p.asked_of IS NOT NULL AND p.asked_of <> who) = theirs AND p.open",
    """IF cardinality(locked) = 0 THEN
            EXIT WHEN theirs;
            theirs := true;
            last := 0;
            CONTINUE;
        END IF;""",
)


def upgrade() -> None:
    """Forwards; there is no way back but the backup copy."""
    op.add_column("pairs", sa.Column("asked_of", sa.Text))
    if op.get_bind().dialect.name == "sqlite":
        return
    # As it is in the database, whichever migration wrote it last, with what waits for somebody else at the end.
    query = "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = 'steelyard_lease' AND pronamespace = current_schema()::regnamespace"
    made = str(op.get_bind().exec_driver_sql(query).scalar_one())
    if "theirs boolean" in made:
        return
    for before, now in zip(_BEFORE, _NOW, strict=True):
        assert made.count(before) == 1
        made = made.replace(before, now)
    op.get_bind().exec_driver_sql(made)
