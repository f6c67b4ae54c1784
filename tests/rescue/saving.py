"""Answer while backups are taken; kill backups and restores at random moments, or give them no room. Run as a script.

    python saving.py answer FOLDER NAME             answer for ever, saying so on standard output
    python saving.py kill-backups FOLDER TARGET     twenty backups into TARGET, each killed
    python saving.py kill-restores FILE FOLDER OLD  twenty restores into FOLDER/0 …, over a copy of OLD unless it is empty
    python saving.py kill-filling FILE FOLDER URL…  one killed restore into each database
    python saving.py full FOLDER FILE TARGET        backups and restores on a disk that takes no large file

Work is done in forked children, which are there at once and can be killed. Fails with an assertion, or prints what was
seen.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import alembic.command  # noqa: F401 - loaded once here, not in every child
import numpy as np
import sqlalchemy as sa

from steelyard.pairs import Answer
from steelyard.rescue import backup_study, check_study, restore_study
from steelyard.rescue.archive import Archive
from steelyard.store.records import NewComparison, NewPair
from steelyard.study import Study


def answer(folder: str, name: str) -> None:
    """As fast as possible, with pairs of one's own."""
    with Study.open(folder) as study:
        store, rng = study.store, np.random.default_rng(int(name[1:]))
        number = 0
        while True:
            i, j = sorted(rng.choice(len(study.catalog), 2, replace=False).tolist())
            [pair] = store.pairs.add_all([NewPair(i, j, repeat=int(rng.integers(2**30)))])
            stored = store.pairs.get(pair)
            said = NewComparison(
                pair, name, Answer.LEFT, stored.first, stored.second, note=f"{name} {number}"
            )
            store.answers.add(said)
            print(number, flush=True)
            number += 1


def in_child(work: Callable[[], object], *, seconds: float | None = None, limit: int | None = None) -> str:
    """Work in a child: killed after some seconds, or with no file above a limit. What it raised, or nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            work()
        except BaseException as error:
            os.write(writing, f"{type(error).__module__}.{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reading, encoding="utf-8") as heard:
        said = heard.read()
    os.waitpid(child, 0)
    return said


def kill_backups(folder: str, target: str) -> None:
    """A file that is there is whole, and nothing else is called a backup."""
    rng, whole = random.Random(2), 0
    for number in range(20):
        file = Path(target) / f"{number}.zip"
        said = in_child(lambda file=file: backup_study(folder, file), seconds=rng.uniform(0, 0.2))  # type: ignore[misc]
        assert not said, said
        if file.exists():
            whole += 1
            with Archive.open(file) as archive:
                archive.verify()
    names = [path.name for path in Path(target).iterdir()]
    assert all(name.endswith((".zip", ".unfinished")) for name in names), names
    backup_study(folder, Path(target) / "last.zip")
    print(f"{whole} of 20 were quicker")


def kill_restores(file: str, target: str, old: str) -> None:
    """Afterwards there is no study, the old one or the new one; and the next restore makes a whole one."""
    rng, seen = random.Random(3), []
    for number in range(20):
        folder = Path(target) / str(number)
        if old:
            shutil.copytree(old, folder)
        said = in_child(
            lambda folder=folder: restore_study(file, folder, replace=True),  # type: ignore[misc]
            seconds=rng.uniform(0, 0.25),
        )
        assert not said, said
        if (folder / "study.toml").exists():
            with Study.open(folder) as study:
                seen.append(study.store.answers.count())
                assert study.store.check() == []
                assert len(study.score()) == 15
        else:
            seen.append(0)
        restore_study(file, folder, replace=True)
        assert {finding.part for finding in check_study(folder)} <= {"leftovers"}
        if old:  # what was there before is never deleted
            assert list(folder.glob("replaced-*/study.db"))
    print(*seen)


def kill_filling(file: str, target: str, *urls: str) -> None:
    """The database holds everything or nothing."""
    rng = random.Random(4)
    for number, url in enumerate(urls):
        folder = Path(target) / str(number)
        said = in_child(
            lambda folder=folder, url=url: restore_study(file, folder, store=url),  # type: ignore[misc]
            seconds=rng.uniform(0.05, 0.5),
        )
        assert not said, said
        if (folder / "study.toml").exists():
            assert {finding.part for finding in check_study(folder)} <= {"leftovers"}
        engine = sa.create_engine(url)
        with engine.connect() as connection:
            tables = sa.inspect(connection).get_table_names()
            query = sa.text("SELECT count(*) FROM comparisons")
            count = connection.execute(query).scalar_one() if tables else 0
        engine.dispose()
        assert count == (9 if tables else 0), (count, tables)


def full(folder: str, file: str, target: str) -> None:
    """One of our errors, and nothing left behind."""
    size = (Path(folder) / "study.db").stat().st_size
    kept, again = Path(target) / "kept", Path(target) / "again"
    kept.mkdir(parents=True)
    for limit in (0, 4096, size // 2, size - 1):
        said = in_child(lambda: backup_study(folder, kept / "b.zip"), limit=limit)
        assert said.startswith("steelyard."), said
        assert list(kept.iterdir()) == []
        said = in_child(lambda: restore_study(file, again), limit=limit)
        assert said.startswith("steelyard."), said
        assert not again.exists()
    assert in_child(lambda: restore_study(file, again), limit=4 * size) == ""
    assert in_child(lambda: backup_study(again, kept / "b.zip"), limit=4 * size) == ""


if __name__ == "__main__":
    commands: dict[str, Callable[..., None]] = {
        "answer": answer, "kill-backups": kill_backups, "kill-restores": kill_restores, "kill-filling": kill_filling,
        "full": full,
    }  # fmt: skip
    commands[sys.argv[1]](*sys.argv[2:])
