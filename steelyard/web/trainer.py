"""The trainer: a process of its own that learns from answers as they come in.

There is no queue of jobs. What has to be done follows from the store: images that nothing has been computed of mean computing
it; enough answers newer than the newest model mean a fit; an empty study means the first, spread-out pairs. One lease with a heartbeat says who does it, so any number of
trainers may run on any number of machines; when one dies, another takes over once its lease has run out.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from steelyard.errors import SteelyardError
from steelyard.loop.policy import Standing, Work
from steelyard.store.errors import UnavailableError
from steelyard.store.store import Store
from steelyard.study import Study
from steelyard.study.describing import Describer, outgrown
from steelyard.study.following import ConfigFollower
from steelyard.study.lease import LeaseLost, TrainerLease
from steelyard.study.models import joined_since
from steelyard.study.remote import RemoteStudy
from steelyard.study.shelf import ShelfError
from steelyard.web import logs
from steelyard.web.priority import step_back

__all__ = ["TrainerProcess", "pending_work", "run_for_many", "run_worker"]

POLL_SECONDS = 1.0
RETRY_SECONDS = 60.0
# Until there is a model, people answer random pairs, so what leads to it is behind them but not far: beside a program that
# takes all it can get, a process that is nice to 5 still has a quarter of a core (to 15: a thirtieth).
NICE, NICE_LATER = 5, 10
log = logging.getLogger("steelyard.trainer")


def pending_work(study: Study, *, some: bool = False) -> Work:
    """What a trainer should do now: `describe` images, `fit`, `start` (the first pairs), `choose` (on features) or nothing.

    Args:
        study: what is trained.
        some: whether it may go on with the images that have been described so far.
    """
    store, config, newest = study.store, study.config, study.store.models.newest()
    now = Standing(
        model=newest is not None,
        answered=store.answers.count(),
        new=store.answers.last_seq() - (newest.comparisons_seq if newest else 0),
        learnt=int(newest.metrics.get("answers", 0)) if newest else 0,
        new_grades=store.grades.last_seq() - newest.grades_seq if newest and config.ranker.multitask else 0,
        up=store.pairs.open_count,
        started=lambda: _started(study),
        described=study.described,
        grown=newest is not None
        and (joined_since(study.folder / newest.path, len(study.catalog)) > 0 or outgrown(study, newest)),
        some=some,
    )
    return study.policy.work(now, refit_after=config.refit_after)


def _started(study: Study) -> bool:
    """Whether the start strategy has chosen pairs among the images that there are now."""
    store, start = study.store, study.config.ask.start
    if not any(pair.strategy == start for pair in store.pairs.all(limit=2000)):
        return False
    return not store.settings.get("images joined") or bool(store.settings.get(_start_key(study)))


def _start_key(study: Study) -> str:
    return f"start chosen among {len(study.catalog)} images"


class _Shift:
    """What a trainer does for one study, one look at a time."""

    def __init__(self, study: Study, remote: RemoteStudy | None = None, *, once: bool = False) -> None:
        self.study, self._remote, self._once = study, remote, once
        self._lease, self._file, self._describer = (
            TrainerLease(study.store),
            ConfigFollower(),
            Describer(study),
        )
        self._failed_at, self._failed_seq, self._said = 0.0, -1, ""
        self.turns = 0

    def look(self) -> bool:
        """See what has to be done and do it; whether anything was tried.

        Raises:
            SteelyardError: it cannot go on; or, where there is but one look, what went wrong.
        """
        study = self.study
        study.store.check_revision()  # somebody may have migrated it
        if not self._in_step():
            return False
        self._file.follow(study)  # the page may have changed it
        if study.follow():
            self._failed_at, self._failed_seq = 0.0, -1  # with other images it may go well
            self._describer = Describer(study)
        seq = study.store.answers.last_seq()
        lately = time.monotonic() - self._failed_at < RETRY_SECONDS and self._failed_at > 0
        if seq == self._failed_seq or lately or not self._pending() or not self._lease.claim():
            return False
        try:
            study.sharing.fetch()
            if kind := self._pending():  # another trainer may have done it in between
                if self._remote is not None:
                    self._remote.check_inputs(study)
                _turn(study, self._lease, kind, self._describer)
                self.turns += 1
            self._failed_at, self._failed_seq = 0.0, -1
        except LeaseLost:
            log.warning("another trainer took over")
        except SteelyardError as error:
            log.error("%s", error)
            # With the same answers it would fail again, unless it was only the way to the shelf or to the store.
            away = isinstance(error, ShelfError | UnavailableError)
            self._failed_at, self._failed_seq = time.monotonic(), -1 if away else seq
            if self._once:
                raise
        finally:
            self._lease.release()  # also when told to stop before the turn began, or when there was nothing to do
        return True

    def _pending(self) -> Work:
        return pending_work(self.study, some=self._describer.paused)

    def _in_step(self) -> bool:
        """Take in what other machines have made. Without the newest model we would do again what it has done."""
        try:
            if self._remote is not None:
                self._remote.refresh(self.study)
            self.study.sharing.refresh()
        except ShelfError as error:
            self.wait_for(error)
            return False
        self._said = ""
        return True

    def wait_for(self, error: SteelyardError) -> None:
        """Say once that something is away which will come back; raises it where there is but one look."""
        if self._once:
            raise error
        if str(error) != self._said:
            log.error("%s; waiting for it", error)
        self._said = str(error)


def run_worker(
    study_folder: str | Path | RemoteStudy,
    *,
    once: bool = False,
    nice: bool = True,
    parent: int | None = None,
) -> int:
    """Train whenever there are enough new answers, until stopped.

    Args:
        study_folder: the study; several machines may share it, or have a copy made from its store and its shelf.
        once: do what is pending, then return.
        nice: step back behind the page and everything else on this machine.
        parent: end when this process is no longer the parent (the server that started it is gone).

    Returns:
        Turns done.
    """
    _leave_quietly(parent)
    stood_back = 0
    remote = study_folder if isinstance(study_folder, RemoteStudy) else None
    with remote.open() if remote else Study.open(study_folder) as study:  # type: ignore[arg-type]
        shift = _Shift(study, remote, once=once)
        while parent is None or os.getppid() == parent:
            try:
                if nice and (wanted := _niceness(study)) != stood_back:
                    step_back(wanted)
                    stood_back = wanted
                worked = shift.look()
            except UnavailableError as error:  # a database is restarted now and then
                shift.wait_for(error)
                worked = False
            if not worked:
                if once:
                    break
                time.sleep(POLL_SECONDS)
        return shift.turns


def run_for_many(folders: Sequence[Path], parent: int) -> None:
    """The same for several studies by turns, in one process: a long fit makes the others wait, and takes memory once.

    A study that cannot be used now is tried again in a minute; the others go on.
    """
    _leave_quietly(parent)
    step_back(NICE)
    open_: dict[Path, _Shift] = {}
    failed: dict[Path, float] = {}
    try:
        while os.getppid() == parent:
            worked = False
            for folder in folders:
                if time.monotonic() - failed.get(folder, -RETRY_SECONDS) < RETRY_SECONDS:
                    continue
                try:
                    if folder not in open_:
                        open_[folder] = _Shift(Study.open(folder))
                    worked = open_[folder].look() or worked
                except SteelyardError as error:
                    log.error("%s: %s", folder.name, error)
                    failed[folder] = time.monotonic()
                    if (left := open_.pop(folder, None)) is not None:
                        left.study.close()
            if not worked:
                time.sleep(POLL_SECONDS)
    finally:
        for shift in open_.values():
            shift.study.close()


def _leave_quietly(parent: int | None) -> None:
    if threading.current_thread() is threading.main_thread() and parent is not None:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


def _niceness(study: Study) -> int:
    return NICE if study.store.models.newest() is None else NICE_LATER


def _turn(study: Study, lease: TrainerLease, kind: Work, describer: Describer) -> None:
    """Do one thing under the lease; while images are being described, with those that have been."""
    from steelyard.terminal import progress_bar

    with lease.working(kind), progress_bar(None if logs.chosen_format() == "quiet" else log.info) as bar:

        def progress(done: int, total: int, text: str) -> None:
            lease.progress(done, total, text)
            bar(done, total, text)

        if kind == "describe":
            lease.say("computing what the model sees of the images")
            describer.turn(progress)
        elif kind == "fit":
            if describer.paused:
                describer.catch_up(progress)
            lease.say("training")
            model = study.fit(lease=lease, progress=progress)
            lease.say(f"model {model.id} from {model.answers} answers")
            if model.note:  # how many, not which: annotators read this too
                lease.say(model.note)
        else:
            lease.say("choosing pairs")
            made = study.store.pairs.add_all(study.questions.draft_for_trainer(progress))
            if kind == "start":
                study.store.settings.keep(_start_key(study), True)
            lease.say(f"{len(made)} pairs chosen")


class TrainerProcess:
    """The trainer that `serve` starts beside itself, one for all its studies; a dead one is started again."""

    def __init__(self, *study_folders: Path) -> None:
        self.folders = study_folders
        self._child: subprocess.Popen[bytes] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="trainer watch", daemon=True)

    def start(self) -> None:
        """Start it and watch over it."""
        self._thread.start()

    @property
    def pid(self) -> int | None:
        """Process id, None while none runs."""
        return self._child.pid if self._child is not None and self._child.poll() is None else None

    def stop(self) -> None:
        """End it; what it was training is trained again by the next one, from its last checkpoint."""
        self._stop.set()
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def give_back(self, store: Store) -> None:
        """Give the lease of a trainer that had to be killed to the next one; it need not run out first."""
        if self._child is None:
            return
        try:
            owner = store.models.trainer.state().owner
            if owner is not None and owner.startswith(f"{socket.gethostname()}:{self._child.pid}:"):
                store.models.trainer.release(owner)
        except SteelyardError as error:
            log.warning("the trainer's lease was not given back, it runs out by itself: %s", error)

    def _watch(self) -> None:
        pause = 1.0
        while not self._stop.is_set():
            started = time.monotonic()
            self._child = subprocess.Popen(
                [sys.executable, "-m", "steelyard.web.trainer", *map(str, self.folders), "--server", str(os.getpid())],
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            while self._child.poll() is None and not self._stop.wait(0.5):
                pass
            if self._stop.is_set():
                return
            log.warning("the trainer ended with %s; starting another", self._child.returncode)
            pause = 1.0 if time.monotonic() - started > 60 else min(pause * 2, 60)
            self._stop.wait(pause)


if __name__ == "__main__":
    logs.set_up(logs.chosen_format())
    try:
        parser = argparse.ArgumentParser()
        parser.add_argument("folders", nargs="+", type=Path)
        parser.add_argument("--server", type=int, help="process that it ends with")
        given = parser.parse_args()
        if len(given.folders) > 1:
            run_for_many(given.folders, given.server or os.getppid())
        else:
            run_worker(given.folders[0], parent=given.server)
    except SteelyardError as error:
        # A study that cannot be opened now: the server starts another trainer in a while.
        log.error("%s", error)
        sys.exit(2)
