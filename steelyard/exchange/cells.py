"""What spreadsheets make of values, and back: truth, numbers, times, and text that looks like a formula."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime, timezone
from typing import Any

from steelyard.errors import StudyError

__all__ = ["either_moment", "harmless", "moment", "restored", "text", "truth", "utc", "whole"]

# A spreadsheet computes a cell that begins with one of these; the wide forms are what East Asian keyboards type.
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")
_YES = {"true", "1", "1.0", "1,0", "yes", "wahr", "vrai", "verdadero", "vero"}
_NO = {"", "false", "0", "0.0", "0,0", "no", "falsch", "faux", "falso"}


def harmless(value: str) -> str:
    """Text that no spreadsheet computes: an apostrophe goes before what would begin a formula.

    One goes before an apostrophe as well, so that `restored` finds every text again.

    >>> harmless("=1+1"), harmless("'tis"), harmless("fine")
    ("'=1+1", "''tis", 'fine')
    """
    return f"'{value}" if value.startswith((*_FORMULA, "'")) else value


def restored(cell: str) -> str:
    """The text that `harmless` was given; an apostrophe before anything else stays.

    >>> restored("'=1+1"), restored("''tis"), restored("'tis")
    ('=1+1', "'tis", "'tis")
    """
    return cell[1:] if cell.startswith("'") and cell[1:].startswith((*_FORMULA, "'")) else cell


def text(value: Any, what: str) -> str:
    """A value as text, "" where there is none.

    Raises:
        StudyError: a list, an object or bytes.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if not isinstance(value, (str, int, float)):
        raise StudyError(f"{what} is text, not {_shown(value)}")
    return str(value)


def truth(value: Any, what: str) -> bool:
    """Whether a cell says yes, in the words of common spreadsheets; an empty one says no.

    Raises:
        StudyError: another word.
    """
    word = text(value, what).strip().lower()
    if word in _YES:
        return True
    if word in _NO:
        return False
    raise StudyError(f"{what} is true or false (or 1, 0, yes, no), not {_shown(value)}")


def whole(value: Any, what: str) -> int:
    """A whole number, 0 where there is none; 3.0 is 3.

    Raises:
        StudyError: something else.
    """
    number = _number(value)
    if number is None and not text(value, what).strip():
        return 0
    if number is None or not math.isfinite(number) or number != int(number):
        raise StudyError(f"{what} is a whole number, not {_shown(value)}")
    return int(number)


def moment(value: Any, what: str) -> float | None:
    """Seconds since 1970, from such a number or from a date and time; None where there is none.

    A date and time is ISO 8601 (`2026-11-17 13:54:45+01:00`), UTC where it does not say its zone.

    Raises:
        StudyError: something else.
    """
    given = value
    if isinstance(value, str):
        given = value.strip()
        if given.lower() in ("", "nan"):
            return None
        number = _number(given)
        if number is not None:
            return number
        try:
            # Python 3.10 knows no Z.
            given = datetime.fromisoformat(given[:-1] + "+00:00" if given[-1] in "zZ" else given)
        except ValueError:
            given = None
    elif value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(given, date) and not isinstance(given, datetime):
        given = datetime(given.year, given.month, given.day)
    if isinstance(given, datetime):
        try:
            zoned = given if given.tzinfo is not None else given.replace(tzinfo=timezone.utc)
            return float(zoned.timestamp())
        except (OverflowError, ValueError):
            given = None
    number = _number(given)
    if number is None:
        raise StudyError(
            f"{what} is in seconds since 1970 or a date and time like 2026-11-17T13:54:45Z, not {_shown(value)}"
        )
    return number


def utc(seconds: float | None) -> str:
    """A time that people can read, ISO 8601 in UTC; "" where there is none. `moment` reads it.

    >>> utc(1763387685.25), utc(None)
    ('2025-11-17T13:54:45.250Z', '')
    """
    if seconds is None or math.isnan(seconds):
        return ""
    try:
        at = datetime.fromtimestamp(round(seconds, 3), timezone.utc)
    except (OverflowError, ValueError, OSError):  # beyond the year 9999: the seconds have to do
        return ""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def either_moment(row: Mapping[str, Any], name: str) -> float | None:
    """A time that a row gives in seconds, in a column for people (`…_utc`), or both.

    Raises:
        StudyError: neither can be read, or the two are more than a second apart: somebody changed one of them.
    """
    seconds, read = moment(row.get(name), name), moment(row.get(f"{name}_utc"), f"{name}_utc")
    if seconds is not None and read is not None and abs(seconds - read) > 1.0:
        raise StudyError(
            f"{name} and {name}_utc disagree ({utc(seconds)} and {utc(read)}); empty the one that is wrong"
        )
    return read if seconds is None else seconds


def _number(value: Any) -> float | None:
    """A number, also with a decimal comma; None for anything else, NaN included."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str) and value.count(",") == 1 and "." not in value:
        value = value.replace(",", ".")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if math.isnan(number) else number


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list, tuple)):
        return "a list" if not isinstance(value, dict) else "an object"
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "…" + shown[-1]
