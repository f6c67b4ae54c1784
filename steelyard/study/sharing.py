"""What workers without the study folder need: put up by whoever has the folder, announced in the store, fetched by the others.

    <models>/<study>/files/<digest>               catalog, feature rows, what could be computed of images and what not
    <models>/<study>/models/round-003-5f0c12ab/   the files of a model

The store says what there is and what each file must be (its settings `shared …`), so that nobody takes half a model, or another
one, for the newest: a model is put up whole, then written down, then announced. What is never announced is removed by the
next trainer.
"""

from __future__ import annotations

import json
import logging
import secrets
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard import __version__
from steelyard.errors import ConfigError, StudyError, why_not
from steelyard.files import sync_folder, sync_tree
from steelyard.store.records import Model
from steelyard.store.store import Store
from steelyard.study.inputs import Inputs
from steelyard.study.shelf import Kept, Shelf, ShelfError, digest_of

if TYPE_CHECKING:
    from steelyard.study.lease import TrainerLease
    from steelyard.study.study import Study

__all__ = [
    "ABSENT", "INPUTS", "SHARED", "SOME_INPUTS", "NewerVersionError", "Sharing", "check_version", "leave_shelf", "remove_forgotten",
    "shelf_of",
]  # fmt: skip

SHARED = "shared study"
INPUTS = "inputs.npy"
"""What a ranker sees of each image; earlier versions shared zeros for those that could not be read."""
SOME_INPUTS = "inputs.some.npy"
"""The same where some could not be read: versions that would learn from their zeros do not know this name."""
ABSENT = "inputs.absent.json"
"""Which could not be read, and why."""
_FORGOTTEN_SECONDS = 3600.0
log = logging.getLogger("steelyard")


class NewerVersionError(StudyError):
    """Something was made by a newer Steelyard than this one."""


def shelf_of(url: str, store: Store) -> Shelf | None:
    """The shelf of a study; None where `models` names none."""
    return Shelf(url, str(store.settings.keep("shelf", secrets.token_hex(8)))) if url else None


def leave_shelf(store: Store) -> None:
    """Have a copy of a study share nothing with the one it was copied from: each removes what it does not know."""
    if store.settings.get("shelf") is not None:
        store.settings.put("shelf", secrets.token_hex(8))
    # Nothing of it lies in that folder yet.
    for key in (SHARED, *(_about(model.path) for model in store.models.all())):
        if store.settings.get(key) is not None:
            store.settings.put(key, None)


def check_version(made_by: str, what: str) -> None:
    """Refuse what a newer version made: its files may mean something that this one does not know.

    Raises:
        NewerVersionError: it did.
    """
    if _release(made_by) > _release(__version__):
        raise NewerVersionError(
            f"{what} was made by Steelyard {made_by}, and this is {__version__}; install that version here: "
            f"pip install 'steelyard>={made_by}'"
        )


