from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

from steelyard.errors import CatalogError
from steelyard.images.similar import Fingerprints, fingerprint, fingerprints, near_duplicates

DATA = Path(os.environ.get("STEELYARD_DATA", Path(__file__).parents[3] / "shared" / "data"))


def draw(rng: np.random.Generator, size: int = 96) -> np.ndarray:
    """A random picture with coarse and fine structure behind the same dark vignette."""
    layers = [gaussian_filter(rng.normal(size=(size, size, 3)), (blur, blur, 0)) for blur in (12, 8, 5)]
    picture = 128 + 30 * np.sum([layer / layer.std() for layer in layers], axis=0)
    return vignette(picture.clip(0, 255).astype(np.uint8))


def vignette(picture: np.ndarray) -> np.ndarray:
    y, x = np.mgrid[-1 : 1 : len(picture) * 1j, -1 : 1 : len(picture) * 1j]
    return picture * (np.hypot(x, y) < 1)[..., None].astype(np.uint8)


def next_frame(picture: np.ndarray, pixels: int) -> np.ndarray:
    """What is seen moves a little; the dark corners of the camera stay where they are."""
    return vignette(
        np.where(vignette(np.roll(picture, pixels, axis=1)) > 0, np.roll(picture, pixels, axis=1), picture)
    )


@pytest.fixture(scope="module")
def pictures() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [draw(rng) for _ in range(60)]


def changed(picture: np.ndarray, how: str) -> np.ndarray:
    if how == "smaller":
        return np.asarray(Image.fromarray(picture).resize((61, 61)))
    if how == "brighter":
        return (picture * 0.8 + 20).astype(np.uint8)
    if how == "noisy":
        return (picture + np.random.default_rng(1).normal(0, 6, picture.shape)).clip(0, 255).astype(np.uint8)
    return next_frame(picture, 1)


@pytest.mark.parametrize("how", ["smaller", "brighter", "noisy", "shifted"])
def test_a_changed_copy_shares_the_label_of_its_original(pictures: list[np.ndarray], how: str) -> None:
    images = [*pictures, changed(pictures[7], how)]
    labels = near_duplicates(fingerprints(images.__getitem__, len(images)))
    assert labels[-1] == labels[7]
    assert len(np.unique(labels)) == len(pictures), (
        "different pictures behind the same vignette are not duplicates"
    )


def test_chains_share_one_label_and_labels_are_numbered_in_order(pictures: list[np.ndarray]) -> None:
    images = [*pictures, next_frame(pictures[3], 1), next_frame(pictures[3], 2)]
    labels = near_duplicates(fingerprints(images.__getitem__, len(images)))
    assert labels[3] == labels[-1] == labels[-2]
    assert np.array_equal(labels[: len(pictures)], np.arange(len(pictures)))


def test_candidates_of_many_random_images_grow_linearly() -> None:
    from steelyard.images.similar import _candidates

    rng = np.random.default_rng(0)
    counts = [
        sum(len(pairs) for pairs in _candidates(rng.random((n, 255)) > 0.5, rng)) / n
        for n in (2_000, 4_000, 8_000)
    ]
    assert max(counts) < 2 * min(counts)


def test_a_bucket_that_holds_everything_stays_linear() -> None:
    from steelyard.images.similar import TABLES, WINDOW, _candidates

    pairs = _candidates(np.zeros((5_000, 255), dtype=bool), np.random.default_rng(0))
    assert sum(map(len, pairs)) <= TABLES * WINDOW * 5_000
    same = Fingerprints(np.zeros((200, 255), dtype=bool), np.tile(np.arange(1024, dtype=np.uint8), (200, 1)))
    assert len(np.unique(near_duplicates(Fingerprints(same.bits[:20], same.thumbnails[:20])))) == 1


def test_progress_and_small_sets(pictures: list[np.ndarray]) -> None:
    calls: list[tuple[int, int, str]] = []
    prints = fingerprints(pictures.__getitem__, 60, progress=lambda *call: calls.append(call))
    assert calls[-1] == (60, 60, "perceptual hashes")
    assert near_duplicates(Fingerprints(prints.bits[:1], prints.thumbnails[:1])).tolist() == [0]
    assert len(near_duplicates(Fingerprints(prints.bits[:0], prints.thumbnails[:0]))) == 0


def test_something_that_is_no_image_is_named() -> None:
    with pytest.raises(CatalogError, match=r"float64 of shape \(4, 4\)"):
        fingerprint(np.zeros((4, 4)))  # type: ignore[arg-type]


@pytest.mark.realdata
def test_the_fourteen_near_duplicate_pairs_of_the_uc_set() -> None:
    files = sorted((DATA / "hyperkvasir_uc").glob("*/*.jpg"))
    labels = near_duplicates(
        fingerprints(lambda i: np.asarray(Image.open(files[i]).convert("RGB")), len(files))
    )
    sizes = np.bincount(labels)
    assert len(files) == 851
    assert 10 <= (sizes * (sizes - 1) // 2).sum() <= 20
    assert sizes.max() <= 4
