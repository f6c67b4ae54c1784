"""Features of a study computed by many workers are those that it computes itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import steelyard as sy
from steelyard.scoring import describe_many, features
from steelyard.study import Study
from tests.study.growing import draw

N = 20


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[str], Study]]:
    for k in range(N):
        draw(tmp_path / "images" / f"i{k:02d}.png", k)
    catalog = sy.Catalog.from_folder(tmp_path / "images")
    (tmp_path / "images" / "i07.png").write_bytes(b"no picture any more")
    made: list[Study] = []

    def study(name: str) -> Study:
        made.append(
            Study.create(
                tmp_path / name,
                catalog,
                ask={"start": "random"},
                ranker={"backbone": "lite0", "image_size": 32},
            )
        )
        return made[-1]

    yield study
    for one in made:
        one.close()


@pytest.mark.slow
def test_parts_on_ray_fill_the_cache_of_the_study(
    make: Callable[[str], Study], monkeypatch: pytest.MonkeyPatch, ray_cluster: None
) -> None:
    monkeypatch.setattr(features, "_PART", 6)
    alone, many = make("alone"), make("many")
    told: list[tuple[int, int, str]] = []
    done = describe_many(many, engine="ray", jobs=2, progress=lambda *call: told.append(call))
    assert (done.images, done.computed) == (N, N - 1)
    assert done.unreadable[0].startswith("i07.png (is not an image")
    assert told[-1] == (N, N, "features")
    seen = alone.seen()
    np.testing.assert_array_equal(many.seen().rows, seen.rows)
    assert many.seen().absent.tolist() == seen.absent.tolist() == [7]
    assert describe_many(many, jobs=1).computed == 0  # nothing but the bad one is looked at again


def test_a_process_that_computed_features_knows_of_images_that_joined_later(
    make: Callable[[str], Study], tmp_path: Path
) -> None:
    study = make("grows")
    assert describe_many(study, jobs=1).computed == N - 1
    for k in range(3):
        draw(tmp_path / "more" / f"m{k}.png", 100 + k)
    study.add(tmp_path / "more")
    done = describe_many(study, jobs=1)
    assert (done.images, done.computed) == (N + 3, 3)