class Sharing:
    """Keeps a study's folder in step with what others have of it; does nothing where `models` names no URL.

    Attributes:
        home: whether this folder is where configuration and catalog are changed, not a worker's copy.
        shelf: through which machines share; None where `models` names none.
        place: URL and folder under which the study knows it, by which the store says where something was put.
    """

    def __init__(self, study: Study) -> None:
        self._study, self.home = study, True
        self._seen: tuple[Any, Inputs] | None = None
        self.use(shelf_of(study.config.models, study.store))

    def use(self, shelf: Shelf | None, place: list[str] | None = None) -> None:
        """Share through this shelf from now on.

        Args:
            shelf: None shares nothing.
            place: what the study calls it, where this machine reaches it by another URL.
        """
        study, self.shelf = self._study, shelf
        self.place = place or ([] if shelf is None else [shelf.url, shelf.study])
        self._last: Any = None  # what was shared, so that looking costs next to nothing
        self._last_model = 0
        if shelf is not None:
            # Announced models whose files are still on their way are not in use yet.
            study.store.models.arrived = lambda model: (study.folder / model.path).is_dir()

    def refresh(self) -> None:
        """Put up what others need, and fetch the newest model.

        Raises:
            ShelfError: the shelf cannot be used now, or lacks something.
            NewerVersionError: a newer version made the model.
        """
        self._follow()
        if self.home and self.shelf is not None:
            try:
                self._share()
                self._share_models()
            except OSError as error:
                raise ShelfError(f"the study cannot be shared: {why_not(error)}") from error
        self.fetch()

    def fetch(self) -> bool:
        """Fetch the newest model, and the first where the next one starts from it; whether there was anything to fetch.

        Raises: as `refresh`.
        """
        self._follow()
        study, fetched = self._study, False
        if self.shelf is None:
            return False
        for model in self._needed():
            if not (study.folder / model.path).is_dir():
                self._fetch(model, self.shelf)
                fetched = True
        return fetched

    def _fetch(self, model: Model, shelf: Shelf) -> None:
        folder, store = self._study.folder, self._study.store
        try:
            _fetch_model(folder, model, store, shelf)
        except ShelfError as error:
            # `models` has changed, and whoever trained it had not noticed yet.
            place = (store.settings.get(_about(model.path)) or {}).get("shelf")
            if place is None or place == self.place:
                raise
            try:
                _fetch_model(folder, model, store, Shelf(*place))
            except (ShelfError, ConfigError):
                raise error from None

    def _follow(self) -> None:
        """Use the folder that study.toml names now: it may be changed while this process goes on."""
        models = self._study.config.models
        if self.home and models != ("" if self.shelf is None else self.shelf.url):
            try:
                self.use(shelf_of(models, self._study.store))
            except ConfigError as error:  # it may be mended as well
                raise ShelfError(str(error)) from error

    def _needed(self) -> list[Model]:
        """The announced models that somebody who trains next has to have."""
        announced, ranker = self._study.store.models.all(), self._study.config.ranker
        first = announced[:1] if ranker.kind == "network" and ranker.warm_start == "round0" else []
        return list({model.id: model for model in (*first, *announced[-1:])}.values())

    def catch_up(self) -> Study:
        """The study, with its newest model where that can be had now; without, people go on with the one before."""
        try:
            self.fetch()
        except StudyError as error:
            log.warning("%s – the model before it is used until then", error)
        return self._study

    def put_up(self, working: Path, path: str) -> None:
        """Put a trained model up and write down what it is; it is not announced by that.

        Args:
            working: its files.
            path: where it will lie in a study, as `models/round-003-5f0c12ab`.
        """
        if self.shelf is None:
            return
        files = {
            file.name: self.shelf.put(f"{path}/{file.name}", file)
            for file in sorted(working.iterdir())
            if file.is_file()
        }
        about = {"steelyard": __version__, "files": files, "shelf": self.place}
        self._study.store.settings.put(_about(path), about)

    def sweep(self, lease: TrainerLease, *, keep: int) -> None:
        """Remove what killed trainers left on the shelf, and models that nobody starts from any more.

        Args:
            lease: ours.
            keep: how many of the newest models stay; the first one does too.

        Raises:
            LeaseLost: somebody else trains now; nothing was removed.
        """
        if self.shelf is None:
            return
        there = self.shelf.folders("models")  # before the lease is checked: others make new names afterwards
        paths = [model.path for model in self._study.store.models.all()]
        known = {Path(path).name for path in (*paths[:1], *paths[-keep:])}
        if left := [name for name in there if name not in known]:
            lease.check()
            for name in left:
                self.shelf.remove(f"models/{name}")

    def _share_models(self) -> None:
        """Put up models of a study that had some before it had this shelf."""
        study, needed = self._study, self._needed()
        if not needed or needed[-1].id == self._last_model:
            return
        # Earlier versions did not write down where they put something; it is put up once more.
        missing = [
            model
            for model in needed
            if (study.store.settings.get(_about(model.path)) or {}).get("shelf") != self.place
        ]
        for model in missing:
            if (here := study.folder / model.path).is_dir():
                self.put_up(here, model.path)
        if all((study.folder / model.path).is_dir() for model in missing):  # others are being fetched
            self._last_model = needed[-1].id

    def _share(self) -> None:
        study = self._study
        catalog = study.catalog
        config = study.config.with_changes(store="").to_dict()
        files = {"catalog.arrow": study.folder / "catalog.arrow"}
        if catalog.source is not None and catalog.kind in ("features", "pixels"):
            files[f"catalog.{catalog.kind}.npy"] = catalog.source
        inputs = self._inputs()
        absent = inputs and (inputs.absent.tolist(), inputs.reasons)  # files are put back, and others go
        now = (config, {name: _look(path) for name, path in files.items()}, absent)
        if now == self._last:
            return
        said = study.store.settings.get(SHARED) or {}
        before = said.get("files", {}) if said.get("shelf") == self.place else {}
        shared = {name: self._put_file(path, before.get(name)) for name, path in files.items()}
        if inputs is not None:
            with tempfile.TemporaryDirectory(prefix="steelyard-") as folder:
                for file in _write_inputs(inputs, Path(folder)):
                    shared[file.name] = self._put_file(file, before.get(file.name))
        record = {"steelyard": __version__, "config": config, "files": shared, "shelf": self.place}
        if said != json.loads(json.dumps(record)):
            study.store.settings.put(SHARED, record)
        self._last = now

    def _inputs(self) -> Inputs | None:
        """What is seen of the images; None while that is not known, or where a worker computes it itself.

        Files that could not be read are tried again when they change. Of those elsewhere nobody can tell, and they may take
        long to be away: once for each model.
        """
        study = self._study
        if not (_shares_inputs(study) and study.described):
            return None
        newest = study.store.models.newest()
        now = (study.config.ranker, len(study.catalog), newest and newest.id)
        if self._seen is None or self._seen[0] != now or not _elsewhere(study, self._seen[1]):
            self._seen = now, study.seen()
        return self._seen[1]

    def _put_file(self, file: Path, before: Any) -> Kept:
        assert self.shelf is not None
        found = digest_of(file)
        if before is None or Kept(*before) != found:
            self.shelf.put(f"files/{found.digest}", file)
        return found


