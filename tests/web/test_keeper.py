"""The write-ahead log stays short while a server runs, and nothing that goes wrong with it ends the thread."""

from __future__ import annotations

import threading

import pytest

from steelyard.store.errors import StoreError
from steelyard.study import Study
from steelyard.web import keeper
from tests.waiting import until


def test_the_log_is_brought_in_again_and_again_whatever_happens(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "SECONDS", 0.01)
    turns, plain = 0, study.store.checkpoint

    def checkpoint() -> None:
        nonlocal turns
        turns += 1
        if turns == 2:
            raise StoreError("the disk is full")
        plain()

    monkeypatch.setattr(study.store, "checkpoint", checkpoint)
    kept = keeper.Keeper(study.store)
    kept.start()
    until(lambda: turns > 3)
    kept.stop()
    assert "keeper" not in [thread.name for thread in threading.enumerate()]
