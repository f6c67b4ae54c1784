"""A study whose network learns its features measures distances in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import steelyard as sy
from steelyard.images.synthetic import draw, write
from steelyard.pairs import Answer
from steelyard.ranker.ranker import load_ranker


def test_core_set_takes_the_features_of_the_newest_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from steelyard.acquire import coreset

    seen: list[np.ndarray] = []
    plain = coreset.features_of

    def note(posterior: Any, features: Any, *rest: Any, **options: Any) -> Any:
        seen.append(np.array(features))
        return plain(posterior, features, *rest, **options)

    monkeypatch.setattr(coreset, "features_of", note)
    table = write(tmp_path / "images", draw(20, size=32, seed=1))
    ranker = {"image_size": 16, "epochs": 1, "draws": 2}
    ask = {"strategy": "coreset", "start": "random", "random_share": 0.0}
    catalog = sy.Catalog.from_csv(table, table.parent)
    with sy.Study.create(tmp_path / "study", catalog, preset="small", ranker=ranker, ask=ask) as study:
        for pair in study.ask(8, annotator="kt"):
            study.tell(pair, Answer.LEFT, annotator="kt")
        study.fit()
        study.ask(15, annotator="kt")
        newest = study.store.models.newest()
        assert newest is not None
        fitted: Any = load_ranker(study.folder / newest.path)
        assert seen[0].shape == (20, 128)
        assert np.allclose(seen[0], fitted.last_inputs(study.inputs()), atol=1e-5)
