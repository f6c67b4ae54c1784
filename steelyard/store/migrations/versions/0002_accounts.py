"""Accounts: roles, passwords and links for annotators; sessions, tokens for machines, the audit log.

Revision: 0002, after 0001. Annotators who were there before keep their names and answers, with no way to log in
until somebody gives them a password or a link.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from steelyard.store.migrations.append_only import append_only

revision = "0002"
down_revision = "0001"

Integer = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Forwards; there is no way back but the backup copy."""
    op.add_column("annotators", sa.Column("role", sa.Text, nullable=False, server_default="annotator"))
    op.add_column("annotators", sa.Column("password_hash", sa.Text))
    op.add_column("annotators", sa.Column("link_hash", sa.Text))
    op.add_column("annotators", sa.Column("active", sa.Boolean, nullable=False, server_default=sa.true()))
    op.create_index("ix_annotators_link_hash", "annotators", ["link_hash"], unique=True)

    op.create_table(
        "sessions",
        sa.Column("token_hash", sa.Text, nullable=False),
        sa.Column("annotator", sa.Text, nullable=False),
        sa.Column("csrf", sa.Text, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("expires", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name="pk_sessions"),
        sa.ForeignKeyConstraint(["annotator"], ["annotators.name"], name="fk_sessions_annotator"),
    )
    op.create_index("ix_sessions_annotator", "sessions", ["annotator"])
    op.create_table(
        "api_tokens",
        sa.Column("id", Integer, sa.Identity(), nullable=False),
        sa.Column("token_hash", sa.Text, nullable=False),
        sa.Column("annotator", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("last_used", sa.Double),
        sa.Column("revoked", sa.Double),
        sa.PrimaryKeyConstraint("id", name="pk_api_tokens"),
        sa.UniqueConstraint("token_hash", name="uq_api_tokens_token_hash"),
        sa.ForeignKeyConstraint(["annotator"], ["annotators.name"], name="fk_api_tokens_annotator"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_api_tokens_annotator", "api_tokens", ["annotator"])
    op.create_table(
        "audit",
        sa.Column("seq", Integer, sa.Identity(), nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_audit"),
        sqlite_autoincrement=True,
    )
    append_only("audit")
