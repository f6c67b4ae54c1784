"""What may go wrong, one small class each: strike, and mend as the documentation says."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import psutil

from tests.chaos.proxy import MODES
from tests.chaos.server import wait_for

if TYPE_CHECKING:
    from tests.chaos.world import World

__all__ = ["FAULTS", "SHORT", "Fault", "named"]


class Fault:
    """One kind of misfortune.

    Attributes:
        name: kind and detail, as in `kill-server`; `--faults kill` takes every kind that begins so.
        only: the database it makes sense with; empty for both.
    """

    name: ClassVar[str]
    only: ClassVar[str] = ""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world, self.rng = world, rng

    def strike(self) -> None:
        """Let it happen."""
        raise NotImplementedError

    def mend(self) -> None:
        """Do what a person has to do; nothing where the software recovers by itself."""

    def suffer(self, seconds: float = 6.0) -> None:
        """Leave it for a while: until people have noticed, and a little longer."""
        before = self.world.failed()
        with contextlib.suppress(TimeoutError):  # a fault that nobody notices is fine
            wait_for(lambda: self.world.failed() > before + 2, seconds, "an attempt that fails")
        time.sleep(self.rng.uniform(0.0, 1.0))


# ---------------------------------------------------------------------- kill -9


class KillServer(Fault):
    """kill -9 of the server; trainer and chooser find out by themselves."""

    name = "kill-server"

    def strike(self) -> None:
        self.world.server.kill()


class KillAll(Fault):
    """kill -9 of the server and everything it started, at the same time."""

    name = "kill-all"

    def strike(self) -> None:
        self.world.server.kill(everything=True)


class _KillPart(Fault):
    part: ClassVar[str]

    def strike(self) -> None:
        server = self.world.server
        with contextlib.suppress(TimeoutError):  # a chooser is only started when pairs are wanted
            wait_for(lambda: server.children(self.part), 20, f"a {self.part} at work")
        for process in server.children(self.part):
            self.world.count(f"killed {self.part}")
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


class KillTrainer(_KillPart):
    """kill -9 of the trainer."""

    name, part = "kill-trainer", "trainer"


class KillChooser(_KillPart):
    """kill -9 of the chooser."""

    name, part = "kill-chooser", "chooser"


class KillImporter(Fault):
    """kill -9 of an import, which must have brought all of its answers or none, and no pair without an answer."""

    name = "kill-importer"

    def strike(self) -> None:
        world = self.world
        with contextlib.suppress(TimeoutError):
            wait_for(lambda: world.importer.running is not None, 30, "an import")
        # Reading takes a second or two, writing a fraction of one: aim at the writing half of the time.
        if self.rng.random() < 0.5:
            with contextlib.suppress(TimeoutError):
                wait_for(lambda: world.imported(world.importer.file)[0] > 0, 8, "the import's first row")
        else:
            time.sleep(self.rng.uniform(0.0, 3.0))
        running = world.importer.running
        if running is None:
            return
        number = world.importer.file
        running.kill()
        running.wait()
        world.count("killed importer")
        answers, pairs = world.imported(number)
        if answers not in (0, world.importer.ROWS):
            world.complain(f"a killed import left {answers} of {world.importer.ROWS} answers")
        elif pairs and not answers:
            world.complain(f"a killed import left {pairs} pairs without answers")


class KillBrowser(Fault):
    """kill -9 of Chromium; its profile stays."""

    name = "kill-browser"

    def strike(self) -> None:
        browser = self.world.browser
        if browser is None:
            return
        with contextlib.suppress(TimeoutError):
            wait_for(lambda: browser.acknowledged > 0, 60, "a first answer in the browser")
        if browser.kill():
            self.world.count("killed browser")


class Restart(Fault):
    """SIGTERM: everything that was begun is finished, the exit code is 0."""

    name = "stop-server"

    def strike(self) -> None:
        code = self.world.server.stop()
        if code != 0:
            self.world.complain(f"SIGTERM ended the server with exit code {code}")

    def mend(self) -> None:
        self.world.server.start()


# ---------------------------------------------------------------------- the database


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
        wait_for(self.world.postgres.running, 60, "PostgreSQL's recovery")


# ---------------------------------------------------------------------- the disk


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
            wait_for(world.disk.read_only, 30, "a read-only disk")
        world.server.start()
        self.suffer(8)

    def mend(self) -> None:
        self.world.disk.writable()
        if self.world.postgres_or_none is not None:
            self.world.postgres.start()
        self.world.server.start()


# ---------------------------------------------------------------------- files


class _Truncate(Fault):
    """Files cut short, under a running server or a stopped one; put back from copies, one after the other.

    The server starts, or refuses to with a sentence that names the file; a traceback is neither.
    """

    def files(self) -> list[Path]:
        """Those that may be cut: one of them is."""
        raise NotImplementedError

    def chosen(self) -> list[Path]:
        """Those that are cut."""
        found = [file for file in self.files() if file.exists() and file.stat().st_size]
        return [self.rng.choice(found)] if found else []

    def strike(self) -> None:
        self._copies: list[tuple[Path, Path]] = []
        server, running = self.world.server, self.rng.random() < 0.5
        if not running:
            server.kill(stay_down=True)
        for file in self.chosen():
            copy = self.world.folder / f"copy-{file.name}"
            shutil.copy2(file, copy)
            self._copies.append((file, copy))
            os.truncate(file, self.rng.randrange(file.stat().st_size))
            self.world.count(f"{file.name.partition('-')[0]} truncated, server {'up' if running else 'down'}")
        if running:
            self.suffer(2)
            server.kill(stay_down=True)
        while not self._starts() and self._copies:
            self._put_back()

    def _starts(self) -> bool:
        """Whether the server starts with the files as they are."""
        server = self.world.server
        since, ended = server.log.stat().st_size, len(server.exits)
        server.start()
        with contextlib.suppress(TimeoutError):
            wait_for(lambda: server.answers() or len(server.exits) > ended, 60, "a start or a refusal")
        said = server.heard(since)
        if "Traceback" in said:
            self.world.complain(f"{self.name}: starting gave a traceback: {said[-300:]!r}")
        if len(server.exits) > ended:
            self.world.count("starts refused")
            if not any(file.name in said for file, _ in self._copies):
                self.world.complain(
                    f"{self.name}: the server refused to start and named no file: {said[-300:]!r}"
                )
            server.kill(stay_down=True)
            return False
        return True

    def _put_back(self) -> None:
        file, copy = self._copies.pop(0)
        shutil.move(copy, file.with_name(f".{file.name}"))
        file.with_name(f".{file.name}").replace(file)  # in one step: others may be reading

    def mend(self) -> None:
        while self._copies:
            self._put_back()
        self.world.server.start()


class TruncateConfig(_Truncate):
    """study.toml."""

    name = "truncate-config"

    def files(self) -> list[Path]:
        return [self.world.study / "study.toml"]


class TruncateCatalog(_Truncate):
    """catalog.arrow."""

    name = "truncate-catalog"

    def files(self) -> list[Path]:
        return [self.world.study / "catalog.arrow"]


class TruncateModel(_Truncate):
    """A file of the newest model."""

    name = "truncate-model"

    def files(self) -> list[Path]:
        rounds = sorted((self.world.study / "models").glob("round-???"))  # not one that is being written
        return sorted(file for file in rounds[-1].iterdir() if file.is_file()) if rounds else []


class TruncateCache(_Truncate):
    """A file of the cache."""

    name = "truncate-cache"

    def files(self) -> list[Path]:
        return sorted(file for file in (self.world.study / "cache").rglob("*") if file.is_file())


class TruncateAll(_Truncate):
    """Configuration, catalog, model and cache at once."""

    name = "truncate-all"

    def chosen(self) -> list[Path]:
        kinds = (TruncateConfig, TruncateCatalog, TruncateModel, TruncateCache)
        return [file for kind in kinds for file in kind(self.world, self.rng).chosen()]


# ---------------------------------------------------------------------- clock and network


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
