"""The cache: each row computed once, whole after a kill, right with several writers."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.errors import CatalogError, ImageError
from steelyard.images import cache
from steelyard.images.cache import UnreadableImages, cached_pixels, cached_rows, kept_rows
from steelyard.images.catalog import Catalog
from steelyard.images.files import content_id


def ids_of(n: int) -> list[str]:
    return [content_id(str(k).encode()) for k in range(n)]


class Counting:
    """Row k is [number of image k, …]; remembers what it was asked for."""

    def __init__(self, ids: list[str], bad: tuple[int, ...] = ()) -> None:
        numbers = {id: k for k, id in enumerate(ids_of(1000))}
        self.numbers = np.array([numbers[id] for id in ids])
        self.bad = set(bad)
        self.asked: list[list[int]] = []

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        self.asked.append(self.numbers[positions].tolist())
        for position in positions.tolist():
            if position in self.bad:
                raise ImageError(f"{position}.png", "is truncated")
        return np.repeat(self.numbers[positions][:, None], 3, axis=1).astype(np.float32)


SETTINGS: dict[str, Any] = {"backbone": "x", "size": 8}


def get(folder: Path, ids: list[str], compute: Any, **options: Any) -> np.ndarray:
    given = {"row_shape": (3,), "dtype": np.float32, "settings": SETTINGS, "batch": 10}
    return cached_rows(folder, ids, compute, **(given | options))


class TestRows:
    def test_computed_once(self, tmp_path: Path) -> None:
        ids = ids_of(25)
        compute = Counting(ids)
        first = get(tmp_path, ids, compute)
        assert [len(batch) for batch in compute.asked] == [10, 10, 5]
        second = get(tmp_path, ids, compute)
        assert len(compute.asked) == 3
        assert (first[:, 0] == np.arange(25)).all()
        assert (second == first).all()

    def test_only_the_missing_ones(self, tmp_path: Path) -> None:
        get(tmp_path, ids_of(20)[5:15], Counting(ids_of(20)[5:15]))
        compute = Counting(ids_of(20))
        assert (get(tmp_path, ids_of(20), compute)[:, 0] == np.arange(20)).all()
        assert sorted(k for asked in compute.asked for k in asked) == [*range(5), *range(15, 20)]

    def test_in_the_order_of_the_ids(self, tmp_path: Path) -> None:
        ids = ids_of(30)
        get(tmp_path, ids, Counting(ids))
        order = np.random.default_rng(0).permutation(30)[:20]
        asked = [ids[k] for k in order]
        assert (get(tmp_path, asked, Counting(asked))[:, 0] == order).all()

    def test_a_map_where_the_order_matches_and_no_copy(self, tmp_path: Path) -> None:
        ids = ids_of(30)
        for asked in (ids, ids[7:19]):
            rows = get(tmp_path, asked, Counting(asked))
            assert isinstance(rows, np.memmap)
            assert not rows.flags.owndata
            assert not rows.flags.writeable
        assert not isinstance(get(tmp_path, ids[::-1], Counting(ids[::-1])), np.memmap)

    def test_other_settings_are_another_cache(self, tmp_path: Path) -> None:
        ids = ids_of(5)
        get(tmp_path, ids, Counting(ids))
        for options in (
            {"settings": {"backbone": "y", "size": 8}},
            {"dtype": np.float16},
            {"dtype": np.float64},
        ):
            compute = Counting(ids)
            get(tmp_path, ids, compute, **options)
            assert compute.asked, options
        same = Counting(ids)
        get(tmp_path, ids, same, settings={"size": 8, "backbone": "x"})
        assert not same.asked

    def test_ids_of_any_form(self, tmp_path: Path) -> None:
        ids = ["a", "ä" * 40, "x y", "0" * 32]
        rows = get(tmp_path, ids, lambda p: np.repeat(p[:, None], 3, axis=1).astype(np.float32))
        assert rows[:, 0].tolist() == [0, 1, 2, 3]
        again = get(tmp_path, ids[::-1], lambda _: pytest.fail("was cached"))
        assert again[:, 0].tolist() == [3, 2, 1, 0]

    def test_an_id_twice_is_computed_once(self, tmp_path: Path) -> None:
        ids = ids_of(3) + ids_of(2)
        compute = Counting(ids)
        assert get(tmp_path, ids, compute)[:, 0].tolist() == [0, 1, 2, 0, 1]
        assert compute.asked == [[0, 1, 2]]

    def test_no_ids(self, tmp_path: Path) -> None:
        assert get(tmp_path, [], lambda _: pytest.fail("nothing to compute")).shape == (0, 3)

    def test_progress(self, tmp_path: Path) -> None:
        seen: list[tuple[int, int]] = []
        ids = ids_of(25)
        get(tmp_path, ids, Counting(ids), progress=lambda done, total, _: seen.append((done, total)))
        assert seen == [(0, 25), (10, 25), (20, 25), (25, 25)]

    def test_progress_counts_what_was_there_before(self, tmp_path: Path) -> None:
        """Whoever goes on after an interruption sees how far the whole is, not the rest of it."""
        seen: list[tuple[int, int]] = []
        ids = ids_of(25)
        get(tmp_path, ids[:12], Counting(ids[:12]))
        get(tmp_path, ids, Counting(ids), progress=lambda done, total, _: seen.append((done, total)))
        assert seen == [(12, 25), (22, 25), (25, 25)]
        get(tmp_path, ids, Counting(ids), progress=lambda *_: pytest.fail("nothing was computed"))

    def test_rows_that_are_kept_are_found_without_their_shape(self, tmp_path: Path) -> None:
        ids = ids_of(12)
        assert kept_rows(tmp_path, ids, SETTINGS) is None
        rows = get(tmp_path, ids[:10], Counting(ids))
        get(tmp_path, ids, Counting(ids), settings={**SETTINGS, "size": 7})
        found = kept_rows(tmp_path, ids[:10], SETTINGS)
        assert found is not None
        assert np.array_equal(found, rows)
        assert kept_rows(tmp_path, ids, SETTINGS) is None, "two are missing"
        assert kept_rows(tmp_path, ids[3:6], SETTINGS).tolist() == rows[3:6].tolist()  # type: ignore[union-attr]

    def test_a_damaged_description_hides_a_cache_and_breaks_nothing(self, tmp_path: Path) -> None:
        ids = ids_of(4)
        get(tmp_path, ids, Counting(ids))
        next(tmp_path.glob("*/settings.json")).write_text("{", encoding="utf-8")
        assert kept_rows(tmp_path, ids, SETTINGS) is None

    def test_a_complete_cache_needs_no_permission_to_write(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ids = ids_of(5)
        get(tmp_path, ids, Counting(ids))
        monkeypatch.setattr(cache, "_write", lambda *_: pytest.fail("wrote"))
        monkeypatch.setattr("filelock.FileLock", lambda *_, **__: pytest.fail("locked"))
        assert get(tmp_path, ids, Counting(ids)).shape == (5, 3)


class TestMistakes:
    def test_a_wrong_shape(self, tmp_path: Path) -> None:
        with pytest.raises(CatalogError, match=r"\(5, 4\), expected \(5, 3\)"):
            get(tmp_path, ids_of(5), lambda p: np.zeros((len(p), 4), np.float32))

    @pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
    def test_rows_that_are_not_finite(self, tmp_path: Path, value: float) -> None:
        def compute(positions: np.ndarray) -> np.ndarray:
            rows = np.zeros((len(positions), 3))
            rows[2, 1] = value
            return rows

        with pytest.raises(CatalogError, match=f"{ids_of(3)[2]} is not finite"):
            get(tmp_path, ids_of(5), compute)
        compute_again = Counting(ids_of(5))
        get(tmp_path, ids_of(5), compute_again)
        assert compute_again.asked == [[0, 1, 2, 3, 4]]

    def test_settings_that_are_no_json(self, tmp_path: Path) -> None:
        with pytest.raises(CatalogError, match="plain JSON"):
            get(tmp_path, ids_of(2), Counting(ids_of(2)), settings={"x": object()})

    def test_a_full_disk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(cache, "_write", full)
        with pytest.raises(CatalogError, match="No space left on device; free some space"):
            get(tmp_path, ids_of(2), Counting(ids_of(2)))


class TestUnreadableImages:
    def test_everything_else_is_kept(self, tmp_path: Path) -> None:
        ids = ids_of(40)
        compute = Counting(ids, bad=(3, 17, 18))
        with pytest.raises(UnreadableImages) as caught:
            get(tmp_path, ids, compute)
        error = caught.value
        assert error.positions == [3, 17, 18]
        assert [e.path for _, e in error.failures] == ["3.png", "17.png", "18.png"]
        assert str(error) == "3.png: is truncated (and 2 more unreadable images)"
        good = [id for k, id in enumerate(ids) if k not in error.positions]
        again = Counting(good)
        assert get(tmp_path, good, again)[:, 0].tolist() == [k for k in range(40) if k not in error.positions]
        assert not again.asked

    def test_fail_keeps_the_batches_before(self, tmp_path: Path) -> None:
        ids = ids_of(40)
        with pytest.raises(ImageError, match="17"):
            get(tmp_path, ids, Counting(ids, bad=(17,)), on_error="fail")
        again = Counting(ids)
        get(tmp_path, ids, again)
        assert again.asked[0] == list(range(10, 20))

    def test_all_bad(self, tmp_path: Path) -> None:
        ids = ids_of(12)
        with pytest.raises(UnreadableImages) as caught:
            get(tmp_path, ids, Counting(ids, bad=tuple(range(12))))
        assert caught.value.positions == list(range(12))

    def test_crosses_process_borders(self) -> None:
        error = UnreadableImages([(3, ImageError("a.png", "is empty"))])
        copy = pickle.loads(pickle.dumps(error))
        assert copy.positions == [3]
        assert str(copy) == str(error)


WRITER = """
import sys, time
import numpy as np
from steelyard.images.cache import cached_rows
folder, start, stop, pause = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
step = 1 if start < stop else -1
numbers = np.arange(start, stop, step)
def compute(positions):
    time.sleep(pause)
    print(len(positions), flush=True)
    return np.repeat(numbers[positions][:, None], 20000, axis=1).astype(np.float32)
