"""Further questions know their judges as the main one does: who guesses about one counts less on that scale, and on no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from typer.testing import CliRunner

import steelyard as sy
from steelyard.cli import app
from steelyard.loop.learn import fit
from steelyard.ranker.convex_ranker import ConvexRanker
from steelyard.ranker.learner import Learner
from steelyard.study import Study
from steelyard.study.scale_heads import load_head
from steelyard.study.scales import scales_of

BLEEDING = {"key": "bleeding", "question": "Which has more bleeding?"}
ASK = {"strategy": "random", "start": "random", "random_share": 0.5}


def planted(folder: Path, people: tuple[str, ...], *, answers: int = 150, **changes: Any) -> Study:
    """Everybody is careful about the main question; `guesser` and `other` guess about bleeding."""
    rng = np.random.default_rng(0)
    folder.mkdir(exist_ok=True)
    rows = rng.normal(size=(60, 6)).astype(np.float32)
    np.save(folder / "x.npy", rows)
    study = Study.create(
        folder / "study", sy.Catalog.from_features(folder / "x.npy"), preset="features", questions=[BLEEDING],
        ask=ASK, **changes,
    )  # fmt: skip
    for n in range(answers):
        [pair] = study.ask(1)
        left, right = study.catalog.rows_of([pair.left, pair.right])
        who = people[n % len(people)]
        for column, key in enumerate(("", "bleeding")):
            more = bool(rows[left, column] > rows[right, column])
            if key and who in ("guesser", "other"):
                more = bool(rng.random() < 0.5)
            study.tell(pair, "left" if more else "right", annotator=who, question=key)
    return study


def judged(study: Study) -> float:
    """How well the scale of bleeding follows what was planted."""
    rows = np.load(study.folder.parent / "x.npy")
    table = study.score(question="bleeding")
    return float(spearmanr(table["score"], rows[study.catalog.rows_of(table["image"].tolist()), 1])[0])


def test_who_guesses_about_one_question_counts_less_on_its_scale(tmp_path: Path) -> None:
    people = ("ann", "guesser", "other")
    with planted(tmp_path / "on", people) as study:
        model = study.fit()
        head = load_head(model.folder, "bleeding")
        assert head is not None
        assert head.panel is not None
        assert head.panel["guesser"].worth < 0.3 * head.panel["ann"].worth
        assert head.panel["guesser"].flagged
        assert not head.panel["ann"].flagged
        [newest] = study.store.models.all()
        main = study._knowledge._usable()[1]
        assert main.panel is not None
        assert not main.panel["guesser"].flagged, "about the main question they are as good as anybody"
        scale = scales_of(study, newest, main, np.arange(60))[1]
        assert scale.posterior is not None
        assert scale.posterior.panel == head.panel, "and whoever uses the scale knows them"
        assert "guesser" not in str(model.metrics), "names in what annotators may see"
        told = study.agreement()
        assert not told["judges"]["guesser"]["flagged"]
        about = told["further judges"][BLEEDING["question"]]
        assert "look like guesses" in about["guesser"]["sentence"]
        assert "of an ordinary one" in about["ann"]["sentence"]
        said = CliRunner().invoke(app, ["agreement", str(study.folder)]).stdout
        assert "about “Which has more bleeding?”" in said
        with_judges = judged(study)
    with planted(tmp_path / "off", people, ranker={"judges": False}) as study:
        model = study.fit()
        head = load_head(model.folder, "bleeding")
        assert head is not None
        assert head.panel is None
        assert with_judges > judged(study) + 0.02


@pytest.mark.parametrize(("people", "judges"), [(("ann",), True), (("ann", "bo"), False)])
def test_one_person_is_as_before_to_the_digit(tmp_path: Path, people: tuple[str, ...], judges: bool) -> None:
    with planted(tmp_path, people, answers=40, ranker={"judges": judges}) as study:
        model = study.fit()
        answers = study.store.answers.lessons(question="bleeding")
        before = fit(
            Learner(study.config.ranker, study.inputs()), answers.pairs, answers.labels, reserved=answers.reserved
        )  # fmt: skip
        assert isinstance(before, ConvexRanker)
        head = load_head(model.folder, "bleeding")
        assert head is not None
        assert head.panel is None
        for name, array in before.head.to_arrays().items():
            assert np.array_equal(array, head.head.to_arrays()[name]), name


def test_each_scale_says_how_accurate_it_is(tmp_path: Path) -> None:
    with planted(tmp_path, ("ann", "bo"), answers=80) as study:
        before = study.scales()
        assert [row["accuracy"] for row in before.questions] == [None, None]
        model = study.fit()
        main, bleeding = study.scales().questions
        assert main["accuracy"] == model.metrics["accuracy"]
        assert bleeding["accuracy"] == model.metrics["questions"]["bleeding"]["accuracy"]
        assert 0.7 < bleeding["accuracy_low"] < bleeding["accuracy"] <= bleeding["accuracy_high"] <= 1.0
        rows = np.load(tmp_path / "x.npy")
        score = study.score(question="bleeding").set_index("image")["score"][
            list(map(str, study.catalog.ids))
        ]
        pairs = np.array([(i, j) for i in range(60) for j in range(i)])
        right = (np.diff(score.to_numpy()[pairs]) > 0) == (np.diff(rows[pairs, 1]) > 0)
        assert bleeding["accuracy_low"] - 0.02 < right.mean() < bleeding["accuracy_high"] + 0.02
