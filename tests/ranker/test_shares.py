"""Steps and their shares: every example is in one step, and counts once over all processes."""

from __future__ import annotations

import mmap
import pickle
from pathlib import Path

import numpy as np
import pytest

from steelyard.ranker import processes
from steelyard.ranker.shares import share_of, steps_of


def test_a_step_takes_what_is_left_and_nobody_is_alone() -> None:
    assert [len(step) for step in steps_of(np.arange(11), 4)] == [4, 4, 3]
    assert [len(step) for step in steps_of(np.arange(9), 4)] == [4, 5]
    assert [len(step) for step in steps_of(np.arange(1), 4)] == [1]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 12])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_no_example_is_left_out_and_each_counts_once(count: int, size: int) -> None:
    step = np.arange(100, 100 + count)
    shares = [share_of(step, rank, size) for rank in range(size)]
    assert all(len(share.places) for share in shares)  # nobody has an empty batch
    counted = np.zeros(count)
    for share in shares:
        counted[share.places] += share.weight
    assert np.allclose(counted, 1)
    assert sum(share.part for share in shares) == pytest.approx(1)


@pytest.mark.parametrize("size", [1, 2, 3, 20])
def test_an_image_counts_once_over_all_processes_that_see_it(size: int, rng: np.random.Generator) -> None:
    rows = rng.integers(0, 9, (2, 14))
    images, inverse = np.unique(rows, return_inverse=True)
    rows = inverse.reshape(2, 14)
    counted = np.zeros(len(images))
    for rank in range(size):
        share = share_of(np.arange(14), rank, size)
        here = np.unique(rows[:, share.places])
        counted[here] += share.image_weights(rows, len(images))[here]
    assert np.allclose(counted, 1)


def test_memory_maps_are_handed_out_by_name_and_their_parts_too(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.arange(60.0).reshape(20, 3))
    whole = np.load(tmp_path / "rows.npy", mmap_mode="r")
    for value in (whole, whole[5:9], whole[4:][3:]):
        sent = processes._pickled({"images": value})
        assert b"rows.npy" in sent
        got = pickle.loads(sent)["images"]
        assert isinstance(got.base, mmap.mmap)
        assert np.array_equal(got, value)
    # what is no plain piece of the file goes as it is
    for value in (whole[:, ::2], np.arange(3)):
        assert np.array_equal(pickle.loads(processes._pickled(value)), value)
