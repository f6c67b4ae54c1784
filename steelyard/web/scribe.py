"""Answers that arrive together are written together.

Every answer is on disk before it is acknowledged, and a disk takes milliseconds to say so. Whoever comes while another
is writing waits; the next one writes all that have gathered in one transaction. Alone, an answer waits for nobody;
in a crowd the disk is asked once for many.
"""

from __future__ import annotations

import threading
import time

from steelyard.store.errors import DamagedError, StoreError, UnavailableError
from steelyard.store.records import NewComparison, Recorded
from steelyard.store.store import Store

__all__ = ["Scribe"]

MOST = 64


class _Ticket:
    """One answer on its way, and how its sender hears of it."""

    def __init__(self, new: NewComparison) -> None:
        self.new = new
        self.recorded: Recorded | None = None
        self.error: StoreError | None = None
        self.called = threading.Event()  # written – or, with neither result nor error, asked to write


class Scribe:
    """Writes answers of pairs that were handed out; several threads may call it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[_Ticket] = []
        self._gathering = threading.Lock()
        self._busy = False

    def add(self, new: NewComparison) -> Recorded:
        """As `Answers.add(new, require_lease=True)`."""
        ticket = _Ticket(new)
        with self._gathering:
            self._waiting.append(ticket)
            first, self._busy = not self._busy, True
        if not first:
            ticket.called.wait()
        if ticket.recorded is None and ticket.error is None:
            self._write_gathered()
        if ticket.error is not None:
            raise ticket.error
        assert ticket.recorded is not None
        return ticket.recorded

    def flush(self, seconds: float) -> bool:
        """Wait until nothing is being written; False when it takes longer."""
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up:
            with self._gathering:
                if not self._busy:
                    return True
            time.sleep(0.01)
        return False

    def _write_gathered(self) -> None:
        """Write what has gathered, then call the next writer, so that nobody writes for others forever."""
        with self._gathering:
            batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
        try:
            self._write(batch)
        finally:
            with self._gathering:
                following = self._waiting[0] if self._waiting else None
                self._busy = following is not None
            for ticket in batch:
                ticket.called.set()
            if following is not None:
                following.called.set()

    def _write(self, batch: list[_Ticket]) -> None:
        if len(batch) > 1:
            try:
                done = self._store.answers.add_all([ticket.new for ticket in batch], require_lease=True)
            except UnavailableError as error:
                self._give_up(batch, error)
                return
            except Exception:
                pass  # one bad answer must not take the others with it: each by itself
            else:
                for ticket, recorded in zip(batch, done, strict=True):
                    ticket.recorded = recorded
                return
        for k, ticket in enumerate(batch):
            try:
                ticket.recorded = self._store.answers.add(ticket.new, require_lease=True)
            except UnavailableError as error:
                self._give_up(batch[k:], error)
                return
            except StoreError as error:
                ticket.error = error
            except Exception as error:
                # Nobody may wait forever on a ticket that was taken off the list – nor be told that the answer is wrong.
                ticket.error = DamagedError("the answer could not be written", said=str(error))
                ticket.error.__cause__ = error

    @staticmethod
    def _give_up(tickets: list[_Ticket], error: UnavailableError) -> None:
        """A database that is away for one is away for all: nobody waits for the next attempt to fail as well."""
        for ticket in tickets:
            ticket.error = error
