"""The model card: against a study whose facts are known, without secrets, and stable for whoever reads the JSON."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import steelyard as sy
from steelyard.annotators import PerfectAnnotator
from steelyard.config import ranker_preset
from steelyard.errors import StudyError
from steelyard.ranker.likelihood import outcomes
from steelyard.study.card import _ranker
from steelyard.trust.card import CARD, Card, read_card
from steelyard.trust.card_sections import card_sections, no_card
from steelyard.trust.pair_calibration import pair_calibration

N = 80
FILES = Path(__file__).parents[1] / "files"


def make(
    folder: Path, *, grouped: bool = True, answers: int = 120, **settings: Any
) -> tuple[sy.Study, np.ndarray]:
    """A study with two people: one of three answers is of ben, every tenth a tie, the last two cannot be judged."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(4)
    severity = rng.normal(size=N)
    np.save(folder / "f.npy", np.column_stack([severity, rng.normal(size=(N, 4))]).astype(np.float32))
    grades = np.clip(np.digitize(severity, [-0.5, 0.5]), 0, 2)
    head = "image,grade,group" if grouped else "image,grade"
    rows = [f"i{k:03d},{g}" + (f",p{k % 40}" if grouped else "") for k, g in enumerate(grades)]
    (folder / "l.csv").write_text("\n".join([head, *rows]))
    catalog = sy.Catalog.from_features(folder / "f.npy", folder / "l.csv")
    study = sy.Study.create(folder / "study", catalog, preset="features", **settings)
    for k in range(answers):
        who = "ben" if k % 3 == 0 else "anna"
        [pair] = study.ask(1, annotator=who)
        left, right = catalog.index_of(pair.left), catalog.index_of(pair.right)
        said = sy.Answer.LEFT if severity[left] > severity[right] else sy.Answer.RIGHT
        if k % 10 == 0:
            said = sy.Answer.EQUAL
        study.tell(pair, sy.Answer.CANNOT_JUDGE if k >= answers - 2 else said, annotator=who)
    return study, severity


def test_a_card_says_what_is_so(tmp_path: Path) -> None:
    ask = {"random_share": 0.5, "start": "random", "repeat_share": 0.2}
    study, _ = make(tmp_path, name="colon", ask=ask, seed=7)
    with study:
        study.store.images.exclude(str(study.catalog.ids[0]), by="anna")
        model = study.fit()
        card = read_card(model.folder)
        assert card is not None
        known = study.store.answers.arrays()
    assert (card.study, card.seed, card.round) == ("colon", 7, 0)
    assert (card.data.images, card.data.groups, card.data.graded) == (N, 40, N)
    assert (card.data.used, card.data.excluded, card.data.unreadable) == (N - 1, 1, 0)
    assert card.data.fingerprint == study.catalog.fingerprint()
    assert sum(card.data.grades.values()) == N
    assert card.answers.people == 2
    assert card.answers.count - card.answers.cannot_judge == card.answers.learnt == model.answers
    assert card.answers.question == "Which is more severe?"
    assert card.answers.last_at == known.answered_at.max()
    assert card.versions["numpy"] == np.__version__
    assert card.accuracy.what
    assert card.accuracy.estimate is not None
    assert card.accuracy.low is not None
    assert card.accuracy.low <= card.accuracy.estimate
    assert card.calibration.pairs >= 30
    assert card.calibration.ece_by_chance is not None
    assert (card.grades.images, card.grades.level) == (card.data.used, 0.9)
    assert "medical device" in card.not_for
    assert card.limits
    assert not any("person answered" in text for text in card.limits)
    assert not any("No groups" in text for text in card.limits)
    titles = [part.title for part in card_sections(card)]
    assert titles[:3] == ["What it is for", "What it is not for", "How accurate it is"]


def test_what_is_not_known_is_null_and_says_why(tmp_path: Path) -> None:
    study, _ = make(tmp_path, grouped=False, answers=12, ask={"random_share": 0.0})
    with study:
        card = read_card(study.fit().folder)
    assert card is not None
    assert (card.accuracy.estimate, card.accuracy.low, card.accuracy.high) == (None, None, None)
    assert "Not known yet" in card.accuracy.words
    assert card.calibration.ece is None
    assert "Not known yet" in card.calibration.words
    assert card.data.groups is None
    said = " ".join(card.limits)
    for needed in ("No groups (patients)", "answers are few", "not known yet", "asked twice"):
        assert needed in said


