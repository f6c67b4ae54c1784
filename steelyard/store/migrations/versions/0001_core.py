"""Images, pairs, leases, the logs of answers and grades, models, the trainer's lease, settings.

Revision: 0001, the first.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from steelyard.store.migrations.append_only import append_only

revision = "0001"
down_revision = None

Integer = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Forwards; there is no way back but the backup copy."""
    op.create_table(
        "images",
        sa.Column("row", Integer, autoincrement=False, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("group", sa.Text),
        sa.Column("grade", sa.Integer),
        sa.Column("width", sa.Integer),
        sa.Column("height", sa.Integer),
        sa.Column("excluded_at", sa.Double),
        sa.Column("excluded_by", sa.Text),
        sa.Column("excluded_reason", sa.Text),
        sa.PrimaryKeyConstraint("row", name="pk_images"),
        sa.UniqueConstraint("id", name="uq_images_id"),
    )
    excluded = sa.text("excluded_at IS NOT NULL")
    op.create_index("ix_images_excluded", "images", ["row"], sqlite_where=excluded, postgresql_where=excluded)

    op.create_table(
        "annotators",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_annotators"),
    )

    op.create_table(
        "pairs",
        sa.Column("id", Integer, sa.Identity(), nullable=False),
        sa.Column("first_row", Integer, nullable=False),
        sa.Column("second_row", Integer, nullable=False),
        sa.Column("repeat", sa.Integer, nullable=False),
        sa.Column("round", sa.Integer, nullable=False),
        sa.Column("strategy", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("score", sa.Double),
        sa.Column("reserved", sa.Boolean, nullable=False),
        sa.Column("raters", sa.Integer, nullable=False),
        sa.Column("answers", sa.Integer, nullable=False),
        sa.Column("open", sa.Boolean, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_pairs"),
        sa.ForeignKeyConstraint(["first_row"], ["images.row"], name="fk_pairs_first_row"),
        sa.ForeignKeyConstraint(["second_row"], ["images.row"], name="fk_pairs_second_row"),
        sa.UniqueConstraint("first_row", "second_row", "repeat", name="uq_pairs_first_row_second_row_repeat"),
        sa.CheckConstraint("first_row < second_row", name="ck_pairs_order"),
        sa.CheckConstraint("raters > 0", name="ck_pairs_raters"),
        sa.CheckConstraint("repeat >= 0", name="ck_pairs_repeat"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_pairs_second_row", "pairs", ["second_row"])
    op.create_index(
        "ix_pairs_open", "pairs", ["id"], sqlite_where=sa.text("open = 1"), postgresql_where=sa.text("open")
    )

    op.create_table(
        "pair_leases",
        sa.Column("pair", Integer, autoincrement=False, nullable=False),
        sa.Column("annotator", sa.Text, nullable=False),
        sa.Column("left_row", Integer, nullable=False),
        sa.Column("handed_at", sa.Double, nullable=False),
        sa.Column("expires", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("pair", "annotator", name="pk_pair_leases"),
        sa.ForeignKeyConstraint(["pair"], ["pairs.id"], name="fk_pair_leases_pair"),
        sa.ForeignKeyConstraint(["annotator"], ["annotators.name"], name="fk_pair_leases_annotator"),
        sa.ForeignKeyConstraint(["left_row"], ["images.row"], name="fk_pair_leases_left_row"),
    )
    op.create_index("ix_pair_leases_annotator_expires", "pair_leases", ["annotator", "expires"])

    op.create_table(
        "comparisons",
        sa.Column("seq", Integer, sa.Identity(), nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("pair", Integer, nullable=False),
        sa.Column("annotator", sa.Text, nullable=False),
        sa.Column("answer", sa.Text, nullable=False),
        sa.Column("left_row", Integer, nullable=False),
        sa.Column("right_row", Integer, nullable=False),
        sa.Column("shown_at", sa.Double),
        sa.Column("answered_at", sa.Double, nullable=False),
        sa.Column("received_at", sa.Double, nullable=False),
        sa.Column("supersedes", sa.Text),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_comparisons"),
        sa.UniqueConstraint("id", name="uq_comparisons_id"),
        sa.UniqueConstraint("supersedes", name="uq_comparisons_supersedes"),
        sa.ForeignKeyConstraint(["pair"], ["pairs.id"], name="fk_comparisons_pair"),
        sa.ForeignKeyConstraint(["annotator"], ["annotators.name"], name="fk_comparisons_annotator"),
        sa.ForeignKeyConstraint(["left_row"], ["images.row"], name="fk_comparisons_left_row"),
        sa.ForeignKeyConstraint(["right_row"], ["images.row"], name="fk_comparisons_right_row"),
        sa.ForeignKeyConstraint(["supersedes"], ["comparisons.id"], name="fk_comparisons_supersedes"),
        sa.CheckConstraint(
            "answer IN ('left', 'right', 'equal', 'cannot judge', 'withdrawn')", name="ck_comparisons_answer"
        ),
        sa.CheckConstraint("answer <> 'withdrawn' OR supersedes IS NOT NULL", name="ck_comparisons_undo"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_comparisons_pair_annotator", "comparisons", ["pair", "annotator"])
    op.create_index("ix_comparisons_annotator_seq", "comparisons", ["annotator", "seq"])
    append_only("comparisons", "id", "supersedes")

    op.create_table(
        "grades",
        sa.Column("seq", Integer, sa.Identity(), nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("image_row", Integer, nullable=False),
        sa.Column("annotator", sa.Text, nullable=False),
        sa.Column("grade", sa.Integer),
        sa.Column("shown_at", sa.Double),
        sa.Column("answered_at", sa.Double, nullable=False),
        sa.Column("received_at", sa.Double, nullable=False),
        sa.Column("supersedes", sa.Text),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_grades"),
        sa.UniqueConstraint("id", name="uq_grades_id"),
        sa.UniqueConstraint("supersedes", name="uq_grades_supersedes"),
        sa.ForeignKeyConstraint(["image_row"], ["images.row"], name="fk_grades_image_row"),
        sa.ForeignKeyConstraint(["annotator"], ["annotators.name"], name="fk_grades_annotator"),
        sa.ForeignKeyConstraint(["supersedes"], ["grades.id"], name="fk_grades_supersedes"),
        sa.CheckConstraint("grade >= 0", name="ck_grades_grade"),
        sa.CheckConstraint("grade IS NOT NULL OR supersedes IS NOT NULL", name="ck_grades_undo"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_grades_image_row_annotator", "grades", ["image_row", "annotator"])
    op.create_index("ix_grades_annotator_seq", "grades", ["annotator", "seq"])
    append_only("grades", "id", "supersedes")

    op.create_table(
        "models",
        sa.Column("id", Integer, sa.Identity(), nullable=False),
        sa.Column("round", sa.Integer, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("comparisons_seq", Integer, nullable=False),
        sa.Column("grades_seq", Integer, nullable=False),
        sa.Column("metrics", sa.JSON, nullable=False),
        sa.Column("config", sa.JSON, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_models"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "trainer",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("expires", sa.Double, nullable=False),
        sa.Column("heartbeat", sa.Double, nullable=False),
        sa.Column("progress", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_trainer"),
    )
    op.create_table(
        "settings",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("value", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_settings"),
    )
