"""The tables as they are now. How they came to be is in `migrations/`; a test keeps the two equal.

    images ─┬─ pairs ─┬─ pair_leases      who was handed a pair, with which sides, until when
            │         └─ comparisons      the log of answers and decisions: append-only, guarded by triggers
            ├─ grades                     the log of grades: likewise
            └─ grade_leases               who was handed an image to grade, and whether its neighbours were shown
    annotators ─┬─ sessions               logins, known by the hash of their cookie
                └─ api_tokens
    attempts                              tries to sign in of the last hour; handshakes: sign-ons under way (OIDC)
    models · trainer (one lease) · audit (append-only) · settings · changes (made once)

`row` is the catalog row of an image and its key here; the content hash `id` is what files and exports carry. Times are UTC
seconds since 1970. `pairs.answers` and `pairs.open` follow from the log; they are kept in the transaction that
writes the log, so that finding open pairs does not read all of it, and `Store.check` compares.
"""

from __future__ import annotations

import sqlalchemy as sa

__all__ = [
    "ANSWER",
    "DECISION",
    "REVISION",
    "WITHDRAWN",
    "annotators",
    "api_tokens",
    "attempts",
    "audit",
    "changes",
    "comparisons",
    "grade_leases",
    "grades",
    "handshakes",
    "images",
    "metadata",
    "models",
    "pair_leases",
    "pairs",
    "sessions",
    "settings",
    "trainer",
]

REVISION = "0010"
"""The newest migration; a study with another one is migrated (older) or refused (unknown)."""

WITHDRAWN = "withdrawn"
"""What the log says in the row that an undo writes."""

ANSWER, DECISION = "answer", "decision"
"""The role of a row: what an annotator said about a pair, or what a lead decided about it."""

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite counts by itself only in a column that is spelled INTEGER; it holds 64 bits there as well.
Integer = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Time: sa.Double[float] = sa.Double()


def _key(name: str) -> sa.Column[int]:
    return sa.Column(name, Integer, sa.Identity(), primary_key=True)


def _hash() -> sa.Column[str]:
    """A row's place in the hash chain of its log (`chain.py`)."""
    return sa.Column("hash", sa.Text, nullable=False, server_default="")


