"""Pairs chosen in a process of their own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from steelyard.errors import StudyError
from steelyard.study import Study
from steelyard.web.asker import Asker
from steelyard.web.chooser import Chooser
from tests.web.actors import Enter, Serve, Teach


@pytest.fixture
def chooser(study: Study) -> Iterator[Chooser]:
    """Ended afterwards."""
    made = Chooser(study.folder)
    yield made
    made.stop()


def test_pairs_are_chosen_with_the_model_and_put_up_by_the_asker(
    study: Study, teach: Teach, chooser: Chooser
) -> None:
    first = chooser.draft(5)
    assert first is not None
    assert {pair.strategy for pair in first} == {"random"}
    assert len(study.store.pairs.all()) == 0  # choosing writes nothing
    teach(study, 30)
    last = study.store.pairs.columns().id[-1]
    asker = Asker(study, chooser.draft)
    asker.want("kt")
    made = asker.top_up()
    new = [pair for pair in study.store.pairs.all() if pair.id > last]
    assert len(new) == made > 10
    assert {pair.strategy for pair in new} == {"epig", "random"}  # a tenth is random and held back
    assert all(pair.reason for pair in new)


def test_a_changed_configuration_is_used(study: Study, chooser: Chooser) -> None:
    first = chooser.draft(2)
    assert first is not None
    study.store.pairs.add_all(first)
    study.config.with_changes(ask={"start": "spread"}).save(study.folder / "study.toml")
    again = chooser.draft(2)
    assert again is not None
    assert "spread" in {pair.strategy for pair in again}


def test_a_killed_process_is_said_and_replaced(study: Study, chooser: Chooser) -> None:
    assert chooser.draft(1)
    process = chooser._child._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert chooser.draft(1)  # it was seen to be gone
    process = chooser._child._process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    os.kill(process.pid, signal.SIGKILL)
    try:
        chooser.draft(1)
    except StudyError as error:
        assert "choosing process ended; try again" in str(error)  # noqa: PT017 - it may also be noticed in time
    assert chooser.draft(1)


def test_what_went_wrong_is_told(study: Study, teach: Teach, chooser: Chooser) -> None:
    teach(study, 12)
    model = study.store.models.newest()
    assert model is not None
    (study.folder / model.path / "posterior.safetensors").write_bytes(b"no")
    with pytest.raises(StudyError, match="train again with: steelyard train"):
        chooser.draft(3)


def test_nothing_left_is_none_chosen(study: Study, chooser: Chooser) -> None:
    n = len(study.catalog)
    study.propose(n * (n - 1) // 2, strategy="random")
    assert study.questions.draft_for_page(3) == chooser.draft(3) == []


def test_a_server_that_chooses_apart_hands_out_pairs(study: Study, serve: Serve, enter: Enter) -> None:
    server = serve(study, apart=True)
    assert len(enter(server).lease(3)) == 3
    assert server.app.state.web.chooser._child._process is not None


def test_a_typing_mistake_in_the_settings_does_not_stop_the_choice(
    study: Study, chooser: Chooser, capfd: pytest.CaptureFixture[str]
) -> None:
    file = study.folder / "study.toml"
    whole = file.read_text(encoding="utf-8")
    assert chooser.draft(1)
    file.write_text(whole.replace("raters = 1", "raters = one"), encoding="utf-8")
    assert chooser.draft(1)
    assert chooser.draft(1)
    file.write_text(whole, encoding="utf-8")
    assert chooser.draft(1)
    said = capfd.readouterr().err
    assert said.count("is not valid TOML") == 1
    assert said.count("can be read again") == 1