def _shares_inputs(study: Study) -> bool:
    """Whether rows that were computed here spare a worker the images; pixels and activations are larger than the images."""
    return study.config.ranker.inputs == "features" and study.config.ranker.backbone != "none"


def _elsewhere(study: Study, inputs: Inputs) -> bool:
    """Whether images that could not be read lie at a URL."""
    return any(isinstance(study.catalog.place(int(row))[0], str) for row in inputs.absent)


def _write_inputs(inputs: Inputs, folder: Path) -> list[Path]:
    """Write what is seen of images, and which are absent, as a copy of the study finds it."""
    rows, absent = folder / (SOME_INPUTS if len(inputs.absent) else INPUTS), folder / ABSENT
    np.save(rows, inputs.rows)
    absent.write_text(
        json.dumps({"rows": inputs.absent.tolist(), "reasons": inputs.reasons}), encoding="utf-8"
    )
    return [rows, absent]


def _fetch_model(folder: Path, model: Model, store: Store, shelf: Shelf) -> None:
    """Fetch a model under another name and rename it when it is whole: nobody sees half of one."""
    parts = Path(model.path).parts
    if len(parts) != 2 or parts[0] != "models" or parts[1] == "..":
        raise ShelfError(
            f"model {model.id} is said to lie in {model.path!r}, outside the study; see: steelyard check"
        )
    about = store.settings.get(_about(model.path))
    if about is None:
        raise ShelfError(
            f"model {model.id} was trained where `models` was not set, and has not been shared; start the server of the study, which "
            "does so: steelyard serve STUDY"
        )
    check_version(str(about["steelyard"]), f"model {model.id}")
    target = folder / model.path
    coming: Path | None = None
    try:
        target.parent.mkdir(exist_ok=True)
        remove_forgotten(target.parent, ".fetching-*")
        coming = Path(tempfile.mkdtemp(prefix=".fetching-", dir=target.parent))
        for name, kept in about["files"].items():
            shelf.get(f"{model.path}/{name}", coming / Path(name).name, Kept(*kept))
        sync_tree(coming)
        if not target.is_dir():
            coming.rename(target)
            sync_folder(target.parent)
    except OSError as error:
        if not target.is_dir():  # another process may have been faster
            raise ShelfError(
                f"model {model.id} could not be written to {target} ({error.strerror or error}); make room on the disk"
            ) from error
    finally:
        if coming is not None:
            shutil.rmtree(coming, ignore_errors=True)


def remove_forgotten(folder: Path, pattern: str) -> None:
    """Remove what somebody was fetching who was killed, files and folders."""
    for old in folder.glob(pattern):
        with suppress(OSError):  # another process is done with it, or it is somebody else's
            if time.time() - old.stat().st_mtime <= _FORGOTTEN_SECONDS:
                continue
            if old.is_dir():
                shutil.rmtree(old, ignore_errors=True)
            else:
                old.unlink()


def _about(path: str) -> str:
    return f"shared {path}"


def _look(path: Path) -> tuple[int, ...]:
    seen = path.stat()
    return seen.st_ino, seen.st_size, seen.st_mtime_ns


def _release(version: str) -> tuple[int, ...]:
    """Major and minor version: files of one minor version are understood by all of it."""
    return tuple(int(part) if part.isdigit() else 0 for part in version.split(".")[:2])