rows = cached_rows(folder, [f"{n:032d}" for n in numbers], compute, row_shape=(20000,), dtype=np.float32,
                   settings={"x": 1}, batch=5)
assert (rows == numbers[:, None]).all(), "wrong rows"
"""


def writer(folder: Path, start: int, stop: int, pause: float = 0.0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(folder), str(start), str(stop), str(pause)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def big(folder: Path, n: int, compute: Any) -> np.ndarray:
    ids = [f"{k:032d}" for k in range(n)]
    return cached_rows(folder, ids, compute, row_shape=(20000,), dtype=np.float32, settings={"x": 1}, batch=5)


class TestKilledWhileWriting:
    def test_kill_9_leaves_whole_rows_only(self, tmp_path: Path) -> None:
        # Several times at different moments; rows of 80 kB make writing a large part of the time.
        asked: list[int] = []

        def compute(positions: np.ndarray) -> np.ndarray:
            asked.extend(positions.tolist())
            return np.repeat(positions[:, None], 20000, axis=1).astype(np.float32)

        for _ in range(3):
            process = writer(tmp_path, 0, 2000)
            assert process.stdout is not None
            for _ in range(8):  # it is in the middle of its work
                process.stdout.readline()
            time.sleep(0.003)
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
        (index,) = tmp_path.glob("*/ids.dat")
        kept = index.stat().st_size // 32
        assert 0 < kept < 2000
        rows = big(tmp_path, kept, lambda _: pytest.fail("these were whole"))
        assert (rows == np.arange(kept)[:, None]).all()
        rows = big(tmp_path, kept + 40, compute)
        assert (rows == np.arange(kept + 40)[:, None]).all()
        assert asked == list(range(kept, kept + 40))

    @pytest.mark.parametrize("torn_rows", [0, 5, 79_999, 80_000, 200_001])
    @pytest.mark.parametrize("torn_ids", [b"", b"0" * 7, bytes(32), bytes(70)])
    def test_every_kind_of_torn_end(self, tmp_path: Path, torn_rows: int, torn_ids: bytes) -> None:
        def compute(positions: np.ndarray) -> np.ndarray:
            return np.repeat(positions[:, None], 20000, axis=1).astype(np.float32)

        big(tmp_path, 3, compute)
        (index,) = tmp_path.glob("*/ids.dat")
        with index.open("ab") as file:
            file.write(torn_ids)
        with index.with_name("rows.dat").open("ab") as file:
            file.write(b"\xff" * torn_rows)
        rows = big(tmp_path, 6, compute)
        assert (rows == np.arange(6)[:, None]).all()
        assert index.stat().st_size == 6 * 32
        assert index.with_name("rows.dat").stat().st_size == 6 * 80_000


class TestTwoProcessesAtOnce:
    def test_both_are_right_and_share_the_work(self, tmp_path: Path) -> None:
        # One goes up, the other down: they meet in the middle and find the other's rows there.
        pair = [writer(tmp_path, 0, 60, 0.02), writer(tmp_path, 59, -1, 0.02)]
        outputs = [process.communicate(timeout=60) for process in pair]
        assert [process.returncode for process in pair] == [0, 0], outputs
        (index,) = tmp_path.glob("*/ids.dat")
        written = np.frombuffer(index.read_bytes(), dtype="S32")
        assert len(written) == len(set(written.tolist())) == 60
        assert index.with_name("rows.dat").stat().st_size == 60 * 80_000
        assert (big(tmp_path, 60, lambda _: pytest.fail("all there")) == np.arange(60)[:, None]).all()
        computed = sum(int(line) for output, _ in outputs for line in output.split())
        assert computed < 120

    def test_rows_that_another_adds_meanwhile_are_not_written_twice(self, tmp_path: Path) -> None:
        ids = ids_of(30)
        inner = Counting(ids)

        def compute(positions: np.ndarray) -> np.ndarray:
            if positions[0] == 0:  # while the first batch is being computed, somebody else does everything
                get(tmp_path, ids, inner)
            return Counting(ids)(positions)

        rows = get(tmp_path, ids, compute)
        assert (rows[:, 0] == np.arange(30)).all()
        (index,) = tmp_path.glob("*/ids.dat")
        assert index.stat().st_size == 30 * 32


class TestPixels:
    def test_resized_and_mapped(self, tmp_path: Path) -> None:
        images = np.repeat(np.arange(7, dtype=np.uint8), 12 * 10 * 3).reshape(7, 12, 10, 3)
        catalog = Catalog.from_arrays(images, root=tmp_path / "images")
        pixels = cached_pixels(tmp_path / "cache", catalog, 6)
        assert pixels.shape == (7, 6, 6, 3)
        assert isinstance(pixels, np.memmap)
        assert (pixels == np.arange(7)[:, None, None, None]).all()

    def test_a_bad_file_costs_only_itself(self, tmp_path: Path) -> None:
        images = np.repeat(np.arange(7, dtype=np.uint8), 12 * 10 * 3).reshape(7, 12, 10, 3)
        catalog = Catalog.from_arrays(images, root=tmp_path / "images")
        (tmp_path / "images" / catalog.paths[2]).write_bytes(b"")
        with pytest.raises(UnreadableImages, match=r"000002\.png: is empty") as caught:
            cached_pixels(tmp_path / "cache", catalog, 6)
        rest = catalog.subset(np.delete(np.arange(7), caught.value.positions))
        assert cached_pixels(tmp_path / "cache", rest, 6)[:, 0, 0, 0].tolist() == [0, 1, 3, 4, 5, 6]
