"""The loop that people live in: ask, tell, fit, score."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import steelyard as sy
from steelyard.annotators import PerfectAnnotator
from steelyard.errors import StudyError
from steelyard.loop.chance import Chance
from steelyard.study import Study, study_config

N, D = 60, 6


@pytest.fixture
def severity() -> np.ndarray:
    return np.random.default_rng(0).normal(size=N)


@pytest.fixture
def catalog(tmp_path: Path, severity: np.ndarray) -> sy.Catalog:
    rng = np.random.default_rng(1)
    rows = np.column_stack([severity, rng.normal(size=(N, D - 1))]).astype(np.float32)
    np.save(tmp_path / "features.npy", rows)
    grades = np.clip(np.digitize(severity, [-0.5, 0.3, 1.0]), 0, 3)
    lines = ["image,grade,group", *(f"i{k:03d},{g},p{k % 7}" for k, g in enumerate(grades))]
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    return sy.Catalog.from_features(tmp_path / "features.npy", tmp_path / "labels.csv")


@pytest.fixture
def study(tmp_path: Path, catalog: sy.Catalog):  # type: ignore[no-untyped-def]
    with Study.create(tmp_path / "study", catalog, preset="features") as made:
        yield made


def truth(study: Study, pair: sy.Pair, severity: np.ndarray) -> sy.Answer:
    left, right = study.catalog.index_of(pair.left), study.catalog.index_of(pair.right)
    return sy.Answer.LEFT if severity[left] > severity[right] else sy.Answer.RIGHT


def answer(study: Study, n: int, severity: np.ndarray, annotator: str = "kt") -> None:
    for pair in study.ask(n, annotator=annotator):
        study.tell(pair, truth(study, pair, severity), annotator=annotator)


def test_the_loop_learns_the_order(study: Study, severity: np.ndarray) -> None:
    for _ in range(4):
        answer(study, 20, severity)
        model = study.fit()
    assert model.round == 3
    assert model.answers == 80
    table = study.score()
    assert list(table.columns) == [
        "image", "path", "score", "uncertainty", "low", "high", "rank", "unlike", "off_domain",
    ]  # fmt: skip
    assert table["rank"].tolist() == list(range(1, N + 1))
    assert table["score"].is_monotonic_decreasing
    assert ((table["low"] < table["score"]) & (table["score"] < table["high"])).all()
    rows = study.catalog.rows_of(table["image"].to_numpy())
    assert np.corrcoef(table["score"], severity[rows])[0, 1] > 0.9
    assert (
        len(study.store.pairs.columns().rows)
        == len({tuple(p) for p in study.store.pairs.columns().rows.tolist()})
        == 80
    )


@pytest.mark.parametrize("full", ["checkpoint.json", "posterior.safetensors", "rows.npy"])
def test_a_full_disk_leaves_the_model_before(
    study: Study, severity: np.ndarray, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    """The trainer ended with a traceback where the disk was full."""
    answer(study, 12, severity)
    before = study.fit()
    opened = Path.open

    def no_room(path: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if full in path.name and "w" in mode:
            raise OSError(28, "No space left on device", str(path))
        return opened(path, mode, *rest, **more)

    made = os.open

    def no_room_either(path: Any, flags: int, *rest: Any, **more: Any) -> Any:
        if full in str(path) and flags & os.O_CREAT:
            raise OSError(28, "No space left on device", str(path))
        return made(path, flags, *rest, **more)

    monkeypatch.setattr(Path, "open", no_room)
    monkeypatch.setattr(os, "open", no_room_either)
    monkeypatch.setattr(np, "save", lambda file, array: no_room(Path(file), "wb").close())
    with pytest.raises(StudyError, match=r"could not be written \(No space left"):
        study.fit()
    monkeypatch.undo()
    assert [model.path for model in study.store.models.all()] == [f"models/{before.folder.name}"]
    assert study.fit().round == 1


def test_a_study_opens_again_as_it_was_left(study: Study, severity: np.ndarray) -> None:
    answer(study, 30, severity)
    study.fit()
    answer(study, 5, severity)
    before = study.posterior
    with Study.open(study.folder) as again:
        assert again.config == study.config
        assert again.store.answers.count() == 35
        assert np.allclose(again.posterior.mean, before.mean)  # type: ignore[union-attr]
        pair = again.ask(1, annotator="kt")[0]
        assert pair.id is not None


def test_every_answer_moves_the_next_question(study: Study, severity: np.ndarray) -> None:
    answer(study, 20, severity)
    study.fit()
    first = study.posterior
    [pair] = study.ask(1, annotator="kt")
    told = study.tell(pair, "left", annotator="kt")
    moved = study.posterior
    assert moved is not None
    assert first is not None
    rows = [[study.catalog.index_of(pair.left), study.catalog.index_of(pair.right)]]
    assert moved.difference(rows)[0][0] > first.difference(rows)[0][0]
    assert moved.difference(rows)[1][0] < first.difference(rows)[1][0]
    study.undo(told.id, annotator="kt")
    back = study.posterior
    assert np.allclose(back.mean, first.mean)  # type: ignore[union-attr]


def test_an_undone_pair_comes_back_with_the_same_sides(study: Study) -> None:
    [pair] = study.ask(1, annotator="kt")
    told = study.tell(pair, sy.Answer.EQUAL, annotator="kt")
    study.undo(told.id, annotator="kt")
    [again] = study.ask(1, annotator="kt")
    assert (again.id, again.left, again.right) == (pair.id, pair.left, pair.right)
    assert study.store.answers.count() == 0


def test_two_people_never_get_the_same_open_pair(study: Study) -> None:
    ann, bob = study.ask(10, annotator="ann"), study.ask(10, annotator="bob")
    assert not {p.id for p in ann} & {p.id for p in bob}
    assert [p.id for p in study.ask(10, annotator="ann")] == [p.id for p in ann], (
        "asking again gives the same pairs"
    )


def test_excluded_images_are_never_asked_about(study: Study, severity: np.ndarray) -> None:
    answer(study, 20, severity)
    study.fit()
    gone = [str(i) for i in study.catalog.ids[:40]]
    for image in gone:
        study.store.images.exclude(image, "kt", "blurred")
    pairs = study.propose(30)
    assert pairs
    assert not {image for p in pairs for image in (p.left, p.right)} & set(gone)
    assert not set(study.suggest_grading(5)) & set(gone)


def test_random_pairs_estimate_accuracy(tmp_path: Path, catalog: sy.Catalog, severity: np.ndarray) -> None:
    with Study.create(tmp_path / "s", catalog, preset="features", ask={"random_share": 0.5}) as study:
        assert study.accuracy().estimate is None
        for _ in range(3):
            answer(study, 30, severity)
            study.fit()
        accuracy = study.accuracy()
    assert accuracy.pairs >= 30
    assert accuracy.estimate is not None
    assert accuracy.low is not None
    assert accuracy.low < accuracy.estimate > 0.75
    assert accuracy.stop, "90 answers are more than half of 60 images"


def test_accuracy_is_the_model_s_own_whatever_the_next_one_will_be(
    tmp_path: Path, catalog: sy.Catalog, severity: np.ndarray
) -> None:
    with Study.create(tmp_path / "s", catalog, preset="features", ask={"random_share": 0.5}) as study:
        answer(study, 60, severity)
        study.fit()
        before = study.accuracy()
        ranker = sy.PairwiseRanker(head="mlp")._config(multitask=False)
        study.config = study.config.model_copy(update={"ranker": ranker})
        assert study.accuracy() == before


def test_repeats_are_asked_again_and_measure_agreement(
    tmp_path: Path, catalog: sy.Catalog, severity: np.ndarray
) -> None:
    ask = {"repeat_share": 0.3, "random_share": 0.0}
    with Study.create(tmp_path / "s", catalog, preset="features", ask=ask) as study:
        for _ in range(4):
            answer(study, 20, severity)
            study.fit()
        agreement = study.agreement()
    assert agreement["with themselves"]["kt"]["repeats"] > 3
    assert agreement["with themselves"]["kt"]["agreement"] == 1.0
    assert agreement["with the model"]["everybody"] > 0.8


def test_grades_calibrate_the_scale(study: Study, severity: np.ndarray) -> None:
    for _ in range(4):
        answer(study, 20, severity)
        study.fit()
    for method in ("ordinal", "isotonic"):
        table = study.grade(method=method)
        assert set(table["grade"]) <= {"0", "1", "2", "3"}
        assert (table["grade"].astype(int) - table["known"].astype(int)).abs().mean() < 0.5
        assert (table["grade_low"].astype(int) <= table["grade_high"].astype(int)).all()


def test_what_people_grade_goes_before_the_catalog(study: Study) -> None:
    image = str(study.catalog.ids[3])
    study.tell_grade(image, 3, annotator="ann")
    assert study.known_grades()[3] == 3
    with pytest.raises(StudyError, match=r"grade 4 is none of 0 … 3 \(0, 1, 2, 3\)"):
        study.tell_grade(image, 4)


def test_the_unhappy_paths_say_what_to_do(tmp_path: Path, study: Study, catalog: sy.Catalog) -> None:
    with pytest.raises(StudyError, match="no answers to learn from"):
        study.fit()
    with pytest.raises(StudyError, match="steelyard train"):
        study.score()
    with pytest.raises(StudyError, match="steelyard init"):
        Study.open(tmp_path / "nothing")
    with pytest.raises(StudyError, match="a study already"):
        Study.create(study.folder, catalog)
    with pytest.raises(StudyError, match="needs 2 or more"):
        Study.create(tmp_path / "one", catalog.subset([0]))
    with pytest.raises(StudyError, match="not handed out"):
        study.tell(sy.Pair("a", "b"), "left")
    [pair] = study.ask(1)
    with pytest.raises(StudyError, match=r"one of left, right, equal, cannot judge; not 'both'"):
        study.tell(pair, "both")
    with pytest.raises(sy.SteelyardError, match="unknown strategy 'epog' – did you mean 'epig'"):
        study.propose(3, strategy="epog")


def test_the_status_says_what_to_do_next(study: Study, severity: np.ndarray) -> None:
    assert "serve" in study.status()["next"]
    answer(study, 20, severity)
    assert "train" in study.status()["next"]
    study.fit()
    state = study.status()
    assert state["answers"] == 20
    assert state["models"] == 1
    assert state["annotators"] == {"kt": 20}
    assert "go on" in state["next"]


def test_everything_is_asked_until_nothing_is_left(
    tmp_path: Path, catalog: sy.Catalog, severity: np.ndarray
) -> None:
    with Study.create(tmp_path / "s", catalog.subset(np.arange(5)), preset="features") as study:
        answer(study, 8, severity)
        study.fit()
        answer(study, 8, severity)
        assert study.store.answers.count() == 10
        assert study.ask(1) == []


def test_the_paper_s_schedule_is_a_preset() -> None:
    config = study_config("paper")
    assert (config.ask.strategy, config.ask.start_share, config.ask.round_share, config.ask.mode) == (
        "variance", 0.2, 0.05, "rounds",
    )  # fmt: skip


def test_only_the_newest_models_keep_their_rows(study: Study, severity: np.ndarray) -> None:
    for _ in range(4):
        answer(study, 8, severity)
        study.fit()
    kept = [m.path for m in study.store.models.all() if (study.folder / m.path / "rows.npy").exists()]
    assert len(kept) == 2
    assert study.score() is not None


def test_a_virtual_annotator_answers_what_is_up(study: Study) -> None:
    annotator = PerfectAnnotator(study.known_grades())
    assert study.simulate(annotator) == 0
    study.propose(12)
    assert study.simulate(annotator, 5) == 5
    assert study.simulate(annotator) == 7
    answers = study.store.answers.arrays()
    grades = study.known_grades()
    gap = np.sign(grades[answers.pairs[:, 0]] - grades[answers.pairs[:, 1]])
    assert (answers.labels == (gap + 1) / 2).all()


def test_a_network_on_features_learns_in_a_study_as_everywhere(tmp_path: Path, severity: np.ndarray) -> None:
    """Features of very different scales were standardised in experiments and in the estimator, but not here."""
    rng = np.random.default_rng(1)
    rows = np.column_stack([severity * 1e-3, rng.normal(size=(N, D - 1)) * 1e3]).astype(np.float32)
    np.save(tmp_path / "features.npy", rows)
    settings = {"kind": "network", "hidden": 8, "epochs": 60, "draws": 8, "learning_rate": 0.01}
    catalog = sy.Catalog.from_features(tmp_path / "features.npy")
    ask = {"start": "random", "random_share": 0.0}
    with Study.create(tmp_path / "study", catalog, preset="features", ranker=settings, ask=ask) as study:
        answer(study, 200, severity)
        study.fit()
        posterior = study.posterior
        assert posterior is not None
        learnt = study.store.answers.arrays()
    assert np.corrcoef(posterior.mean, severity)[0, 1] > 0.7
    seed = Chance(study.config.seed).weights()
    estimator = sy.PairwiseRanker(options=settings, random_state=seed).fit(rows, learnt.pairs, learnt.labels)
    assert np.allclose(estimator.predict(rows), posterior.mean, atol=1e-5)


def test_laplace_of_a_network_scores_a_folder_of_other_pictures(tmp_path: Path) -> None:
    """It indexed the pairs it was trained on into whatever images it was given."""
    from PIL import Image

    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 255, size=(24, 32, 32, 3), dtype=np.uint8)
    (tmp_path / "others").mkdir()
    for k in (3, 17):
        Image.fromarray(pictures[k]).save(tmp_path / "others" / f"{k:02d}.png")
    ranker = {"image_size": 32, "epochs": 2, "posterior": "laplace"}
    catalog = sy.Catalog.from_arrays(pictures)
    with Study.create(
        tmp_path / "study", catalog, preset="small", ranker=ranker, ask={"start": "random"}
    ) as study:
        answer(study, 20, rng.normal(size=24))
        study.fit()
        others = study.score(tmp_path / "others").set_index("path")
        own, placed = study.posterior, study.place(pictures[17])
    assert own is not None
    found = others.loc[["03.png", "17.png"]]
    assert np.allclose(found["score"], own.mean[[3, 17]], atol=1e-5)
    assert np.allclose(found["uncertainty"], np.sqrt(own.variance[[3, 17]]), rtol=1e-3)
    assert placed["score"] == pytest.approx(own.mean[17], abs=1e-5)
