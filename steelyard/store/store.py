"""The store: one object for everything that people answered. docs/store.md lists its methods by noun."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from steelyard.store import soundness
from steelyard.store.annotators import AnnotatorTable
from steelyard.store.answers import AnswerTable
from steelyard.store.attempts import AttemptTable
from steelyard.store.audit import AuditLog
from steelyard.store.backup import copy_sqlite
from steelyard.store.chain import Head
from steelyard.store.changes import ChangeTable
from steelyard.store.comparisons import ComparisonLog
from steelyard.store.database import make_engine, read_url, wrapped_errors
from steelyard.store.errors import StoreError
from steelyard.store.grades import GradeLog
from steelyard.store.grading import GradeLeases
from steelyard.store.images import ImageTable
from steelyard.store.importing import ImportTable
from steelyard.store.leases import LeaseTable
from steelyard.store.opening import prepare, quick_look
from steelyard.store.pairs import PairTable
from steelyard.store.sessions import SessionTable
from steelyard.store.signature import SignatureLog
from steelyard.store.trainer import TrainerTable

__all__ = ["Store"]


class Store(
    ImageTable,
    PairTable,
    LeaseTable,
    ComparisonLog,
    ImportTable,
    AnswerTable,
    GradeLog,
    GradeLeases,
    TrainerTable,
    AnnotatorTable,
    SessionTable,
    AttemptTable,
    AuditLog,
    ChangeTable,
    SignatureLog,
):
    """A study's database, open. May be shared between threads; after a fork the child makes its own connections.

    Attributes:
        url: where it is, without the password.
        revision: of its schema.
        trouble: what a quick look at opening found damaged, in a sentence; None when it found nothing.
    """

    trouble: str | None = None

    @classmethod
    def open(cls, url: str, *, create: bool = True) -> Store:
        """Open a store; make it if it is not there, migrate it if it is older.

        An older SQLite study is copied to `study.db.backup-<revision>-<time>` first.

        Args:
            url: `sqlite:///folder/study.db` or `postgresql+psycopg://user:password@host/database`.
            create: make the tables where there are none; False raises instead.

        Raises:
            StoreError: it cannot be opened, is damaged, is no study, or was written by a newer Steelyard.
            MissingExtraError: PostgreSQL's driver is not installed.
        """
        engine = make_engine(read_url(url))
        try:
            trouble = quick_look(engine)
            prepare(engine, create=create)
        except BaseException:
            engine.dispose()
            raise
        opened = cls(engine)
        opened.trouble = trouble
        return opened

    def backup(self, path: str | Path) -> Path:
        """Copy a SQLite store to a new file while it is in use.

        Raises:
            StoreError: the store is on PostgreSQL, or the file exists or cannot be written.
        """
        if not self._sqlite:
            raise StoreError(
                "only a SQLite store is copied as a file; back up the whole study with: steelyard backup",
                place=self.url,
            )
        return copy_sqlite(Path(str(self._engine.url.database)), Path(path))

    def check(self, expect: Iterable[Head] = ()) -> list[str]:
        """Read everything and say what is wrong, in sentences; an empty list is a sound store.

        Args:
            expect: heads of the logs that were noted earlier (`heads`). Without them a log that was cut off at its
                end, or written anew from its beginning, looks whole.
        """
        with self._reading() as connection:
            return soundness.problems(connection, expect)

    def close(self) -> None:
        """Close all connections."""
        with wrapped_errors(self._engine):
            self._engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
