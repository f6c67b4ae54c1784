"""Judges in a study: learnt from who answered, kept with the model, heard between two models."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import steelyard as sy
from steelyard.ranker.judges import Said
from steelyard.study.judging import said_by
from steelyard.study.models import load_posterior


def planted(folder: Path, *, seed: int = 0, answers: int = 150) -> sy.Study:
    """A study of feature rows that two careful people and one who guesses have answered."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(60, 6)).astype(np.float32)
    truth = rows @ np.array([3.0, 1.0, 0, 0, 0, 0])
    np.save(folder / "rows.npy", rows)
    labels = "image\n" + "".join(f"i{k}\n" for k in range(60))
    (folder / "labels.csv").write_text(labels, encoding="utf-8")
    catalog = sy.Catalog.from_features(folder / "rows.npy", folder / "labels.csv")
    study = sy.Study.create(
        folder / "study", catalog, preset="features", ask={"strategy": "random", "start": "random"}
    )
    place = {str(id): k for k, id in enumerate(catalog.ids)}
    for n in range(answers):
        [pair] = study.ask(1)
        more = truth[place[pair.left]] > truth[place[pair.right]]
        who = ("ann", "bo", "guesser")[n % 3]
        left = rng.random() < 0.5 if who == "guesser" else more
        study.tell(pair, sy.Answer.LEFT if left else sy.Answer.RIGHT, annotator=who)
    return study


def test_a_study_knows_who_guesses(tmp_path: Path) -> None:
    study = planted(tmp_path)
    model = study.fit()
    panel = load_posterior(model.folder).panel
    assert panel is not None
    assert panel["guesser"].worth < 0.3 * panel["ann"].worth
    assert panel["guesser"].flagged
    assert not panel["ann"].flagged
    assert "judges" not in model.metrics, "names in what annotators may see"
    assert "guesser" not in str(model.metrics)


def test_between_two_models_an_answer_counts_as_its_judge_counts(tmp_path: Path) -> None:
    study = planted(tmp_path)
    study.fit()
    for who in ("ann", "guesser"):
        [pair] = study.ask(1)
        start = study._belief.refresh().state.posterior
        study.tell(pair, sy.Answer.LEFT, annotator=who)
        after = study._belief.refresh().state.posterior
        assert start is not None
        assert after is not None
        rows = study.catalog.rows_of([pair.left, pair.right])
        code = ("ann", "guesser").index(who)
        said = Said(np.array([code]), ("ann", "guesser"), np.array([True]))
        assert np.array_equal(after.mean, start.observe(rows, 1.0, said).mean)
        assert not np.array_equal(after.mean, start.observe(rows, 1.0).mean), "as if anybody had said it"


def test_sides_are_those_that_were_shown(tmp_path: Path) -> None:
    study = planted(tmp_path, answers=12)
    said = said_by(study.store.answers.arrays())
    assert set(said.names) == {"ann", "bo", "guesser"}
    log = study.store.answers.log()
    place = {str(id): k for k, id in enumerate(study.catalog.ids)}
    shown = [place[c.left] < place[c.right] for c in log]
    assert said.left_first.tolist() == shown


def test_leads_read_in_words_whom_the_model_trusts(tmp_path: Path) -> None:
    study = planted(tmp_path)
    assert study.agreement()["judges"] == {}, "no model, no judges"
    study.fit()
    judges = study.agreement()["judges"]
    assert set(judges) == {"ann", "bo", "guesser"}
    assert "look like guesses" in judges["guesser"]["sentence"]
    assert "of an ordinary one" in judges["ann"]["sentence"]
    assert judges["guesser"]["worth"] < judges["ann"]["worth"]
