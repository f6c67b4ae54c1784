"""Drawn mucosa with a known latent severity: the embedded default, so that everything runs with no data at all.

A severity is continuous, from 0 to 3.6. It follows the patient in part, it is cut into grades 0–3 as unevenly as the
paper's private set (65 / 19 / 14 / 2 %), and a grader's hand shakes a little at the cuts. Patients, cameras and light
differ enough that the colour of a picture says little about its severity (see docs/synthetic.md).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import ConfigError
from steelyard.progress import Progress

__all__ = ["PAPER_SHARES", "WORST", "SyntheticImages", "draw", "severities", "write"]

PAPER_SHARES = (0.65, 0.19, 0.14, 0.02)
WORST = 3.6
_HAND = 0.15  # deviation of the grader's hand, in units of a grade
_PATIENT = 0.4  # share of the variance of severity that is the patient's
_BATCH = 8
# What a child seed is for; part of every stream, so that no two of them ever meet.
_PLAN, _TRAITS, _PICTURE = 0, 1, 2


@dataclass(frozen=True)
class SyntheticImages:
    """Drawn images and what is known about them.

    Attributes:
        images: RGB, uint8, shape (N, size, size, 3).
        severity: latent severity, float64, shape (N,).
        grades: 0–3, cut from the severity with some noise, int64, shape (N,).
        groups: name of the patient, shape (N,).
    """

    images: NDArray[np.uint8]
    severity: NDArray[np.float64]
    grades: NDArray[np.int64]
    groups: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.images)


def draw(
    n: int,
    *,
    size: int = 128,
    patients: int | None = None,
    seed: int = 0,
    shares: Sequence[float] = PAPER_SHARES,
    workers: int = 0,
    progress: Progress | None = None,
) -> SyntheticImages:
    """Draw images of known severity.

    Every picture has a random stream of its own, so the result depends on the arguments and not on the workers.

    Args:
        n: how many images.
        size: side in pixels, 32 to 1024; made for 96 to 224.
        patients: how many patients; None takes one for every ten images. Each has at least one image.
        seed: 0 or more; same seed, same images.
        shares: share of each of the four grades; the paper's by default.
        workers: processes; 0 takes one per core, and none where there is little to draw.
        progress: called as progress(done, total, text).

    Returns:
        Images in random order of patients and severities.

    Raises:
        ConfigError: a number is out of range or the shares are no shares.

    Example:
        >>> drawn = draw(3, size=64, seed=1)
        >>> drawn.images.shape, drawn.images.dtype.name
        ((3, 64, 64, 3), 'uint8')
    """
    if not 32 <= size <= 1024:
        raise ConfigError(f"'size' is 32 to 1024 pixels, not {size}")
    if workers < 0:
        raise ConfigError(f"'workers' is 0 (one per core) or more, not {workers}")
    severity, grades, patient = severities(n, patients=patients, seed=seed, shares=shares)
    starts = range(0, n, _BATCH)
    tasks = [(seed, size, b, severity[b : b + _BATCH], patient[b : b + _BATCH]) for b in starts]
    images = np.empty((n, size, size, 3), np.uint8)
    done = 0
    for batch in _run(tasks, workers):
        images[done : done + len(batch)] = batch
        done += len(batch)
        if progress is not None:
            progress(done, n, "drawing images")
    width = max(3, len(str(int(patient.max()))))
    groups = np.array([f"patient-{p + 1:0{width}d}" for p in patient])
    return SyntheticImages(images, severity, grades, groups)


def severities(
    n: int, *, patients: int | None = None, seed: int = 0, shares: Sequence[float] = PAPER_SHARES
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Who has what: the plan of a draw, without its pictures.

    Severities are spread evenly over their distribution, so that the shares hold for few images too.

    Returns:
        Severity (n,), grade (n,) and number of the patient (n,).

    Raises:
        ConfigError: as `draw`.
    """
    if n < 1:
        raise ConfigError(f"'n' is 1 image or more, not {n}")
    patients = max(1, n // 10) if patients is None else patients
    if not 1 <= patients <= n:
        raise ConfigError(f"'patients' is 1 to the number of images ({n}), not {patients}")
    if seed < 0:
        raise ConfigError(f"'seed' is 0 or more, not {seed}")
    parts = np.asarray(shares, dtype=np.float64)
    if parts.shape != (4,) or not (parts > 0).all() or abs(parts.sum() - 1) > 1e-6:
        raise ConfigError(f"'shares' are four numbers above 0 that add up to 1, not {tuple(shares)}")
    from scipy.interpolate import PchipInterpolator

    rng = _stream(seed, _PLAN)
    patient = np.concatenate([np.arange(patients), rng.integers(patients, size=n - patients)])
    rng.shuffle(patient)
    inflamed = np.sqrt(_PATIENT) * rng.normal(size=patients)[patient] + np.sqrt(1 - _PATIENT) * rng.normal(
        size=n
    )
    rank = np.empty(n)
    rank[np.argsort(inflamed)] = np.arange(n) + rng.uniform(size=n)
    # Monotone and smooth, so that the density has no step at a cut and noise leaks both ways alike.
    quantile = PchipInterpolator([0, *np.cumsum(parts)[:3], 1], [0, 1, 2, 3, WORST])
    severity = np.clip(quantile(rank / n), 0, np.nextafter(WORST, 0))
    seen = severity + _HAND * rng.normal(size=n)
    grades = np.clip(np.floor(seen), 0, 3).astype(np.int64)
    return severity, grades, patient


def write(folder: str | Path, drawn: SyntheticImages, *, progress: Progress | None = None) -> Path:
    """Write PNGs and a `labels.csv` that the `csv` layout reads.

    Args:
        folder: made where it is missing.
        drawn: what `draw` gave.
        progress: called as progress(done, total, text).

    Returns:
        Path of the CSV; its columns are image (relative to the folder), grade, group and severity.
    """
    from PIL import Image

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    width = max(5, len(str(len(drawn) - 1)))
    table = folder / "labels.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["image", "grade", "group", "severity"])
        for i, pixels in enumerate(drawn.images):
            name = f"image-{i:0{width}d}.png"
            Image.fromarray(pixels).save(folder / name, compress_level=1)
            lines.writerow([name, int(drawn.grades[i]), str(drawn.groups[i]), f"{drawn.severity[i]:.6f}"])
            if progress is not None:
                progress(i + 1, len(drawn), "writing images")
    return table


_Task = tuple[int, int, int, NDArray[np.float64], NDArray[np.int64]]


def _run(tasks: list[_Task], workers: int) -> Iterator[NDArray[np.uint8]]:
    """Batches in order, here or in processes."""
    from joblib import Parallel, cpu_count, delayed

    # Starting processes costs about a second each: not for a few pictures.
    workers = workers or min(cpu_count(), len(tasks) // 4)
    if workers <= 1:
        return (_draw_batch(*task) for task in tasks)
    parallel = Parallel(n_jobs=workers, return_as="generator", batch_size=1)
    return parallel(delayed(_draw_batch)(*task) for task in tasks)  # type: ignore[no-any-return]


def _draw_batch(
    seed: int, size: int, first: int, severity: NDArray[np.float64], patient: NDArray[np.int64]
) -> NDArray[np.uint8]:
    from steelyard.images.mucosa import draw_traits, render

    pictures = [
        render(
            float(s), draw_traits(_stream(seed, _TRAITS, int(p))), _stream(seed, _PICTURE, first + i), size
        )
        for i, (s, p) in enumerate(zip(severity, patient, strict=True))
    ]
    return np.stack(pictures)


def _stream(seed: int, *key: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
