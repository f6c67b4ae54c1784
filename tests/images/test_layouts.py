"""Every layout: what becomes a row, what is reported, what is an error."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from steelyard.errors import CatalogError, ImageError
from steelyard.images.catalog import Catalog
from steelyard.images.labels import Labels, grade_codes, order_grades, parse_labels
from steelyard.images.report import Duplicate, Noticed, SameName

DATA = Path(os.environ.get("STEELYARD_DATA", Path(__file__).parents[3] / "shared" / "data"))


def draw(path: Path, value: int) -> None:
    """A picture of its own for each value."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (6, 4), (value, 255 - value, 7)).save(path)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


class TestFolder:
    def test_recursive_and_sorted(self, tmp_path: Path) -> None:
        for k, name in enumerate(["b/2.png", "a/x/1.JPG", "c.bmp", "a/0.tif", "w.webp"]):
            draw(tmp_path / name, k)
        catalog = Catalog.from_folder(tmp_path)
        assert catalog.paths.tolist() == ["a/0.tif", "a/x/1.JPG", "b/2.png", "c.bmp", "w.webp"]
        assert catalog.groups is None
        assert catalog.grades is None
        assert catalog.grade_names == ()
        assert catalog.read(2).shape == (4, 6, 3)

    def test_other_files_are_counted_and_hidden_ones_are_not_seen(self, tmp_path: Path) -> None:
        draw(tmp_path / "a.png", 1)
        draw(tmp_path / ".thumbs" / "a.png", 2)
        draw(tmp_path / "__MACOSX" / "a.png", 3)
        draw(tmp_path / "._a.png", 4)
        for name in ("labels.csv", "notes.txt", "more.txt", "README"):
            write(tmp_path / name, "x")
        catalog = Catalog.from_folder(tmp_path)
        assert catalog.paths.tolist() == ["a.png"]
        assert catalog.report.passed_over == (("", 1), (".csv", 1), (".txt", 2))

    def test_bad_files_are_reported_and_the_rest_stays(self, tmp_path: Path) -> None:
        draw(tmp_path / "good.png", 1)
        (tmp_path / "empty.jpg").write_bytes(b"")
        write(tmp_path / "page.jpg", "<html>")
        (tmp_path / "lost.png").symlink_to(tmp_path / "nowhere.png")
        catalog = Catalog.from_folder(tmp_path)
        assert catalog.paths.tolist() == ["good.png"]
        assert [(n.path, n.reason.split(":")[0]) for n in catalog.report.bad] == [
            ("empty.jpg", "is empty (0 bytes)"),
            ("lost.png", "is missing"),
            ("page.jpg", "is not an image"),
        ]
        with pytest.raises(ImageError, match=r"empty\.jpg: is empty"):
            Catalog.from_folder(tmp_path, on_error="fail")

    def test_damage_is_found_when_checked_else_when_read(self, tmp_path: Path) -> None:
        draw(tmp_path / "good.png", 1)
        draw(tmp_path / "cut.bmp", 2)
        (tmp_path / "cut.bmp").write_bytes((tmp_path / "cut.bmp").read_bytes()[:70])
        assert len(Catalog.from_folder(tmp_path)) == 2
        with pytest.raises(ImageError, match="truncated"):
            Catalog.from_folder(tmp_path).read(0)
        checked = Catalog.from_folder(tmp_path, check=True)
        assert checked.paths.tolist() == ["good.png"]
        assert checked.report.bad[0].path == "cut.bmp"
        assert "truncated" in checked.report.bad[0].reason

    def test_a_bomb_is_found_when_checked(self, tmp_path: Path) -> None:
        draw(tmp_path / "a.png", 1)
        Image.new("1", (3000, 3000)).save(tmp_path / "b.png")
        catalog = Catalog.from_folder(tmp_path, check=True, max_megapixels=1)
        assert [n.path for n in catalog.report.bad] == ["b.png"]

    def test_a_misleading_suffix_is_reported_and_read(self, tmp_path: Path) -> None:
        draw(tmp_path / "a.png", 1)
        (tmp_path / "a.png").rename(tmp_path / "a.jpg")
        catalog = Catalog.from_folder(tmp_path)
        assert catalog.report.mislabelled == (Noticed("a.jpg", "is named .jpg but holds PNG"),)
        assert catalog.read(0).shape == (4, 6, 3)

    def test_of_equal_files_the_first_stays(self, tmp_path: Path) -> None:
        for name in ("b.png", "a.png", "z/a.png"):
            draw(tmp_path / name, 5)
        draw(tmp_path / "other.png", 6)
        catalog = Catalog.from_folder(tmp_path)
        assert catalog.paths.tolist() == ["a.png", "other.png"]
        assert catalog.duplicates() == (Duplicate("b.png", "a.png"), Duplicate("z/a.png", "a.png"))

    def test_links_in_a_circle(self, tmp_path: Path) -> None:
        draw(tmp_path / "deep" / "a.png", 1)
        (tmp_path / "deep" / "again").symlink_to(tmp_path, target_is_directory=True)
        assert Catalog.from_folder(tmp_path).paths.tolist() == ["deep/a.png"]

    def test_a_name_that_is_no_unicode(self, tmp_path: Path) -> None:
        draw(tmp_path / "a.png", 1)
        draw(tmp_path / "b.png", 2)
        (tmp_path / "b.png").rename(tmp_path / os.fsdecode(b"b\xff.png"))
        catalog = Catalog.from_folder(tmp_path)
        assert catalog.paths.tolist() == ["a.png"]
        assert "not valid UTF-8" in catalog.report.bad[0].reason

    def test_names_in_any_script(self, tmp_path: Path) -> None:
        draw(tmp_path / "患者 1" / "Größe 📷.png", 1)
        assert Catalog.from_folder(tmp_path).read(0).shape == (4, 6, 3)

    def test_nothing_there(self, tmp_path: Path) -> None:
        with pytest.raises(CatalogError, match="no images in"):
            Catalog.from_folder(tmp_path)
        with pytest.raises(CatalogError, match="no folder"):
            Catalog.from_folder(tmp_path / "missing")
        (tmp_path / "a.jpg").write_bytes(b"")
        with pytest.raises(CatalogError, match=r"a\.jpg: is empty"):
            Catalog.from_folder(tmp_path)

    def test_progress_and_threads(self, tmp_path: Path) -> None:
        for k in range(40):
            draw(tmp_path / f"{k:02}.png", k)
        seen: list[tuple[int, int]] = []
        many = Catalog.from_folder(
            tmp_path, workers=8, progress=lambda done, total, _: seen.append((done, total))
        )
        assert seen == [(k, 40) for k in range(1, 41)]
        assert many.ids.tolist() == Catalog.from_folder(tmp_path, workers=1).ids.tolist()


