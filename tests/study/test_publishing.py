"""Models by attack: two trainers at once, a trainer killed in the middle, leftovers of all kinds."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import StudyError
from steelyard.ranker.ranker import load_ranker
from steelyard.store.records import NewModel
from steelyard.study import Study, publishing
from steelyard.study.lease import LeaseLost, TrainerLease
from steelyard.study.publishing import sweep, working_folder
from tests.study.conftest import answer

NETWORK = {"head": "mlp", "hidden": 4, "epochs": 4000, "patience": 4000, "draws": 2}


def folders(study: Study) -> set[str]:
    return {path.name for path in (study.folder / "models").iterdir()}


def announced(study: Study) -> list[str]:
    return [Path(model.path).name for model in study.store.models.all()]


def take_over(study: Study, holder: str) -> str:
    """Another machine takes the lease and trains; the name of its model."""
    study.store.models.trainer.release(holder)  # as if it had run out
    with Study.open(study.folder) as other:
        return other.fit().folder.name


# ---------------------------------------------------------------------- names


def test_a_name_is_never_used_again(answered: Study) -> None:
    names = [answered.fit().folder.name for _ in range(3)]
    assert all(re.fullmatch(r"round-00\d-[0-9a-f]{8}", name) for name in names)
    assert len(set(names)) == 3
    assert folders(answered) == set(names) == set(announced(answered))


def test_a_model_says_which_round_it_is_although_others_are_gone(answered: Study) -> None:
    assert [answered.fit().round for _ in range(3)] == [0, 1, 2]
    assert [model.round for model in answered.store.models.all()] == [0, 1, 2]


# ---------------------------------------------------------------------- two trainers at once


def test_a_late_trainer_neither_removes_nor_replaces_the_model_of_the_one_that_took_over(
    answered: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken for dead while it learnt; it wakes up when the other has announced its model."""
    first = answered.fit().folder.name
    lease = TrainerLease(answered.store)
    assert lease.claim()
    honest, theirs = publishing.sync_tree, []

    def meanwhile(folder: Path) -> None:
        honest(folder)
        if not theirs:
            theirs.append("")
            theirs[0] = take_over(answered, lease.owner)

    monkeypatch.setattr(publishing, "sync_tree", meanwhile)  # the last thing before a model gets its name
    with pytest.raises(LeaseLost):
        answered.fit(lease=lease)
    assert announced(answered) == [first, theirs[0]]
    assert folders(answered) == {first, theirs[0]}  # nothing of the late one is left
    load_ranker(answered.folder / "models" / theirs[0])
    assert answered.fit().round == 2


