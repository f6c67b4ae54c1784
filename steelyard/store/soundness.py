"""Is the store sound? Questions whose answer must be "none", asked of the whole database."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.store.chain import Head
from steelyard.store.evidence import verify
from steelyard.store.log import COMPARISONS, DECISIONS, GRADES
from steelyard.store.pairs import ANSWERS, DECIDED, EXCLUDED
from steelyard.store.schema import comparisons, grades, pairs
from steelyard.store.signature import signed_heads, unfounded

__all__ = ["problems"]


def problems(connection: Connection, expect: Iterable[Head] = ()) -> list[str]:
    """What is wrong, in sentences; `expect` are heads of the logs that were noted earlier."""
    found: list[str] = []
    if connection.dialect.name == "sqlite":
        for (line,) in connection.exec_driver_sql("PRAGMA integrity_check"):
            if line != "ok":
                found.append(f"the file is damaged: {line}; restore a backup")
        for table, row, parent, _ in connection.exec_driver_sql("PRAGMA foreign_key_check"):
            found.append(f"row {row} of {table} points to a missing row of {parent}")
    found += [f"the trigger that keeps {table} append-only is missing" for table in _unguarded(connection)]

    never = sa.or_(EXCLUDED, DECIDED, pairs.c.expected.is_not(None))
    wanted = sa.case((never, sa.false()), else_=pairs.c.answers < pairs.c.raters)
    for query, sentence in (
        (
            sa.select(pairs.c.id).where(pairs.c.answers != ANSWERS),
            "pair {} does not know how many answers it has",
        ),
        (
            sa.select(pairs.c.id).where(pairs.c.open != wanted),
            "pair {} is open and should not be, or the other way round",
        ),
        (
            sa.select(comparisons.c.seq)
            .join(pairs, pairs.c.id == comparisons.c.pair)
            .where(
                sa.or_(
                    sa.not_(comparisons.c.left_row.in_([pairs.c.first_row, pairs.c.second_row])),
                    comparisons.c.left_row + comparisons.c.right_row
                    != pairs.c.first_row + pairs.c.second_row,
                )
            ),
            "answer number {} shows other images than its pair",
        ),
        (
            sa.select(comparisons.c.pair)
            .where(COMPARISONS.counts)
            .group_by(comparisons.c.pair, comparisons.c.annotator, comparisons.c.question)
            .having(sa.func.count() > 1),
            "pair {} counts two answers of one annotator to one question",
        ),
        (
            sa.select(comparisons.c.pair)
            .where(DECISIONS.counts)
            .group_by(comparisons.c.pair, comparisons.c.question)
            .having(sa.func.count() > 1),
            "pair {} counts two decisions",
        ),
        (
            sa.select(grades.c.image_row)
            .where(GRADES.counts)
            .group_by(grades.c.image_row, grades.c.annotator)
            .having(sa.func.count() > 1),
            "image {} counts two grades of one annotator",
        ),
    ):
        found += [sentence.format(value) for value in connection.execute(query.limit(20)).scalars()]
    return found + unfounded(connection) + verify(connection, [*expect, *signed_heads(connection)])


def _unguarded(connection: Connection) -> list[str]:
    events = ["no_change", "no_truncate"]
    query = "SELECT tgname FROM pg_trigger WHERE tgenabled = 'O' AND pg_table_is_visible(tgrelid)"
    if connection.dialect.name == "sqlite":
        events = ["no_update", "no_delete", "no_insert"]
        query = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
    there = set(connection.execute(sa.text(query)).scalars())
    return [
        log for log in ("comparisons", "grades", "audit") if any(f"{log}_{e}" not in there for e in events)
    ]
