"""A study whose images have effects of their own: what people see and features do not is learnt, kept, and still pointed out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import steelyard as sy
from steelyard.exchange import import_file
from steelyard.images.catalog import Catalog
from steelyard.study import Study
from steelyard.study.answers_alone import both_scores
from steelyard.study.models import load_posterior

N, ODD = 50, (10, 40)
SEVERITY = np.sort(np.random.default_rng(0).normal(size=N))
SEEN = np.where(np.isin(np.arange(N), ODD), -np.sign(SEVERITY) * 2.5, SEVERITY)


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Study]:
    """Two people see in two images the opposite of what their features say."""
    rng = np.random.default_rng(1)
    np.save(tmp_path / "x.npy", np.column_stack([SEVERITY, rng.normal(size=(N, 3))]).astype(np.float32))
    (tmp_path / "labels.csv").write_text("image\n" + "\n".join(f"i{k}" for k in range(N)))
    catalog = Catalog.from_features(tmp_path / "x.npy", tmp_path / "labels.csv")
    lines = ["left,right,answer,annotator"]
    pairs = [tuple(rng.permutation(N)[:2]) for _ in range(300)]
    pairs += [(odd, k) for odd in ODD for k in range(0, N, 2) if k not in ODD]
    for k, (i, j) in enumerate(pairs):
        gap = 3 * (SEEN[i] - SEEN[j]) + rng.logistic()
        said = "equal" if abs(gap) < 0.5 else "left" if gap > 0 else "right"
        lines.append(f"i{i},i{j},{said},{('ann', 'bob')[k % 2]}")
    (tmp_path / "answers.csv").write_text("\n".join(lines))
    changes = {"image_effects": True}
    with Study.create(tmp_path / "study", catalog, preset="features", ranker=changes) as made:
        import_file(made, tmp_path / "answers.csv")
        yield made


def test_scores_follow_the_answers_and_a_new_image_is_scored_by_its_features(
    study: Study, tmp_path: Path
) -> None:
    model = study.fit()
    assert model.metrics["image_effects"] > 0.3
    table = study.score().set_index("image")
    score = np.array([table.score[study.catalog.ids[k]] for k in range(N)])
    low, high = ODD
    assert np.mean(score > score[low]) < 0.2  # looks mild, and is seen to be severe
    assert np.mean(score < score[high]) < 0.2
    kept = load_posterior(model.folder)
    np.testing.assert_allclose(kept.mean, score, atol=1e-6)
    with sy.Study.open(study.folder) as again:
        np.testing.assert_allclose(
            again.score().set_index("image").score[table.index], table.score, atol=1e-9
        )
        pair = again.ask(1)[0]
        again.tell(pair, sy.Answer.LEFT, annotator="ann")  # the belief moves with the effects
        assert np.isfinite(again.score().score).all()


def test_the_images_on_which_people_and_features_differ_are_still_named(study: Study) -> None:
    study.fit()
    named = both_scores(study).differing.tolist()
    assert set(ODD) <= set(named)
    assert len(named) <= 4
