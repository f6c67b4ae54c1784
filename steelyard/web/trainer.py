"""The trainer: a process of its own that learns from answers as they come in.

There is no queue of jobs. What has to be done follows from the store: enough answers newer than the newest model mean
a fit; an empty study means the first, spread-out pairs. One lease with a heartbeat says who does it, so any number of
trainers may run on any number of machines; when one dies, another takes over once its lease has run out.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

from steelyard.config import StudyConfig
from steelyard.errors import SteelyardError
from steelyard.loop.policy import Standing, Work
from steelyard.store.store import Store
from steelyard.study import Study
from steelyard.web import logs
from steelyard.web.priority import step_back

__all__ = ["TrainerProcess", "pending_work", "run_worker"]

LEASE_SECONDS = 30.0
BEAT_SECONDS = 5.0
POLL_SECONDS = 1.0
RETRY_SECONDS = 60.0
log = logging.getLogger("steelyard.trainer")


class _LeaseLost(BaseException):
    """Somebody else trains now. A BaseException, so that nothing in a fit takes it for a failure of its own."""


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


class _Work:
    """One claimed turn: keeps the lease alive and tells the page how far it is."""

    def __init__(self, study: Study, owner: str, kind: str) -> None:
        self.study, self.owner = study, owner
        self.lost = threading.Event()
        self._over = threading.Event()
        self._log: deque[str] = deque(maxlen=200)
        self._last_text = ""
        self._state: dict[str, Any] = {
            "stage": kind,
            "done": 0,
            "total": 0,
            "text": "",
            "started": time.time(),
        }
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> _Work:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(timeout=30)

    def progress(self, done: int, total: int, text: str) -> None:
        """Told by the fit; ends it when the lease is lost."""
        if self.lost.is_set():
            raise _LeaseLost
        self._state = {**self._state, "done": int(done), "total": int(total), "text": text}
        if text != self._last_text:
            self._last_text = text
            self.say(text)

    def say(self, text: str) -> None:
        """A line for the log on the page."""
        self._log.append(f"{time.strftime('%H:%M:%S')}  {text}")

    def snapshot(self) -> dict[str, Any]:
        return {**self._state, "log": list(self._log)[-50:]}

    def _beat(self) -> None:
        while not self._over.wait(BEAT_SECONDS):
            try:
                held = self.study.store.models.trainer.heartbeat(
                    self.owner, self.snapshot(), seconds=LEASE_SECONDS
                )
            except (
                SteelyardError
            ) as error:  # a database that is away for a moment; the lease outlives a few beats
                log.warning("heartbeat failed: %s", error)
                continue
            if not held:
                self.lost.set()
                return


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
    owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
    turns, failed_at, failed_seq = 0, 0.0, -1
    with Study.open(study_folder) as study:
        while True:
            if parent is not None and os.getppid() != parent:
                return turns
            study.config = StudyConfig.load(study.folder / "study.toml")  # the page may have changed it
            seq = study.store.answers.last_seq()
            resting = seq == failed_seq or (time.monotonic() - failed_at < RETRY_SECONDS and failed_at > 0)
            kind = "" if resting else pending_work(study)
            if kind and study.store.models.trainer.claim(owner, LEASE_SECONDS):
                try:
                    if pending_work(study):  # another trainer may have done it in between
                        _turn(study, owner, kind)
                        turns += 1
                    failed_at, failed_seq = 0.0, -1
                except _LeaseLost:
                    log.warning("another trainer took over")
                except SteelyardError as error:
                    log.error("%s", error)
                    failed_at, failed_seq = time.monotonic(), seq
                    if once:
                        raise
                finally:
                    _release(
                        study, owner
                    )  # also when told to stop before the turn began, or when there was nothing to do
            elif once:
                return turns
            if not kind:
                time.sleep(POLL_SECONDS)


def _release(study: Study, owner: str) -> None:
    """Give the lease back, if it is still ours."""
    try:
        study.store.models.trainer.release(owner)
    except SteelyardError as error:
        log.warning("the lease was not given back, it runs out by itself: %s", error)


def _turn(study: Study, owner: str, kind: str) -> None:
    """Do one thing under the lease and say how it ended."""
    final: dict[str, Any] = {}
    try:
        with _Work(study, owner, kind) as work:
            try:
                if kind == "fit":
                    work.say("training")
                    model = study.fit(progress=work.progress, trainer=owner)
                    work.say(f"model {model.round} from {model.answers} answers")
                    if model.note:  # how many, not which: annotators read this too
                        work.say(model.note)
                else:
                    work.say("choosing pairs")
                    made = study.store.pairs.add_all(study.questions.draft_for_trainer(work.progress))
                    work.say(f"{len(made)} pairs chosen")
                final = {**work.snapshot(), "stage": "done", "done": 0, "total": 0}
            except SteelyardError as error:
                work.say(str(error))
                final = {**work.snapshot(), "stage": "failed", "text": str(error), "done": 0, "total": 0}
                raise
    finally:
        study.store.models.trainer.release(owner, final or None)


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
