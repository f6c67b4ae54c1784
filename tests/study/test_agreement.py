"""How reliable a study's answers are, with a model and without; scores from the answers alone beside the model's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from steelyard.errors import StudyError
from steelyard.exchange import import_file
from steelyard.images.catalog import Catalog
from steelyard.ranker.left_out import left_out
from steelyard.study import Study
from steelyard.study.agreement import MODEL, OTHERS, answered_of, own_figures
from steelyard.study.answers_alone import both_scores
from steelyard.study.judging import said_by

N, ODD = 50, 10


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Study]:
    """Images in the order of their severity, as a folder of grades has them; two people answer, and see in one image what its
    features do not say."""
    rng = np.random.default_rng(0)
    severity = np.sort(rng.normal(size=N))
    np.save(tmp_path / "x.npy", np.column_stack([severity, rng.normal(size=(N, 3))]).astype(np.float32))
    (tmp_path / "labels.csv").write_text("image\n" + "\n".join(f"i{k}" for k in range(N)))
    catalog = Catalog.from_features(tmp_path / "x.npy", tmp_path / "labels.csv")
    seen = np.where(np.arange(N) == ODD, 3.0, severity)
    lines = ["left,right,answer,annotator,shown_at,answered_at"]
    pairs = [tuple(rng.permutation(N)[:2]) for _ in range(300)] + [
        (ODD, k) for k in range(0, N, 2) if k != ODD
    ]
    for k, (i, j) in enumerate(pairs):
        for who in ("ann", "bob") if k % 2 else ("ann",):
            gap = 3 * (seen[i] - seen[j]) + rng.logistic()
            said = "equal" if abs(gap) < 0.5 else "left" if gap > 0 else "right"
            lines.append(f"i{i},i{j},{said},{who},{1e9 + 10 * k},{1e9 + 10 * k + rng.gamma(4)}")
    (tmp_path / "answers.csv").write_text("\n".join(lines))
    with Study.create(tmp_path / "study", catalog, preset="features") as made:
        import_file(made, tmp_path / "answers.csv")
        yield made


def test_without_a_model_answers_are_held_against_the_other_answers(study: Study) -> None:
    told = answered_of(study, study.store.answers.arrays())
    assert told.against == OTHERS
    assert not np.isnan(told.probabilities).any()
    facts = study.agreement()
    assert facts["held against"] == OTHERS
    assert [person["annotator"] for person in facts["people"]] == ["ann", "bob"]
    figures = {figure["key"]: figure for figure in facts["figures"]}
    assert figures["alpha_ordinal"]["value"] > 0.4
    assert figures["infit"]["value"] == pytest.approx(1, abs=0.25)
    assert facts["between people"]["ann and bob"]["pairs"] > 100


def test_pairs_are_turned_by_what_knows_nothing_of_the_severity(study: Study) -> None:
    answers = study.store.answers.arrays()
    told = answered_of(study, answers)
    ids = study.catalog.ids
    assert all(ids[i] < ids[j] for i, j in told.pairs.tolist())
    clear = told.clear
    assert (answers.labels[clear] == 0).mean() > 0.7, "in the catalog's order the second one is worse"
    assert told.labels[clear].mean() == pytest.approx(0.5, abs=0.15)
    chosen = (told.labels == 1) == told.left_first
    assert (chosen == ((answers.labels == 1) == answers.left_first))[clear].all(), "sides are as they were"


def test_with_a_model_they_are_held_against_it_without_their_own_pair(study: Study) -> None:
    study.fit()
    answers = study.store.answers.arrays()
    told = answered_of(study, answers)
    assert told.against == MODEL
    posterior = study.posterior
    assert posterior is not None
    found = left_out(posterior, answers.pairs, answers.labels, said_by(answers))
    turned = told.pairs[:, 0] != answers.pairs[:, 0]
    sign = np.where(turned, -1, 1)
    expected = posterior.temper.outcomes(  # type: ignore[union-attr]
        sign * found.mean[found.place], found.variance[found.place]
    )
    assert told.probabilities == pytest.approx(expected)


def test_own_figures_do_not_change_with_what_others_or_the_model_say(study: Study, tmp_path: Path) -> None:
    before = own_figures(study, "ann")
    assert before is not None
    assert (before.others, before.others_alike, before.in_line, before.infit, before.quick_gap) == (
        0,
        None,
        None,
        None,
        None,
    )
    study.fit()
    pair = study.store.pairs.all()[3]
    (tmp_path / "more.csv").write_text(f"left,right,answer,annotator\n{pair.first},{pair.second},left,mo\n")
    import_file(study, tmp_path / "more.csv")
    assert own_figures(study, "ann") == before
    assert own_figures(study, "nobody") is None


def test_the_odd_image_differs_and_scores_without_images_need_no_model(study: Study) -> None:
    table = study.score(answers_alone=True)
    assert list(table["alone_rank"]) == list(range(1, N + 1))
    assert table["model_alone"].isna().all()
    assert table["differs"].isna().all()
    assert table["answers"].sum() == 2 * len(study.store.answers.arrays())
    study.fit()
    both = study.score(answers_alone=True)
    assert {"score", "rank", "alone", "alone_low", "alone_high", "model_alone", "differs", "infit"} <= set(
        both
    )
    assert "alone" not in study.score()
    named = [study.catalog.index_of(image) for image in both["image"][both["differs"].astype(bool)]]
    assert ODD in named
    assert len(named) <= 4
    found = both_scores(study)
    assert found.differing[0] == ODD
    study.store.images.exclude(study.catalog.ids[ODD], "kt", "odd")
    assert ODD not in both_scores(study).differing
    assert len(study.score(answers_alone=True)) == N - 1


def test_nothing_to_score_by_says_so(tmp_path: Path, study: Study) -> None:
    with pytest.raises(StudyError, match="nobody has answered about the images"):
        study.score(tmp_path, answers_alone=True)
    with Study.create(tmp_path / "new", study.catalog, preset="features") as empty:
        with pytest.raises(StudyError, match="need answers"):
            empty.score(answers_alone=True)
        facts = empty.agreement()
        assert facts["people"] == []
        assert all(figure["value"] is None for figure in facts["figures"])
