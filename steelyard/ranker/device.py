"""Where a ranker computes: the device and the number of CPU threads, the same for features, training and scores."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import torch

from steelyard.errors import RankerError

__all__ = ["cpu_threads", "device_of"]

log = logging.getLogger("steelyard")


@lru_cache(maxsize=8)  # so that a missing device is reported once
def device_of(name: str) -> torch.device:
    """The device that `ranker.device` names; `auto` takes a GPU where there is one.

    Features and scores are the same wherever they are computed, so a model trained on a GPU may be used on a machine without:
    the log says so, and the CPU does the work. (Training insists on its device; see `train.py`.)

    Raises:
        RankerError: no such device.
    """
    here = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    kind, _, number = name.partition(":")
    wanted = here if kind in ("auto", "gpu") else kind
    try:
        device = torch.device(f"{wanted}:{number}" if number else wanted)
    except RuntimeError:
        raise RankerError(
            f"ranker.device is auto, cpu, cuda, mps or one of them with a number (cuda:1), not {name!r}"
        ) from None
    missing = (kind == "gpu" and here == "cpu") or device.type not in ("cpu", here)
    if device.type == "cuda" and not missing:
        missing = (device.index or 0) >= torch.cuda.device_count()
    if missing:
        log.warning(
            "ranker.device = %r is not on this machine; features and scores are computed on the CPU", name
        )
        return torch.device("cpu")
    return device


@contextmanager
def cpu_threads(count: int) -> Iterator[None]:
    """Inside, torch computes with so many CPU threads; 0 leaves the default."""
    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
