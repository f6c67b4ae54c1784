"""Answers that arrive together are written together.

Every answer is on disk before it is acknowledged, and a disk takes milliseconds to say so. Whoever comes while another
is writing waits; the next one writes all that have gathered in one transaction. Alone, an answer waits for nobody;
in a crowd the disk is asked once for many.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from steelyard.store.errors import StoreError
from steelyard.store.records import NewComparison, Recorded
from steelyard.store.store import Store

__all__ = ["Scribe"]

MOST = 64


@dataclass
class _Ticket:
    new: NewComparison
    recorded: Recorded | None = None
    error: StoreError | None = None

    @property
    def done(self) -> bool:
        return self.recorded is not None or self.error is not None


class Scribe:
    """Writes answers of pairs that were handed out; several threads may call it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[_Ticket] = []
        self._gathering = threading.Lock()
        self._writing = threading.Lock()

    def add(self, new: NewComparison) -> Recorded:
        """As `Store.add_comparison(new, require_lease=True)`."""
        ticket = _Ticket(new)
        with self._gathering:
            self._waiting.append(ticket)
        while not ticket.done:
            with self._writing:
                if not ticket.done:
                    with self._gathering:
                        batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                    self._write(batch)
        if ticket.error is not None:
            raise ticket.error
        assert ticket.recorded is not None
        return ticket.recorded

    def _write(self, batch: list[_Ticket]) -> None:
        if len(batch) > 1:
            try:
                done = self._store._add([ticket.new for ticket in batch], True, None)
            except StoreError:
                pass  # one bad answer must not take the others with it: each by itself
            else:
                for ticket, recorded in zip(batch, done, strict=True):
                    ticket.recorded = recorded
                return
        for ticket in batch:
            try:
                ticket.recorded = self._store.add_comparison(ticket.new, require_lease=True)
            except StoreError as error:
                ticket.error = error
            except BaseException as error:
                # Nobody may wait for ever on a ticket that was taken off the list.
                ticket.error = StoreError(f"the answer could not be written: {error}")
                raise