def test_a_trainer_that_loses_its_lease_between_name_and_announcement_takes_its_model_away(
    answered: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = TrainerLease(answered.store)
    assert lease.claim()
    honest, theirs = publishing.sync_folder, []

    def meanwhile(folder: Path) -> None:
        honest(folder)
        if not theirs:
            theirs.append("")
            theirs[0] = take_over(answered, lease.owner)

    monkeypatch.setattr(publishing, "sync_folder", meanwhile)
    with pytest.raises(LeaseLost):
        answered.fit(lease=lease)
    assert announced(answered) == [theirs[0]]
    assert folders(answered) == {theirs[0]}


def test_somebody_in_a_script_is_told_that_another_trainer_took_over(
    answered: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "sync_tree", lambda _: usurp(answered))
    with pytest.raises(StudyError, match="another trainer took over"):
        answered.fit()
    assert announced(answered) == []
    assert folders(answered) == set()


def usurp(study: Study) -> None:
    holder = study.store.models.trainer.state().owner
    assert holder is not None
    study.store.models.trainer.release(holder)
    assert study.store.models.trainer.claim("usurper", 60)


# ---------------------------------------------------------------------- leftovers

LEFT = (".training-0123-dead", "round-000.new", "round-007", "round-007-deadbeef", "round-012.new")


@pytest.fixture
def littered(answered: Study) -> Study:
    """With a model of 0.1's kind of name, one of ours, and what killed trainers left."""
    models = answered.fit().folder.parent
    newest = answered.store.models.newest()
    assert newest is not None
    shutil.copytree(answered.folder / newest.path, models / "round-000")  # as 0.1 named it
    answered.store.models.add(
        NewModel(1, "models/round-000", newest.fingerprint, newest.comparisons_seq, metrics=newest.metrics)
    )
    answered.fit()
    for name in LEFT:
        (models / name).mkdir()
        (models / name / "weights-ab.safetensors").write_bytes(b"half")
    (models / "notes").mkdir()
    (models / "round-1.txt").touch()
    return answered


def test_whoever_trains_sweeps_what_was_left_and_nothing_else(littered: Study) -> None:
    known = set(announced(littered))
    assert "round-000" in known
    model = littered.fit()
    assert folders(littered) == known | {model.folder.name, "notes", "round-1.txt"}
    for name in announced(littered):
        load_ranker(littered.folder / "models" / name)


def test_without_the_lease_nothing_is_swept(littered: Study) -> None:
    before = folders(littered)
    late = TrainerLease(littered.store)
    assert late.claim()
    usurp(littered)
    with pytest.raises(LeaseLost):
        sweep(littered.folder, littered.folder / "models" / "mine", littered.store, late)
    assert folders(littered) == before


def test_the_folder_of_a_fit_that_began_meanwhile_elsewhere_stays(
    littered: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """We look, and stop for an hour; the other machine begins; we wake up with our list."""
    lease = TrainerLease(littered.store)
    assert lease.claim()
    theirs: list[Path] = []
    honest = TrainerLease.check

    def check(self: TrainerLease) -> None:
        honest(self)
        theirs.append(working_folder(littered.folder, "4567"))

    monkeypatch.setattr(TrainerLease, "check", check)
    sweep(littered.folder, littered.folder / "models" / "mine", littered.store, lease)
    assert theirs[0].is_dir()
    assert not folders(littered) & set(LEFT)


def test_a_folder_that_is_taken_up_belongs_to_one(answered: Study) -> None:
    """The one that was taken for dead goes on writing, but not into the folder of its successor."""
    first = working_folder(answered.folder, "4567")
    (first / "checkpoint.json").write_text("{}")
    second = working_folder(answered.folder, "4567")
    assert (second / "checkpoint.json").exists()
    assert not first.exists()
    assert working_folder(answered.folder, "89ab") != second
    assert second.exists()


# ---------------------------------------------------------------------- killed

TRAIN = """
import sys
from steelyard.study import Study, lease
lease.LEASE_SECONDS, lease.BEAT_SECONDS = 1.0, 0.2
with Study.open(sys.argv[1]) as study:
    study.fit()
"""


def killed_in_training(study: Study) -> Path:
    """A process trains a network and is killed when two epochs are on disk; what it leaves."""
    process = subprocess.Popen([sys.executable, "-c", TRAIN, str(study.folder)])
    end = time.monotonic() + 120
    left: list[Path] = []
    while not left and time.monotonic() < end and process.poll() is None:
        time.sleep(0.05)
        left = [p for p in (study.folder / "models").glob(".training-*/checkpoint.json") if epochs(p) >= 2]
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert left, "it was to be killed while it trained"
    return left[0].parent


def epochs(manifest: Path) -> int:
    return len(json.loads(manifest.read_text(encoding="utf-8"))["extra"]["history"])


def test_a_killed_fit_neither_blocks_nor_stays(make_study: Callable[..., Study]) -> None:
    study = make_study(ranker=NETWORK, ask={"start": "random", "random_share": 0.0})
    answer(study, 12)
    left = killed_in_training(study)
    answer(study, 2)  # something else is learnt now
    study.config = study.config.with_changes(ranker={"epochs": 2, "patience": 2})
    model = study.fit()
    assert model.answers == 14
    assert not left.exists()
    assert folders(study) == {model.folder.name}


def test_a_killed_fit_of_the_same_answers_goes_on_where_it_was(make_study: Callable[..., Study]) -> None:
    study = make_study(ranker={**NETWORK, "epochs": 60, "patience": 60}, ask={"start": "random"})
    answer(study, 12)
    left = killed_in_training(study)
    done = epochs(left / "checkpoint.json")
    told: list[int] = []
    model = study.fit(progress=lambda at, _total, text: told.append(at) if "epoch" in text else None)
    assert min(told) > done - 1
    assert model.metrics["epochs"] == 60
    assert folders(study) == {model.folder.name}


@pytest.mark.parametrize("harm", [b"", b"{}", b'{"format": 1}'])
def test_a_checkpoint_that_is_of_no_use_is_dropped(
    make_study: Callable[..., Study], monkeypatch: pytest.MonkeyPatch, harm: bytes, caplog: Any
) -> None:
    study = make_study(ranker={**NETWORK, "epochs": 2}, ask={"start": "random"})
    answer(study, 12)
    honest = working_folder

    def damaged(folder: Path, fingerprint: str) -> Path:
        made = honest(folder, fingerprint)
        (made / "checkpoint.json").write_bytes(harm)
        return made

    monkeypatch.setattr("steelyard.study.learning.working_folder", damaged)
    assert study.fit().metrics["epochs"] == 2
    assert "of no use" in caplog.text
