"""What a study believes now: the newest model, moved by every answer since.

In continuous mode the next question already knows the last answer. A full fit after each would be wasteful, so the
newest model's posterior is moved by rank-one updates, and replaced when a new model arrives.
"""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import StudyError
from steelyard.loop.state import State
from steelyard.ranker.posterior import Posterior
from steelyard.store.records import AnswerArrays, Model
from steelyard.store.store import Store

__all__ = ["Belief", "load_absent", "load_posterior", "save_posterior", "usable_model"]

log = logging.getLogger("steelyard")

# Beyond this many answers the curvatures of the fit are stale anyway; the trainer's next model brings them in.
_MOST_UPDATES = 2_000


class Belief:
    """The state of a study's loop, kept in step with the store.

    Attributes:
        state: pairs put up, and what is believed about the scores.
        model: the model it started from.
        start: its posterior before any answer since, None before the first model.
        announced: number of the newest model when we looked; `model` is an older one if that could not be read.
        absent: rows of images that it could not read; what the posterior says about them means nothing.
    """

    def __init__(self, folder: Path, store: Store, size: int) -> None:
        self._folder, self._store = folder, store
        self.state = State(size)
        self.start: Posterior | None = None
        self.model: Model | None = None
        self.absent: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.announced = 0
        self._last_pair = 0
        self._last_seq = 0
        self._observed: set[int] = set()

    def refresh(self) -> Belief:
        """Read what is new: pairs, a newer model, answers since."""
        columns = self._store.pairs.columns(after_id=self._last_pair)
        if len(columns):
            self.state.put_up(columns.rows, columns.round)
            self._last_pair = int(columns.id[-1])
        newest = self._store.models.newest()
        if newest is not None and newest.id != self.announced:
            self._start_from(*usable_model(self._folder, self._store))
            self.announced = newest.id
        if self.model is None:
            return self
        answers = self._store.answers.arrays(after=self._last_seq)
        if self._observed & set(answers.superseded.tolist()):
            # An answer that has moved the posterior was taken back: start again from the model.
            assert self.start is not None
            self._start_from(self.model, self.start)
            answers = self._store.answers.arrays(after=self._last_seq)
        self._observe(answers)
        return self

    def _start_from(self, model: Model, start: Posterior) -> None:
        if len(start) != self.state.taken.size:
            raise StudyError(
                f"{self._folder / model.path} is about {len(start)} images, but the study has {self.state.taken.size}; "
                "train again with: steelyard train"
            )
        self.start, self.absent = start, load_absent(self._folder / model.path)
        self.state.believe(start, round=model.round + 1)
        self.model, self._last_seq, self._observed = model, model.comparisons_seq, set()

    def _observe(self, answers: AnswerArrays) -> None:
        usable = ~np.isnan(answers.labels) & ~np.isin(answers.pairs, self.absent).any(axis=1)
        known = np.flatnonzero(usable)[: _MOST_UPDATES - len(self._observed)]
        self.state.observe(answers.pairs[known], answers.labels[known])
        self._observed.update(answers.seq[known].tolist())
        self._last_seq = answers.last_seq


def save_posterior(folder: Path, posterior: Posterior, absent: NDArray[np.int64] | None = None) -> None:
    """Write a posterior so that it opens memory-mapped and without torch; `absent` are rows that it knows nothing of."""
    from safetensors.numpy import save

    if absent is not None and len(absent):
        np.save(folder / "absent.npy", absent)
    rows: NDArray[np.floating] = np.asarray(posterior.features_N_D)
    np.save(folder / "rows.npy", rows.astype(np.float32) if rows.dtype != np.float32 else rows)
    arrays = save(
        {
            "offset": np.ascontiguousarray(posterior.offset_N),
            "weights": np.ascontiguousarray(posterior.weights_D),
            "covariance": np.ascontiguousarray(posterior.covariance_D_D),
            "tau": np.array([posterior.tau]),
        },
        metadata={"kind": posterior.kind},
    )
    (folder / "posterior.safetensors").write_bytes(arrays)


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
            arrays = {name: file.get_tensor(name) for name in ("offset", "weights", "covariance", "tau")}
        rows = np.load(folder / "rows.npy", mmap_mode="r", allow_pickle=False)
    except (OSError, EOFError, SafetensorError, KeyError, ValueError) as error:
        raise StudyError(
            f"the model in {folder} cannot be read ({error}); train again with: steelyard train"
        ) from error
    return Posterior(
        arrays["offset"],
        rows,
        arrays["weights"],
        arrays["covariance"],
        kind=kind,
        tau=float(arrays["tau"][0]),
    )
