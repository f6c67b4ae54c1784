"""One trains at a time, whoever it is; the others wait or are told."""

from __future__ import annotations

import threading

import pytest
from typer.testing import CliRunner

from steelyard.cli import app
from steelyard.errors import StudyError
from steelyard.study import Study, lease
from steelyard.study.lease import LeaseLost, TrainerLease
from tests.waiting import until


def test_every_fit_holds_the_lease_and_gives_it_back(answered: Study) -> None:
    holders: set[str | None] = set()
    trainer = answered.store.models.trainer
    answered.fit(progress=lambda *_: holders.add(trainer.state().owner))
    model = answered.store.models.newest()
    assert model is not None
    assert trainer.state().owner is None
    assert trainer.state().progress["stage"] == "done"
    assert None not in holders


def test_a_failed_fit_gives_the_lease_back_with_the_reason(make_study) -> None:  # type: ignore[no-untyped-def]
    study = make_study()
    with pytest.raises(StudyError, match="no answers to learn from"):
        study.fit()
    state = study.store.models.trainer.state()
    assert (state.owner, state.progress["stage"]) == (None, "failed")
    assert "no answers" in state.progress["text"]


def test_train_says_who_trains_when_that_takes_long(answered: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TrainerLease.wait, "__defaults__", (0.3, None))
    assert answered.store.models.trainer.claim("box7:123:ab", 60)
    done = CliRunner().invoke(app, ["train", str(answered.folder)])
    assert isinstance(done.exception, StudyError)  # which `main` turns into one line and exit code 2
    assert "this study is being trained by box7:123:ab; wait until that is done" in str(done.exception)
    assert answered.store.models.all() == []


def test_train_waits_for_the_trainer_of_the_page(answered: Study) -> None:
    trainer = answered.store.models.trainer
    assert trainer.claim("box7:123:ab", 60)
    told: list[str] = []
    end = threading.Timer(0.5, lambda: trainer.release("box7:123:ab"))
    end.start()
    model = answered.fit(progress=lambda _done, _total, text: told.append(text))
    end.join()
    assert model.answers == 12
    assert told[0] == "waiting for box7:123:ab, who trains now"


def test_a_lease_that_ran_out_is_ours_until_somebody_else_takes_it(
    answered: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "LEASE_SECONDS", 0.001)
    mine, other = TrainerLease(answered.store), TrainerLease(answered.store)
    assert mine.claim()
    mine.check()
    until(other.claim)  # a thousandth of a second may not have passed
    with pytest.raises(LeaseLost):
        mine.check()
    with pytest.raises(LeaseLost):
        mine.progress(0, 1, "training")
    other.check()
