"""A model on disk: safetensors for numbers, JSON for everything else, never pickle.

A checkpoint is a folder with `checkpoint.json` and the files of numbers it names. `checkpoint.json` is replaced last and
in one step, and the others are named after their content, so that whoever is killed half-way leaves the old one whole.
Knows arrays only: nothing here loads torch unless a torch module is given.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import RankerError
from steelyard.files import write_atomically

__all__ = ["FORMAT", "Arrays", "Checkpoint", "exists", "fill", "fingerprint_of", "load", "save", "save_model"]

Arrays = dict[str, NDArray[np.generic]]
FORMAT = 2  # 1 was 0.1's: networks without scaling and covariance
_MANIFEST = "checkpoint.json"


@dataclass(frozen=True)
class Checkpoint:
    """What was found in a folder.

    Attributes:
        weights: named arrays of the model.
        optimizer: named arrays of the optimizer, empty where none was saved.
        config: the configuration that made it, as plain dictionaries.
        fingerprint: of the data it was trained on.
        version: of Steelyard that wrote it.
        extra: anything else that was saved with it.
    """

    weights: Arrays
    optimizer: Arrays
    config: dict[str, Any]
    fingerprint: str
    version: str
    extra: dict[str, Any]


def save(
    folder: Path,
    model: Any,
    *,
    config: Any,
    fingerprint: str,
    version: str,
    extra: Mapping[str, Any] | None = None,
    optimizer: Mapping[str, Any] | None = None,
) -> None:
    """Write a checkpoint, replacing what the folder held in one step.

    Args:
        folder: made where needed.
        model: an `nn.Module`, or named arrays.
        config: a section of a configuration, or dictionaries; travels with the model.
        fingerprint: of the data.
        version: of Steelyard.
        extra: anything that JSON can hold.
        optimizer: named arrays or tensors.

    Raises:
        RankerError: the weights are not finite, or `extra` is nothing for JSON.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tables = {"weights": _arrays(model.state_dict() if hasattr(model, "state_dict") else model)}
    if optimizer is not None:
        tables["optimizer"] = _arrays(optimizer)
    for name, array in tables["weights"].items():
        if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
            raise RankerError(f"'{name}' holds numbers that are not finite; a broken model is not saved")
    files = {}
    for table, arrays in tables.items():
        content = _serialise(arrays)
        name = f"{table}-{hashlib.blake2b(content, digest_size=8).hexdigest()}.safetensors"
        if not (folder / name).exists():  # named after its content, so what is there is right
            write_atomically(folder / name, content)
        files[table] = name
    manifest = {
        "format": FORMAT,
        "version": version,
        "fingerprint": fingerprint,
        "config": config.to_dict() if hasattr(config, "to_dict") else config,
        "extra": dict(extra or {}),
        "files": files,
    }
    try:
        text = json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise RankerError(f"'extra' and 'config' of a checkpoint hold what JSON can hold: {error}") from None
    write_atomically(folder / _MANIFEST, text.encode())
    for old in folder.glob("*.safetensors"):
        if old.name not in files.values():
            old.unlink(missing_ok=True)


def save_model(folder: Path, arrays: Mapping[str, Any], *, config: Any, extra: Mapping[str, Any]) -> None:
    """Write a finished model: arrays, settings, and what else is needed to score images with it."""
    from steelyard import __version__

    save(folder, dict(arrays), config=config, fingerprint="", version=__version__, extra=extra)


def exists(folder: Path) -> bool:
    """Does the folder hold a whole checkpoint?"""
    return (folder / _MANIFEST).is_file()


def load(folder: Path, *, fingerprint: str | None = None) -> Checkpoint:
    """Read a checkpoint.

    Args:
        folder: as given to `save`.
        fingerprint: of the data at hand; None takes any.

    Raises:
        RankerError: nothing there, damaged, written in a newer format, or trained on other data.
    """
    path = folder / _MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        written = int(manifest["format"])
        if written > FORMAT:
            raise RankerError(
                f"{folder} has format {written}, written by Steelyard {manifest.get('version', '?')}; this one reads up "
                f"to format {FORMAT}: install that version or a newer one"
            )
        if fingerprint is not None and manifest["fingerprint"] != fingerprint:
            raise RankerError(
                f"{folder} was trained on other data (fingerprint {manifest['fingerprint']}, here {fingerprint}); "
                "train again, or take another folder"
            )
        tables = {table: _read(folder / str(name)) for table, name in manifest["files"].items()}
        return Checkpoint(
            weights=tables["weights"],
            optimizer=tables.get("optimizer", {}),
            config=dict(manifest["config"]),
            fingerprint=str(manifest["fingerprint"]),
            version=str(manifest["version"]),
            extra=dict(manifest["extra"]),
        )
    except FileNotFoundError as error:
        raise RankerError(
            f"{folder} holds no model ({Path(error.filename).name} is missing); train one first"
        ) from None
    except (KeyError, TypeError, ValueError) as error:
        raise RankerError(f"{path} is damaged ({type(error).__name__}: {error}); train again") from None


def fill(module: Any, weights: Mapping[str, Any], *, source: str) -> None:
    """Put saved weights into an `nn.Module`, insisting that names and shapes agree.

    Raises:
        RankerError: names the first key that does not fit.
    """
    import torch

    from steelyard.ranker.backbones import load_state

    load_state(
        module, {name: torch.from_numpy(np.array(array)) for name, array in weights.items()}, source=source
    )


def fingerprint_of(*parts: Any) -> str:
    """A short hash of arrays, texts and numbers: the same parts in the same order, the same 32 hex digits."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            digest.update(json.dumps(part, sort_keys=True, default=str).encode())
        digest.update(b"\0")
    return digest.hexdigest()


def _arrays(table: Mapping[str, Any]) -> Arrays:
    return {name: np.ascontiguousarray(_array(value)).reshape(value.shape) for name, value in table.items()}


def _array(value: Any) -> NDArray[np.generic]:
    if not hasattr(value, "detach"):
        return np.asarray(value)
    tensor = value.detach().cpu()
    # numpy has no bfloat16; every such number is a float32 too, and becomes itself again when it is put back.
    return np.asarray((tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy())


def _serialise(arrays: Arrays) -> bytes:
    from safetensors.numpy import save as serialise

    return bytes(serialise(dict(arrays)))


def _read(path: Path) -> Arrays:
    from safetensors import SafetensorError
    from safetensors.numpy import load as parse

    content = path.read_bytes()
    expected = path.stem.rpartition("-")[2]
    if hashlib.blake2b(content, digest_size=8).hexdigest() != expected:
        raise RankerError(f"{path} is damaged: its content is not what its name promises; train again")
    try:
        return dict(parse(content))
    except SafetensorError as error:
        raise RankerError(f"{path} is damaged ({error}); train again") from None
