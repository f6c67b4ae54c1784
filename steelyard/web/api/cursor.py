"""Opaque cursors for paging: stable while rows are appended, refused when they are not ours."""

from __future__ import annotations

import base64
import binascii

from steelyard.web.problems import Problem

__all__ = ["read", "write"]


def write(kind: str, after: int) -> str:
    """A cursor that stands after a row of some list.

    >>> read("audit", write("audit", 41))
    41
    """
    return base64.urlsafe_b64encode(f"{kind}:{after}".encode()).decode().rstrip("=")


def read(kind: str, cursor: str | None, first: int = 0) -> int:
    """The row that a cursor stands after; `first` for none.

    Raises:
        Problem: 422 for a cursor of another list or no cursor at all.
    """
    if cursor is None:
        return first
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
        name, _, number = text.partition(":")
        after = int(number)
        if name == kind and number == str(after) and 0 <= after < 2**31:
            return after
    except (binascii.Error, ValueError):
        pass
    raise Problem(422, "cursor: is not a cursor of this list; start without one.")
