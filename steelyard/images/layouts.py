"""How folders, CSVs, LIMUC, HyperKvasir, MedMNIST and feature matrices become catalogs.

Each layout says which files there are and what their grade and group is; `assemble` does the rest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.errors import CatalogError
from steelyard.images.arrays import array_names, main_array, open_array
from steelyard.images.assemble import build, from_files
from steelyard.images.files import content_id, find_images
from steelyard.images.labels import grade_codes, read_labels
from steelyard.images.remote import as_place, is_url, place_of
from steelyard.images.report import CatalogReport, Noticed
from steelyard.images.search import Search

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from steelyard.images.catalog import Catalog
    from steelyard.images.files import Looking

__all__ = ["Layouts"]


class Layouts:
    """The constructors of `Catalog`, one per layout."""

    @staticmethod
    def from_folder(root: str | Path, **options: Unpack[Looking]) -> Catalog:
        """All images below a folder or a URL, whatever its shape; no grades, and groups only of a DICOMweb server.

        Args:
            root: the folder or URL.
            **options: `check`, `on_error`, `max_megapixels`, `workers`, `progress`; see `files.Looking`.

        Raises:
            CatalogError: no such folder, or not one image in it.
            ImageError: a bad file, with `on_error="fail"`.
        """
        place = as_place(root)
        return from_files(place, find_images(place), options=options)

    @staticmethod
    def from_grades(
        root: str | Path, *, grade_names: Sequence[str] | None = None, **options: Unpack[Looking]
    ) -> Catalog:
        """A folder of grade folders: `root/<grade>/…/*.jpg`.

        Args:
            root: the folder.
            grade_names: the grades from the mildest to the worst; None orders the folder names, by value when they are
                numbers, naturally otherwise (then the report says so).
            **options: see `files.Looking`.

        Raises:
            CatalogError: no images in grade folders, or a folder that is none of `grade_names`.
        """
        place = as_place(root)
        search = find_images(place)
        loose = [path for path in search.paths if "/" not in path]
        if loose and len(loose) == len(search.paths):
            raise CatalogError(_no_grade_folders(place, loose))
        search.bad += [Noticed(path, "lies in no grade folder") for path in loose]
        search.paths = [path for path in search.paths if "/" in path]
        grades = [path.split("/")[0] for path in search.paths]
        return from_files(place, search, grades=grades, names=grade_names, options=options)

    @staticmethod
    def from_csv(
        csv: str | Path,
        root: str | Path | None = None,
        *,
        grade_names: Sequence[str] | None = None,
        **options: Unpack[Looking],
    ) -> Catalog:
        """A CSV with the columns `image` (path below the root, or a URL) and, optionally, `grade` and `group`.

        Args:
            csv: the file.
            root: folder or URL of the images; None takes the folder of the CSV.
            grade_names: as in `from_grades`.
            **options: see `files.Looking`.

        Raises:
            CatalogError: names the row and the column that are wrong.
        """
        labels = read_labels(csv)
        folder = Path(csv).parent if root is None else as_place(root)
        paths = []
        for image, line in zip(labels.images, labels.lines, strict=True):
            try:
                paths.append(_below(image, folder))
            except ValueError as error:
                raise CatalogError(f"{csv}, line {line}, column image: {error}") from None
        return from_files(
            folder,
            Search(paths),
            grades=labels.grades,
            groups=labels.groups,
            names=grade_names,
            options=options,
            where=str(csv),
            notes=labels.notes,
        )

    @staticmethod
    def from_limuc(root: str | Path, **options: Unpack[Looking]) -> Catalog:
        """LIMUC as it is published: `patient_based_classified_images/<patient>/Mayo <g>/*.bmp`.

        The group is the patient; grades are named 0 … 3. File names that occur for several patients are reported.

        Args:
            root: the folder that holds `patient_based_classified_images`, or that folder itself.
            **options: see `files.Looking`.

        Raises:
            CatalogError: the folder does not look like LIMUC.
        """
        folder = as_place(root)
        if isinstance(folder, Path) and (folder / "patient_based_classified_images").is_dir():
            folder = folder / "patient_based_classified_images"
        search = find_images(folder)
        found = [
            (path, re.fullmatch(r"([^/]+)/mayo[ _-]?(\d)/[^/]+", path, re.IGNORECASE))
            for path in search.paths
        ]
        if found and not any(match for _, match in found):
            raise CatalogError(
                f"{folder} does not look like LIMUC: expected <patient>/Mayo <grade>/*.bmp, found '{found[0][0]}'"
            )
        search.bad += [
            Noticed(path, "is not in <patient>/Mayo <grade>/") for path, match in found if not match
        ]
        search.paths = [path for path, match in found if match]
        return from_files(
            folder,
            search,
            grades=[match[2] for _, match in found if match],
            groups=[match[1] for _, match in found if match],
            options=options,
            same_names=True,
        )

    @staticmethod
    def from_hyperkvasir(root: str | Path, **options: Unpack[Looking]) -> Catalog:
        """HyperKvasir's folders `ulcerative-colitis-grade-<g>`, in-between grades in their place: 0-1 < 1 < 1-2 < 2 …

        Args:
            root: any folder above those folders; the other findings of the data set are passed over.
            **options: see `files.Looking`.

        Raises:
            CatalogError: there are no such folders.
        """
        place = as_place(root)
        search = find_images(place)
        pattern = re.compile(r"(?:.*/)?ulcerative-colitis-grade-(\d(?:-\d)?)/[^/]+", re.IGNORECASE)
        found = [(path, pattern.fullmatch(path)) for path in search.paths]
        search.paths = [path for path, match in found if match]
        if others := len(found) - len(search.paths):
            search.passed_over["images of other findings"] += others
        if not search.paths:
            raise CatalogError(f"{root} has no folder 'ulcerative-colitis-grade-…' with images")
        return from_files(place, search, grades=[match[1] for _, match in found if match], options=options)

    @staticmethod
    def from_medmnist(npz: str | Path) -> Catalog:
        """A MedMNIST `.npz`: the official train, val and test parts together; `official_split` remembers which.

        Args:
            npz: the file, with `train_images`, `train_labels` and so on.

        Raises:
            CatalogError: an array is missing or has the wrong shape; volumes and several labels an image are not ordinal.
        """
        path = Path(npz).absolute()
        names = array_names(path)
        splits = [split for split in ("train", "val", "test") if f"{split}_images" in names]
        if not splits:
            raise CatalogError(
                f"{path} is not a MedMNIST file: no train_images, val_images or test_images in it"
            )
        ids: list[str] = []
        paths: list[str] = []
        labels: list[str] = []
        parts: list[str] = []
        rows: list[int] = []
        for split in splits:
            images, targets = open_array(path, f"{split}_images"), open_array(path, f"{split}_labels")
            if (
                images.dtype != np.uint8
                or images.ndim not in (3, 4)
                or (images.ndim == 4 and images.shape[3] != 3)
            ):
                raise CatalogError(
                    f"{path}, {split}_images: expected uint8 (N, H, W) or (N, H, W, 3), not {images.dtype} {images.shape}"
                )
            if targets.size != len(images) or len(targets) != len(images):
                raise CatalogError(
                    f"{path}, {split}_labels: expected one grade for each of {len(images)} images, not {targets.shape}"
                )
            shape = repr(images.shape[1:]).encode()
            ids += [content_id(shape, np.ascontiguousarray(image).data) for image in images]
            paths += [f"{path.name}#{split}/{row}" for row in range(len(images))]
            labels += [str(int(label)) for label in targets.reshape(-1)]
            parts += [split] * len(images)
            rows += range(len(images))
        codes, order = grade_codes(labels)
        return build(
            {"id": ids, "path": paths, "grade": codes, "split": parts, "row": rows},
            kind="npz",
            root=path.parent,
            source=path,
            grade_names=order,
        )

    @staticmethod
    def from_features(
        matrix: str | Path | NDArray[Any],
        labels: str | Path | None = None,
        *,
        root: str | Path | None = None,
        grade_names: Sequence[str] | None = None,
    ) -> Catalog:
        """A precomputed feature matrix; row k belongs to row k of the labels.

        There are no bytes to hash, so an id is the hash of the `image` cell – or of the row number without labels.

        Args:
            matrix: a `.npy` (mapped), an `.npz` with one matrix or one named `features`, or an array; shape (N, D).
            labels: CSV with `image` and, optionally, `grade` and `group`.
            root: folder or URL of the images, if they can be shown; a row may also name a URL.
            grade_names: as in `from_grades`.

        Raises:
            CatalogError: wrong shape, a number of rows that does not match, or a value that is not finite (names the row).
        """
        source, array, name = None, None, "the array"
        if isinstance(matrix, np.ndarray):
            values = array = matrix
        else:
            source = Path(matrix).absolute()
            name = str(source)
            values = open_array(source, main_array(source))
        _check_features(values, name)
        rows = range(len(values))
        if labels is None:
            images = [f"row-{row}" for row in rows]
            columns: dict[str, Any] = {"id": [content_id(b"row ", str(row).encode()) for row in rows]}
            order: tuple[str, ...] = ()
            notes: tuple[str, ...] = ()
        else:
            table = read_labels(labels)
            if len(table.images) != len(values):
                raise CatalogError(
                    f"{labels} has {len(table.images)} rows, but {name} has {len(values)}; they have to match row by row"
                )
            images = table.images
            columns = {"id": [content_id(b"image ", image.encode()) for image in images]}
            order, notes = (), table.notes
            if table.grades is not None:
                columns["grade"], order = grade_codes(table.grades, grade_names, where=str(labels))
            if table.groups is not None:
                columns["group"] = table.groups
        place = None if root is None else as_place(root)
        if isinstance(place, str):
            images = [str(place_of(place, image)) for image in images]
        return build(
            columns | {"path": images, "row": rows},
            kind="features",
            root=place.absolute() if isinstance(place, Path) else None,
            source=source,
            array=array,
            grade_names=order,
            report=CatalogReport(notes=notes),
        )

    @staticmethod
    def from_arrays(
        images: NDArray[np.uint8],
        *,
        groups: Sequence[str] | None = None,
        grades: ArrayLike | None = None,
        grade_names: Sequence[str] = (),
        root: str | Path | None = None,
    ) -> Catalog:
        """Pictures in memory.

        Args:
            images: uint8, shape (N, H, W, 3) or grey (N, H, W).
            groups: the group of each.
            grades: code of each grade, −1 unknown.
            grade_names: in order; empty takes the codes themselves.
            root: folder to write them to as PNG files (`000000.png` …), which then are the catalog's images; None keeps
                them in memory, and `save` writes them next to the catalog.

        Raises:
            CatalogError: shapes, types or lengths that do not fit, or a grade without a name.
        """
        images = np.asarray(images)
        if (
            images.dtype != np.uint8
            or images.ndim not in (3, 4)
            or (images.ndim == 4 and images.shape[3] != 3)
        ):
            raise CatalogError(
                f"images are uint8 (N, H, W, 3) or (N, H, W), not {images.dtype} {images.shape}"
            )
        codes = None if grades is None else np.asarray(grades, dtype=np.int64).reshape(-1)
        names = tuple(grade_names)
        if codes is not None and len(codes):
            names = names or tuple(str(code) for code in range(int(codes.max()) + 1))
            if codes.min() < -1 or codes.max() >= len(names):
                raise CatalogError(
                    f"grades are codes 0 … {len(names) - 1} or −1, not {codes.min()} … {codes.max()}"
                )
        columns: dict[str, Any] = {}
        for what, values in (("group", groups), ("grade", codes)):
            if values is not None:
                if len(values) != len(images):
                    raise CatalogError(f"{len(images)} images but {len(values)} {what}s")
                columns[what] = [str(value) for value in values] if what == "group" else values.tolist()  # type: ignore[union-attr]
        shape = repr(images.shape[1:]).encode()
        width = max(6, len(str(len(images))))
        columns["path"] = [f"{row:0{width}}.png" for row in range(len(images))]
        if root is None:
            columns["id"] = [content_id(shape, np.ascontiguousarray(image).data) for image in images]
            columns["row"] = range(len(images))
            return build(columns, kind="pixels", array=images, grade_names=names)
        from PIL import Image

        folder = Path(root).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        for path, image in zip(columns["path"], images, strict=True):
            Image.fromarray(image).save(folder / path)
        columns["id"] = [content_id((folder / path).read_bytes()) for path in columns["path"]]
        return build(columns, kind="files", root=folder, grade_names=names)


def _no_grade_folders(place: Path | str, loose: Sequence[str]) -> str:
    root = Path(place)
    below = root.iterdir() if isinstance(place, Path) else ()
    folders = sorted(path.name for path in below if path.is_dir() and not path.name.startswith("."))
    beside = f"; no images are in its subfolders ({', '.join(folders[:5])})" if folders else ""
    return (
        f"{place} has no grade folders: with the layout 'grades' every grade is a subfolder with its images, as in "
        f"{root.name}/mild/1.png, and {len(loose)} images lie directly in it (the first: {loose[0]}){beside}; leave the layout "
        "out for images without grades, or name the grades in a CSV (--labels)"
    )


def _below(image: str, folder: Path | str) -> str:
    """The path relative to the folder, with forward slashes, or a URL; outside of the folder is an error."""
    try:
        path = as_place(image if is_url(image) else image.replace("\\", "/"))
    except CatalogError as error:
        raise ValueError(str(error)) from None
    if isinstance(path, str):
        return path
    if path.is_absolute():
        if isinstance(folder, str) or not path.is_relative_to(folder.absolute()):
            raise ValueError(f"'{image}' is not below {folder}")
        path = path.relative_to(folder.absolute())
    if ".." in path.parts:
        raise ValueError(f"'{image}' leads out of {folder}")
    return path.as_posix()


def _check_features(values: NDArray[Any], name: str) -> None:
    if values.ndim != 2 or values.shape[0] < 1 or values.shape[1] < 1:
        raise CatalogError(f"{name}: a feature matrix has the shape (images, features), not {values.shape}")
    if values.dtype.kind not in "fiu":
        raise CatalogError(f"{name}: features are numbers, not {values.dtype}")
    if values.dtype.kind != "f":
        return
    block = max(1, (1 << 24) // (values.shape[1] * values.dtype.itemsize))
    for start in range(0, len(values), block):
        good = np.isfinite(values[start : start + block]).all(axis=1)
        if not good.all():
            row = start + int(np.flatnonzero(~good)[0])
            column = int(np.flatnonzero(~np.isfinite(values[row]))[0])
            raise CatalogError(
                f"{name}, row {row} (counted from 0), column {column}: {values[row, column]} is not a finite number"
            )