class TestGradeFolders:
    def test_numbers_in_numeric_order(self, tmp_path: Path) -> None:
        for k, grade in enumerate(["10", "9", "2"]):
            draw(tmp_path / grade / "x.png", k)
        catalog = Catalog.from_grades(tmp_path)
        assert catalog.grade_names == ("2", "9", "10")
        assert catalog.grades is not None
        assert dict(zip(catalog.paths, catalog.grades.tolist(), strict=True)) == {
            "10/x.png": 2, "2/x.png": 0, "9/x.png": 1,
        }  # fmt: skip
        assert catalog.report.notes == ()

    def test_names_in_natural_order_which_is_said(self, tmp_path: Path) -> None:
        for k, grade in enumerate(["stage 10", "stage 9", "Stage 1"]):
            draw(tmp_path / grade / "deeper" / "x.png", k)
        catalog = Catalog.from_grades(tmp_path)
        assert catalog.grade_names == ("Stage 1", "stage 9", "stage 10")
        assert "ordered by name" in catalog.report.notes[0]

    def test_names_in_a_given_order(self, tmp_path: Path) -> None:
        for k, grade in enumerate(["severe", "mild", "moderate"]):
            draw(tmp_path / grade / "x.png", k)
        names = ("healthy", "mild", "moderate", "severe")
        catalog = Catalog.from_grades(tmp_path, grade_names=names)
        assert catalog.grade_names == names
        assert catalog.grades is not None
        assert catalog.grades.tolist() == [1, 2, 3]
        with pytest.raises(
            CatalogError, match=r"'severe' is none of mild, moderate, sever – did you mean 'sever'\?"
        ):
            Catalog.from_grades(tmp_path, grade_names=("mild", "moderate", "sever"))

    def test_images_outside(self, tmp_path: Path) -> None:
        draw(tmp_path / "0" / "a.png", 0)
        draw(tmp_path / "loose.png", 1)
        assert Catalog.from_grades(tmp_path).report.bad == (Noticed("loose.png", "lies in no grade folder"),)
        with pytest.raises(ImageError, match="no grade folder"):
            Catalog.from_grades(tmp_path, on_error="fail")

    def test_a_duplicate_with_another_grade_is_a_conflict(self, tmp_path: Path) -> None:
        draw(tmp_path / "0" / "a.png", 0)
        draw(tmp_path / "3" / "a.png", 0)
        (duplicate,) = Catalog.from_grades(tmp_path).duplicates()
        assert str(duplicate) == "3/a.png: same bytes as 0/a.png, but grade 3 instead of 0"


