"""What a run takes: how many cells at a time, and about how much memory, said before it begins."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from steelyard.config import NetworkConfig, RankerConfig
from steelyard.engine import cores
from steelyard.experiment.config import ExperimentConfig
from steelyard.progress import counted

__all__ = ["cell_bytes", "free_bytes", "how_it_runs"]

_GB = 1_000_000_000
# Measured as the peak of one cell: what is loaded, and what training keeps for each pixel of each image of a step.
_CONVEX, _NETWORK = 150_000_000, 450_000_000
_BYTES_A_PIXEL = {"small": 450, "densenet169": 4_800}


def cell_bytes(ranker: RankerConfig, inputs: NDArray[Any]) -> int:
    """About how much memory a cell takes at its peak, on the CPU; inputs are shared by cells of one machine."""
    if not isinstance(ranker, NetworkConfig):
        return _CONVEX + 2 * inputs.nbytes
    if ranker.inputs == "pixels":
        pixels = int(inputs.shape[1] * inputs.shape[2])
        kept = _BYTES_A_PIXEL.get(ranker.backbone, _BYTES_A_PIXEL["densenet169"])
        return _NETWORK + 2 * ranker.batch_size * pixels * kept
    return _NETWORK + 2 * inputs.nbytes


def free_bytes() -> int | None:
    """Memory that is left here; None where nobody says."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        told = next(line for line in lines if line.startswith("MemAvailable:"))
        return int(told.split()[1]) * 1024
    except (OSError, StopIteration, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def how_it_runs(config: ExperimentConfig, inputs: NDArray[Any], missing: int, free: int | None) -> str:
    """One sentence for whoever starts a run, with a remedy where it will not fit.

    Args:
        config: the experiment.
        inputs: of all images.
        missing: cells to compute.
        free: memory left on this machine, None where it is not known.
    """
    if not missing:
        return "every cell is there already; tables are put together anew"
    each = cell_bytes(config.ranker_config(), inputs)
    head = f"{counted(missing, 'cell')} to compute"
    size = f"about {each / _GB:.1f} GB of memory each"
    if config.engine == "ray":
        many = f"{config.jobs} at a time" if config.jobs else "as many at a time as the cluster has cores"
        return f"{head} on Ray, {many} (--jobs), {size}"
    jobs = min(config.jobs or cores(), missing)
    text = f"{head}, {jobs} at a time (--jobs; {counted(cores(), 'core')} here), one thread and {size}"
    if free is None:
        return text
    if jobs * each <= free:
        return f"{text}; {free / _GB:.1f} GB are free"
    fewer = max(1, int(free // each))
    remedy = f"--jobs {fewer} would fit" if fewer < jobs else "a smaller --ranker batch_size takes less"
    return f"{text}, more than the {free / _GB:.1f} GB that are free: {remedy}"
