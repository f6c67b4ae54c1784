"""Published data sets: LIMUC, HyperKvasir and MedMNIST, as they are downloaded."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from steelyard.errors import CatalogError
from steelyard.images.catalog import Catalog
from steelyard.images.report import SameName
from tests.images.drawn import draw, write

DATA = Path(os.environ.get("STEELYARD_DATA", Path(__file__).parents[3] / "shared" / "data"))


class TestLimuc:
    def make(self, root: Path) -> Path:
        folder = root / "patient_based_classified_images"
        for k, path in enumerate(["1/Mayo 0/x.bmp", "1/Mayo 2/y.bmp", "10/Mayo 0/x.bmp", "2/Mayo 3/z.bmp"]):
            draw(folder / path, k)
        return folder

    @pytest.mark.parametrize("inside", [False, True])
    def test_patients_and_grades(self, tmp_path: Path, inside: bool) -> None:
        folder = self.make(tmp_path)
        catalog = Catalog.from_limuc(folder if inside else tmp_path)
        assert catalog.paths.tolist() == [
            "1/Mayo 0/x.bmp",
            "1/Mayo 2/y.bmp",
            "10/Mayo 0/x.bmp",
            "2/Mayo 3/z.bmp",
        ]
        assert catalog.groups is not None
        assert catalog.groups.tolist() == ["1", "1", "10", "2"]
        assert catalog.grade_names == ("0", "2", "3")
        assert catalog.grades is not None
        assert catalog.grades.tolist() == [0, 1, 0, 2]

    def test_names_that_occur_twice_are_reported(self, tmp_path: Path) -> None:
        self.make(tmp_path)
        report = Catalog.from_limuc(tmp_path).report
        assert report.same_names == (SameName("x.bmp", ("1/Mayo 0/x.bmp", "10/Mayo 0/x.bmp")),)
        assert "the name of 2 different images" in str(report)

    def test_something_else(self, tmp_path: Path) -> None:
        draw(tmp_path / "a.png", 1)
        with pytest.raises(CatalogError, match="does not look like LIMUC"):
            Catalog.from_limuc(tmp_path)

    def test_a_stray_image(self, tmp_path: Path) -> None:
        draw(self.make(tmp_path) / "1" / "stray.bmp", 99)
        assert [n.path for n in Catalog.from_limuc(tmp_path).report.bad] == ["1/stray.bmp"]


class TestHyperkvasir:
    def test_in_between_grades_in_their_place(self, tmp_path: Path) -> None:
        base = tmp_path / "labeled-images" / "lower-gi-tract" / "pathological-findings"
        for k, grade in enumerate(["2-3", "1", "0-1", "3", "1-2", "2"]):
            draw(base / f"ulcerative-colitis-grade-{grade}" / "a.jpg", k * 40)
        draw(base / "polyps" / "a.jpg", 255)
        catalog = Catalog.from_hyperkvasir(tmp_path)
        assert catalog.grade_names == ("0-1", "1", "1-2", "2", "2-3", "3")
        assert len(catalog) == 6
        assert catalog.report.passed_over == (("images of other findings", 1),)

    def test_something_else(self, tmp_path: Path) -> None:
        draw(tmp_path / "a.jpg", 1)
        with pytest.raises(CatalogError, match="ulcerative-colitis-grade"):
            Catalog.from_hyperkvasir(tmp_path)

    @pytest.mark.realdata
    def test_the_real_one(self) -> None:
        catalog = Catalog.from_hyperkvasir(DATA / "hyperkvasir_uc", check=True)
        assert len(catalog) == 851
        assert catalog.grade_names == ("0-1", "1", "1-2", "2", "2-3", "3")
        assert catalog.grades is not None
        assert np.bincount(catalog.grades).tolist() == [35, 201, 11, 443, 28, 133]
        assert catalog.report.bad == ()
        assert catalog.duplicates() == ()
        assert catalog.read(0).shape == (256, 256, 3)


def medmnist(path: Path, *, compressed: bool, grey: bool = False, **changes: np.ndarray) -> Path:
    rng = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {}
    for split, n in (("train", 6), ("val", 2), ("test", 3)):
        shape = (n, 8, 8) if grey else (n, 8, 8, 3)
        arrays[f"{split}_images"] = rng.integers(0, 256, shape, dtype=np.uint8)
        arrays[f"{split}_labels"] = rng.integers(0, 3, (n, 1), dtype=np.uint8)
    (np.savez_compressed if compressed else np.savez)(path, **(arrays | changes))
    return path


class TestMedmnist:
    @pytest.mark.parametrize("compressed", [False, True])
    @pytest.mark.parametrize("grey", [False, True])
    def test_three_parts_together(self, tmp_path: Path, compressed: bool, grey: bool) -> None:
        path = medmnist(tmp_path / "m.npz", compressed=compressed, grey=grey)
        catalog = Catalog.from_medmnist(path)
        assert len(catalog) == 11
        assert catalog.official_split is not None
        assert catalog.official_split.tolist() == ["train"] * 6 + ["val"] * 2 + ["test"] * 3
        with np.load(path) as arrays:
            want = arrays["test_images"][1]
            labels = np.concatenate([arrays[f"{s}_labels"] for s in ("train", "val", "test")])[:, 0]
        assert (catalog.read(9) == (want[:, :, None] if grey else want)).all()
        assert catalog.grades is not None
        assert [catalog.grade_names[code] for code in catalog.grades] == [str(label) for label in labels]
        assert catalog.paths[9] == "m.npz#test/1"
        assert catalog.raw_path(9) is None

    def test_saved_and_moved(self, tmp_path: Path) -> None:
        catalog = Catalog.from_medmnist(medmnist(tmp_path / "m.npz", compressed=True))
        picture = catalog.read(7)
        catalog.save(tmp_path / "elsewhere" / "c.arrow")
        (tmp_path / "new").mkdir()
        (tmp_path / "m.npz").rename(tmp_path / "new" / "m.npz")
        opened = Catalog.open(tmp_path / "elsewhere" / "c.arrow").with_root(tmp_path / "new")
        assert (opened.subset([7]).read(0) == picture).all()

    def test_equal_pictures_are_duplicates(self, tmp_path: Path) -> None:
        images = np.zeros((2, 8, 8, 3), np.uint8)
        path = medmnist(tmp_path / "m.npz", compressed=True, val_images=images)
        catalog = Catalog.from_medmnist(path)
        assert len(catalog) == 10
        assert catalog.duplicates()[0].path == "m.npz#val/1"

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"val_images": np.zeros((2, 8, 8, 8), np.uint8)}, "val_images: expected uint8"),
            ({"val_images": np.zeros((2, 8, 8), np.float32)}, "val_images: expected uint8"),
            ({"test_labels": np.zeros((3, 14), np.uint8)}, "test_labels: expected one grade"),
            ({"test_labels": np.zeros((2, 1), np.uint8)}, "test_labels: expected one grade"),
        ],
    )
    def test_what_is_not_ordinal(self, tmp_path: Path, changes: dict[str, np.ndarray], message: str) -> None:
        with pytest.raises(CatalogError, match=message):
            Catalog.from_medmnist(medmnist(tmp_path / "m.npz", compressed=False, **changes))

    def test_no_such_arrays(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "m.npz", x=np.zeros(3))
        with pytest.raises(CatalogError, match="not a MedMNIST file"):
            Catalog.from_medmnist(tmp_path / "m.npz")
        write(tmp_path / "t.npz", "hello")
        with pytest.raises(CatalogError, match="not a NumPy file"):
            Catalog.from_medmnist(tmp_path / "t.npz")
        with pytest.raises(CatalogError, match="there is no file"):
            Catalog.from_medmnist(tmp_path / "missing.npz")

    def test_nothing_is_unpickled(self, tmp_path: Path) -> None:
        objects = np.array([{"a": 1}], dtype=object)
        for save, name in ((np.savez, "a.npz"), (np.savez_compressed, "b.npz")):
            save(tmp_path / name, train_images=objects, train_labels=objects)
            with pytest.raises(CatalogError, match="not a NumPy file"):
                Catalog.from_medmnist(tmp_path / name)

    @pytest.mark.realdata
    def test_the_real_one(self) -> None:
        catalog = Catalog.from_medmnist(DATA / "retinamnist" / "retinamnist.npz")
        assert len(catalog) == 1600
        assert catalog.grade_names == ("0", "1", "2", "3", "4")
        assert catalog.grades is not None
        assert np.bincount(catalog.grades).tolist() == [714, 186, 326, 282, 92]
        assert catalog.read(1599).shape == (28, 28, 3)
