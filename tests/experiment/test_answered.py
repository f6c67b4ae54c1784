"""A strategy that says it needs the answers is given them, in a study and in a trial, numbered as its images are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import steelyard as sy
from steelyard.acquire import needs
from steelyard.acquire.asap import asap
from steelyard.experiment.cell import Cell, run_cell
from steelyard.study import Study
from tests.experiment.small import data_of, small


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the strategy was called with."""
    calls: list[dict[str, Any]] = []

    @needs("answers")
    def listen(posterior: Any, n: int, /, *, taken: Any, rng: Any, answered: Any) -> Any:
        calls.append({"taken": taken, "answered": answered})
        return asap(posterior, n, taken=taken, rng=rng, answered=answered)

    monkeypatch.setattr("steelyard.acquire.asap.asap", listen)
    return calls


def test_a_study_tells_what_was_said_about_the_images_that_may_be_asked(
    told: list[dict[str, Any]], matrix: dict[str, str], tmp_path: Path
) -> None:
    catalog = sy.Catalog.from_features(matrix["features"], matrix["labels"])
    ask = {"strategy": "asap", "start": "random", "random_share": 0.0}
    with Study.create(tmp_path / "study", catalog, preset="features", ask=ask) as study:
        for pair in study.ask(12):
            study.tell(pair, sy.Answer.LEFT, annotator="kt")
        study.fit()
        gone = int(study.store.answers.lessons().pairs[0, 0])
        study.store.images.exclude(str(catalog.ids[gone]), "kt", "blurred")
        asked = study.ask(4)
        assert len(asked) == 4
        pairs, said = told[-1]["answered"]
        kept = np.delete(np.arange(150), gone)
        lessons = study.store.answers.lessons()
        about = ~(lessons.pairs == gone).any(axis=1)
        assert 0 < len(said) == about.sum() < 12
        assert (kept[pairs] == lessons.pairs[about]).all()
        assert (said == lessons.labels[about]).all()
        assert told[-1]["taken"].size == 149


def test_a_trial_tells_every_answer_so_far(
    told: list[dict[str, Any]], matrix: dict[str, str], tmp_path: Path
) -> None:
    config = small(matrix, methods=("asap:start=random",), rounds=2)
    result = run_cell(Cell("asap:start=random", 0, 0), data_of(matrix, tmp_path, config), config)
    assert [len(call["answered"][1]) for call in told] == [row["pairs"] for row in result.rows[:-1]]
    pool = data_of(matrix, tmp_path, config).splits(config)[0].train
    pairs, said = told[0]["answered"]
    first = result.asked[0]
    assert (pool[pairs] == np.stack([first["first"], first["second"]], axis=1)).all()
    assert (said == first["answer"]).all()
