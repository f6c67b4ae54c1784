"""All faults by name; those of the database, the disk, the clock and the network are here."""

from __future__ import annotations

import contextlib
import signal
from typing import ClassVar

import psutil

from tests.chaos.fault import Fault
from tests.chaos.killing import (
    KillAll,
    KillBrowser,
    KillChooser,
    KillImporter,
    KillServer,
    KillTrainer,
    Restart,
)
from tests.chaos.proxy import MODES
from tests.chaos.truncating import TruncateAll, TruncateCache, TruncateCatalog, TruncateConfig, TruncateModel
from tests.waiting import until

__all__ = ["FAULTS", "SHORT", "Fault", "named"]


class _StopPostgres(Fault):
    only = "postgresql"
    how: ClassVar[signal.Signals]

    def strike(self) -> None:
        self.world.postgres.stop(self.how)
        self.suffer()

    def mend(self) -> None:
        self.world.postgres.start()


class StopPostgresFast(_StopPostgres):
    """PostgreSQL shut down (fast), started again."""

    name, how = "pg-fast", signal.SIGINT


class StopPostgresImmediate(_StopPostgres):
    """PostgreSQL shut down (immediate), which makes it recover when it is started again."""

    name, how = "pg-immediate", signal.SIGQUIT


class KillPostgresBackend(Fault):
    """kill -9 of one connection's process, after which PostgreSQL drops all connections and recovers."""

    name, only = "pg-backend", "postgresql"

    def strike(self) -> None:
        found = self.world.postgres.backends()
        if found:
            with contextlib.suppress(psutil.NoSuchProcess):
                self.rng.choice(found).kill()
        self.suffer()

    def mend(self) -> None:
        until(self.world.postgres.running, "PostgreSQL's recovery", seconds=60)


class FullDisk(Fault):
    """Not a byte left on the disk of study and database."""

    name = "disk-full"

    def strike(self) -> None:
        self.world.disk.fill(self.world.writers())
        self.suffer(10)

    def mend(self) -> None:
        self.world.disk.clear(self.world.writers())
        # PostgreSQL ends when it cannot write its log; whoever runs it starts it again.
        if self.world.postgres_or_none is not None:
            self.world.postgres.start()


class ReadOnlyDisk(Fault):
    """The disk comes back read-only after a crash: the server is started on it and must not do harm."""

    name = "disk-readonly"

    def strike(self) -> None:
        world = self.world
        world.server.kill(everything=True, stay_down=True)
        if world.postgres_or_none is not None:
            world.postgres.stop(signal.SIGQUIT)
        with world.quiet():
            until(world.disk.read_only, "a read-only disk", seconds=30)
        world.server.start()
        self.suffer(8)

    def mend(self) -> None:
        self.world.disk.writable()
        if self.world.postgres_or_none is not None:
            self.world.postgres.start()
        self.world.server.start()


class _Clock(Fault):
    ahead: ClassVar[int]

    def strike(self) -> None:
        self.world.clock.set(self.ahead)
        self.world.wait_for_progress(each=3)
        if self.rng.random() < 0.5:
            self.world.server.kill()  # and a start under the wrong time
            self.world.wait_for_progress()

    def mend(self) -> None:
        self.world.clock.set(0)


class ClockAhead(_Clock):
    """The clock of server, trainer and database two hours ahead, and back."""

    name, ahead = "clock-ahead", 7200


class ClockBehind(_Clock):
    """The clock two hours behind, and back."""

    name, ahead = "clock-behind", -7200


class _Network(Fault):
    mode: ClassVar[str]

    def strike(self) -> None:
        self.world.proxy.set(self.mode)
        self.suffer(3)

    def mend(self) -> None:
        self.world.proxy.set("pass")


def _network(which: str) -> type[Fault]:
    return type(f"Network{which.title()}", (_Network,), {"name": f"net-{which}", "mode": which})


FAULTS: dict[str, type[Fault]] = {
    fault.name: fault
    for fault in (
        KillServer, KillAll, KillTrainer, KillChooser, KillImporter, KillBrowser, Restart,
        StopPostgresFast, StopPostgresImmediate, KillPostgresBackend, FullDisk, ReadOnlyDisk,
        TruncateConfig, TruncateCatalog, TruncateModel, TruncateCache, TruncateAll, ClockAhead, ClockBehind,
        *map(_network, MODES),
    )
}  # fmt: skip
SHORT = {
    "sqlite": [
        ["kill-importer", "kill-chooser", "kill-trainer", "net-cut"],
        ["kill-browser", "kill-server"],
        ["disk-full", "net-double"],
        ["disk-readonly"],
        ["truncate-all"],
        ["clock-ahead", "net-refuse"],
    ],
    "postgresql": [
        ["pg-immediate", "kill-all"],
        ["pg-fast", "net-cut"],
        ["disk-full"],
        ["clock-behind"],
    ],
}
"""What the short form does: every kind of fault once, several at a time."""


def named(words: str, database: str) -> list[type[Fault]]:
    """The faults that begin with one of the words (comma-separated; empty for all) and make sense with a database.

    Raises:
        ValueError: a word that begins none.
    """
    wanted = [word.strip() for word in words.split(",") if word.strip()]
    for word in wanted:
        if not any(name.startswith(word) for name in FAULTS):
            raise ValueError(f"no fault is called {word!r}; there are {', '.join(FAULTS)}")
    return [
        fault
        for name, fault in FAULTS.items()
        if fault.only in ("", database) and (not wanted or any(name.startswith(word) for word in wanted))
    ]
