"""What can be wrong with a request to the store, for those who must tell the cases apart.

StoreError              *yours*: what was given cannot be stored; sending it again as it is will not help
├── UnknownRecordError  no such image, pair, answer, annotator …
├── ConflictError       contradicts what is already there (same id, other content; answered before; undone before)
├── NotHandedOutError   the pair was never handed to this annotator
├── UnavailableError    *try again*: the database or its disk is away, full or not writable; nothing is wrong with the request
│   └── BusyError       somebody else kept the database locked
└── DamagedError        *broken*: the database or this program is at fault; somebody has to look

Which one it is is decided where the driver's error is caught (`faults.py`). Errors that nobody foresaw are *broken*,
never *yours*: whoever is told that an answer is wrong may throw it away.
"""

from __future__ import annotations

from steelyard.errors import StoreError

__all__ = [
    "BusyError",
    "ConflictError",
    "DamagedError",
    "NotHandedOutError",
    "StoreError",
    "UnavailableError",
    "UnknownRecordError",
]


class UnknownRecordError(StoreError):
    """There is no such image, pair, answer, annotator …"""


class ConflictError(StoreError):
    """The request contradicts what the store already holds; nothing was written."""


class NotHandedOutError(StoreError):
    """An answer to a pair that was never handed to this annotator."""


class UnavailableError(StoreError):
    """The database cannot be used now; the same request may succeed later."""


class BusyError(UnavailableError):
    """The database stayed locked by somebody else; nothing was written."""


class DamagedError(StoreError):
    """The database is damaged, or something happened in it that nobody foresaw."""
