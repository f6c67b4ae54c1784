"""Several questions about a pair: `comparisons.question`, empty for the main one.

Revision: 0008. Rows that were there before are answers to the main question, and keep their hashes: an empty
question is no part of what is hashed (`store/chain.py`). Handing out pairs on PostgreSQL (0006) looks at the main question
alone from now on; `steelyard_answer` writes answers to the main question and needs no change.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_BEFORE = "c.annotator = who AND c.answer"
_NOW = "c.annotator = who AND c.question = '' AND c.answer"


def upgrade() -> None:
    """Forwards; there is no way back but the backup copy."""
    op.add_column("comparisons", sa.Column("question", sa.Text, nullable=False, server_default=""))
    further = sa.text("question > ''")
    op.create_index(
        "ix_comparisons_further",
        "comparisons",
        ["annotator", "question"],
        sqlite_where=further,
        postgresql_where=further,
    )
    if op.get_bind().dialect.name == "sqlite":
        return
    # As it is in the database, whichever migration wrote it last, with one condition more.
    query = "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = 'steelyard_lease' AND pronamespace = current_schema()::regnamespace"
    made = str(op.get_bind().exec_driver_sql(query).scalar_one())
    if _NOW not in made:
        assert _BEFORE in made
        op.get_bind().exec_driver_sql(made.replace(_BEFORE, _NOW))
