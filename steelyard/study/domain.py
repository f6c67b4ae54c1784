"""How unlike the study's images each image is: computed with a model, saved with it, read without torch or scipy."""

from __future__ import annotations

import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard import __version__
from steelyard.arrays import Floats, Rows
from steelyard.config import RankerConfig
from steelyard.errors import RankerError, StudyError
from steelyard.ranker.checkpoint import fingerprint_of

if TYPE_CHECKING:
    import pandas as pd

    from steelyard.images.catalog import Catalog
    from steelyard.ranker.domain import Domain

__all__ = [
    "DomainCheck",
    "add_domain",
    "learn_domain",
    "load_check",
    "load_domain",
    "measure",
    "read_check",
    "sentence",
]

log = logging.getLogger("steelyard")
_FILE = "domain.safetensors"
_RECIPE = 2  # another recipe is another result
_BEFORE = "the model was made before Steelyard looked for images that do not belong; train again with: steelyard train"


@dataclass(frozen=True)
class DomainCheck:
    """How unlike the study's images some images are.

    Attributes:
        unlike_N: share of the study's own images that are more typical, NaN where unknown, shape (N,).
        off_N: whether that flags them; None where nothing can be said, shape (N,).
        note: why nothing can be said, else "".
    """

    unlike_N: Floats
    off_N: NDArray[np.object_]
    note: str = ""

    @classmethod
    def nothing(cls, images: int, note: str) -> DomainCheck:
        """Of a model that does not know."""
        return cls(np.full(images, np.nan), np.full(images, None), note)

    @classmethod
    def of(cls, unlike: ArrayLike, groups: float) -> DomainCheck:
        """From what was measured against so many groups."""
        from steelyard.ranker.domain import LEAST_GROUPS, off_domain

        values = np.asarray(unlike, dtype=np.float64)
        few = (
            f"{round(groups)} groups of images are too few to tell which image does not belong; it takes {LEAST_GROUPS}"
            if groups < LEAST_GROUPS
            else ""
        )
        return cls(values, off_domain(values, groups), few)

    @property
    def flagged(self) -> NDArray[np.bool_]:
        """Where an image is flagged, shape (N,)."""
        return np.equal(self.off_N, True).astype(bool)

    def at(self, row: int) -> tuple[float | None, bool | None]:
        """`unlike` and whether it is flagged, of one image."""
        value, off = float(self.unlike_N[row]), self.off_N[row]
        return (None if np.isnan(value) else value), (None if off is None else bool(off))


def learn_domain(
    folder: Path, inputs: NDArray[Any], catalog: Catalog, *, pool: Rows | None, absent: Rows, ranker: RankerConfig,
    before: Path | None,
) -> None:  # fmt: skip
    """Measure the study's images and write that into a model's folder.

    Args:
        folder: of the model.
        inputs: of all images.
        catalog: whose groups are used.
        pool: rows that are learnt from, None for all.
        absent: rows without inputs.
        ranker: what the inputs were made for.
        before: the folder of the model before; where nothing of all this has changed since, its file is taken.
    """
    from safetensors.numpy import save

    from steelyard.ranker.domain import fit_domain

    key = fingerprint_of(catalog.fingerprint(), pool, absent, ranker.to_dict(), __version__, _RECIPE)
    if before is not None and _key_of(before) == key:
        try:
            os.link(before / _FILE, folder / _FILE)  # models are never changed, so they may share a file
        except OSError:
            shutil.copyfile(before / _FILE, folder / _FILE)
        return
    codes = catalog.group_codes
    fitted = fit_domain(inputs, pool=pool, groups=codes, absent=absent)
    rows = np.arange(len(catalog)) if pool is None else pool
    groups = len(rows) if codes is None else len(np.unique(codes[rows]))
    arrays: dict[str, NDArray[Any]] = {"unlike": np.full(len(catalog), np.nan)}
    if fitted is not None:
        domain, unlike = fitted
        groups = round(domain.groups)
        arrays = {f"domain.{name}": np.ascontiguousarray(a) for name, a in domain.to_arrays().items()}
        arrays["unlike"] = unlike
    (folder / _FILE).write_bytes(save(arrays, metadata={"key": key, "groups": str(groups)}))


