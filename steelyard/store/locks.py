"""Locks of images and pairs, inside a running transaction.

They are taken in the order annotator → image → pair → log, ascending, so nobody waits in a circle. SQLite has one
writer at a time and needs none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from steelyard.store import fields
from steelyard.store.errors import UnknownRecordError
from steelyard.store.schema import images, pairs

__all__ = ["DESCRIBED", "hold_images", "lock_images", "lock_pairs", "no_pair"]


def lock_images(connection: Connection, ids: Sequence[str]) -> dict[str, int]:
    """Lock images in the order of their rows, so that only one judgement at a time is written about each."""
    found: dict[str, int] = {}
    for chunk in fields.chunks(sorted({fields.text(id, "an image's id") for id in ids})):
        query = sa.select(images.c.id, images.c.row).where(images.c.id.in_(chunk))
        found.update((id, row) for id, row in connection.execute(query))
    for rows in fields.chunks(sorted(found.values())):
        query = sa.select(images.c.row).where(images.c.row.in_(rows)).order_by(images.c.row)
        connection.execute(query.with_for_update(key_share=True)).all()
    for id in ids:
        if id not in found:
            raise UnknownRecordError(f"no image of this study has the id {id!r}")
    return found


def hold_images(connection: Connection, rows: Iterable[int]) -> dict[int, bool]:
    """Whether the image of each row is excluded; locked, so that it stays so until the commit.

    Raises:
        UnknownRecordError: a row is no image of this study.
    """
    found: dict[int, bool] = {}
    wanted = sorted(set(rows))
    for chunk in fields.chunks(wanted):
        query = (
            sa.select(images.c.row, images.c.excluded_at)
            .where(images.c.row.in_(chunk))
            .order_by(images.c.row)
        )
        found |= {row: at is not None for row, at in connection.execute(query.with_for_update(read=True))}
    for row in wanted:
        if row not in found:
            raise UnknownRecordError(f"no image of this study has the row {row}")
    return found


def lock_pairs(connection: Connection, ids: Sequence[int]) -> dict[int, Any]:
    """Lock pairs in ascending order and read them, with the ids of their images.

    Raises:
        UnknownRecordError: no pair has one of the numbers.
    """
    found: dict[int, Any] = {}
    wanted = sorted(set(ids))
    for id in wanted:
        if not 0 < id <= fields.LARGEST:
            raise no_pair(id)
    statement = _DESCRIBED_AMONG if connection.dialect.name == "sqlite" else _LOCKED_AMONG
    for chunk in fields.chunks(wanted):
        for row in connection.execute(statement, {"ids": chunk}).mappings():
            found[row["id"]] = row
    for id in wanted:
        if id not in found:
            raise no_pair(id)
    return found


def no_pair(id: int) -> UnknownRecordError:
    """The error for a number that no pair has."""
    return UnknownRecordError(f"no pair of this study has the number {id}")


# The statements, built once.

_first, _second = images.alias("first_image"), images.alias("second_image")
_among: sa.BindParameter[int] = sa.bindparam("ids", expanding=True)
DESCRIBED = (
    sa.select(
        *(column for column in pairs.c if column.name not in ("answers", "asked_of")),
        _first.c.id.label("first"),
        _second.c.id.label("second"),
    )
    .join(_first, _first.c.row == pairs.c.first_row)
    .join(_second, _second.c.row == pairs.c.second_row)
)
"""Pairs with the ids of their images."""

_DESCRIBED_AMONG = DESCRIBED.where(pairs.c.id.in_(_among)).order_by(pairs.c.id)
_LOCKED_AMONG = _DESCRIBED_AMONG.with_for_update(of=pairs, key_share=True)
