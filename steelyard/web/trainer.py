"""The trainer: a process of its own that learns from answers as they come in.

There is no queue of jobs. What has to be done follows from the store: enough answers newer than the newest model mean
a fit; an empty study means the first, spread-out pairs. One lease with a heartbeat says who does it, so any number of
trainers may run on any number of machines; when one dies, another takes over once its lease has run out.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from steelyard.errors import SteelyardError
from steelyard.loop.policy import Standing, Work
from steelyard.store.store import Store
from steelyard.study import Study
from steelyard.study.lease import LeaseLost, TrainerLease
from steelyard.study.making import current_config
from steelyard.web import logs
from steelyard.web.priority import step_back

__all__ = ["TrainerProcess", "pending_work", "run_worker"]

POLL_SECONDS = 1.0
RETRY_SECONDS = 60.0
log = logging.getLogger("steelyard.trainer")


def pending_work(study: Study) -> Work:
    """What a trainer should do now: `fit`, `start` (the first pairs), `choose` (pairs on features) or nothing."""
    store, config, newest = study.store, study.config, study.store.models.newest()
    now = Standing(
        model=newest is not None,
        answered=store.answers.count(),
        new=store.answers.last_seq() - (newest.comparisons_seq if newest else 0),
        new_grades=store.grades.last_seq() - newest.grades_seq if newest and config.ranker.multitask else 0,
        up=store.pairs.open_count,
        started=lambda: any(pair.strategy == config.ask.start for pair in store.pairs.all(limit=2000)),
    )
    return study.policy.work(now, refit_after=config.refit_after)


def run_worker(
    study_folder: str | Path, *, once: bool = False, nice: int = 15, parent: int | None = None
) -> int:
    """Train whenever there are enough new answers, until stopped.

    Args:
        study_folder: the study; several machines may share it.
        once: do what is pending, then return.
        nice: how far to step back behind the page and everything else on this machine.
        parent: end when this process is no longer the parent (the server that started it is gone).

    Returns:
        Turns done.
    """
    step_back(nice)
    if threading.current_thread() is threading.main_thread() and parent is not None:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    turns, failed_at, failed_seq = 0, 0.0, -1
    with Study.open(study_folder) as study:
        lease = TrainerLease(study.store)
        while True:
            if parent is not None and os.getppid() != parent:
                return turns
            study.config = current_config(study.folder)  # the page may have changed it
            seq = study.store.answers.last_seq()
            resting = seq == failed_seq or (time.monotonic() - failed_at < RETRY_SECONDS and failed_at > 0)
            kind = "" if resting else pending_work(study)
            if kind and lease.claim():
                try:
                    if kind := pending_work(study):  # another trainer may have done it in between
                        _turn(study, lease, kind)
                        turns += 1
                    failed_at, failed_seq = 0.0, -1
                except LeaseLost:
                    log.warning("another trainer took over")
                except SteelyardError as error:
                    log.error("%s", error)
                    failed_at, failed_seq = time.monotonic(), seq
                    if once:
                        raise
                finally:
                    lease.release()  # also when told to stop before the turn began, or when there was nothing to do
            elif once:
                return turns
            if not kind:
                time.sleep(POLL_SECONDS)


def _turn(study: Study, lease: TrainerLease, kind: Work) -> None:
    """Do one thing under the lease."""
    with lease.working(kind):
        if kind == "fit":
            lease.say("training")
            model = study.fit(lease=lease)
            lease.say(f"model {model.round} from {model.answers} answers")
            if model.note:  # how many, not which: annotators read this too
                lease.say(model.note)
        else:
            lease.say("choosing pairs")
            made = study.store.pairs.add_all(study.questions.draft_for_trainer(lease.progress))
            lease.say(f"{len(made)} pairs chosen")


class TrainerProcess:
    """The trainer that `serve` starts beside itself; a dead one is started again."""

    def __init__(self, study_folder: Path) -> None:
        self.folder = study_folder
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
                [sys.executable, "-m", "steelyard.web.trainer", str(self.folder), str(os.getpid())],
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
        run_worker(sys.argv[1], parent=int(sys.argv[2]) if len(sys.argv) > 2 else None)
    except SteelyardError as error:
        # A study that cannot be opened now: the server starts another trainer in a while.
        log.error("%s", error)
        sys.exit(2)