def test_no_secret_no_path_and_no_name_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, _ = make(tmp_path / "secret-folder", answers=15, page={"question": "<b>Worse?</b>"})
    with study:
        # As of a study on PostgreSQL with its password in the address, and weights from somebody's disk.
        changed = study.config.model_copy(update={"store": "postgresql://u:hunter2@db.example/x"})
        monkeypatch.setattr(study, "config", changed)
        text = (study.fit().folder / CARD).read_text(encoding="utf-8")
    for place in ("/home/jane/secret-weights/lite2.onnx", r"C:\jane\secret-weights\lite2.onnx"):
        text += json.dumps(_ranker(ranker_preset("quick", weights=place)).model_dump())
    for secret in (
        "hunter2",
        "db.example",
        "postgresql",
        str(tmp_path),
        "secret-folder",
        "jane",
        "secret-weights",
        "anna",
        "ben",
    ):
        assert secret not in text, secret
    assert "lite2.onnx" in text
    assert "<b>Worse?</b>" in text  # text is text; whoever shows it escapes it


def test_two_people_about_a_pair_are_one_witness(tmp_path: Path) -> None:
    """Answers about one pair are not independent: an interval from all of them would be too narrow."""
    ask = {"random_share": 1.0, "raters": 2}
    study, _ = make(tmp_path, answers=90, ask=ask)
    with study:
        known = study.store.answers.arrays()
        card = read_card(study.fit().folder)
    judged = known.reserved & ~np.isnan(known.labels)
    pairs = len(np.unique(known.pair[judged]))
    assert pairs < judged.sum()
    assert card is not None
    assert card.calibration.pairs == pairs
    assert (card.calibration.ece is None) == (pairs < 30)


def test_annotators_that_are_programs_are_told(tmp_path: Path) -> None:
    study, severity = make(tmp_path, answers=4)
    with study:
        study.propose(20)
        study.simulate(PerfectAnnotator(severity), name="virtual-perfect")
        card = read_card(study.fit().folder)
    assert card is not None
    assert card.answers.virtual == 1
    assert "was a program" in card.limits[0]


def test_models_of_before_have_none_and_damaged_cards_are_named(tmp_path: Path) -> None:
    shutil.copytree(FILES / "study-0.1", tmp_path / "old")
    with sy.Study.open(tmp_path / "old") as study:
        newest = study.store.models.newest()
        assert newest is not None
        assert read_card(study.folder / newest.path) is None
    assert "steelyard train STUDY" in no_card("STUDY")
    (tmp_path / CARD).write_text('{"version": 1}')
    with pytest.raises(StudyError, match="fields are not as expected"):
        read_card(tmp_path)


def test_the_json_keeps_its_names() -> None:
    """Programs read this: names may be added, none may go."""
    schema = Card.model_json_schema()
    parts = {
        "Card": schema["properties"],
        **{name: part["properties"] for name, part in schema["$defs"].items()},
    }
    names = {part: sorted(fields) for part, fields in parts.items()}
    expected = json.loads((FILES / "card-1.json").read_text(encoding="utf-8"))
    for part, fields in expected.items():
        assert set(fields) <= set(names[part]), part


@pytest.mark.parametrize(("stretch", "tells"), [(1.0, False), (4.0, True)])
def test_calibration_tells_a_boaster_from_chance(stretch: float, tells: bool) -> None:
    rng = np.random.default_rng(2)
    gap = rng.normal(size=400)
    chances = outcomes(gap, 0.0, 0.3)
    u = rng.random(400)
    answers = np.where(u < chances[:, 0], 1.0, np.where(u < chances[:, :2].sum(1), 0.5, 0.0))
    found = pair_calibration(outcomes(stretch * gap, 0.0, 0.3), answers, rng)
    assert (found.ece > 2 * found.ece_by_chance) == tells
    assert (found.low <= found.stated <= found.high) == (not tells)