def load_check(folder: Path, images: int) -> DomainCheck:
    """What a model says about the study's own images.

    Raises:
        StudyError: the file is damaged.
    """
    try:
        with _opened(folder) as file:
            unlike = np.asarray(file.get_tensor("unlike"), dtype=np.float64)
            groups = float(file.metadata()["groups"])
    except FileNotFoundError:
        return DomainCheck.nothing(images, _BEFORE)
    except _damage() as error:
        raise _unreadable(folder, error) from error
    joined = max(0, images - len(unlike))  # after the model
    return DomainCheck.of(np.append(unlike, np.full(joined, np.nan)), groups)


def read_check(folder: Path, images: int) -> DomainCheck:
    """As `load_check`; a damaged file is told and says nothing, since scores are worth having without it."""
    try:
        return load_check(folder, images)
    except StudyError as error:
        log.warning("%s", error)
        return DomainCheck.nothing(images, str(error))


def load_domain(folder: Path) -> Domain | None:
    """What new images are measured by; None where the model has nothing of the kind or the file is damaged."""
    from steelyard.ranker.domain import Domain

    try:
        with _opened(folder) as file:
            names = [name for name in file.keys() if name.startswith("domain.")]  # noqa: SIM118 – a file is no dict
            return (
                Domain.from_arrays({name.partition(".")[2]: file.get_tensor(name) for name in names})
                if names
                else None
            )
    except FileNotFoundError:
        return None
    except _damage() as error:
        log.warning("%s", _unreadable(folder, error))
        return None


def measure(folder: Path, inputs: NDArray[Any]) -> DomainCheck:
    """How unlike the study's images these are, which are not among those that the model in this folder learnt from."""
    domain = load_domain(folder)
    if domain is None:
        return DomainCheck.nothing(len(inputs), read_check(folder, 0).note)
    try:
        return DomainCheck.of(domain.unlike(inputs), domain.groups)
    except RankerError as error:
        return DomainCheck.nothing(len(inputs), str(error))


def add_domain(table: pd.DataFrame, catalog: Catalog, check: DomainCheck) -> pd.DataFrame:
    """The same table with the columns `unlike` and `off_domain`, empty where nothing is known."""
    rows = catalog.rows_of(table["image"].to_numpy())
    table = table.assign(unlike=check.unlike_N[rows], off_domain=check.off_N[rows])
    table.attrs["domain"] = check.note
    return table


def sentence(table: pd.DataFrame, *, own: bool) -> str:
    """What to say about a table of `add_domain`: what is flagged and what chance would flag, or why nothing is; "" if nothing.

    Args:
        table: of scores or grades.
        own: of the study's own images, of which some are always the least typical.
    """
    from steelyard.ranker.domain import ALPHA

    note = str(table.attrs.get("domain", ""))
    if note:
        return f"{note[0].upper()}{note[1:]}."
    flagged, images = int(np.equal(table["off_domain"].to_numpy(), True).sum()), len(table)
    if not flagged:
        return ""
    if own:
        return (
            f"{flagged:,} of {images:,} images are flagged as unlike the others (off_domain). About {ALPHA:.0%} always are, being the "
            "least typical: look whether they belong."
        )
    return (
        f"{flagged:,} of {images:,} images are flagged as unlike the study's images (off_domain); of images of the same kind about "
        f"{ALPHA:.0%} would be. Take their scores with care."
    )


def _opened(folder: Path) -> Any:
    from safetensors import safe_open

    return safe_open(folder / _FILE, framework="numpy")


def _damage() -> tuple[type[Exception], ...]:
    from safetensors import SafetensorError

    return (OSError, SafetensorError, KeyError, TypeError, ValueError, IndexError)


def _unreadable(folder: Path, error: Exception) -> StudyError:
    return StudyError(
        f"how unlike images are cannot be read from {folder / _FILE} ({error}); train again with: steelyard train"
    )


def _key_of(folder: Path) -> str | None:
    try:
        with _opened(folder) as file:
            return str(file.metadata()["key"])
    except _damage():
        return None
