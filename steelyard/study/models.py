"""What lies in the folder of a model besides the ranker: its posterior of the study's images, and which of them it could not read."""

from __future__ import annotations

import logging
from dataclasses import astuple
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steelyard.config import ranker_from_saved
from steelyard.errors import StudyError
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.temper import Temper
from steelyard.store.records import Model
from steelyard.store.store import Store
from steelyard.trust.evidence import Predictions

__all__ = [
    "learnt_reserved",
    "load_absent",
    "load_posterior",
    "load_predictions",
    "save_posterior",
    "save_predictions",
    "usable_model",
]

log = logging.getLogger("steelyard")


def save_posterior(folder: Path, posterior: Posterior, absent: NDArray[np.int64] | None = None) -> None:
    """Write a posterior so that it opens memory-mapped and without torch; `absent` are rows that it knows nothing of."""
    from safetensors.numpy import save

    if absent is not None and len(absent):
        np.save(folder / "absent.npy", absent)
    rows: NDArray[np.floating] = np.asarray(posterior.features_N_D)
    np.save(folder / "rows.npy", rows.astype(np.float32) if rows.dtype != np.float32 else rows)
    arrays = {
        "offset": np.ascontiguousarray(posterior.offset_N),
        "weights": np.ascontiguousarray(posterior.weights_D),
        "covariance": np.ascontiguousarray(posterior.covariance_D_D),
        "tau": np.array([posterior.tau]),
        "share": np.array([posterior.share]),
    }
    if posterior.temper is not None:
        arrays["temper"] = np.array([x for x in astuple(posterior.temper) if x is not None])
    (folder / "posterior.safetensors").write_bytes(save(arrays, metadata={"kind": posterior.kind}))


def save_predictions(folder: Path, predictions: Predictions) -> None:
    """Write what the model says about pairs without their answers."""
    from safetensors.numpy import save

    arrays = {name: np.ascontiguousarray(array) for name, array in predictions.to_arrays().items()}
    (folder / "predictions.safetensors").write_bytes(save(arrays))


def load_predictions(folder: Path) -> Predictions | None:
    """What `save_predictions` wrote; None for models made before it did.

    Raises:
        StudyError: the file is damaged.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load((folder / "predictions.safetensors").read_bytes())
        return Predictions(**{name: arrays[name] for name in ("pairs", "margin", "pool", "pool_margin")})
    except FileNotFoundError:
        return None
    except (OSError, SafetensorError, KeyError) as error:
        raise StudyError(
            f"the model in {folder} cannot be read ({error}); train again with: steelyard train"
        ) from error


def learnt_reserved(model: Model) -> bool:
    """Whether a model learnt from answers held back for measuring; by its own settings, which may not be today's."""
    return ranker_from_saved(model.config.get("ranker", {})).kind == "convex"


def load_absent(folder: Path) -> NDArray[np.int64]:
    """Rows of images that could not be read when the model in this folder was made.

    Raises:
        StudyError: the file is damaged.
    """
    try:
        return np.asarray(np.load(folder / "absent.npy", allow_pickle=False), dtype=np.int64).reshape(-1)
    except FileNotFoundError:  # the usual case, and every model of 0.1
        return np.empty(0, dtype=np.int64)
    except (OSError, ValueError, EOFError) as error:
        raise StudyError(
            f"the model in {folder} cannot be read ({error}); train again with: steelyard train"
        ) from error


def usable_model(folder: Path, store: Store) -> tuple[Model, Posterior]:
    """The newest model whose posterior can be read; a warning says which ones cannot.

    Raises:
        StudyError: none can, or there is none.
    """
    first: StudyError | None = None
    for model in reversed(store.models.all()):
        try:
            load_absent(folder / model.path)
            return model, load_posterior(folder / model.path)
        except StudyError as error:
            if first is None:
                log.warning("%s – the model before it is used until then; see: steelyard check", error)
            first = first or error
    raise first or StudyError(f"there is no model yet; train one with: steelyard train {folder}")


def load_posterior(folder: Path) -> Posterior:
    """Open what `save_posterior` wrote.

    Raises:
        StudyError: files are missing or damaged.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / "posterior.safetensors", framework="numpy") as file:
            kind = file.metadata()["kind"]
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
            offset, weights, covariance = (arrays[name] for name in ("offset", "weights", "covariance"))
            tau, share = float(arrays["tau"][0]), float(arrays["share"][0]) if "share" in arrays else 1.0
            temper = Temper(*arrays["temper"].tolist()) if "temper" in arrays else None  # 0.1 had neither
        rows = np.load(folder / "rows.npy", mmap_mode="r", allow_pickle=False)
    except (OSError, EOFError, SafetensorError, KeyError, ValueError) as error:
        raise StudyError(
            f"the model in {folder} cannot be read ({error}); train again with: steelyard train"
        ) from error
    return Posterior(offset, rows, weights, covariance, kind=kind, tau=tau, share=share, temper=temper)
