from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from steelyard.annotators import make_annotator
from steelyard.errors import StudyError
from steelyard.images.catalog import Catalog
from steelyard.report import write_report
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
        "mildest",
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
    assert {p.stem for p in (tmp_path / "study_files" / "tables").iterdir()} == {"people", "ends", "unlike"}
    assert {p.stem for p in (tmp_path / "study_files" / "figures").iterdir()} == {
        "history",
        "scale",
        "grades",
    }


def test_an_image_stands_once_in_the_table_of_ends(study: Study, tmp_path: Path) -> None:
    """The most severe is often the least certain, too."""
    study.close()
    write_report(tmp_path / "colon", tmp_path / "study.html", formats=())
    ends = pd.read_csv(tmp_path / "study_files" / "tables" / "ends.csv")
    assert ends["image"].is_unique
    assert ends["rank"].is_monotonic_increasing
    said = ends["one of the"].str.split(", ").explode().value_counts()
    assert said.to_dict() == {"most severe": 5, "mildest": 5, "least certain": 5}


def test_figures_name_grades_without_their_definitions() -> None:
    from steelyard.report.study_report import _short

    assert _short(("Mayo 0: normal", "1", "2: a: b")) == ["Mayo 0", "1", "2"]


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
