"""The trainer derives its work from the store; one trains at a time; a dead one is replaced."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard.pairs import Answer
from steelyard.study import Study, sharing
from steelyard.study.following import ConfigFollower
from steelyard.study.lease import TrainerLease
from steelyard.study.remote import RemoteStudy
from steelyard.study.sharing import Sharing
from steelyard.web import courier
from steelyard.web.trainer import TrainerProcess, pending_work, run_worker
from tests.waiting import until
from tests.web.actors import MakeStudy


def answer(study: Study, n: int) -> None:
    for pair in study.ask(n, annotator="kt"):
        study.tell(pair, Answer.LEFT, annotator="kt")


def test_work_follows_from_the_store(study: Study) -> None:
    assert pending_work(study) == ""
    answer(study, study.config.refit_after - 1)
    assert pending_work(study) == ""
    answer(study, 1)
    assert pending_work(study) == "fit"
    assert run_worker(study.folder, once=True, nice=False) == 1
    assert pending_work(study) == ""
    model = study.store.models.newest()
    assert model is not None
    assert model.comparisons_seq == study.store.answers.last_seq()
    state = study.store.models.trainer.state()
    assert state.owner is None
    assert state.progress["stage"] == "done"
    assert any("model 1 from" in line for line in state.progress["log"])


def test_a_typing_mistake_in_the_settings_does_not_stop_the_trainer(
    make_study: MakeStudy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    study = make_study()
    answer(study, 20)
    file = study.folder / "study.toml"
    follow = ConfigFollower.follow

    def mistyped(self: ConfigFollower, opened: Study) -> None:
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("raters = 1", "raters = one"), encoding="utf-8")
        follow(self, opened)

    monkeypatch.setattr(ConfigFollower, "follow", mistyped)
    assert run_worker(study.folder, once=True, nice=False) == 1
    assert sum("is not valid TOML" in text for text in caplog.messages) == 1


def test_the_last_answers_are_learnt_although_they_are_few(make_study: MakeStudy, store_url: str) -> None:
    study = make_study(store=store_url, ask={"budget": 0.5, "start": "random"})  # 30 answers
    answer(study, 20)
    run_worker(study.folder, once=True, nice=False)
    answer(study, 10)
    assert pending_work(study) == "fit"


def test_the_first_pairs_are_spread_by_the_trainer(make_study: MakeStudy, store_url: str) -> None:
    study = make_study(store=store_url, ask={"start": "spread"})
    assert pending_work(study) == "start"
    assert run_worker(study.folder, once=True, nice=False) == 1
    assert pending_work(study) == ""
    assert {pair.strategy for pair in study.store.pairs.all()} <= {"spread", "random"}
    assert study.store.pairs.open_count() >= 12


def test_only_the_owner_of_the_lease_trains(study: Study) -> None:
    answer(study, 20)
    assert study.store.models.trainer.claim("elsewhere", 60)
    assert run_worker(study.folder, once=True, nice=False) == 0
    assert study.store.models.newest() is None
    study.store.models.trainer.release("elsewhere")
    assert run_worker(study.folder, once=True, nice=False) == 1


def test_a_trainer_that_lost_its_lease_stops_and_leaves_no_model(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(study, 20)
    monkeypatch.setattr("steelyard.study.lease.BEAT_SECONDS", 0.05)

    def slow(self: Study, *, lease: TrainerLease, **_: object) -> None:
        study.store.models.trainer.release(lease.owner)
        assert study.store.models.trainer.claim("usurper", 60)
        until(lambda: lease.progress(0, 1, "pretending"), "the end of a fit without its lease")

    monkeypatch.setattr(Study, "fit", slow)
    assert run_worker(study.folder, once=True, nice=False) == 0
    assert study.store.models.newest() is None
    assert study.store.models.trainer.state().owner == "usurper"


def test_a_failed_fit_is_told_and_answers_stay(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    from steelyard.errors import RankerError

    answer(study, 20)

    def broken(self: Study, **_: object) -> None:
        raise RankerError("the loss is not finite")

    monkeypatch.setattr(Study, "fit", broken)
    with pytest.raises(RankerError):
        run_worker(study.folder, once=True, nice=False)
    state = study.store.models.trainer.state()
    assert (state.owner, state.progress["stage"]) == (None, "failed")
    assert "not finite" in state.progress["text"]
    assert study.store.answers.count() == 20


def test_a_killed_trainer_is_replaced_and_the_work_is_done(make_study: MakeStudy) -> None:
    """Killed while it holds the lease; another takes over when it has run out."""
    study = make_study()
    answer(study, 20)
    hold = (
        "import sys, time; from steelyard.study import Study; s = Study.open(sys.argv[1]); "
        "print(s.store.models.trainer.claim('doomed', 2.0), flush=True); time.sleep(60)"
    )
    doomed = subprocess.Popen(
        [sys.executable, "-c", hold, str(study.folder)], stdout=subprocess.PIPE, text=True
    )
    assert doomed.stdout is not None
    assert doomed.stdout.readline().strip() == "True"
    doomed.send_signal(signal.SIGKILL)
    doomed.wait()
    doomed.stdout.close()
    process = TrainerProcess(study.folder)
    process.start()
    try:
        until(lambda: study.store.models.newest() is not None, "a model")
    finally:
        process.stop()
    assert process.pid is None


def test_the_trainer_of_a_dead_server_ends(make_study: MakeStudy) -> None:
    study = make_study()
    code = (
        "import subprocess, sys, os; p = subprocess.Popen([sys.executable, '-m', 'steelyard.web.trainer', "
        "sys.argv[1], '--server', str(os.getpid())]); print(p.pid, flush=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(study.folder)], capture_output=True, text=True, check=True
    )
    child = int(done.stdout)

    def gone() -> bool:
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return True
        return (
            Path(f"/proc/{child}/stat").read_text(encoding="ascii").split()[2] == "Z"
        )  # ended, not yet asked about

    until(gone, "the end of the trainer")


def test_the_courier_goes_on_whatever_happens(
    make_study: MakeStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk, an error that nobody foresaw; and what another process fetched is gone the moment one looks at it."""
    study = make_study(models=f"file://{tmp_path}/shelf")
    answer(study, 20)
    study.sharing.refresh()
    run_worker(
        RemoteStudy(f"sqlite:///{study.folder}/study.db", "", tmp_path / "cache"), once=True, nice=False
    )
    (study.folder / "models" / ".fetching-gone").symlink_to("nowhere")
    monkeypatch.setattr(courier, "SECONDS", 0.05)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def odd(_: Sharing) -> bool:
        raise RuntimeError("nobody foresaw this")

    fetching = courier.Courier(study)
    with monkeypatch.context() as without_room:
        without_room.setattr(sharing.tempfile, "mkdtemp", full)
        fetching.start()
        try:
            until(lambda: "make room on the disk" in caplog.text, "word of the full disk")
            with monkeypatch.context() as broken:
                broken.setattr(Sharing, "fetch", odd)
                until(lambda: "nobody foresaw this" in caplog.text, "word of the error")
            assert study.store.models.newest() is None
            without_room.undo()
            until(lambda: study.store.models.newest() is not None, "the model")
        finally:
            fetching.stop()


def test_a_scoring_process_places_a_picture(make_study: MakeStudy, pictures, tmp_path) -> None:  # type: ignore[no-untyped-def]
    """Pixels go to a process that may load torch; this one does not."""
    from steelyard.images.catalog import Catalog
    from steelyard.web.placer import Placer

    catalog = Catalog.from_csv(pictures / "labels.csv", root=pictures).subset(range(16))
    changes = {
        "ranker": {"image_size": 32},
        "ask": {"start": "random"},
    }
    with Study.create(tmp_path / "pixels", catalog, preset="small", **changes) as study:
        answer(study, 12)
        study.fit()
        placer = Placer(study.folder)
        try:
            found = placer.place(study.catalog.read(3))
            again = placer.place(study.catalog.read(3))
        finally:
            placer.stop()
        table = study.score().set_index("image")
        assert found == again
        assert found["score"] == pytest.approx(table.loc[study.catalog.ids[3], "score"], abs=1e-3)
