"""Pairs whose answer is known, for warming up and for hidden checks (`store/known.py`).

Revision: 0007. Pairs that were there before have no known answer.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Forwards; there is no way back but the backup copy."""
    op.add_column("pairs", sa.Column("expected", sa.Text))
    op.add_column("pairs", sa.Column("retired", sa.Double))
    known = sa.text("expected IS NOT NULL")
    op.create_index("ix_pairs_known", "pairs", ["id"], sqlite_where=known, postgresql_where=known)
