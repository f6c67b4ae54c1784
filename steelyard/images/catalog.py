"""What is compared: id, path, group, grade – columnar, memory-mapped.

A catalog is a table in Arrow's memory layout. Saved, it is an Arrow IPC file that any Arrow reader opens; opened, it
is a memory map, so that a million rows cost neither time nor memory until somebody looks at them.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.errors import CatalogError, ImageError
from steelyard.images.arrays import main_array, open_array, save_array
from steelyard.images.catalog_file import open_table, save_table
from steelyard.images.columns import Strings, hex_view, number_column, one_piece, read_numbers, text_column
from steelyard.images.decode import RGB, OnError, Reading, decode, read_many
from steelyard.images.files import in_threads
from steelyard.images.layouts import Layouts
from steelyard.images.lookup import rows_by_id
from steelyard.images.moving import Relocated, find_again, what_is_wrong
from steelyard.images.originals import Originals, read_original
from steelyard.images.remote import as_place, place_of
from steelyard.images.report import CatalogReport, Duplicate, Noticed
from steelyard.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa


__all__ = ["Catalog", "Relocated"]

Kind: TypeAlias = Literal["files", "pixels", "npz", "features"]


class Catalog(Layouts):
    """Images with a stable id, in rows.

    Make one with `from_folder`, `from_grades`, `from_csv`, `from_limuc`, `from_hyperkvasir`, `from_medmnist`,
    `from_features`, `from_arrays`, or `open` a saved one. A catalog does not change: `subset`, `with_root` and
    `relocate` return another.

    Attributes:
        root: folder that `paths` are relative to; None where there are no files, or where they lie elsewhere.
        grade_names: the grades in order; a grade's code is its position here.
        report: what was left out or noticed while it was made.
        originals: where files that lie elsewhere are kept for a while; None keeps none. A study sets its own.
    """

    def __init__(
        self,
        table: pa.Table,
        *,
        kind: Kind = "files",
        root: Path | None = None,
        source: Path | None = None,
        grade_names: Sequence[str] = (),
        report: CatalogReport | str | None = None,
        array: NDArray[Any] | None = None,
        max_megapixels: float = 100.0,
        originals: Originals | None = None,
    ) -> None:
        """From columns; the `from_…` constructors are the usual way.

        Args:
            table: columns `id`, `path` and, where known, `group`, `grade`, `split`, `frame`, `row`.
            kind: where pixels come from.
            root: folder of the files.
            source: the NumPy file of `npz`, `pixels` and `features`.
            grade_names: in order.
            report: as an object or as its JSON.
            array: the pixels or features themselves, where they are in no file yet.
            max_megapixels: a larger picture is not read.
            originals: where files that lie elsewhere are kept.
        """
        self._table = table.combine_chunks()
        self.kind: Kind = kind
        self.root = root
        self.source = source
        self.grade_names = tuple(grade_names)
        self.max_megapixels = max_megapixels
        self.originals = originals
        self._report = report if report is not None else CatalogReport()
        self._array = array
        self._splits: dict[str, NDArray[Any]] = {}
        self._order: NDArray[np.int64] | None = None
        self._lock = threading.Lock()
        try:
            self._keys = hex_view(self._column("id"))
        except (ValueError, AttributeError) as error:
            raise CatalogError(f"ids are 32 hex digits each: {error}") from error

    # What the rows say

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        grades = f", grades {' < '.join(self.grade_names)}" if self.grade_names else ""
        where = self.root or self.source or ("URLs" if self.kind == "files" else "memory")
        return f"Catalog({len(self):,} images, {self.kind} in {where}{grades})"

    @property
    def ids(self) -> Strings:
        """Ids: 32 hex digits each, no two alike."""
        return Strings(self._column("id"))

    @property
    def paths(self) -> Strings:
        """Paths relative to `root`, absolute ones, or URLs, with forward slashes; a DICOM frame is `file.dcm#3`."""
        return Strings(self._column("path"))

    @property
    def groups(self) -> Strings | None:
        """The group (patient) of each image, or None where no image has one."""
        return Strings(self._column("group")) if self._has("group") else None

    @property
    def group_codes(self) -> NDArray[np.int64] | None:
        """The groups as numbers 0 … without making strings, or None."""
        if not self._has("group"):
            return None
        return read_numbers(self._column("group").indices).astype(np.int64)

    @property
    def grades(self) -> NDArray[np.int64] | None:
        """Code of each image's grade, −1 where unknown; None where no image has one."""
        return self._numbers("grade") if self._has("grade") else None

    @property
    def official_split(self) -> Strings | None:
        """`train`, `val` or `test` as a MedMNIST file had it, or None."""
        return Strings(self._column("split")) if self._has("split") else None

    @property
    def features(self) -> NDArray[Any] | None:
        """The precomputed matrix, shape (N, D): a memory map, unless rows were taken out of it. None without one."""
        if self.kind != "features":
            return None
        rows, matrix = self._numbers("row"), self._load_array()
        if len(rows) == len(matrix) and np.array_equal(rows, np.arange(len(matrix))):
            return matrix
        return np.asarray(matrix[rows])

    @property
    def report(self) -> CatalogReport:
        """What was left out or noticed while the catalog was made."""
        if isinstance(self._report, str):
            self._report = CatalogReport.from_json(self._report)
        return self._report

    def duplicates(self) -> tuple[Duplicate, ...]:
        """Images left out because another has the same bytes."""
        return self.report.duplicates

    # Finding rows

    def index_of(self, id: str) -> int:
        """The row of an id.

        Raises:
            CatalogError: no image has this id.
        """
        return int(self.rows_of([id])[0])

    def rows_of(self, ids: ArrayLike | Strings) -> NDArray[np.int64]:
        """The rows of many ids at once, shape (n,).

        Raises:
            CatalogError: no image has one of the ids; names the first.
        """
        return rows_by_id(self._keys, self._sorted(), ids)

    def subset(self, rows: ArrayLike) -> Catalog:
        """Some of the images, in the order given; `rows` are row numbers or a mask."""
        chosen = np.asarray(rows)
        if chosen.dtype == bool:
            chosen = np.flatnonzero(chosen)
        chosen = chosen.astype(np.int64).reshape(-1)
        if chosen.size and (chosen.min() < 0 or chosen.max() >= len(self)):
            raise CatalogError(f"a row is outside the {len(self)} images: {chosen.min()} … {chosen.max()}")
        if len(np.unique(chosen)) != len(chosen):
            raise CatalogError("a subset has each image once; a row was given twice")
        table = self._table.take(number_column(chosen)) if chosen.size else self._table.slice(0, 0)
        return self._with(table)

    def fingerprint(self) -> str:
        """32 hex digits that change when an id, a grade, a group or the order of the rows does; not with the root."""
        digest = hashlib.blake2b()
        digest.update(json.dumps([len(self), self.grade_names]).encode())
        digest.update(np.ascontiguousarray(self._keys).tobytes())
        if self._has("grade"):
            digest.update(b"grade")
            digest.update(np.ascontiguousarray(self._numbers("grade")).tobytes())
        if self._has("group"):
            # Two catalogs may number the same groups differently: renumber by first appearance.
            groups = self._column("group").cast("large_string").dictionary_encode()
            digest.update(json.dumps(groups.dictionary.to_pylist()).encode())
            digest.update(read_numbers(groups.indices).astype("<i4").tobytes())
        return digest.hexdigest()[:32]

    # Pixels

    def read(self, row: int) -> RGB:
        """The picture: uint8 RGB, shape (H, W, 3).

        Raises:
            ImageError: the file cannot be read, or the catalog has features only.
        """
        return self.read_small(row, 0)

    def read_small(self, row: int, least: int) -> RGB:
        """The picture, of a large JPEG perhaps a smaller copy with no side below `least`; see `decode`."""
        if self.kind in ("npz", "pixels"):
            pixels = self._load_array(self.official_split[row] if self.official_split is not None else "")
            picture = np.asarray(pixels[int(self._numbers("row")[row])])
            return np.repeat(picture[:, :, None], 3, axis=2) if picture.ndim == 2 else np.array(picture)
        place, frame = self.place(row)
        if isinstance(place, str):
            id = self.ids[row] if self.kind == "files" else ""
            source: Path | bytes = read_original(place, self.originals, id=id, frame=frame)
        elif self.root is None and self.kind == "features":
            why = "has no pixels: the catalog was made from features, without a folder of images"
            raise ImageError(self.paths[row], why)
        else:
            source = place
        name, frame = str(place), max(frame, 1)
        return decode(source, frame=frame, max_megapixels=self.max_megapixels, least=least, name=name)

    def read_many(
        self,
        rows: ArrayLike | None = None,
        *,
        size: int | None = None,
        on_error: OnError = "skip",
        workers: int = 0,
        progress: Progress | None = None,
    ) -> Reading:
        """Read images in threads, in order: (position in `rows`, RGB), with the bad ones in `failures`.

        See `steelyard.images.decode.read_many`.
        """
        chosen = np.arange(len(self)) if rows is None else np.asarray(rows, dtype=np.int64)
        return read_many(
            len(chosen),
            read=lambda position: self.read(int(chosen[position])),
            size=size,
            on_error=on_error,
            workers=workers,
            progress=progress,
        )

    def place(self, row: int) -> tuple[Path | str, int]:
        """Where an image's file is – a path or a URL – and which frame of it, 0 where it has one alone."""
        frame = int(self._column("frame")[row].as_py()) if self._has("frame") else 0
        return place_of(self.root, self.paths[row].removesuffix(f"#{frame}" if frame else "")), frame

    def raw_path(self, row: int) -> Path | None:
        """Absolute path of the image's file, or None where it has none of its own on this machine."""
        if self.kind == "files" or (self.kind == "features" and self.root is not None):
            place = self.place(row)[0]
            return place.absolute() if isinstance(place, Path) else None
        return None

    def verify(self, *, workers: int = 0, progress: Progress | None = None) -> tuple[Noticed, ...]:
        """Read every image once: what is missing, unreadable or no longer has the bytes it had."""
        reasons = in_threads(
            lambda row: what_is_wrong(self, row), range(len(self)), workers, progress, "images verified"
        )
        return tuple(Noticed(self.paths[row], why) for row, why in enumerate(reasons) if why)

    def validate(self) -> None:
        """Read every column and compare it with itself; opening alone reads none.

        Raises:
            CatalogError: the file is damaged.
        """
        try:
            self._table.validate(full=True)
            if len(np.unique(self._keys)) != len(self) or not np.array_equal(
                np.sort(self._keys), self._keys[self._sorted()]
            ):
                raise ValueError("two ids are alike, or their order is wrong")
        except (ValueError, IndexError) as error:  # Arrow's own errors are ValueErrors
            raise CatalogError(
                f"the catalog is damaged ({error}); restore a backup with: steelyard restore"
            ) from error

    # Moving

    def with_root(self, root: str | Path | None, *, source: Path | None = None) -> Catalog:
        """The same catalog after its folder, or the NumPy file of its rows, was moved; nothing is read."""
        new = self.root if root is None else Path(root).absolute()
        moved = new / self.source.name if self.kind == "npz" and self.source and new else self.source
        return self._with(self._table, root=new, source=source or moved)

    def relocate(self, root: str | Path, *, workers: int = 0, progress: Progress | None = None) -> Relocated:
        """Find the images again by their bytes, after they were moved or renamed below a new folder or URL.

        Raises:
            CatalogError: there is no such folder, or the catalog is not one of files.
        """
        if self.kind != "files":
            raise CatalogError(f"only images in files can be found again, not {self.kind}; use with_root")
        place, old = as_place(root), self.paths.tolist()
        new = place.absolute() if isinstance(place, Path) else None
        paths, missing = find_again(self, new or place, workers=workers, progress=progress)
        table = self._table.set_column(self._table.schema.get_field_index("path"), "path", text_column(paths))
        moved = sum(a != b for a, b in zip(paths, old, strict=True))
        return Relocated(self._with(table, root=new), moved, missing)

    # Keeping

    def save(self, path: str | Path) -> None:
        """Write the catalog as an Arrow IPC file, whole or not at all.

        A root or NumPy file below the catalog's own folder is remembered relative to it, so that the folder can be
        moved. Pixels or features that are in no file yet are written next to it.
        """
        target = Path(path).absolute()
        table, source = self._table, self.source
        if source is None and self._array is not None:
            source = target.with_name(f"{target.stem}.{self.kind}.npy")
            save_array(self._array[self._numbers("row")], source)
            at = table.schema.get_field_index("row")
            table = table.set_column(at, "row", number_column(np.arange(len(self))))
        # The sorted order goes along, so that looking up an id never sorts again.
        table = table.append_column("order", number_column(self._sorted()))
        report = self._report if isinstance(self._report, str) else self._report.to_json()
        save_table(
            table, target, kind=self.kind, root=self.root, source=source, grade_names=self.grade_names,
            max_megapixels=self.max_megapixels, report=report,
        )  # fmt: skip

    @classmethod
    def open(cls, path: str | Path) -> Catalog:
        """Map a saved catalog; nothing is copied, whatever its size.

        Raises:
            CatalogError: there is no such file or it is not a catalog.
        """
        table, about = open_table(Path(path).absolute())
        try:
            catalog = cls(table.drop_columns(["order"]), **about)
            catalog._order = read_numbers(one_piece(table.column("order")))
        except (LookupError, TypeError, ValueError, AttributeError, NotImplementedError) as error:
            raise CatalogError(
                f"{path} is damaged ({error}); restore a backup with: steelyard restore"
            ) from error
        return catalog

    def __getstate__(self) -> dict[str, Any]:
        # Locks do not travel to other processes, and mapped files are mapped again there.
        state = self.__dict__.copy()
        state.update(_lock=None, _keys=None, _splits={}, _array=self._array if self.source is None else None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
        self._keys = hex_view(self._column("id"))

    # Inside

    def _has(self, name: str) -> bool:
        return name in self._table.column_names

    def _column(self, name: str) -> Any:
        return one_piece(self._table.column(name))

    def _numbers(self, name: str) -> NDArray[np.int64]:
        return read_numbers(self._column(name))

    def _sorted(self) -> NDArray[np.int64]:
        if self._order is None:
            self._order = np.argsort(self._keys).astype(np.int64)
        return self._order

    def _load_array(self, split: str = "") -> NDArray[Any]:
        with self._lock:
            if self._array is not None:
                return self._array
            if split not in self._splits:
                assert self.source is not None
                name = f"{split}_images" if self.kind == "npz" else main_array(self.source)
                self._splits[split] = open_array(self.source, name)
            return self._splits[split]

    def _with(self, table: pa.Table, **changes: Any) -> Catalog:
        names = ("kind", "root", "source", "grade_names", "max_megapixels", "originals")
        values = {name: getattr(self, name) for name in names}
        values |= {"report": self._report, "array": self._array}
        return Catalog(table, **(values | changes))
