"""Decisions: a row of the log of answers has a role, what an annotator said or what a lead decided.

Revision: 0009. Rows that were there are answers; their hashes stay what they are (`store/chain.py`).
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Forwards; there is no way back but the backup copy."""
    op.add_column("comparisons", sa.Column("role", sa.Text, nullable=False, server_default="answer"))
    decided = sa.text("role = 'decision'")
    op.create_index(
        "ix_comparisons_decided", "comparisons", ["pair"], sqlite_where=decided, postgresql_where=decided
    )