class TestCsv:
    def test_all_columns(self, tmp_path: Path) -> None:
        for k in range(4):
            draw(tmp_path / "sub" / f"{k}.png", k)
        text = "Group, Image ,note,GRADE\nanna,sub/0.png,x,2.0\nbob,sub\\1.png,,0\nanna,sub/2.png,,\n,sub/3.png,,10\n"
        catalog = Catalog.from_csv(write(tmp_path / "l.csv", "\ufeff" + text))
        assert catalog.paths.tolist() == [f"sub/{k}.png" for k in range(4)]
        assert catalog.grade_names == ("0", "2", "10")
        assert catalog.grades is not None
        assert catalog.grades.tolist() == [1, 0, -1, 2]
        assert catalog.groups is not None
        assert catalog.groups[:3].tolist() == ["anna", "bob", "anna"]
        assert catalog.groups[3] == catalog.ids[3]
        assert "1 images without a group" in catalog.report.notes[0]

    @pytest.mark.parametrize("delimiter", [",", ";", "\t"])
    def test_delimiters(self, tmp_path: Path, delimiter: str) -> None:
        draw(tmp_path / "a.png", 0)
        text = delimiter.join(["image", "grade"]) + "\r\n" + delimiter.join(["a.png", "1"]) + "\r\n\r\n"
        assert Catalog.from_csv(write(tmp_path / "l.csv", text)).grade_names == ("1",)

    def test_only_images(self, tmp_path: Path) -> None:
        draw(tmp_path / "images" / "a.png", 0)
        catalog = Catalog.from_csv(write(tmp_path / "l.csv", "image,grade\na.png,\n"), tmp_path / "images")
        assert catalog.grades is None
        assert catalog.grade_names == ()
        assert catalog.groups is None

    def test_missing_files_are_reported(self, tmp_path: Path) -> None:
        draw(tmp_path / "a.png", 0)
        labels = write(tmp_path / "l.csv", "image,grade\na.png,0\nb.png,1\n")
        catalog = Catalog.from_csv(labels)
        assert len(catalog) == 1
        assert "b.png: is missing" in str(catalog.report.bad[0])
        with pytest.raises(ImageError, match=r"b\.png: is missing"):
            Catalog.from_csv(labels, on_error="fail")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "is empty"),
            ("\n\n", "is empty"),
            ("image,grade\n", "no rows"),
            ("file,grade\na.png,1\n", "no column 'image' .*file, grade"),
            ("image,image\na,b\n", "two columns are named 'image'"),
            ("image,grade\na.png\n", "line 2: 1 cells, but 2 columns"),
            ("image,grade\na.png,1\n,2\n", "line 3, column image: empty"),
            ("image,grade\na.png,1\nb.png,1\na.png,2\n", "line 4, column image: 'a.png' was on line 2"),
            ("image,grade\n../a.png,1\n", "line 2, column image: '../a.png' leads out of"),
            ("image,grade\n/etc/passwd,1\n", "line 2, column image: '/etc/passwd' is not below"),
            ('image,grade\n"a.png,1\nb.png,2\n', "not a CSV row"),
        ],
    )
    def test_mistakes_are_named_by_line_and_column(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(CatalogError, match=message):
            Catalog.from_csv(write(tmp_path / "l.csv", text))

    def test_no_file_and_no_text(self, tmp_path: Path) -> None:
        with pytest.raises(CatalogError, match="no labels file"):
            Catalog.from_csv(tmp_path / "l.csv")
        (tmp_path / "l.csv").write_bytes("image\nGröße.png\n".encode("latin-1"))
        with pytest.raises(CatalogError, match="not UTF-8"):
            Catalog.from_csv(tmp_path / "l.csv")

    CELL = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)

    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        st.lists(
            st.tuples(CELL.filter(str.strip), CELL, CELL),
            min_size=1,
            max_size=8,
            unique_by=lambda r: r[0].strip(),
        ),
        st.permutations(["image", "grade", "group"]),
    )
    def test_what_a_csv_writer_wrote_is_read(
        self, rows: list[tuple[str, str, str]], order: list[str]
    ) -> None:
        buffer = io.StringIO(newline="")
        writer = csv.DictWriter(buffer, order)
        writer.writeheader()
        writer.writerows([dict(zip(("image", "grade", "group"), row, strict=True)) for row in rows])
        labels = parse_labels(buffer.getvalue())
        images, grades, groups = ([cell.strip() for cell in column] for column in zip(*rows, strict=True))
        assert labels.images == images
        assert labels.grades == (grades if any(grades) else None)
        assert labels.groups == (groups if any(groups) else None)

    @settings(max_examples=150, deadline=None)
    @given(
        st.text(max_size=60)
        | st.text(alphabet='image,grade\n"; \t\r\0', max_size=60).map("image,grade\n".__add__)
    )
    def test_any_text_is_labels_or_a_catalog_error(self, text: str) -> None:
        try:
            labels = parse_labels(text)
        except CatalogError:
            return
        assert isinstance(labels, Labels)
        assert len(labels.images) == len(set(labels.images)) == len(labels.lines) > 0

    @given(st.lists(st.integers(-50, 50), min_size=1))
    def test_numbers_are_ordered_by_value(self, values: list[int]) -> None:
        codes, names = grade_codes([str(value) for value in values])
        assert [int(name) for name in names] == sorted(set(values))
        assert [int(names[code]) for code in codes] == values

    @given(st.lists(st.text(max_size=5)))
    def test_the_order_of_grades_does_not_depend_on_the_order_of_rows(self, labels: list[str]) -> None:
        assert order_grades(labels) == order_grades(labels[::-1])
        assert sorted(order_grades(labels)) == sorted({label for label in labels if label})


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
