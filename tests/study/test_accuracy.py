"""What a study says about its accuracy, under attack: several raters, repetitions, answers that came late or were withdrawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import steelyard as sy
from steelyard.pairs import PairSet, random_pairs
from steelyard.study import Study

N, D = 120, 30


@pytest.fixture
def rows(tmp_path: Path) -> np.ndarray:
    rows = np.random.default_rng(3).normal(size=(N, D)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    return rows


@pytest.fixture
def severity(rows: np.ndarray) -> np.ndarray:
    """Half of it is in the features."""
    rng = np.random.default_rng(4)
    return np.asarray(rows[:, :4].sum(axis=1) / 2 + rng.normal(size=N))


@pytest.fixture
def make(tmp_path: Path, rows: np.ndarray):  # type: ignore[no-untyped-def]
    made: list[Study] = []

    def study(**ask: object) -> Study:
        catalog = sy.Catalog.from_features(tmp_path / "rows.npy")
        made.append(
            Study.create(
                tmp_path / f"s{len(made)}", catalog, preset="features", ask={"budget": "5000%", **ask}
            )
        )
        return made[-1]

    yield study
    for one in made:
        one.close()


def tell(study: Study, n: int, severity: np.ndarray, person: str = "kt", noise: float = 0.0) -> None:
    rng = np.random.default_rng([n, len(person)])
    for pair in study.ask(n, annotator=person):
        left, right = (study.catalog.index_of(image) for image in (pair.left, pair.right))
        gap = severity[left] - severity[right] + noise * rng.logistic()
        study.tell(pair, "left" if gap > 0 else "right", annotator=person)


def truth(study: Study, severity: np.ndarray) -> float:
    """Share of pairs that nobody was asked about in the right order."""
    table = study.score().set_index("image")["score"]
    score = table[[str(id) for id in study.catalog.ids]].to_numpy()
    pairs = random_pairs(3_000, N, taken=PairSet(N), rng=np.random.default_rng(9))
    return float(
        np.mean((score[pairs[:, 0]] > score[pairs[:, 1]]) == (severity[pairs[:, 0]] > severity[pairs[:, 1]]))
    )


@pytest.mark.parametrize("raters", [2, 3])
def test_raters_who_agree_do_not_tell_the_model_what_it_is_asked(
    make: Callable[..., Study], severity: np.ndarray, raters: int
) -> None:
    study = make(raters=raters, strategy="random", start="random")
    for person in ("ann", "bob", "cem")[:raters]:
        tell(study, 100, severity, person)
    study.fit()
    told, right = study.accuracy(), truth(study, severity)
    assert told.pairs == 100
    assert told.estimate == pytest.approx(right, abs=0.12), "one rater's answer left out alone said 100%"


def test_answers_newer_than_the_model_are_predicted_plainly(
    make: Callable[..., Study], severity: np.ndarray
) -> None:
    study = make(strategy="random", start="random")
    tell(study, 150, severity)
    study.fit()
    before = study.accuracy()
    tell(study, 60, severity)
    after, right = study.accuracy(), truth(study, severity)
    assert after.pairs == before.pairs + 60
    assert after.low is not None
    assert after.high is not None
    assert after.low <= right <= after.high
    assert before.estimate is not None
    assert after.estimate is not None
    assert abs(after.estimate - before.estimate) < 0.08


def test_an_answer_withdrawn_after_the_fit_is_still_left_out(
    make: Callable[..., Study], severity: np.ndarray
) -> None:
    """The model has learnt it: the other rater's answer about the same pair must not be told by it."""
    study = make(raters=2, strategy="random", start="random")
    for person in ("ann", "bob"):
        tell(study, 100, severity, person)
    study.fit()
    for answer in study.store.answers.log()[:90]:
        study.undo(answer.id, annotator="ann")
    told, right = study.accuracy(), truth(study, severity)
    assert told.pairs == 100
    assert told.estimate == pytest.approx(right, abs=0.12)


def test_every_pair_asked_at_random_counts_as_one(make: Callable[..., Study], severity: np.ndarray) -> None:
    study = make()
    for pair in study.ask(40, strategy="random"):
        study.tell(pair, sy.Answer.LEFT)
    study.fit()
    assert study.accuracy().pairs == 40
    chosen = make()
    tell(chosen, 40, severity)
    chosen.fit()
    assert 0 < chosen.accuracy().pairs < 15


def test_a_few_answers_are_words_and_no_number(make: Callable[..., Study], severity: np.ndarray) -> None:
    study = make()
    tell(study, 12, severity)
    study.fit()
    told = study.accuracy()
    assert told.estimate is told.low is told.high is None
    assert "%" not in told.sentence
    assert not told.stop


def test_a_model_of_before_is_judged_by_the_answers_it_had(
    make: Callable[..., Study], severity: np.ndarray
) -> None:
    """Models of 0.1 kept no predictions: they are made again, from the answers of their time."""
    study = make(strategy="random", start="random")
    tell(study, 150, severity)
    model = study.fit()
    tell(study, 40, severity)
    kept = study.accuracy()
    (model.folder / "predictions.safetensors").unlink()
    assert study.accuracy() == kept
    (model.folder / "predictions.safetensors").write_bytes(b"nothing of use")
    with pytest.raises(sy.SteelyardError, match="train again"):
        study.accuracy()
