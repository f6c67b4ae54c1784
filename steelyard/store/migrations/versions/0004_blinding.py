"""Blinding: who was handed an image to grade, and which changes were made already.

Revision: 0004. Version 0.1 named images by their content; browsers may hold answers with those names. A study that has
images already takes them for two weeks more.
"""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

Integer = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
DAYS = 14


def upgrade() -> None:
    """Forwards; there is no way back but the backup copy."""
    op.create_table(
        "grade_leases",
        sa.Column("image_row", Integer, nullable=False),
        sa.Column("annotator", sa.Text, nullable=False),
        sa.Column("handed_at", sa.Double, nullable=False),
        sa.Column("reviewed_at", sa.Double),
        sa.Column("shown", sa.JSON),
        sa.PrimaryKeyConstraint("image_row", "annotator", name="pk_grade_leases"),
        sa.ForeignKeyConstraint(["image_row"], ["images.row"], name="fk_grade_leases_image_row"),
        sa.ForeignKeyConstraint(["annotator"], ["annotators.name"], name="fk_grade_leases_annotator"),
    )
    op.create_index("ix_grade_leases_annotator_handed_at", "grade_leases", ["annotator", "handed_at"])
    op.create_table(
        "changes",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("what", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_changes"),
    )
    connection = op.get_bind()
    if connection.execute(sa.text("SELECT 1 FROM images LIMIT 1")).first() is not None:
        settings = sa.table("settings", sa.column("key", sa.Text), sa.column("value", sa.JSON))
        until = time.time() + DAYS * 86400
        connection.execute(sa.insert(settings).values(key="content ids until", value=until))
