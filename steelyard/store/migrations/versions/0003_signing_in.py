"""Signing in: links that end, sessions that time out, tokens with a scope, attempts that are counted.

Revision: 0003, after 0002. What was there goes on working as it was made: links without an end that work again and
again, tokens that may do what their owner may do. Tokens of the one person at a machine (“you”) were made without
signing in and stay good for that only. Sessions count as used now, so that an upgrade signs nobody out.
"""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

Integer = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Forwards; there is no way back but the backup copy."""
    op.add_column("annotators", sa.Column("link_expires", sa.Double))
    op.add_column("annotators", sa.Column("link_once", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("annotators", sa.Column("subject", sa.Text))
    op.create_index("ix_annotators_subject", "annotators", ["subject"], unique=True)

    op.add_column("sessions", sa.Column("mode", sa.Text, nullable=False, server_default="login"))
    op.add_column("sessions", sa.Column("used", sa.Double, nullable=False, server_default="0"))
    op.execute(sa.text("UPDATE sessions SET used = :now").bindparams(now=time.time()))

    op.add_column("api_tokens", sa.Column("mode", sa.Text, nullable=False, server_default="login"))
    op.add_column("api_tokens", sa.Column("scope", sa.Text, nullable=False, server_default="full"))
    op.add_column("api_tokens", sa.Column("expires", sa.Double))
    op.execute("UPDATE api_tokens SET mode = 'local' WHERE annotator = 'you'")

    op.create_table(
        "attempts",
        sa.Column("id", Integer, sa.Identity(), nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("name_hash", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("device", sa.Text),
        sa.Column("known", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_attempts"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_attempts_name_hash", "attempts", ["name_hash"])
    op.create_index("ix_attempts_address", "attempts", ["address"])
    op.create_index("ix_attempts_at", "attempts", ["at"])
    op.create_table(
        "handshakes",
        sa.Column("state_hash", sa.Text, nullable=False),
        sa.Column("browser_hash", sa.Text, nullable=False),
        sa.Column("nonce", sa.Text, nullable=False),
        sa.Column("verifier", sa.Text, nullable=False),
        sa.Column("back", sa.Text, nullable=False),
        sa.Column("expires", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("state_hash", name="pk_handshakes"),
    )
