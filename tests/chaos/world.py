"""Everything a run is made of: disk, clock, database, server, network and the people at it."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.chaos import study
from tests.chaos.api import Api, admit
from tests.chaos.browser import Browser
from tests.chaos.checker import Database
from tests.chaos.clients import Answerer, Curator, Person
from tests.chaos.clock import Clock
from tests.chaos.commands import Feeder, Importer
from tests.chaos.disk import Disk
from tests.chaos.postgres import Postgres
from tests.chaos.proxy import Proxy
from tests.chaos.server import Server
from tests.waiting import until

__all__ = ["World"]

ROOT = Path(__file__).parents[2]


class World:
    """A study being worked on by several people.

    Args:
        database: `sqlite` or `postgresql`.
        people: answering through the API.
        seed: of everything that is drawn.
        browser: whether somebody answers in a real browser.
        images: in the study.
        trainer: new answers after which a model is fitted.
        portion: pairs put up ahead at a time; 0 leaves all choosing to the server.
        rest: seconds between two imports.
        pace: seconds that people rest between two answers, on average.

    Attributes:
        complaints: what went wrong on the way, in sentences.
        counts: how often things happened.
        before: number of the log's last row before anybody began.
    """

    def __init__(
        self,
        database: str,
        *,
        people: int,
        seed: int,
        browser: bool,
        images: int,
        trainer: int,
        portion: int,
        rest: float = 5.0,
        pace: float = 0.0,
    ) -> None:
        self.complaints: list[str] = []
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.folder = Path(tempfile.mkdtemp(prefix="steelyard-chaos-"))
        self.folder.chmod(0o755)  # PostgreSQL runs as somebody else
        self.journals = self.folder / "journals"
        self.journals.mkdir()
        self.clock = Clock(self.folder)
        self.disk = Disk(self.folder / "disk", megabytes=1500)
        environment = {
            **self.clock.environment,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "OMP_NUM_THREADS": "1",
        }
        self.environment = environment
        self.postgres_or_none = (
            Postgres(self.disk.folder / "postgres", self.clock.environment)
            if database == "postgresql"
            else None
        )
        url = self.postgres_or_none.url if self.postgres_or_none else ""
        self.study = study.make(self.disk.folder / "work", store=url, trainer=trainer, images=images)
        self.database = Database(
            self.postgres_or_none.address if self.postgres_or_none else self.study / "study.db"
        )
        self.before = int(self.database.rows("SELECT max(seq) AS n FROM comparisons")[0]["n"])
        self.server = Server(self.study, self.folder / "server.log", environment)
        self.server.start()
        until(self.server.answers, "the server's first start", seconds=120)
        names = [f"person-{k}" for k in range(people)]
        roles = {**dict.fromkeys([*names, "browser"], "annotator"), "lead": "lead"}
        tokens, admin = admit(self.server.port, self.server.first_link(), roles)
        self.proxy = Proxy(self.server.port, seed)
        own = Api(self.server.port, tokens["lead"]).images(12)
        self.people: list[Person] = [
            Answerer(
                name,
                self.proxy.port,
                tokens[name],
                self.journals,
                seed * 1000 + k,
                spared=frozenset(own),
                pace=pace,
            )
            for k, name in enumerate(names)
        ]
        self.people.append(
            Curator("lead", self.proxy.port, tokens["lead"], self.journals, seed + 1, images=own)
        )
        self.importer = Importer(self.study, self.journals, environment, seed + 2, images, rest)
        self.feeder = Feeder(self.study, environment, portion, self.acknowledged) if portion else None
        self.browser = (
            Browser(self.proxy.port, admin, "browser", self.journals, seed + 3) if browser else None
        )

    @property
    def postgres(self) -> Postgres:
        """The database's server, where it has one."""
        assert self.postgres_or_none is not None
        return self.postgres_or_none

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Everybody begins to work."""
        for thread in (*self.people, self.importer, self.feeder, self.browser):
            if thread is not None:
                thread.start()

    def rest(self) -> None:
        """Everybody finishes what they began, and stops."""
        threads = [t for t in (self.feeder, self.browser, self.importer, *self.people) if t is not None]
        for thread in threads:
            thread.halt.set()
        for thread in threads:
            thread.join(timeout=120)
            if thread.is_alive():
                self.complain(f"{thread.name} could not finish within two minutes")

    def close(self) -> None:
        """End all processes and take the disk away; journals and the server's log stay in `folder`."""
        self.server.close()
        if self.browser is not None:
            self.browser.kill()
        running = self.importer.running
        if running is not None:
            running.kill()
        self.proxy.close()
        if self.postgres_or_none is not None:
            self.postgres.stop(signal.SIGQUIT)
        self.disk.remove()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """A while in which no command writes to the disk; the one that is running is waited for."""
        with ExitStack() as stack:
            for command in (self.importer, self.feeder):
                if command is not None:
                    stack.enter_context(command.gate)
            yield

    # ------------------------------------------------------------------ looking

    def count(self, what: str) -> None:
        """Remember that something happened."""
        with self._lock:
            self.counts[what] += 1

    def complain(self, sentence: str) -> None:
        """Remember that something is wrong."""
        with self._lock:
            self.complaints.append(sentence)

    def acknowledged(self) -> int:
        """Everything that was acknowledged to anybody."""
        return sum(person.acknowledged for person in self.people) + (
            self.browser.acknowledged if self.browser else 0
        )

    def failed(self) -> int:
        """Attempts that failed."""
        return sum(person.failed for person in self.people)

    def writers(self) -> list[int]:
        """Processes that write to the disk."""
        pids = self.server.pids()
        if self.postgres_or_none is not None and self.postgres.pid is not None:
            pids += [self.postgres.pid, *(process.pid for process in self.postgres.backends())]
        return pids

    def imported(self, number: int) -> tuple[int, int]:
        """How many answers and how many pairs of an import are in the database, at one and the same moment."""
        query = (
            "SELECT (SELECT count(*) FROM comparisons WHERE note = ?) AS answers,"
            " (SELECT count(*) FROM pairs WHERE strategy = ?) AS pairs"
        )
        try:
            found = self.database.rows(query, *[f"import-{number}"] * 2)[0]
        except Exception:  # the database is away, or locked by the one who writes
            return 0, 0
        return int(found["answers"]), int(found["pairs"])

    def wait_for_progress(self, each: int = 1, seconds: float = 120) -> None:
        """Wait until everybody has had so many more things acknowledged.

        Raises:
            TimeoutError: somebody had not.
        """
        before = {person.name: person.acknowledged for person in self.people}

        def moved() -> bool:
            return all(
                person.acknowledged >= before[person.name] + each or person.problem is not None
                for person in self.people
            )

        until(moved, "an acknowledgement for everybody", seconds=seconds)
