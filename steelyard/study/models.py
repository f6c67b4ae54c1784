"""What lies in the folder of a model besides the ranker: its posterior of the study's images, and which of them it could not read."""

from __future__ import annotations

import json
import logging
from dataclasses import astuple
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steelyard.config import ranker_from_saved
from steelyard.errors import RankerError, StudyError, command
from steelyard.ranker.image_effects import ImageEffects
from steelyard.ranker.judges import Panel
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.ranker import Ranker, load_ranker
from steelyard.ranker.temper import Temper
from steelyard.store.records import Model
from steelyard.store.store import Store
from steelyard.trust.evidence import Predictions

__all__ = [
    "images_of",
    "joined_since",
    "learnt_reserved",
    "load_absent",
    "load_posterior",
    "load_predictions",
    "load_unreadable",
    "load_waiting",
    "save_posterior",
    "save_predictions",
    "usable_model",
    "usable_ranker",
]

log = logging.getLogger("steelyard")


def save_posterior(
    folder: Path, posterior: Posterior, absent: NDArray[np.int64] | None = None, *, waiting: int = 0
) -> None:
    """Write a posterior so that it opens memory-mapped and without torch.

    Args:
        folder: of the model.
        posterior: of all images.
        absent: rows that it knows nothing of.
        waiting: how many of them were only not computed yet; then nothing is known about the others.
    """
    from safetensors.numpy import save

    for name in ("absent.npy", "waiting.json"):
        (folder / name).unlink(missing_ok=True)  # of a training that was killed
    if absent is not None and len(absent):
        np.save(folder / "absent.npy", absent)
    if waiting:
        (folder / "waiting.json").write_text(json.dumps(waiting), encoding="utf-8")
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
    if posterior.effects is not None:
        arrays |= {name: np.ascontiguousarray(array) for name, array in posterior.effects.to_arrays().items()}
    said: dict[str, str] = {"kind": posterior.kind}
    if posterior.panel is not None:
        said["judges"] = json.dumps(posterior.panel.to_dict())
    (folder / "posterior.safetensors").write_bytes(save(arrays, metadata=said))


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
        raise _unreadable(folder, error) from error


def learnt_reserved(model: Model) -> bool:
    """Whether a model learnt from answers held back for measuring; by its own settings, which may not be today's."""
    return ranker_from_saved(model.config.get("ranker", {})).kind == "convex"


def load_absent(folder: Path, *, images: int = 0) -> NDArray[np.int64]:
    """Rows that the model in this folder says nothing of: images that could not be read, or that joined later.

    Args:
        folder: of the model.
        images: of the study now; by default those that there were when the model was made.

    Raises:
        StudyError: the file is damaged.
    """
    joined = np.arange(images_of(folder), images, dtype=np.int64) if images else np.empty(0, dtype=np.int64)
    try:
        unread = np.asarray(np.load(folder / "absent.npy", allow_pickle=False), dtype=np.int64).reshape(-1)
        return np.concatenate([unread, joined])
    except FileNotFoundError:  # the usual case, and every model of 0.1
        return joined
    except (OSError, ValueError, EOFError) as error:
        raise _unreadable(folder, error) from error


def load_waiting(folder: Path) -> int:
    """How many images the model in this folder knows nothing of because their turn had not come; 0 for most models."""
    try:
        return int(json.loads((folder / "waiting.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # not there; damaged, it is as good as not there
        return 0


def load_unreadable(folder: Path) -> NDArray[np.int64]:
    """Rows that the model in this folder says nothing of because they could not be read.

    Raises:
        StudyError: the file is damaged.
    """
    absent = load_absent(folder)
    return absent[:0] if load_waiting(folder) else absent


def images_of(folder: Path) -> int:
    """How many images the model in this folder was made for.

    Raises:
        StudyError: files are missing or damaged.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / "posterior.safetensors", framework="numpy") as file:
            return int(file.get_slice("offset").get_shape()[0])
    except (OSError, SafetensorError, IndexError) as error:
        raise _unreadable(folder, error) from error


def joined_since(folder: Path, images: int) -> int:
    """How many of a study's images joined after the model in this folder; none where it is damaged, which others say."""
    try:
        return max(0, images - images_of(folder))
    except StudyError:
        return 0


def usable_model(folder: Path, store: Store, *, images: int = 0) -> tuple[Model, Posterior]:
    """The newest model whose posterior can be read; a warning says which ones cannot.

    Args:
        folder: of the study.
        store: of the study.
        images: of the study now; those that joined after the model have empty rows, which `load_absent` names.

    Raises:
        StudyError: none can, or there is none.
    """
    first: StudyError | None = None
    for model in reversed(store.models.here()):
        try:
            load_absent(folder / model.path)
            return model, _with_more(load_posterior(folder / model.path), images)
        except StudyError as error:
            if first is None:
                log.warning("%s – the model before it is used until then; see: steelyard check", error)
            first = first or error
    raise first or StudyError(f"there is no model yet; train one with: {command('train', folder)}")


def usable_ranker(folder: Path, store: Store) -> tuple[Model, Ranker]:
    """The newest model that can score images, and its ranker; arguments as for `usable_model`.

    Raises:
        RankerError: none can be read.
        StudyError: there is none.
    """
    first: RankerError | None = None
    for model in reversed(store.models.here()):
        try:
            return model, load_ranker(folder / model.path)
        except RankerError as error:  # damaged, or an older one that was in no backup
            first = first or error
            log.warning("%s – the model before it is used", error)
    raise first or StudyError(f"there is no model yet; train one with: {command('train', folder)}")


def _with_more(posterior: Posterior, images: int) -> Posterior:
    """The same posterior with an empty row for each image that joined later."""
    more = images - len(posterior)
    if more <= 0:
        return posterior
    rows = posterior.features_N_D
    return Posterior(
        np.append(posterior.offset_N, np.zeros(more)),
        np.concatenate([rows, np.zeros((more, rows.shape[1]), dtype=rows.dtype)]),
        posterior.weights_D, posterior.covariance_D_D, kind=posterior.kind, tau=posterior.tau, share=posterior.share,
        temper=posterior.temper, panel=posterior.panel,
        effects=None if posterior.effects is None else posterior.effects.with_strangers(more),
    )  # fmt: skip


def _unreadable(folder: Path, error: Exception) -> StudyError:
    return StudyError(f"the model in {folder} cannot be read ({error}); train again with: steelyard train")


def load_posterior(folder: Path) -> Posterior:
    """Open what `save_posterior` wrote.

    Raises:
        StudyError: files are missing or damaged.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / "posterior.safetensors", framework="numpy") as file:
            said = file.metadata()
            judges = json.loads(said["judges"]) if "judges" in said else None
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
            offset, weights, covariance = (arrays[name] for name in ("offset", "weights", "covariance"))
            tau, share = float(arrays["tau"][0]), float(arrays["share"][0]) if "share" in arrays else 1.0
            temper = Temper(*arrays["temper"].tolist()) if "temper" in arrays else None  # 0.1 had neither
        rows = np.load(folder / "rows.npy", mmap_mode="r", allow_pickle=False)
    except (OSError, EOFError, SafetensorError, KeyError, ValueError) as error:
        raise _unreadable(folder, error) from error
    panel = None if judges is None else Panel.from_dict(judges)
    effects = ImageEffects.from_arrays(arrays)
    return Posterior(offset, rows, weights, covariance, said["kind"], tau, share, temper, panel, effects)
