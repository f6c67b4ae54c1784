"""What a driver raises → *yours*, *try again* or *broken* (see errors.py), by code rather than by text.

PostgreSQL gives every error an SQLSTATE whose first two characters are a class; SQLite gives a result code whose low byte
is the kind. What is in neither table is *broken*.
"""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from steelyard.store.errors import BusyError, ConflictError, DamagedError, StoreError, UnavailableError

__all__ = ["translated"]

_AWAY = "the database of answers cannot be reached; try again in a moment – sending something twice is safe"
_LOCKED = "somebody else kept the database locked; nothing was written, try again"
_FULL = "the disk of the database is full; nothing was written – free some space, then try again"
_MEMORY = "the database has no memory or connections to spare; try again in a moment"
_DISK = (
    "the disk of the database does not answer as it should; try again, and look at the disk if it stays so"
)
_READONLY = (
    "the database is read-only: its file, its folder or its disk cannot be written; try again when they can"
)
_CLOSED = "the database cannot be opened; do its folder and the right to read and write there exist?"
_DAMAGED = (
    "the file is damaged or no SQLite database; restore the newest backup (files named …backup-… next to it) "
    "or see docs/store.md"
)
_CORRUPT = "the database reports damaged data or an error of its own; have a look at its log"
_UNFORESEEN = "the database refused something that it should not have been asked"
_VALUE = "a value cannot be stored"
_CONTRADICTS = "contradicts what is stored"
_APPEND = "answers are never changed; undo or supersede them"

# The longest prefix of the SQLSTATE that is found here decides.
# https://www.postgresql.org/docs/current/errcodes-appendix.html
_SQLSTATE: dict[str, tuple[type[StoreError], str]] = {
    "08": (UnavailableError, _AWAY),
    "22": (StoreError, _VALUE),
    "23": (ConflictError, _CONTRADICTS),
    "25006": (UnavailableError, _READONLY),  # a standby, or set so by its administrator
    "25P03": (UnavailableError, _AWAY),  # a transaction that was left idle for too long
    "25P04": (UnavailableError, _AWAY),  # a transaction that took too long
    "28": (UnavailableError, _AWAY),  # the password or pg_hba.conf changed under us
    "3D000": (UnavailableError, _AWAY),  # the database is gone: dropped, or being restored
    "40": (BusyError, _LOCKED),
    "53": (UnavailableError, _MEMORY),
    "53100": (UnavailableError, _FULL),
    "55006": (BusyError, _LOCKED),
    "55P03": (BusyError, _LOCKED),
    "57014": (BusyError, _LOCKED),  # a statement that took longer than the server allows
    "57P": (UnavailableError, _AWAY),  # shutting down, starting up, crashed
    "58": (UnavailableError, _DISK),
    "XX": (DamagedError, _CORRUPT),
}

# https://www.sqlite.org/rescode.html
_SQLITE: dict[int, tuple[type[StoreError], str]] = {
    2: (DamagedError, _CORRUPT),  # INTERNAL
    3: (UnavailableError, _READONLY),  # PERM
    5: (BusyError, _LOCKED),  # BUSY
    6: (BusyError, _LOCKED),  # LOCKED
    7: (UnavailableError, _MEMORY),  # NOMEM
    8: (UnavailableError, _READONLY),  # READONLY
    9: (BusyError, _LOCKED),  # INTERRUPT
    10: (UnavailableError, _DISK),  # IOERR
    11: (DamagedError, _DAMAGED),  # CORRUPT
    13: (UnavailableError, _FULL),  # FULL
    14: (UnavailableError, _CLOSED),  # CANTOPEN
    15: (BusyError, _LOCKED),  # PROTOCOL: a race for the lock of the write-ahead log
    18: (StoreError, _VALUE),  # TOOBIG
    19: (ConflictError, _CONTRADICTS),  # CONSTRAINT
    20: (StoreError, _VALUE),  # MISMATCH
    22: (UnavailableError, _DISK),  # NOLFS: the file is larger than the disk takes
    26: (DamagedError, _DAMAGED),  # NOTADB
}

# Python 3.10 does not tell SQLite's code; these are SQLite's own words for it.
_WORDS = {
    "is locked": 5,
    "out of memory": 7,
    "readonly database": 8,
    "interrupted": 9,
    "disk i/o error": 10,
    "malformed": 11,
    "disk is full": 13,
    "unable to open database file": 14,
    "locking protocol": 15,
    "too big": 18,
    "constraint failed": 19,
    "datatype mismatch": 20,
    "large file support": 22,
    "not a database": 26,
}


def translated(place: str, error: BaseException) -> StoreError:
    """The error of ours for what SQLAlchemy or a driver raised.

    Args:
        place: where the store is, without its password.
        error: what was raised.
    """
    if isinstance(error, PoolTimeout):
        return BusyError("too many requests at once; nothing was written, try again", place=place)
    if isinstance(
        error, (OverflowError, UnicodeError)
    ):  # the drivers' own words for values beyond their types
        return StoreError(_VALUE, place=place, said=_first_line(error))
    if isinstance(error, OSError):
        return UnavailableError(_DISK, place=place, said=error.strerror or type(error).__name__)
    said = _first_line(error)
    if "append-only" in said:  # the words of our own triggers
        return ConflictError(_APPEND, place=place, said=said)
    original = getattr(error, "orig", None) or error
    kind, message = _found(original) or (DamagedError, _UNFORESEEN)
    if kind is DamagedError and isinstance(error, DBAPIError) and error.connection_invalidated:
        kind, message = UnavailableError, _AWAY
    return kind(message, place=place, said=said)


def _found(original: BaseException) -> tuple[type[StoreError], str] | None:
    if type(original).__module__.partition(".")[0] == "sqlite3":
        return _SQLITE.get(_sqlite_code(original) & 0xFF)
    state = getattr(original, "sqlstate", None)
    if state:
        return next((_SQLSTATE[state[:n]] for n in (5, 3, 2) if state[:n] in _SQLSTATE), None)
    names = {kind.__name__ for kind in type(original).__mro__}
    if names & {
        "OperationalError",
        "InterfaceError",
    }:  # it never came as far as an SQLSTATE: the line is dead
        return UnavailableError, _AWAY
    if "DataError" in names:  # a value that the driver itself refuses to send
        return StoreError, _VALUE
    return None


def _sqlite_code(error: BaseException) -> int:
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(code, int):
        return code
    text = str(error).lower()
    return next((number for words, number in _WORDS.items() if words in text), 0)


def _first_line(error: BaseException) -> str:
    original = getattr(error, "orig", None) or error
    return (str(original).strip().splitlines() or [type(original).__name__])[0]
