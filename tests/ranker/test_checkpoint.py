"""Checkpoints: what goes in comes out, in one step or not at all, and errors say what to do."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from steelyard.config import ranker_preset
from steelyard.errors import RankerError
from steelyard.ranker import checkpoint

WEIGHTS = {"a": np.arange(6.0).reshape(2, 3), "n": np.array(3, dtype=np.int64)}
ABOUT = {"config": {"seed": 1}, "fingerprint": "f00d", "version": "0.1.0"}


def test_round_trip(tmp_path: Path) -> None:
    config = ranker_preset("small")
    checkpoint.save(
        tmp_path / "m",
        WEIGHTS,
        config=config,
        fingerprint="f00d",
        version="0.1.0",
        extra={"tau": 0.5},
        optimizer=WEIGHTS,
    )
    found = checkpoint.load(tmp_path / "m", fingerprint="f00d")
    assert all(np.array_equal(found.weights[key], WEIGHTS[key]) for key in WEIGHTS)
    assert found.weights["n"].shape == ()
    assert found.optimizer["a"].tolist() == WEIGHTS["a"].tolist()
    assert found.config["backbone"] == "small"
    assert (found.fingerprint, found.version, found.extra) == ("f00d", "0.1.0", {"tau": 0.5})


def test_modules_come_back_bit_for_bit_whatever_their_memory_layout(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    checkpoint.save(tmp_path, module, **ABOUT)
    other = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    checkpoint.fill(other, checkpoint.load(tmp_path).weights, source="here")
    for key, value in module.state_dict().items():
        assert torch.equal(value, other.state_dict()[key])
    with pytest.raises(RankerError, match=r"here lacks the weights '1\.weight'"):
        checkpoint.fill(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Linear(2, 2)), {"0.weight": np.zeros((4, 3, 3, 3)), "0.bias": np.zeros(4)}, source="here")  # fmt: skip


def test_nothing_is_pickled(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, WEIGHTS, **ABOUT, optimizer=WEIGHTS)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".safetensors", ".safetensors"]


def test_saving_again_replaces_and_leaves_nothing_behind(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, WEIGHTS, **ABOUT, optimizer=WEIGHTS)
    checkpoint.save(tmp_path, {"a": np.zeros(2)}, **ABOUT)
    assert checkpoint.load(tmp_path).weights["a"].tolist() == [0, 0]
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("dies_at", ["weights", "checkpoint.json"])
def test_killed_while_saving_the_old_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: str
) -> None:
    checkpoint.save(tmp_path, WEIGHTS, **ABOUT)
    replace = Path.replace

    def dying(self: Path, target: Path) -> Path:
        if target.name.startswith(dies_at):
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", dying)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(tmp_path, {"a": np.zeros(2)}, **ABOUT)
    monkeypatch.undo()
    assert np.array_equal(checkpoint.load(tmp_path).weights["a"], WEIGHTS["a"])


def test_other_data_newer_formats_and_damage_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(RankerError, match="holds no model"):
        checkpoint.load(tmp_path)
    checkpoint.save(tmp_path, WEIGHTS, **ABOUT)
    with pytest.raises(RankerError, match=r"other data \(fingerprint f00d, here beef\)"):
        checkpoint.load(tmp_path, fingerprint="beef")
    manifest = tmp_path / "checkpoint.json"
    text = manifest.read_text()
    manifest.write_text(text.replace('"format": 2', '"format": 99'))
    with pytest.raises(RankerError, match="format 99"):
        checkpoint.load(tmp_path)
    manifest.write_text(text[:50])
    with pytest.raises(RankerError, match="damaged"):
        checkpoint.load(tmp_path)
    manifest.write_text(json.dumps({"format": 1}))
    with pytest.raises(RankerError, match="damaged"):
        checkpoint.load(tmp_path)
    manifest.write_text(text)
    (weights,) = tmp_path.glob("*.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    with pytest.raises(RankerError, match="not what its name promises"):
        checkpoint.load(tmp_path)
    weights.unlink()
    with pytest.raises(RankerError, match="is missing"):
        checkpoint.load(tmp_path)


def test_broken_models_are_not_saved(tmp_path: Path) -> None:
    with pytest.raises(RankerError, match="'w' holds numbers that are not finite"):
        checkpoint.save(tmp_path, {"w": np.array([np.nan])}, **ABOUT)
    with pytest.raises(RankerError, match="JSON"):
        checkpoint.save(tmp_path, WEIGHTS, **ABOUT, extra={"x": object()})
    assert not checkpoint.exists(tmp_path)


def test_fingerprints_tell_values_types_and_order_apart() -> None:
    a, b = np.array([1, 2]), np.array([2, 1])
    prints = {
        checkpoint.fingerprint_of(*parts)
        for parts in [(a,), (b,), (a, b), (b, a), (a.astype(float),), (a, "x")]
    }
    assert len(prints) == 6
    assert checkpoint.fingerprint_of(a, {"k": 1}) == checkpoint.fingerprint_of(a.copy(), {"k": 1})
