"""What a field may hold, checked before the database sees it, so that both databases refuse the same things."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar, get_args

from steelyard.config.questions import KEY_IN_WORDS, QUESTION_KEY
from steelyard.store.errors import StoreError
from steelyard.store.records import Mode, Role, Scope, Source

__all__ = [
    "LARGEST",
    "chunks",
    "client_id",
    "document",
    "mode",
    "name",
    "number",
    "positive",
    "question",
    "role",
    "scope",
    "source",
    "text",
    "time",
]

LARGEST = 2**63 - 1
"""The largest whole number that both databases hold."""

_CLIENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")
T = TypeVar("T")


def text(value: object, what: str, *, most: int = 2000) -> str:
    """Text that both databases can hold.

    Raises:
        StoreError: no text, too long, or with characters that cannot be stored.
    """
    if not isinstance(value, str):
        raise StoreError(f"{what} is text, not {value!r}")
    if len(value) > most:
        raise StoreError(f"{what} has {len(value)} characters; at most {most} are kept")
    if "\x00" in value or any("\ud800" <= c <= "\udfff" for c in value):
        raise StoreError(
            f"{what} contains a character that cannot be stored (NUL or half a surrogate pair): {value!r}"
        )
    return value


def name(value: object, what: str = "an annotator's name") -> str:
    """A name that can be shown in one line.

    Raises:
        StoreError: empty, longer than 100 characters, or not printable.
    """
    given = text(value, what, most=100)
    if not given or not given.isprintable() or given != given.strip():
        raise StoreError(f"{what} has 1 to 100 printable characters and no space at its ends, not {given!r}")
    return given


def client_id(value: object) -> str:
    """An id that a client made.

    Raises:
        StoreError: not 1 to 100 letters, digits and . _ : - that start with a letter or digit.
    """
    if not isinstance(value, str) or not _CLIENT_ID.fullmatch(value):
        raise StoreError(
            f"the id of an answer has 1 to 100 letters, digits and . _ : - (a UUID, say), not {value!r}"
        )
    return value


def number(value: object, what: str, *, least: int = 0, most: int = LARGEST) -> int:
    """A whole number in a range.

    Raises:
        StoreError: something else.
    """
    try:
        whole = int(value.__index__())  # type: ignore[attr-defined]
    except AttributeError:
        raise StoreError(f"{what} is a whole number, not {value!r}") from None
    if isinstance(value, bool) or not least <= whole <= most:
        raise StoreError(f"{what} is a whole number from {least} to {most}, not {value!r}")
    return whole


def positive(value: float, what: str) -> float:
    """A number of seconds above 0.

    Raises:
        StoreError: something else.
    """
    if not (math.isfinite(value) and value > 0):
        raise StoreError(f"{what} is a number of seconds above 0, not {value!r}")
    return float(value)


def time(value: float | None, what: str) -> float | None:
    """Seconds since 1970, or None.

    Raises:
        StoreError: not finite, or further from 1970 than clocks go (milliseconds, say).
    """
    if value is None:
        return None
    if not (math.isfinite(value) and 0 <= value <= 1e11):
        raise StoreError(f"{what} is in seconds since 1970 (UTC), not {value!r}")
    return float(value)


def question(value: object) -> str:
    """The key of a question, empty for the main one.

    Raises:
        StoreError: something else.
    """
    if not isinstance(value, str) or (value and not QUESTION_KEY.fullmatch(value)):
        raise StoreError(
            f"a question is named by its key ({KEY_IN_WORDS}), or empty for the main one; not {value!r}"
        )
    return value


def role(value: object) -> str:
    """A role.

    Raises:
        StoreError: something else.
    """
    if value not in get_args(Role):
        raise StoreError(f"a role is one of {', '.join(get_args(Role))}; not {value!r}")
    return str(value)


def mode(value: object) -> str:
    """Whether people sign in.

    Raises:
        StoreError: something else.
    """
    if value not in get_args(Mode):
        raise StoreError(f"a mode is one of {', '.join(get_args(Mode))}; not {value!r}")
    return str(value)


def scope(value: object) -> str:
    """What a token is for.

    Raises:
        StoreError: something else.
    """
    if value not in get_args(Scope):
        raise StoreError(f"the scope of a token is one of {', '.join(get_args(Scope))}; not {value!r}")
    return str(value)


def source(value: object) -> str:
    """How an answer came.

    Raises:
        StoreError: something else.
    """
    if value not in get_args(Source):
        raise StoreError(f"the source of an answer is one of {', '.join(get_args(Source))}; not {value!r}")
    return str(value)


def document(value: Any, what: str) -> Any:
    """A value that JSON can hold, as JSON gives it back.

    Raises:
        StoreError: it holds something that JSON cannot, NaN among it.
    """
    try:
        written = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StoreError(f"{what} has to be JSON with finite numbers: {error}") from None
    text(written, what, most=10_000_000)
    return json.loads(written)


def chunks(values: Iterable[T], size: int = 1000) -> Iterator[Sequence[T]]:
    """Values in lists that fit into one statement."""
    chunk: list[T] = []
    for value in values:
        chunk.append(value)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
