"""Processes that end without warning."""

from __future__ import annotations

import contextlib
import time
from typing import ClassVar

import psutil

from tests.chaos.fault import Fault
from tests.waiting import until


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
            until(lambda: server.children(self.part), f"a {self.part} at work", seconds=20)
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
            until(lambda: world.importer.running is not None, "an import", seconds=30)
        # Reading takes a second or two, writing a fraction of one: aim at the writing half of the time.
        if self.rng.random() < 0.5:
            with contextlib.suppress(TimeoutError):
                until(lambda: world.imported(world.importer.file)[0] > 0, "the import's first row", seconds=8)
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
            until(lambda: browser.acknowledged > 0, "a first answer in the browser", seconds=60)
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
