"""Feature extraction: against the network run by hand, and by its symmetries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from steelyard.errors import RankerError
from steelyard.ranker import features
from steelyard.ranker.backbones import load_lite
from steelyard.ranker.features import extract


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    rng = np.random.default_rng(3)
    coarse = rng.integers(0, 256, size=(5, 8, 8, 3), dtype=np.uint8)
    return np.kron(coarse, np.ones((1, 8, 8, 1), dtype=np.uint8))  # 64 px, with structure


class Album:
    """What a catalog looks like from here; counts how often it is read."""

    def __init__(self, pictures: np.ndarray) -> None:
        self.pictures, self.reads = pictures, 0
        self.ids = [f"{k:032x}" for k in range(len(pictures))]

    def __len__(self) -> int:
        return len(self.pictures)

    def read(self, row: int) -> np.ndarray:
        self.reads += 1
        return np.asarray(self.pictures[row])


def test_averages_of_every_block_by_hand(pictures: np.ndarray) -> None:
    network = load_lite("lite0", image_size=64)
    x = ((torch.from_numpy(pictures).float() - 127) / 128).permute(0, 3, 1, 2)
    expected = []
    with torch.no_grad():
        x = torch.nn.functional.relu6(network._bn0(network._conv_stem(x)))
        for block in network._blocks:
            x = block(x)
            expected.append(x.mean((2, 3)))
    found = extract(pictures, backbone="lite0", image_size=64, flips=False, recipe=1)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, torch.cat(expected, 1).numpy(), atol=1e-4)


def test_mirror_images_have_the_same_features(pictures: np.ndarray) -> None:
    rows = extract(pictures, backbone="lite0", image_size=64, recipe=1)
    for turned in (pictures[:, ::-1], pictures[:, :, ::-1], pictures[:, ::-1, ::-1]):
        np.testing.assert_allclose(
            extract(turned, backbone="lite0", image_size=64, recipe=1), rows, atol=1e-4
        )
    other = extract(pictures, backbone="lite0", image_size=64, flips=False, recipe=1)
    assert np.abs(other - rows).max() > 0.01


def test_the_recipes_are_near_each_other_and_never_mixed(pictures: np.ndarray, tmp_path: Path) -> None:
    album = Album(pictures)
    rows = {
        recipe: extract(album, backbone="lite0", image_size=64, recipe=recipe, cache=tmp_path)  # type: ignore[arg-type]
        for recipe in (1, 2, 1, 2)
    }
    assert album.reads == 10, "each recipe computed its own rows, once"
    assert len(list(tmp_path.iterdir())) == 2
    assert 0.9 < np.corrcoef(rows[1].ravel(), rows[2].ravel())[0, 1] < 0.9999
    # Backbones that have no second recipe keep the rows they have.
    for recipe in (1, 2):
        extract(album, backbone="small", weights="none", recipe=recipe, cache=tmp_path / "small")  # type: ignore[arg-type]
    assert album.reads == 15


@pytest.mark.parametrize("recipe", [1, 2])
def test_batch_size_and_source_do_not_matter(pictures: np.ndarray, recipe: int) -> None:
    whole = extract(pictures, backbone="lite0", image_size=64, recipe=recipe)  # type: ignore[arg-type]
    steps: list[tuple[int, int]] = []
    single = extract(
        Album(pictures),
        backbone="lite0",
        image_size=64,
        recipe=recipe,  # type: ignore[arg-type]
        batch=2,
        progress=lambda done, total, text: steps.append((done, total)),
    )
    # In whole numbers, what an image is computed with makes no difference at all.
    np.testing.assert_allclose(single, whole, rtol=0, atol={1: 1e-4, 2: 0}[recipe])
    assert steps == [(2, 5), (4, 5), (5, 5)]
    listed = extract(list(pictures), backbone="lite0", image_size=64, recipe=recipe)  # type: ignore[arg-type]
    np.testing.assert_array_equal(listed, whole)


def test_a_cache_reads_every_image_once(pictures: np.ndarray, tmp_path: Path) -> None:
    album = Album(pictures)
    options = {"backbone": "lite0", "image_size": 64, "flips": False, "cache": tmp_path}
    first = extract(album, **options)  # type: ignore[arg-type]
    again = extract(album, **options)  # type: ignore[arg-type]
    assert album.reads == 5
    np.testing.assert_array_equal(first, again)
    extract(album, **(options | {"flips": True}))  # type: ignore[arg-type]
    assert album.reads == 10  # other settings, other rows
    twice = np.concatenate([pictures, pictures[:2]])
    rows = extract(twice, **options)  # type: ignore[arg-type]
    np.testing.assert_array_equal(rows[:2], rows[5:])
    np.testing.assert_allclose(rows[:5], first, atol=1e-4)


def test_any_size_goes_in_and_the_thread_count_comes_back(pictures: np.ndarray) -> None:
    mixed = [pictures[0], pictures[1][:40, :30], np.tile(pictures[2], (2, 1, 1))]
    before = torch.get_num_threads()
    rows = extract(mixed, backbone="lite0", image_size=64, threads=1)
    assert rows.shape[0] == 3
    assert np.isfinite(rows).all()
    assert torch.get_num_threads() == before


def test_other_backbones_have_features_too(pictures: np.ndarray) -> None:
    assert extract(pictures[:1], backbone="small", weights="none").shape[1] > 100


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (np.zeros((2, 8, 8), dtype=np.uint8), "shape"),
        (np.zeros((2, 8, 8, 3)), "float64"),
        ([np.zeros((8, 8, 3), dtype=np.uint8), np.zeros((8, 8, 4), dtype=np.uint8)], "picture 1"),
    ],
)
def test_what_is_no_picture_is_named(source: object, message: str) -> None:
    with pytest.raises(RankerError, match=message):
        extract(source, backbone="lite0", image_size=64)  # type: ignore[arg-type]
    with pytest.raises(RankerError, match="lite9"):
        extract(np.zeros((1, 8, 8, 3), dtype=np.uint8), backbone="lite9")


def test_large_jpegs_are_unpacked_smaller_by_the_second_recipe_alone(tmp_path: Path) -> None:
    from PIL import Image

    from steelyard.errors import ImageError
    from steelyard.images.catalog import Catalog

    rng = np.random.default_rng(5)
    for k in range(3):
        smooth = Image.fromarray(rng.integers(0, 256, size=(9, 12, 3), dtype=np.uint8))
        smooth.resize((1200, 900), Image.Resampling.BICUBIC).save(tmp_path / f"{k}.jpg", quality=92)
    catalog = Catalog.from_folder(tmp_path)
    seen: list[tuple[int, int]] = []
    whole, small = catalog.read, catalog.read_small
    catalog.read = lambda row: seen.append((row, 0)) or whole(row)  # type: ignore[method-assign,func-returns-value,assignment]
    catalog.read_small = lambda row, least: seen.append((row, least)) or small(row, least)  # type: ignore[method-assign,func-returns-value,assignment]
    scaled = extract(catalog, backbone="lite0", image_size=64)
    assert {least for _, least in seen} == {128}
    # The same pictures unpacked whole give nearly the same numbers.
    plain = extract([whole(row) for row in range(3)], backbone="lite0", image_size=64)
    assert np.abs(scaled - plain).max() < 0.25 * np.abs(plain).std()
    seen.clear()
    extract(catalog, backbone="lite0", image_size=64, recipe=1)
    assert {least for _, least in seen if _ < 3} == {0}
    cut = tmp_path / "0.jpg"
    cut.write_bytes(cut.read_bytes()[:-2000])
    with pytest.raises(ImageError, match="truncated"):
        extract(catalog, backbone="lite0", image_size=64)


def test_importing_does_not_load_torch() -> None:
    import subprocess
    import sys

    code = "import sys, steelyard.ranker.features; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert features.__all__ == ["extract", "feature_settings"]


@pytest.mark.realdata
def test_features_tell_mild_from_severe_colitis() -> None:
    import os

    from steelyard.images.catalog import Catalog
    from steelyard.ranker.convex import ConvexHead

    folder = Path(os.environ.get("STEELYARD_DATA", Path(__file__).parents[3] / "shared" / "data"))
    catalog = Catalog.from_hyperkvasir(folder / "hyperkvasir_uc")
    assert catalog.grades is not None
    rng = np.random.default_rng(0)
    mild, severe = (
        rng.choice(np.flatnonzero(np.isin(catalog.grades, codes)), 40, replace=False)
        for codes in ((0, 1), (5,))
    )
    rows = extract(
        [catalog.read(int(row)) for row in (*mild, *severe)], backbone="lite0", image_size=96, flips=False
    )
    # Forty of the eighty teach, the other forty are asked about.
    teach = np.stack([np.arange(40, 60), np.arange(20)], 1)
    ask = np.array([(i, j) for i in range(60, 80) for j in range(20, 40)])
    head = ConvexHead.fit(rows, teach, np.ones(20))
    mean = head.posterior(rows).mean
    assert (mean[ask[:, 0]] > mean[ask[:, 1]]).mean() > 0.8