images = sa.Table(
    "images",
    metadata,
    sa.Column("row", Integer, primary_key=True, autoincrement=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("path", sa.Text, nullable=False),
    sa.Column("group", sa.Text),
    sa.Column("grade", sa.Integer),
    sa.Column("width", sa.Integer),
    sa.Column("height", sa.Integer),
    sa.Column("excluded_at", Time),
    sa.Column("excluded_by", sa.Text),
    sa.Column("excluded_reason", sa.Text),
    sa.UniqueConstraint("id"),
    sa.Index(
        "ix_images_excluded",
        "row",
        sqlite_where=sa.text("excluded_at IS NOT NULL"),
        postgresql_where=sa.text("excluded_at IS NOT NULL"),
    ),
)

annotators = sa.Table(
    "annotators",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("created", Time, nullable=False),
    sa.Column("role", sa.Text, nullable=False, server_default="annotator"),
    sa.Column("password_hash", sa.Text),
    sa.Column("link_hash", sa.Text),
    sa.Column("active", sa.Boolean, nullable=False, server_default=sa.true()),
    sa.Column("link_expires", Time),
    sa.Column("link_once", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("subject", sa.Text),
    sa.Index("ix_annotators_link_hash", "link_hash", unique=True),
    sa.Index("ix_annotators_subject", "subject", unique=True),
)

pairs = sa.Table(
    "pairs",
    metadata,
    _key("id"),
    sa.Column("first_row", Integer, sa.ForeignKey("images.row"), nullable=False),
    sa.Column("second_row", Integer, sa.ForeignKey("images.row"), nullable=False),
    sa.Column("repeat", sa.Integer, nullable=False),
    sa.Column("round", sa.Integer, nullable=False),
    sa.Column("strategy", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("score", sa.Double),
    sa.Column("reserved", sa.Boolean, nullable=False),
    sa.Column("raters", sa.Integer, nullable=False),
    sa.Column("answers", sa.Integer, nullable=False),
    sa.Column("open", sa.Boolean, nullable=False),
    sa.Column("created", Time, nullable=False),
    sa.Column("expected", sa.Text),  # the known answer of a pair that warms up or checks (known.py)
    sa.Column("retired", Time),
    sa.Column("asked_of", sa.Text),  # whose further opinion is wanted first
    sa.UniqueConstraint("first_row", "second_row", "repeat"),
    sa.CheckConstraint("first_row < second_row", name="order"),
    sa.CheckConstraint("raters > 0", name="raters"),
    sa.CheckConstraint("repeat >= 0", name="repeat"),
    sa.Index("ix_pairs_second_row", "second_row"),
    sa.Index("ix_pairs_open", "id", sqlite_where=sa.text("open = 1"), postgresql_where=sa.text("open")),
    sa.Index(
        "ix_pairs_known",
        "id",
        sqlite_where=sa.text("expected IS NOT NULL"),
        postgresql_where=sa.text("expected IS NOT NULL"),
    ),
    sqlite_autoincrement=True,
)

pair_leases = sa.Table(
    "pair_leases",
    metadata,
    sa.Column("pair", Integer, sa.ForeignKey("pairs.id"), primary_key=True, autoincrement=False),
    sa.Column("annotator", sa.Text, sa.ForeignKey("annotators.name"), primary_key=True),
    sa.Column("left_row", Integer, sa.ForeignKey("images.row"), nullable=False),
    sa.Column("handed_at", Time, nullable=False),
    sa.Column("expires", Time, nullable=False),
    sa.Index("ix_pair_leases_annotator_expires", "annotator", "expires"),
)

comparisons = sa.Table(
    "comparisons",
    metadata,
    _key("seq"),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("pair", Integer, sa.ForeignKey("pairs.id"), nullable=False),
    sa.Column("annotator", sa.Text, sa.ForeignKey("annotators.name"), nullable=False),
    sa.Column("answer", sa.Text, nullable=False),
    sa.Column("left_row", Integer, sa.ForeignKey("images.row"), nullable=False),
    sa.Column("right_row", Integer, sa.ForeignKey("images.row"), nullable=False),
    sa.Column("shown_at", Time),
    sa.Column("answered_at", Time, nullable=False),
    sa.Column("received_at", Time, nullable=False),
    sa.Column("supersedes", sa.Text, sa.ForeignKey("comparisons.id")),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    _hash(),
    sa.Column(
        "question", sa.Text, nullable=False, server_default=""
    ),  # a key of [[questions]]; empty: the main one
    sa.Column("role", sa.Text, nullable=False, server_default=ANSWER),
    sa.UniqueConstraint("id"),
    sa.UniqueConstraint("supersedes"),
    sa.CheckConstraint("answer IN ('left', 'right', 'equal', 'cannot judge', 'withdrawn')", name="answer"),
    sa.CheckConstraint("answer <> 'withdrawn' OR supersedes IS NOT NULL", name="undo"),
    sa.Index("ix_comparisons_pair_annotator", "pair", "annotator"),
    sa.Index("ix_comparisons_annotator_seq", "annotator", "seq"),
    sa.Index(
        "ix_comparisons_further",
        "annotator",
        "question",
        sqlite_where=sa.text("question > ''"),
        postgresql_where=sa.text("question > ''"),
    ),
    # There are few decisions: whoever asks for them reads these alone.
    sa.Index(
        "ix_comparisons_decided",
        "pair",
        sqlite_where=sa.text("role = 'decision'"),
        postgresql_where=sa.text("role = 'decision'"),
    ),
    sqlite_autoincrement=True,
)

grades = sa.Table(
    "grades",
    metadata,
    _key("seq"),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("image_row", Integer, sa.ForeignKey("images.row"), nullable=False),
    sa.Column("annotator", sa.Text, sa.ForeignKey("annotators.name"), nullable=False),
    sa.Column("grade", sa.Integer),
    sa.Column("shown_at", Time),
    sa.Column("answered_at", Time, nullable=False),
    sa.Column("received_at", Time, nullable=False),
    sa.Column("supersedes", sa.Text, sa.ForeignKey("grades.id")),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    _hash(),
    sa.UniqueConstraint("id"),
    sa.UniqueConstraint("supersedes"),
    sa.CheckConstraint("grade >= 0", name="grade"),
    sa.CheckConstraint("grade IS NOT NULL OR supersedes IS NOT NULL", name="undo"),
    sa.Index("ix_grades_image_row_annotator", "image_row", "annotator"),
    sa.Index("ix_grades_annotator_seq", "annotator", "seq"),
    sqlite_autoincrement=True,
)

grade_leases = sa.Table(
    "grade_leases",
    metadata,
    sa.Column("image_row", Integer, sa.ForeignKey("images.row"), primary_key=True, autoincrement=False),
    sa.Column("annotator", sa.Text, sa.ForeignKey("annotators.name"), primary_key=True),
    sa.Column("handed_at", Time, nullable=False),
    sa.Column("reviewed_at", Time),
    sa.Column("shown", sa.JSON(none_as_null=True)),  # rows of the neighbours that were shown then
    sa.Index("ix_grade_leases_annotator_handed_at", "annotator", "handed_at"),
)

models = sa.Table(
    "models",
    metadata,
    _key("id"),
    sa.Column("round", sa.Integer, nullable=False),
    sa.Column("path", sa.Text, nullable=False),
    sa.Column("fingerprint", sa.Text, nullable=False),
    sa.Column("comparisons_seq", Integer, nullable=False),
    sa.Column("grades_seq", Integer, nullable=False),
    sa.Column("metrics", sa.JSON, nullable=False),
    sa.Column("config", sa.JSON, nullable=False),
    sa.Column("created", Time, nullable=False),
    sqlite_autoincrement=True,
)

trainer = sa.Table(
    "trainer",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("expires", Time, nullable=False),
    sa.Column("heartbeat", Time, nullable=False),
    sa.Column("progress", sa.JSON, nullable=False),
)

settings = sa.Table(
    "settings",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.JSON, nullable=False),
)

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("token_hash", sa.Text, primary_key=True),
    sa.Column("annotator", sa.Text, sa.ForeignKey("annotators.name"), nullable=False),
    sa.Column("csrf", sa.Text, nullable=False),
    sa.Column("created", Time, nullable=False),
    sa.Column("expires", Time, nullable=False),
    sa.Column("mode", sa.Text, nullable=False, server_default="login"),
    sa.Column("used", Time, nullable=False, server_default="0"),
    sa.Index("ix_sessions_annotator", "annotator"),
)

api_tokens = sa.Table(
    "api_tokens",
    metadata,
    _key("id"),
    sa.Column("token_hash", sa.Text, nullable=False),
    sa.Column("annotator", sa.Text, sa.ForeignKey("annotators.name"), nullable=False),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("created", Time, nullable=False),
    sa.Column("last_used", Time),
    sa.Column("revoked", Time),
    sa.Column("mode", sa.Text, nullable=False, server_default="login"),
    sa.Column("scope", sa.Text, nullable=False, server_default="full"),
    sa.Column("expires", Time),
    sa.UniqueConstraint("token_hash"),
    sa.Index("ix_api_tokens_annotator", "annotator"),
    sqlite_autoincrement=True,
)

attempts = sa.Table(
    "attempts",
    metadata,
    _key("id"),
    sa.Column("at", Time, nullable=False),
    sa.Column("name_hash", sa.Text, nullable=False),
    sa.Column("address", sa.Text, nullable=False),
    sa.Column("device", sa.Text),
    sa.Column("known", sa.Boolean, nullable=False),
    sa.Index("ix_attempts_name_hash", "name_hash"),
    sa.Index("ix_attempts_address", "address"),
    sa.Index("ix_attempts_at", "at"),
    sqlite_autoincrement=True,
)

handshakes = sa.Table(
    "handshakes",
    metadata,
    sa.Column("state_hash", sa.Text, primary_key=True),
    sa.Column("browser_hash", sa.Text, nullable=False),
    sa.Column("nonce", sa.Text, nullable=False),
    sa.Column("verifier", sa.Text, nullable=False),
    sa.Column("back", sa.Text, nullable=False),
    sa.Column("expires", Time, nullable=False),
)

audit = sa.Table(
    "audit",
    metadata,
    _key("seq"),
    sa.Column("at", Time, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("detail", sa.JSON, nullable=False),
    _hash(),
    sqlite_autoincrement=True,
)

changes = sa.Table(
    "changes",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("what", sa.Text, nullable=False),
    sa.Column("at", Time, nullable=False),
)
