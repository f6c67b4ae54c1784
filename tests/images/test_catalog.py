"""The catalog: a table that stays on disk, ids that are found fast, folders that move."""

from __future__ import annotations

import hashlib
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from steelyard.errors import CatalogError, ImageError
from steelyard.images.catalog import Catalog
from steelyard.images.columns import Strings, hex_view


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Six images of three patients, graded 0 … 2, in `images/`, with a CSV."""
    rows = ["image,grade,group"]
    for k in range(6):
        path = tmp_path / "images" / f"p{k // 2}" / f"{k}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (40 * k, 0, 0)).save(path)
        rows.append(f"p{k // 2}/{k}.png,{k % 3},patient {k // 2}")
    (tmp_path / "labels.csv").write_text("\n".join(rows))
    return tmp_path


@pytest.fixture
def catalog(folder: Path) -> Catalog:
    return Catalog.from_csv(folder / "labels.csv", folder / "images")


def made(ids: list[str], **columns: list[object]) -> Catalog:
    """A catalog of made-up rows."""
    types = {"grade": pa.int64(), "group": pa.dictionary(pa.int32(), pa.string())}
    table = {
        "id": pa.array(ids, pa.large_string()),
        "path": pa.array([f"{id}.png" for id in ids], pa.large_string()),
    }
    table |= {name: pa.array(values, types[name]) for name, values in columns.items()}
    return Catalog(pa.table(table), root=Path("/nowhere"), grade_names=("0", "1"))


class TestColumns:
    def test_ids_are_hashes_of_the_bytes(self, catalog: Catalog) -> None:
        for row in range(len(catalog)):
            path = catalog.raw_path(row)
            assert path is not None
            assert catalog.ids[row] == hashlib.blake2b(path.read_bytes()).hexdigest()[:32]

    def test_ids_do_not_depend_on_place_or_name(self, catalog: Catalog, folder: Path) -> None:
        (folder / "images").rename(folder / "other")
        (folder / "other" / "p0" / "0.png").rename(folder / "other" / "renamed.png")
        assert set(Catalog.from_folder(folder / "other").ids) == set(catalog.ids)

    def test_numbers_and_names(self, catalog: Catalog) -> None:
        assert len(catalog) == 6
        assert catalog.grades is not None
        assert catalog.grades.tolist() == [0, 1, 2, 0, 1, 2]
        assert catalog.group_codes is not None
        assert catalog.group_codes.tolist() == [0, 0, 1, 1, 2, 2]
        assert catalog.read(3)[0, 0].tolist() == [120, 0, 0]
        assert "6 images" in repr(catalog)
        assert "0 < 1 < 2" in repr(catalog)


class TestStrings:
    def test_behave_like_an_array(self, catalog: Catalog) -> None:
        assert catalog.groups is not None
        for column in (catalog.ids, catalog.paths, catalog.groups):
            plain = np.array(column.tolist())
            assert isinstance(column, Strings)
            assert isinstance(column[2], str)
            assert column[-1] == plain[-1]
            assert column[np.int64(3)] == plain[3]
            assert (column[1:5:2] == plain[1:5:2]).all()
            assert (column[[4, -6, 4]] == plain[[4, -6, 4]]).all()
            assert (column[plain == plain[0]] == plain[plain == plain[0]]).all()
            assert (np.asarray(column) == plain).all()
            assert ((column == plain[0]) == (plain == plain[0])).all()
            assert ((column != plain[0]) == (plain != plain[0])).all()
            assert list(column) == plain.tolist()
            assert column.shape == plain.shape
            assert len(column[[]]) == 0

    @pytest.mark.parametrize("key", [6, -7, [0, 6], [-7], [True, False]])
    def test_outside_is_an_index_error(self, catalog: Catalog, key: object) -> None:
        with pytest.raises(IndexError):
            catalog.ids[key]  # type: ignore[call-overload]

    def test_show_their_beginning(self, catalog: Catalog) -> None:
        assert repr(catalog.paths) == "Strings(['p0/0.png', 'p0/1.png', 'p1/2.png', …], length 6)"


class TestFindingRows:
    @settings(max_examples=50, deadline=None)
    @given(st.lists(st.binary(min_size=16, max_size=16), unique=True, min_size=1, max_size=40), st.randoms())
    def test_every_id_is_found(self, keys: list[bytes], random: object) -> None:
        ids = [key.hex() for key in keys]
        catalog = made(ids)
        order = np.random.default_rng(len(ids)).permutation(len(ids))
        assert (catalog.rows_of([ids[k] for k in order]) == order).all()
        assert (catalog.rows_of(catalog.ids) == np.arange(len(ids))).all()
        assert catalog.index_of(ids[-1]) == len(ids) - 1

    @pytest.mark.parametrize("unknown", ["f" * 32, "0" * 32, "", "short", "x" * 99, "ä" * 32])
    def test_an_unknown_id_is_named(self, unknown: str) -> None:
        catalog = made(["a" * 32, "b" * 32])
        with pytest.raises(CatalogError, match=unknown[:40] or "''"):
            catalog.index_of(unknown)
        with pytest.raises(CatalogError):
            catalog.rows_of(["a" * 32, unknown])

    def test_in_an_empty_subset(self) -> None:
        empty = made(["a" * 32]).subset([])
        assert len(empty) == 0
        assert empty.rows_of([]).tolist() == []
        with pytest.raises(CatalogError):
            empty.index_of("a" * 32)


class TestSubset:
    def test_rows_and_masks(self, catalog: Catalog) -> None:
        some = catalog.subset([4, 0])
        assert some.paths.tolist() == ["p2/4.png", "p0/0.png"]
        assert some.grade_names == catalog.grade_names
        assert some.read(0)[0, 0, 0] == 160
        assert some.index_of(catalog.ids[0]) == 1
        assert catalog.grades is not None
        assert len(catalog.subset(catalog.grades == 1)) == 2
        assert some.subset([1]).ids.tolist() == [catalog.ids[0]]

    @pytest.mark.parametrize("rows", [[6], [-1], [1, 1]])
    def test_mistakes(self, catalog: Catalog, rows: list[int]) -> None:
        with pytest.raises(CatalogError, match=r"outside the 6 images|given twice"):
            catalog.subset(rows)


class TestFingerprint:
    A, B = "a" * 32, "b" * 32

    def test_changes_with_what_matters_only(self) -> None:
        base = made([self.A, self.B], grade=[0, 1], group=["x", "y"])
        assert base.fingerprint() == made([self.A, self.B], grade=[0, 1], group=["x", "y"]).fingerprint()
        others = [
            made([self.B, self.A], grade=[0, 1], group=["x", "y"]),
            made([self.A, self.B], grade=[1, 1], group=["x", "y"]),
            made([self.A, self.B], grade=[0, 1], group=["x", "x"]),
            made([self.A, self.B], grade=[0, 1], group=["x", "z"]),
            made([self.A, self.B], grade=[0, 1]),
            made([self.A, self.B], group=["x", "y"]),
        ]
        assert len({base.fingerprint(), *(other.fingerprint() for other in others)}) == 7
        assert base.with_root("/elsewhere").fingerprint() == base.fingerprint()

    def test_not_with_how_groups_are_numbered(self) -> None:
        three = made([self.A, self.B, "c" * 32], grade=[0, 1, 0], group=["z", "x", "y"])
        two = made([self.B, "c" * 32], grade=[1, 0], group=["x", "y"])
        assert three.subset([1, 2]).fingerprint() == two.fingerprint()

    def test_survives_saving(self, catalog: Catalog, tmp_path: Path) -> None:
        catalog.save(tmp_path / "c.arrow")
        assert Catalog.open(tmp_path / "c.arrow").fingerprint() == catalog.fingerprint()


class TestSaving:
    def test_everything_comes_back(self, catalog: Catalog, folder: Path) -> None:
        (folder / "images" / "bad.png").write_bytes(b"")
        catalog = Catalog.from_folder(folder / "images")
        catalog.save(folder / "deep" / "c.arrow")
        opened = Catalog.open(folder / "deep" / "c.arrow")
        assert opened.ids.tolist() == catalog.ids.tolist()
        assert opened.paths.tolist() == catalog.paths.tolist()
        assert opened.root == catalog.root
        assert opened.report == catalog.report
        assert opened.report.bad[0].path == "bad.png"
        assert (opened.read(5) == catalog.read(5)).all()
        assert opened.index_of(catalog.ids[4]) == 4

    def test_any_arrow_reader_can_read_it(self, catalog: Catalog, tmp_path: Path) -> None:
        catalog.save(tmp_path / "c.arrow")
        table = pa.ipc.open_file(tmp_path / "c.arrow").read_all()
        assert table.column("path").to_pylist() == catalog.paths.tolist()
        assert table.column("group").to_pylist()[0] == "patient 0"

    def test_saved_next_to_its_images_it_moves_with_them(
        self, catalog: Catalog, folder: Path, tmp_path: Path
    ) -> None:
        catalog.save(folder / "c.arrow")
        moved = tmp_path.parent / f"{tmp_path.name}-moved"
        folder.rename(moved)
        assert Catalog.open(moved / "c.arrow").read(1)[0, 0, 0] == 40

    def test_saved_over_itself_while_open(self, catalog: Catalog, tmp_path: Path) -> None:
        catalog.save(tmp_path / "c.arrow")
        first = Catalog.open(tmp_path / "c.arrow")
        first.subset([0, 1]).save(tmp_path / "c.arrow")
        assert len(Catalog.open(tmp_path / "c.arrow")) == 2
        assert first.ids.tolist() == catalog.ids.tolist()  # the old map is still whole
        assert [path.name for path in tmp_path.glob("*.part")] == []

    def test_a_failed_save_leaves_the_old_one(
        self, catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        catalog.save(tmp_path / "c.arrow")

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(CatalogError, match=r"cannot write the catalog .*No space left"):
            catalog.subset([0]).save(tmp_path / "c.arrow")
        assert len(Catalog.open(tmp_path / "c.arrow")) == 6
        assert list(tmp_path.glob("*.part")) == []

    def test_no_catalog(self, tmp_path: Path, catalog: Catalog) -> None:
        with pytest.raises(CatalogError, match="there is no catalog"):
            Catalog.open(tmp_path / "missing.arrow")
        (tmp_path / "text.arrow").write_text("hello")
        with pytest.raises(CatalogError, match="not a catalog or is damaged"):
            Catalog.open(tmp_path / "text.arrow")
        table = pa.table({"x": [1]})
        with (
            pa.OSFile(str(tmp_path / "other.arrow"), "wb") as file,
            pa.ipc.new_file(file, table.schema) as writer,
        ):
            writer.write_table(table)
        with pytest.raises(CatalogError, match="not a catalog of format 1"):
            Catalog.open(tmp_path / "other.arrow")
        catalog.save(tmp_path / "c.arrow")
        data = (tmp_path / "c.arrow").read_bytes()
        (tmp_path / "c.arrow").write_bytes(data[: len(data) // 2])
        with pytest.raises(CatalogError, match="not a catalog or is damaged"):
            Catalog.open(tmp_path / "c.arrow")

    @pytest.mark.parametrize("opened", [False, True])
    def test_goes_to_other_processes(self, catalog: Catalog, tmp_path: Path, opened: bool) -> None:
        if opened:
            catalog.save(tmp_path / "c.arrow")
            catalog = Catalog.open(tmp_path / "c.arrow")
        copy = pickle.loads(pickle.dumps(catalog))
        assert copy.fingerprint() == catalog.fingerprint()
        assert (copy.read(2) == catalog.read(2)).all()
        assert copy.index_of(catalog.ids[3]) == 3


class TestMoving:
    def test_with_root(self, catalog: Catalog, folder: Path) -> None:
        (folder / "images").rename(folder / "moved")
        with pytest.raises(ImageError, match="is missing"):
            catalog.read(0)
        assert catalog.with_root(folder / "moved").read(2)[0, 0, 0] == 80

    def test_relocate_finds_renamed_files_and_names_the_missing(self, catalog: Catalog, folder: Path) -> None:
        (folder / "images").rename(folder / "moved")
        (folder / "moved" / "p0" / "0.png").rename(folder / "moved" / "renamed.png")
        (folder / "moved" / "p1" / "3.png").unlink()
        found = catalog.relocate(folder / "moved")
        assert found.missing == ("p1/3.png",)
        assert found.moved == 1
        assert found.catalog.paths.tolist() == [
            "renamed.png", "p0/1.png", "p1/2.png", "p1/3.png", "p2/4.png", "p2/5.png",
        ]  # fmt: skip
        assert found.catalog.read(0)[0, 0, 0] == 0
        assert found.catalog.fingerprint() == catalog.fingerprint()

    def test_only_files(self) -> None:
        with pytest.raises(CatalogError, match="use with_root"):
            Catalog.from_features(np.zeros((2, 2))).relocate(".")

    def test_verify(self, catalog: Catalog, folder: Path) -> None:
        assert catalog.verify() == ()
        images = folder / "images"
        (images / "p0" / "1.png").unlink()
        (images / "p1" / "2.png").write_bytes(b"GIF89a")
        Image.new("RGB", (8, 8), (1, 2, 3)).save(images / "p2" / "5.png")
        noticed = {n.path: n.reason for n in catalog.verify()}
        assert set(noticed) == {"p0/1.png", "p1/2.png", "p2/5.png"}
        assert "missing" in noticed["p0/1.png"]
        assert "truncated" in noticed["p1/2.png"]
        assert "other bytes" in noticed["p2/5.png"]


class TestReading:
    def test_many(self, catalog: Catalog, folder: Path) -> None:
        (folder / "images" / "p1" / "2.png").write_bytes(b"")
        reading = catalog.read_many([5, 2, 0], size=4)
        got = dict(reading)
        assert {position: int(rgb[0, 0, 0]) for position, rgb in got.items()} == {0: 200, 2: 0}
        assert got[0].shape == (4, 4, 3)
        assert [position for position, _ in reading.failures] == [1]
        with pytest.raises(ImageError, match=r"2\.png: is empty"):
            list(catalog.read_many(on_error="fail"))

    def test_the_limit_on_size_is_remembered(self, folder: Path) -> None:
        catalog = Catalog.from_folder(folder / "images", max_megapixels=0.00001)
        catalog.save(folder / "c.arrow")
        with pytest.raises(ImageError, match="megapixels"):
            Catalog.open(folder / "c.arrow").read(0)


class TestLarge:
    def test_opening_and_looking_up_does_not_load_the_rows(self, tmp_path: Path) -> None:
        # A million rows, opened in a fresh process: its memory grows by far less than the file.
        n = 1_000_000
        digits = np.random.default_rng(0).bytes(16 * n).hex().encode()
        offsets = pa.py_buffer(np.arange(0, 32 * n + 1, 32, dtype=np.int64))
        ids = pa.Array.from_buffers(pa.large_string(), n, [None, offsets, pa.py_buffer(digits)])
        table = pa.table({"id": ids, "path": ids, "grade": pa.array(np.arange(n) % 4)})
        Catalog(table, root=Path("/nowhere"), grade_names=("0", "1", "2", "3")).save(tmp_path / "big.arrow")
        size = (tmp_path / "big.arrow").stat().st_size
        assert size > 80e6
        code = f"""
            import resource
            import pyarrow, numpy
            from steelyard.images.catalog import Catalog
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            catalog = Catalog.open({str(tmp_path / "big.arrow")!r})
            assert len(catalog) == {n}
            assert catalog.index_of(catalog.ids[777_777]) == 777_777
            assert catalog.grades[5] == 1
            assert pyarrow.total_allocated_bytes() < 1_000_000
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
        )
        assert int(done.stdout) * 1024 < size / 4

    def test_ids_are_seen_without_a_copy(self, tmp_path: Path) -> None:
        made([f"{k:032x}" for k in range(100)]).save(tmp_path / "c.arrow")
        opened = Catalog.open(tmp_path / "c.arrow")
        view = hex_view(opened.ids.arrow)
        assert not view.flags.owndata
        assert view[7] == b"%032x" % 7
        assert pa.total_allocated_bytes() < 1_000_000

    def test_ids_of_another_length_are_refused(self) -> None:
        with pytest.raises(CatalogError, match="32 hex digits"):
            made(["abc"])


def test_no_pandas() -> None:
    code = """
        import sys, tempfile, numpy
        from steelyard.images.catalog import Catalog
        catalog = Catalog.from_arrays(numpy.zeros((1, 4, 4, 3), numpy.uint8), grades=[0])
        catalog.save(tempfile.mkdtemp() + "/c.arrow")
        catalog.subset([0]).read(0)
        catalog.index_of(catalog.ids[0])
        assert not {"pandas", "torch", "sklearn", "pydicom"} & set(sys.modules)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
