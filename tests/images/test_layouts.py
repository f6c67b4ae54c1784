"""Folders and CSVs: what becomes a row, what is reported, what is an error."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from steelyard.errors import CatalogError, ImageError
from steelyard.images.catalog import Catalog
from steelyard.images.labels import Labels, grade_codes, order_grades, parse_labels
from steelyard.images.report import Duplicate, Noticed
from tests.images.drawn import draw, write


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
        assert "not used: note" in catalog.report.notes[0]
        assert "1 images without a group" in catalog.report.notes[1]

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
