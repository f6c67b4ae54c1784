"""Feature matrices and pictures in memory become catalogs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steelyard.errors import CatalogError, ImageError
from steelyard.images.catalog import Catalog
from tests.images.drawn import draw, write


class TestFeatures:
    MATRIX = np.arange(12, dtype=np.float32).reshape(4, 3)
    LABELS = "image,grade,group\na,1,p\nb,0,p\nc,1,q\nd,,q\n"

    def test_npy_is_mapped(self, tmp_path: Path) -> None:
        np.save(tmp_path / "f.npy", self.MATRIX)
        catalog = Catalog.from_features(tmp_path / "f.npy", write(tmp_path / "l.csv", self.LABELS))
        assert isinstance(catalog.features, np.memmap)
        assert (catalog.features == self.MATRIX).all()
        assert catalog.grades is not None
        assert catalog.grades.tolist() == [1, 0, 1, -1]
        assert catalog.groups is not None
        assert catalog.groups.tolist() == ["p", "p", "q", "q"]
        assert catalog.paths.tolist() == ["a", "b", "c", "d"]
        with pytest.raises(ImageError, match="made from features"):
            catalog.read(0)
        assert catalog.raw_path(0) is None

    def test_an_uncompressed_npz_is_mapped_too(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "f.npz", other=np.zeros(5), features=np.asfortranarray(self.MATRIX))
        features = Catalog.from_features(tmp_path / "f.npz").features
        assert isinstance(features, np.memmap)
        assert (features == self.MATRIX).all()

    def test_a_compressed_npz_is_read(self, tmp_path: Path) -> None:
        np.savez_compressed(tmp_path / "f.npz", anything=self.MATRIX)
        assert (Catalog.from_features(tmp_path / "f.npz").features == self.MATRIX).all()

    def test_saved_and_opened(self, tmp_path: Path) -> None:
        np.save(tmp_path / "f.npy", self.MATRIX)
        Catalog.from_features(tmp_path / "f.npy").save(tmp_path / "c.arrow")
        (tmp_path / "moved").mkdir()
        for name in ("f.npy", "c.arrow"):  # both below one folder: they move together
            (tmp_path / name).rename(tmp_path / "moved" / name)
        opened = Catalog.open(tmp_path / "moved" / "c.arrow")
        assert isinstance(opened.features, np.memmap)
        assert (opened.subset([2, 0]).features == self.MATRIX[[2, 0]]).all()

    def test_an_array_in_memory(self, tmp_path: Path) -> None:
        catalog = Catalog.from_features(self.MATRIX).subset([3, 1])
        catalog.save(tmp_path / "c.arrow")
        opened = Catalog.open(tmp_path / "c.arrow")
        assert isinstance(opened.features, np.memmap)
        assert (opened.features == self.MATRIX[[3, 1]]).all()
        assert opened.ids.tolist() == catalog.ids.tolist()

    def test_ids_follow_the_name_not_the_row(self, tmp_path: Path) -> None:
        a = Catalog.from_features(self.MATRIX, write(tmp_path / "a.csv", "image\na\nb\nc\nd\n"))
        b = Catalog.from_features(self.MATRIX, write(tmp_path / "b.csv", "image\nd\nc\nb\na\n"))
        assert a.ids.tolist() == b.ids.tolist()[::-1]

    def test_images_can_be_shown_where_there_are_some(self, tmp_path: Path) -> None:
        for k, name in enumerate("abcd"):
            draw(tmp_path / f"{name}.png", k)
        labels = write(tmp_path / "l.csv", "image\na.png\nb.png\nc.png\nd.png\n")
        catalog = Catalog.from_features(self.MATRIX, labels, root=tmp_path)
        assert catalog.read(1).shape == (4, 6, 3)
        assert catalog.raw_path(1) == tmp_path / "b.png"

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_values_that_are_not_finite_are_named(self, value: float) -> None:
        matrix = self.MATRIX.copy()
        matrix[2, 1] = value
        with pytest.raises(CatalogError, match=r"row 2 \(counted from 0\), column 1: .* not a finite number"):
            Catalog.from_features(matrix)

    def test_a_number_of_rows_that_does_not_match(self, tmp_path: Path) -> None:
        with pytest.raises(CatalogError, match="has 4 rows, but the array has 3"):
            Catalog.from_features(self.MATRIX[:3], write(tmp_path / "l.csv", self.LABELS))

    @pytest.mark.parametrize("shape", [(4,), (0, 3), (4, 0), (2, 2, 2)])
    def test_other_shapes(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(CatalogError, match="shape"):
            Catalog.from_features(np.zeros(shape))

    def test_no_numbers(self) -> None:
        with pytest.raises(CatalogError, match="features are numbers"):
            Catalog.from_features(np.array([["a"]]))

    def test_several_matrices(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "f.npz", x=self.MATRIX, y=self.MATRIX)
        with pytest.raises(CatalogError, match=r"2 arrays \(x, y\)"):
            Catalog.from_features(tmp_path / "f.npz")


class TestArrays:
    IMAGES = np.random.default_rng(0).integers(0, 256, (5, 6, 7, 3), dtype=np.uint8)

    @pytest.mark.parametrize("files", [False, True])
    def test_there_and_back(self, tmp_path: Path, files: bool) -> None:
        catalog = Catalog.from_arrays(
            self.IMAGES,
            groups=["a", "a", "b", "b", "c"],
            grades=[0, 1, 2, -1, 0],
            grade_names=("none", "some", "much"),
            root=tmp_path / "images" if files else None,
        )
        catalog.save(tmp_path / "c.arrow")
        opened = Catalog.open(tmp_path / "c.arrow")
        for k in range(5):
            assert (opened.read(k) == self.IMAGES[k]).all()
        assert opened.grades is not None
        assert opened.grades.tolist() == [0, 1, 2, -1, 0]
        assert opened.grade_names == ("none", "some", "much")
        assert opened.fingerprint() == catalog.fingerprint()
        assert (opened.raw_path(0) is not None) == files

    def test_mistakes(self) -> None:
        with pytest.raises(CatalogError, match="uint8"):
            Catalog.from_arrays(self.IMAGES.astype(float))  # type: ignore[arg-type]
        with pytest.raises(CatalogError, match="5 images but 2 grades"):
            Catalog.from_arrays(self.IMAGES, grades=[0, 1])
        with pytest.raises(CatalogError, match="codes 0 … 1 or −1"):
            Catalog.from_arrays(self.IMAGES, grades=[0, 1, 2, 0, 0], grade_names=("a", "b"))
