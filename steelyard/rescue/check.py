"""`steelyard check`: what is wrong with a study, and what to do about it. Works on a damaged one as far as possible."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from steelyard.config import StudyConfig
from steelyard.errors import CatalogError, SteelyardError, StoreError, command
from steelyard.files import UNFINISHED
from steelyard.images.catalog import Catalog
from steelyard.images.files import in_threads
from steelyard.images.presence import has_file, say_where
from steelyard.progress import Progress
from steelyard.ranker import checkpoint
from steelyard.store.chain import Head
from steelyard.store.database import make_engine, read_url, wrapped_errors
from steelyard.store.dump import stored_revision
from steelyard.store.opening import known_revisions
from steelyard.store.records import Model
from steelyard.store.schema import REVISION
from steelyard.store.store import Store
from steelyard.study.domain import load_check
from steelyard.study.making import store_url
from steelyard.study.models import load_posterior
from steelyard.trust.card import read_card

__all__ = ["Finding", "check_study", "noted_heads"]

_LEFTOVERS = ("*.new", "*.part", f"*{UNFINISHED}", "*.unfinished-*", ".restoring-*", ".training-*")


@dataclass(frozen=True)
class Finding:
    """Something about a study that somebody should know.

    Attributes:
        part: `configuration`, `store`, `catalog`, `models`, `cache`, `images` or `leftovers`.
        level: `problem` when something does not work or was lost; `note` when it only takes up room or was left out.
        sentence: what was found.
        remedy: what to do.
    """

    part: str
    level: Literal["problem", "note"]
    sentence: str
    remedy: str

    def to_dict(self) -> dict[str, str]:
        """For JSON."""
        return asdict(self)


def check_study(
    folder: str | Path,
    *,
    images: bool = False,
    expect: Iterable[Head] = (),
    progress: Progress | None = None,
) -> list[Finding]:
    """Look at every part of a study; an empty list, or one of notes only, is a sound study. Nothing is changed.

    Args:
        folder: the study.
        images: read every image, not only see whether its file is there.
        expect: heads of the logs that were noted elsewhere; without them a log that was cut off looks whole.
        progress: told how far it is.
    """
    place = Path(folder)
    tell = progress or (lambda done, total, text: None)
    found: list[Finding] = []
    if not place.is_dir():
        return [
            Finding("configuration", "problem", f"there is no folder {place}", "name the folder of a study")
        ]
    tell(0, 5, "reading the configuration")
    config = _configuration(place, found)
    tell(1, 5, "reading the catalog")
    catalog = _catalog(place, found)
    tell(2, 5, "reading the store")
    with _Opened(place, config, found, list(expect)) as store:
        if store is not None:
            _signatures(store, found)
            if catalog is not None:
                _compare(place, catalog, store, found)
            tell(3, 5, "reading models")
            _models(place, catalog, store, found, shared=config is not None and bool(config.models))
        tell(4, 5, "looking for images")
        if catalog is not None:
            left_out = set() if store is None else set(store.images.excluded_rows().tolist())
            _images(place, catalog, left_out, images, progress, found)
    _cache(place, found)
    _leftovers(place, found)
    tell(5, 5, "done")
    return found


def _restore(place: Path) -> str:
    return f"restore a backup: {command('restore', 'FILE', place, '--replace')}"


def _configuration(place: Path, found: list[Finding]) -> StudyConfig | None:
    path = place / "study.toml"
    try:
        return StudyConfig.load(path)
    except (SteelyardError, OSError) as error:
        found.append(Finding("configuration", "problem", str(error), f"fix the file, or {_restore(place)}"))
    try:  # a strategy that is not installed here says nothing about where the answers are
        return StudyConfig.load(path, any_strategy=True)
    except (SteelyardError, OSError):
        return None


def _catalog(place: Path, found: list[Finding]) -> Catalog | None:
    path = place / "catalog.arrow"
    try:
        catalog = Catalog.open(path)
        catalog.validate()
        return catalog
    except (SteelyardError, OSError) as error:
        found.append(Finding("catalog", "problem", str(error), _restore(place)))
        return None


class _Opened:
    """The store of a study while it is looked at, or None where it cannot be opened."""

    def __init__(
        self, place: Path, config: StudyConfig | None, found: list[Finding], expect: list[Head]
    ) -> None:
        self._store: Store | None = None
        # Without a configuration the usual place is worth a look.
        url = store_url(place, config or StudyConfig())
        if config is None and not (place / "study.db").exists():
            return
        try:
            self._store = _open(url, found)
        except (SteelyardError, OSError) as error:
            found.append(Finding("store", "problem", str(error), _restore(place)))
            return
        if self._store is None:
            return
        try:
            problems = self._store.check(expect)
        except SteelyardError as error:
            problems = [str(error)]
        found += [Finding("store", "problem", problem, _restore(place)) for problem in problems]

    def __enter__(self) -> Store | None:
        return self._store

    def __exit__(self, *_: object) -> None:
        if self._store is not None:
            self._store.close()


def noted_heads(folder: str | Path) -> list[Head]:
    """Where the logs of a study end, to be noted elsewhere; none where the store is of an older revision.

    Raises:
        SteelyardError: the configuration or the store cannot be read.
    """
    place = Path(folder)
    store = _open(store_url(place, StudyConfig.load(place / "study.toml", any_strategy=True)), [])
    if store is None:
        return []
    with store:
        return list(store.audit.heads())


def _signatures(store: Store, found: list[Finding]) -> None:
    try:
        newest = store.audit.signatures()[-1:]
    except SteelyardError:
        return  # what is wrong with the store has been said
    for one in newest:
        if one.answers_since or one.grades_since:
            found.append(
                Finding(
                    "store",
                    "note",
                    f"{one.answers_since} rows of answers and {one.grades_since} of grades came after {one.signer!r} signed",
                    "if they belong to the study, have it signed again: steelyard sign STUDY",
                )
            )


def _open(url: str, found: list[Finding]) -> Store | None:
    """Open a store of this revision; another one is looked at from outside, as opening would migrate it."""
    parsed = read_url(url)
    if parsed.get_backend_name() == "sqlite" and not Path(str(parsed.database)).exists():
        raise StoreError(f"there is no database {parsed.database}")
    engine = make_engine(parsed)
    try:
        with wrapped_errors(engine), engine.connect() as connection:
            revision = stored_revision(connection)
            damaged = []
            if revision != REVISION and engine.dialect.name == "sqlite":
                damaged = [
                    str(line)
                    for (line,) in connection.exec_driver_sql("PRAGMA integrity_check(20)")
                    if line != "ok"
                ]
    finally:
        engine.dispose()
    if revision == REVISION:
        return Store.open(url, create=False)
    if damaged:
        raise StoreError(f"the file is damaged: {damaged[0]}")
    if revision is None:
        raise StoreError("the database holds no study")
    if revision not in known_revisions():
        raise StoreError(
            f"the study was written by a newer Steelyard (revision {revision}); upgrade Steelyard"
        )
    found.append(
        Finding(
            "store", "note", f"the store has the older revision {revision}; what it holds was not compared",
            "open the study once, which migrates it, and check again",
        )
    )  # fmt: skip
    return None


def _compare(place: Path, catalog: Catalog, store: Store, found: list[Finding]) -> None:
    try:
        stored = store.images.all()
    except SteelyardError:
        return  # said before
    ids = [str(id) for id in catalog.ids]
    if (
        catalog.kind == "files"
        and (joined := len(stored) - len(ids)) > 0
        and [i.id for i in stored[: len(ids)]] == ids
    ):
        found.append(
            Finding(
                "catalog", "note", f"{joined} images were being added when that was cut short; the catalog lacks them",
                f"open the study once, which completes it: {command('status', place)}",
            )
        )  # fmt: skip
        stored = stored[: len(ids)]
    if [image.row for image in stored] != list(range(len(ids))) or [image.id for image in stored] != ids:
        found.append(
            Finding(
                "catalog", "problem",
                f"the catalog lists {len(ids)} images and the store knows {len(stored)}, and they are not the same in the same order",
                _restore(place),
            )
        )  # fmt: skip
    elif catalog.kind == "files":
        moved = sum(image.path != path for image, path in zip(stored, catalog.paths.tolist(), strict=True))
        if moved:
            found.append(
                Finding(
                    "catalog", "note", f"{moved} images have another path in the catalog than in the store",
                    "nothing has to be done: the catalog is what counts",
                )
            )  # fmt: skip


def _models(
    place: Path, catalog: Catalog | None, store: Store, found: list[Finding], *, shared: bool
) -> None:
    try:
        announced = store.models.all()
    except SteelyardError:
        return  # said before
    for model in announced:
        newest = model.id == announced[-1].id
        if shared and not (place / model.path).exists():
            if newest:
                found.append(
                    Finding(
                        "models", "note", f"model {model.id} was trained elsewhere and has not come here yet",
                        f"open the study once, which fetches it: {command('status', place)}",
                    )
                )  # fmt: skip
            continue
        for sentence in _model(place, model, catalog, newest):
            found.append(
                Finding(
                    "models", "problem" if newest else "note", sentence,
                    f"train again with: {command('train', place)}; the previous model is used until then"
                    if newest
                    else "nothing has to be done: only the newest model is in use",
                )
            )  # fmt: skip
    known = {model.path for model in announced}
    for folder in sorted((place / "models").glob("round-*")):
        if not folder.name.endswith(".new") and folder.relative_to(place).as_posix() not in known:
            found.append(
                Finding(
                    "leftovers",
                    "note",
                    f"{folder} was never announced",
                    "nothing has to be done: the next training removes it",
                )
            )


def _model(place: Path, model: Model, catalog: Catalog | None, newest: bool) -> Iterator[str]:
    parts = Path(model.path).parts
    if Path(model.path).is_absolute() or ".." in parts or parts[:1] != ("models",):
        yield f"model {model.id} is said to lie in {model.path!r}, outside the study"
        return
    folder = place / model.path
    if not folder.is_dir():
        yield f"{folder} is missing"
        return
    grown = False
    try:
        checkpoint.load(folder)
        if newest or (folder / "rows.npy").exists():  # older models keep their weights only
            size = len(load_posterior(folder))
            if catalog is not None and size > len(catalog):
                yield f"{folder} is about {size} images, but the catalog lists {len(catalog)}"
            grown = catalog is not None and size < len(
                catalog
            )  # images joined since; the next model knows them
        read_card(folder)
        if newest:
            load_check(folder, 0)
    except (SteelyardError, OSError) as error:
        yield str(error)
    if newest and catalog is not None and not grown and model.fingerprint != catalog.fingerprint():
        yield f"{folder} was trained on another catalog (fingerprint {model.fingerprint})"


def _images(
    place: Path,
    catalog: Catalog,
    left_out: set[int],
    read: bool,
    progress: Progress | None,
    found: list[Finding],
) -> None:
    wanted = [row for row in range(len(catalog)) if row not in left_out]
    remedy = say_where(place)
    if catalog.source is not None:
        try:  # opening the array reads its head and compares it with the size of the file
            rows = catalog.features if catalog.kind == "features" else catalog.read(0)
            if catalog.kind == "features" and (rows is None or len(rows) != len(catalog)):
                raise CatalogError(f"{catalog.source} has other rows than the catalog")
        except (SteelyardError, OSError, IndexError) as error:
            found.append(Finding("images", "problem", str(error), f"put it back, or {_restore(place)}"))
            return
    if read:
        bad = [
            f"{n.path}: {n.reason}"
            for n in catalog.subset(np.array(wanted, dtype=np.int64)).verify(progress=progress)
        ]
    else:
        there = in_threads(lambda row: has_file(catalog, row), wanted, 0, progress, "images looked for")
        bad = [
            f"{catalog.paths[row]}: is missing" for row, found in zip(wanted, there, strict=True) if not found
        ]
    if bad:
        found.append(
            Finding("images", "problem", f"{len(bad)} of {len(wanted)} images: {'; '.join(bad[:3])}" + (" …" if len(bad) > 3 else ""), remedy)
        )  # fmt: skip


def _cache(place: Path, found: list[Finding]) -> None:
    for settings in sorted((place / "cache").glob("**/settings.json")):
        folder = settings.parent
        try:
            about: dict[str, Any] = json.loads(settings.read_text(encoding="utf-8"))
            row = int(np.prod(about["row_shape"], dtype=np.int64)) * np.dtype(about["dtype"]).itemsize
            ids, rows = (
                (folder / name).stat().st_size if (folder / name).exists() else 0
                for name in ("ids.dat", "rows.dat")
            )
            wrong = "" if ids // 32 * row <= rows else f"it lists {ids // 32} rows and holds {rows // row}"
        except (OSError, ValueError, KeyError, TypeError) as error:
            wrong = f"settings.json cannot be read ({error})"
        if wrong:
            found.append(
                Finding("cache", "problem", f"{folder}: {wrong}", "delete this folder; it is computed again")
            )


def _leftovers(place: Path, found: list[Finding]) -> None:
    for folder in (place, place / "models", place / "backups"):
        for pattern in _LEFTOVERS:
            for path in sorted(folder.glob(pattern)):
                found.append(
                    Finding(
                        "leftovers", "note", f"{path} is unfinished work", "delete it when nobody is at work on the study"
                    )
                )  # fmt: skip
