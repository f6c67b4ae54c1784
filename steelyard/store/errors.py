"""What can be wrong with a request to the store, for those who must tell the cases apart.

StoreError              everything the store raises; on its own: cannot be opened, read or written, or bad input
├── UnknownRecordError  no such image, pair, answer, annotator …
├── ConflictError       contradicts what is already there (same id, other content; answered before; undone before)
├── NotHandedOutError   the pair was never handed to this annotator
└── BusyError           the database stayed locked; nothing was written, trying again may help
"""

from __future__ import annotations

from steelyard.errors import StoreError

__all__ = ["BusyError", "ConflictError", "NotHandedOutError", "StoreError", "UnknownRecordError"]


class UnknownRecordError(StoreError):
    """There is no such image, pair, answer, annotator …"""


class ConflictError(StoreError):
    """The request contradicts what the store already holds; nothing was written."""


class NotHandedOutError(StoreError):
    """An answer to a pair that was never handed to this annotator."""


class BusyError(StoreError):
    """The database stayed locked by somebody else; nothing was written."""
