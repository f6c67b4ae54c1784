"""Backups taken at any moment, and killed at any moment."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steelyard.rescue import backup_study, restore_study
from steelyard.rescue.archive import Archive
from steelyard.study import Study

SCRIPT = Path(__file__).parent / "saving.py"


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, SCRIPT, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )  # fmt: skip


@contextmanager
def answering(folder: Path, people: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that answer, from their first answer on until they are killed."""
    started = [start("answer", folder, f"p{number}") for number in range(people)]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline()
        yield started
    finally:
        for process in started:
            process.send_signal(signal.SIGKILL)
            process.communicate()


def test_every_backup_is_one_moment_of_the_log(
    study: Study, store_url: str, tmp_path: Path, new_database: Callable[[], str]
) -> None:
    """Four processes answer, each in order. A backup holds the first answers of each, and none after a gap."""
    made: list[tuple[Path, int]] = []
    with answering(study.folder, 4):
        for number in range(4):
            before = len(study.store.answers.log())  # all of these were acknowledged before the backup began
            made.append(
                (
                    backup_study(study.folder, tmp_path / f"{number}.zip", portable=number % 2 == 1).path,
                    before,
                )
            )
    log = [c.id for c in study.store.answers.log()]
    assert len(log) > 20
    sizes = []
    for number, (file, before) in enumerate(made):
        target = new_database() if store_url else ""
        done = restore_study(file, tmp_path / f"again-{number}", store=target)
        assert [f.sentence for f in done.findings if f.level == "problem"] == []
        with Study.open(tmp_path / f"again-{number}") as again:
            kept = again.store.answers.log()
            assert [c.id for c in kept] == log[: len(kept)], "a prefix of the log, in its order"
            assert len(kept) >= before, "what was acknowledged before is in it"
            with Archive.open(file) as archive:
                assert archive.about["rows"]["comparisons"] == len(kept)
                head = archive.about["heads"]["comparisons"]
            assert head == {"seq": kept[-1].seq, "hash": again.store.audit.heads()[0].hash}
            numbers = defaultdict(list)
            for comparison in kept:
                if comparison.note.startswith("p"):
                    name, _, count = comparison.note.partition(" ")
                    numbers[name].append(int(count))
            assert all(counts == list(range(len(counts))) for counts in numbers.values())
        sizes.append(len(kept))
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0]


def run(*arguments: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_killed_backup_leaves_no_backup(sqlite_study: Study, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    run("kill-backups", sqlite_study.folder, tmp_path / "kept")
    assert sqlite_study.store.check() == []


@pytest.mark.parametrize("fresh", [True, False])
def test_a_killed_restore_leaves_nothing_or_the_whole(
    sqlite_study: Study, tmp_path: Path, fresh: bool, answer: Callable[..., None]
) -> None:
    """Into a new folder, and over a study that is there."""
    made = backup_study(sqlite_study.folder, tmp_path / "b.zip").path
    answer(sqlite_study, 2, "lena")
    sqlite_study.close()
    seen = set(run("kill-restores", made, tmp_path / "targets", "" if fresh else sqlite_study.folder).split())
    assert seen <= ({"0", "7"} if fresh else {"0", "7", "9"})


@pytest.mark.postgres
def test_a_killed_restore_fills_postgresql_or_leaves_it_empty(
    sqlite_study: Study, tmp_path: Path, new_database: Callable[[], str]
) -> None:
    made = backup_study(sqlite_study.folder, tmp_path / "b.zip").path
    run("kill-filling", made, tmp_path / "targets", *(new_database() for _ in range(6)))


def test_a_full_disk_is_said_and_nothing_is_left_behind(sqlite_study: Study, tmp_path: Path) -> None:
    made = backup_study(sqlite_study.folder, tmp_path / "b.zip").path
    sqlite_study.close()
    run("full", sqlite_study.folder, made, tmp_path / "targets")
