"""The doctor says what is there, what is missing, and how to get it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

from steelyard import doctor


def test_a_whole_install_has_no_problem(tmp_path: Path) -> None:
    findings = doctor.examine(tmp_path)
    assert not [f for f in findings if f.state == "problem"]
    assert {"steelyard", "python", "torch", "cpu", "disk", "study folder"} <= {f.what for f in findings}


def test_what_is_missing_comes_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find, version = importlib.util.find_spec, importlib.metadata.version

    def no_version(name: str) -> str:
        if name == "safetensors":
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ray" else find(name))
    monkeypatch.setattr(importlib.metadata, "version", no_version)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: SimpleNamespace(free=1e6))
    found = {f.what: f for f in doctor.examine(tmp_path / "not" / "yet")}
    assert (found["ray"].state, found["ray"].remedy) == ("missing", "pip install 'steelyard[ray]'")
    assert (found["safetensors"].state, found["safetensors"].remedy) == ("problem", "pip install steelyard")
    assert found["disk"].state == "problem"
    assert found["study folder"].state == "problem"


def test_the_doctor_says_where_the_paper_s_weights_belong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "hub"))
    monkeypatch.delenv("STEELYARD_WEIGHTS", raising=False)
    told = {f.what: f for f in doctor.examine(tmp_path)}["densenet169 weights"]
    assert told.state == "missing"
    assert str(tmp_path / "hub" / "hub" / "checkpoints") in told.remedy
    assert "STEELYARD_WEIGHTS" in told.remedy
    monkeypatch.setenv("STEELYARD_WEIGHTS", str(tmp_path / "mine"))
    told = {f.what: f for f in doctor.examine(tmp_path)}["densenet169 weights"]
    assert str(tmp_path / "mine") in told.remedy
    (tmp_path / "mine").mkdir()
    file = tmp_path / "mine" / "densenet169_weights_tf_dim_ordering_tf_kernels_notop.h5"
    file.write_bytes(b"")
    told = {f.what: f for f in doctor.examine(tmp_path)}["densenet169 weights"]
    assert (told.state, told.detail) == ("ok", f"{file} – for the paper preset")
