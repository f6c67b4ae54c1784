from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from steelyard.annotators import make_annotator
from steelyard.errors import StudyError
from steelyard.images.catalog import Catalog
from steelyard.report import write_report
from steelyard.report.study_report import _findings
from steelyard.study import Study


@pytest.fixture
def study(tmp_path: Path) -> Study:
    rng = np.random.default_rng(0)
    severity = rng.normal(size=60)
    grades = np.searchsorted(np.quantile(severity, [0.5, 0.8]), severity)
    np.save(tmp_path / "features.npy", severity[:, None] + rng.normal(0, 0.5, (60, 5)))
    labels = tmp_path / "labels.csv"
    pd.DataFrame({"image": [f"i{k}" for k in range(60)], "grade": grades}).to_csv(labels, index=False)
    made = Study.create(
        tmp_path / "colon", Catalog.from_features(tmp_path / "features.npy", labels), preset="features",
        ask={"random_share": 0.5, "start": "random", "start_share": 0.5, "mode": "rounds", "round_share": 0.5},
    )  # fmt: skip
    annotator = make_annotator("noisy", severity, scale=0.2)
    for name in ("anna", "ben"):
        made.propose(40)
        made.simulate(annotator, name=name)
        made.fit()
    return made


def test_a_study_is_reported_with_people_accuracy_and_ends(study: Study, tmp_path: Path) -> None:
    study.close()
    path = write_report(tmp_path / "colon", tmp_path / "study.html", formats=("svg",))
    text = path.read_text(encoding="utf-8")
    for needed in (
        "anna",
        "ben",
        "most severe",
        "least severe",
        "fingerprint",
        "Accuracy as answers came in",
        "by known grade",
        "nothing but the random pairs",
        "one of the",
        "The model card",
        "Not a medical device",
        "What is not known",
    ):
        assert needed in text
    assert {p.stem for p in (tmp_path / "study_files" / "tables").iterdir()} == {
        "people",
        "questions",
        "ends",
        "unlike",
    }
    assert {p.stem for p in (tmp_path / "study_files" / "figures").iterdir()} == {
        "history",
        "scale",
        "grades",
    }


def test_one_person_and_little_time_are_put_into_words(study: Study, tmp_path: Path) -> None:
    with study:
        facts = study.status(), study.accuracy(), study.agreement()
    for seconds, took in ((0.2, "less than a minute"), (6.0, "8 minutes")):
        assert _findings(*facts, seconds)[-1].endswith(f"so all answers together took {took}.")
    alone = Study.create(tmp_path / "alone", study.catalog, preset="features", ask={"start": "random"})
    alone.propose(20)
    alone.simulate(make_annotator("perfect", np.arange(60)), name="anna")
    alone.fit()
    alone.close()
    text = write_report(tmp_path / "alone", tmp_path / "alone.html", formats=("svg",)).read_text(
        encoding="utf-8"
    )
    assert "20 answers from 1 person " in text
    assert "model 1 (models/round-000-" in text


def test_an_image_stands_once_in_the_table_of_ends(study: Study, tmp_path: Path) -> None:
    """The most severe is often the least certain, too."""
    study.close()
    write_report(tmp_path / "colon", tmp_path / "study.html", formats=())
    ends = pd.read_csv(tmp_path / "study_files" / "tables" / "ends.csv")
    assert ends["image"].is_unique
    assert ends["rank"].is_monotonic_increasing
    said = ends["one of the"].str.split(", ").explode().value_counts()
    assert said.to_dict() == {"most severe": 5, "least severe": 5, "least certain": 5}


def test_each_answer_is_reported_with_the_question_that_was_asked(study: Study, tmp_path: Path) -> None:
    before = study.store.answers.count()
    study.config = study.config.with_changes(page={"question": "Which has more bleeding?"})
    for pair in study.ask(3):
        study.tell(pair, "left")
    study.close()
    study.config.save(study.folder / "study.toml")
    text = write_report(study.folder, tmp_path / "study.html", formats=()).read_text(encoding="utf-8")
    asked = pd.read_csv(tmp_path / "study_files" / "tables" / "questions.csv")
    assert asked["question"].tolist() == ["Which is more severe?", "Which has more bleeding?"]
    assert asked["answers"].tolist() == [before, 3]
    assert asked["first"].str.fullmatch(r"\d{4}-\d\d-\d\d").all()
    assert "to 2 wordings of the question – the newest: Which has more bleeding? –" in text
    assert "turned into a bleeding score" in text
    assert (
        "severe" not in pd.read_csv(tmp_path / "study_files" / "tables" / "ends.csv")["one of the"].str.cat()
    )


def test_the_address_of_the_store_is_not_shown_around(study: Study, tmp_path: Path) -> None:
    from steelyard.report.study_report import _without_secrets

    study.close()
    assert "hunter2" not in str(
        _without_secrets({"store": "postgresql+psycopg://me:hunter2@db/study", "name": "x"})
    )


def test_a_study_without_a_model_says_what_to_do(tmp_path: Path) -> None:
    np.save(tmp_path / "features.npy", np.random.default_rng(0).normal(size=(10, 3)))
    Study.create(
        tmp_path / "new", Catalog.from_features(tmp_path / "features.npy"), preset="features"
    ).close()
    with pytest.raises(StudyError, match="steelyard train"):
        write_report(tmp_path / "new", tmp_path / "study.html")
