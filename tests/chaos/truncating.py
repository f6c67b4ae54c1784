"""Files that are cut short, and put right as the documentation says."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from tests.chaos.fault import Fault
from tests.waiting import until


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
            until(lambda: server.answers() or len(server.exits) > ended, "a start or a refusal", seconds=60)
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
