"""The store: one object for everything that people answered."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from types import TracebackType

from steelyard.store import soundness
from steelyard.store.answers import Answers
from steelyard.store.audit import Audit
from steelyard.store.chain import Head
from steelyard.store.changes import Change, change, change_made
from steelyard.store.database import Database, make_engine, read_url, wrapped_errors
from steelyard.store.decisions import Decisions
from steelyard.store.grades import Grades
from steelyard.store.images import Images
from steelyard.store.known import Known
from steelyard.store.models import Models
from steelyard.store.opening import check_revision, prepare, quick_look
from steelyard.store.pairs import Pairs
from steelyard.store.people import People
from steelyard.store.schema import REVISION
from steelyard.store.settings import Settings

__all__ = ["Store"]


class Store:
    """A study's database, open: a facet for each thing it keeps.

    All facets promise the same, on SQLite and on PostgreSQL (docs/store.md says more):

    - A call is one transaction. It is on disk when it returns; when it raises, nothing was written. Calls inside
      `with store.change(…)` are one transaction together.
    - Answers, grades and the audit log are append-only: undoing or changing something is another row.
    - What is sent twice, with the same id, is written once.
    - Numbers of rows, pairs and models are in the order of commits, so reading on after the last one misses nothing.
    - Whatever goes wrong is a `StoreError` (errors.py), whose text never holds a password.
    - Times are seconds since 1970 by the clock of the database's machine, unless `now` is given.
    - Threads may share a store; after a fork the child makes its own connections.

    Attributes:
        images: what is compared.
        pairs: what is asked, and who holds it.
        known: pairs whose answer is known: for warming up and for checks.
        answers: what people said.
        decisions: what leads decided where people disagree.
        grades: what they said about single images.
        models: what was learnt, and who is learning now.
        people: who answers and signs in.
        audit: who did what, hashes and signatures.
        settings: what the study remembers besides.
        database: what all of these share.
        url: where it is, without the password.
        revision: of its schema.
        trouble: what a quick look at opening found damaged, in a sentence; None when it found nothing.
    """

    def __init__(self, database: Database, *, trouble: str | None = None) -> None:
        """Facets of an open database; `Store.open` opens one."""
        self.database = database
        self.images = Images(database)
        self.pairs = Pairs(database)
        self.known = Known(database)
        self.answers = Answers(database)
        self.decisions = Decisions(database)
        self.grades = Grades(database)
        self.models = Models(database)
        self.people = People(database)
        self.audit = Audit(database)
        self.settings = Settings(database)
        self.url, self.revision, self.trouble = database.url, REVISION, trouble

    @classmethod
    def open(cls, url: str, *, create: bool = True, migrate: bool = True) -> Store:
        """Open a store; make it if it is not there, migrate it if it is older.

        An older SQLite study is copied to `study.db.backup-<revision>-<time>` first.

        Args:
            url: `sqlite:///folder/study.db` or `postgresql+psycopg://user:password@host/database`.
            create: make the tables where there are none; False raises instead.
            migrate: bring an older study to this version; False raises instead.

        Raises:
            StoreError: it cannot be opened, is damaged, is no study, or was written by a newer Steelyard.
            MissingExtraError: PostgreSQL's driver is not installed.
        """
        engine = make_engine(read_url(url))
        try:
            trouble = quick_look(engine)
            prepare(engine, create=create, migrate=migrate)
        except BaseException:
            engine.dispose()
            raise
        return cls(Database(engine), trouble=trouble)

    def check(self, expect: Iterable[Head] = ()) -> list[str]:
        """Read everything and say what is wrong, in sentences; an empty list is a sound store.

        Args:
            expect: heads of the logs that were noted earlier (`audit.heads`). Without them a log that was cut off at its
                end, or written anew from its beginning, looks whole.
        """
        with self.database.reading() as connection:
            return soundness.problems(connection, expect)

    def change(
        self, id: str | None, actor: str, what: str, *, now: float | None = None
    ) -> AbstractContextManager[Change]:
        """Make a change once: all calls inside are one transaction, which the change's id is part of.

        Args:
            id: made by the client; None is always to be made.
            actor: who makes it.
            what: what it is, so that an id used for something else is noticed.
            now: seconds since 1970; None asks the database.

        Raises:
            ConflictError: the id was used for another change.

        Example:
            with store.change(key, "ada", "add annotator mo") as change:
                if change.first:
                    store.people.add("mo")
                    store.audit.add("ada", "annotator added", {"name": "mo"})
        """
        return change(self.database, id, actor, what, now)

    def change_made(self, id: str | None, actor: str, what: str) -> float | None:
        """When a change was made, or None: for one that takes too long for a transaction. Errors as in `change`."""
        return change_made(self.database, id, actor, what)

    def probe(self) -> None:
        """Check that the database answers and could be written to; nothing is written.

        Raises:
            StoreError: it cannot be used now, and why.
        """
        self.database.probe()

    def check_revision(self) -> None:
        """Make sure that no newer version has migrated the study since it was opened here.

        Raises:
            StoreError: one has.
        """
        with self.database.reading() as connection:
            check_revision(connection)

    def checkpoint(self) -> None:
        """Copy SQLite's write-ahead log into its file, as far as that makes nobody wait."""
        self.database.checkpoint()

    def close(self) -> None:
        """Close all connections."""
        with wrapped_errors(self.database.engine):
            self.database.engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
