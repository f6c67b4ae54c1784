"""What a ranker sees: by every way the same, with the settings that were given."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import steelyard as sy
from steelyard.config import ranker_preset
from steelyard.errors import RankerError
from steelyard.ranker import features, trunk
from steelyard.ranker.device import device_of
from steelyard.ranker.inputs import read_inputs

PICTURES = np.random.default_rng(0).integers(0, 255, size=(3, 32, 32, 3), dtype=np.uint8)
FEATURES: dict[str, Any] = {"backbone": "lite0", "image_size": 32}
TUNED: dict[str, Any] = {"backbone": "lite0", "image_size": 32, "trained_stages": 1}


def settings_of(kind: str, **changes: Any) -> Any:
    return ranker_preset(
        "quick" if kind == "features" else "tuned", **(FEATURES if kind == "features" else TUNED) | changes
    )


def test_pictures_and_rows_are_not_confused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 4), dtype=np.float32))
    rows = sy.Catalog.from_features(tmp_path / "x.npy")
    with pytest.raises(RankerError, match="use the features preset"):
        read_inputs(rows, ranker_preset("quick"))
    pictures = sy.Catalog.from_arrays(
        np.random.default_rng(0).integers(0, 255, size=(3, 8, 8, 3), dtype=np.uint8)
    )
    with pytest.raises(RankerError, match="takes features"):
        read_inputs(pictures, ranker_preset("features"))
    with pytest.raises(RankerError, match="no place among them"):
        read_inputs(np.zeros((1, 4, 4, 3), dtype=np.uint8), ranker_preset("features"))
    pixels = read_inputs(pictures, ranker_preset("small", image_size=16), cache=tmp_path / "cache")
    assert np.array_equal(pixels, read_inputs(pictures, ranker_preset("small", image_size=16)))


@pytest.mark.parametrize("kind", ["features", "activations"])
@pytest.mark.parametrize("source", [PICTURES, sy.Catalog.from_arrays(PICTURES)], ids=["pictures", "catalog"])
def test_weights_and_threads_hold_for_pictures_and_catalogs(
    kind: str, source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = read_inputs(source, settings_of(kind))
    threads: list[int] = []
    for network in (features._Quick, trunk._Trunk):
        monkeypatch.setattr(network, "rows", _watched(network.rows, threads))
    before = torch.get_num_threads()
    random = read_inputs(source, settings_of(kind, weights="none", threads=before + 1))
    assert not np.allclose(random, usual)
    assert threads[-1] == before + 1
    assert torch.get_num_threads() == before
    with pytest.raises(RankerError, match="no-such-file"):
        read_inputs(source, settings_of(kind, weights="no-such-file.pth"))
    for kept in (features._extractor, trunk._trunk):
        kept.cache_clear()  # as in a new process
    again = read_inputs(source, settings_of(kind, weights="none"))
    assert np.allclose(again, random, rtol=1e-3, atol=1e-3 * np.abs(random).max())


def _watched(rows: Any, threads: list[int]) -> Any:
    def watched(self: Any, images: Any) -> Any:
        threads.append(torch.get_num_threads())
        return rows(self, images)

    return watched


def test_a_device_that_is_not_here_is_reported_and_one_that_does_not_exist_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert device_of("cpu").type == "cpu"
    with pytest.raises(RankerError, match="auto, cpu, cuda"):
        read_inputs(PICTURES, settings_of("features", device="abacus"))
    if torch.cuda.is_available():  # pragma: no cover - no such machine runs the tests so far
        return
    device_of.cache_clear()
    with caplog.at_level(logging.WARNING, "steelyard"):
        found = read_inputs(PICTURES, settings_of("features", device="cuda"))
    assert [record.getMessage() for record in caplog.records] == [
        "ranker.device = 'cuda' is not on this machine; features and scores are computed on the CPU"
    ]
    assert np.array_equal(found, read_inputs(PICTURES, settings_of("features")))
