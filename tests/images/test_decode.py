"""Odd files, each with the picture that is promised for it."""

from __future__ import annotations

import struct
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from steelyard.errors import ImageError
from steelyard.images.decode import decode, read_many, resize
from tests.images.encoded import PNG, RGB, H, W, encoded, picture, png


class TestEveryFormatBecomesTheSameArray:
    @pytest.mark.parametrize(
        ("format", "options", "tolerance"),
        [
            ("PNG", {}, 0),
            ("BMP", {}, 0),
            ("TIFF", {}, 0),
            ("TIFF", {"compression": "tiff_lzw"}, 0),
            ("TIFF", {"compression": "tiff_adobe_deflate"}, 0),
            ("WEBP", {"lossless": True}, 0),
            ("PPM", {}, 0),
            ("JPEG", {"quality": 98, "subsampling": 0}, 6),
            ("JPEG", {"quality": 98, "subsampling": 0, "progressive": True}, 6),
            ("WEBP", {"quality": 98}, 24),
            ("JPEG2000", {}, 0),
        ],
    )
    def test_rgb(self, format: str, options: dict[str, object], tolerance: int) -> None:
        got = decode(encoded(RGB, format, **options))
        assert got.shape == (H, W, 3)
        assert got.dtype == np.uint8
        assert got.flags.c_contiguous
        assert got.flags.writeable
        assert np.abs(got.astype(int) - picture()).max() <= tolerance

    @pytest.mark.parametrize("format", ["PNG", "BMP", "TIFF", "JPEG", "WEBP", "GIF"])
    def test_grey_has_three_equal_channels(self, format: str) -> None:
        options = {"lossless": True} if format == "WEBP" else {}
        got = decode(encoded(RGB.convert("L"), format, **options)).astype(int)
        assert np.abs(got - got[:, :, :1]).max() <= 2
        assert np.abs(got[:, :, 0] - np.asarray(RGB.convert("L"))).max() <= 3

    def test_one_bit(self) -> None:
        bits = Image.fromarray(picture()[:, :, 0] > 100)
        got = decode(encoded(bits, "PNG"))
        assert (got[:, :, 0] == np.where(picture()[:, :, 0] > 100, 255, 0)).all()

    def test_palette(self) -> None:
        palette = RGB.quantize(16)
        assert (decode(encoded(palette, "PNG")) == np.asarray(palette.convert("RGB"))).all()
        assert (decode(encoded(palette, "GIF")) == np.asarray(palette.convert("RGB"))).all()

    def test_cmyk_jpeg(self) -> None:
        red = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
        got = decode(encoded(red, "JPEG", quality=95)).reshape(-1, 3).mean(axis=0)
        assert got[0] > 240
        assert got[1] < 15
        assert got[2] < 15

    def test_cmyk_tiff(self) -> None:
        assert (decode(encoded(Image.new("CMYK", (4, 4), (255, 0, 0, 0)), "TIFF")) == (0, 255, 255)).all()

    def test_lab_tiff(self) -> None:
        white = Image.new("LAB", (4, 4), (255, 128, 128))  # 128 is a neutral a and b
        assert decode(encoded(white, "TIFF")).min() > 250

    def test_path_and_bytes_agree(self, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_bytes(PNG)
        assert (decode(tmp_path / "a.png") == decode(PNG)).all()
        assert (decode(str(tmp_path / "a.png")) == picture()).all()

    def test_a_number_sign_in_a_file_name_is_a_name(self, tmp_path: Path) -> None:
        (tmp_path / "a#1.png").write_bytes(PNG)
        assert (decode(tmp_path / "a#1.png") == picture()).all()


class TestTransparencyGoesOnBlack:
    def test_rgba(self) -> None:
        rgba = np.dstack([picture(), np.full((H, W), 255, np.uint8)])
        rgba[:, : W // 2, 3] = 0
        got = decode(encoded(Image.fromarray(rgba), "PNG"))
        assert (got[:, : W // 2] == 0).all()
        assert (got[:, W // 2 :] == picture()[:, W // 2 :]).all()

    def test_half_transparent_white_is_grey(self) -> None:
        got = decode(encoded(Image.new("RGBA", (4, 4), (255, 255, 255, 128)), "PNG"))
        assert (got == 128).all()

    def test_grey_with_alpha(self) -> None:
        assert (decode(encoded(Image.new("LA", (4, 4), (200, 0)), "PNG")) == 0).all()

    def test_transparent_palette_entry(self) -> None:
        image = Image.new("P", (4, 4), 1)
        image.putpalette([10, 20, 30, 40, 50, 60])
        image.putpixel((0, 0), 0)
        got = decode(encoded(image, "PNG", transparency=0))
        assert got[0, 0].tolist() == [0, 0, 0]
        assert got[1, 1].tolist() == [40, 50, 60]

    def test_transparent_colour_of_an_rgb_png(self) -> None:
        image = Image.new("RGB", (2, 1), (9, 9, 9))
        image.putpixel((1, 0), (200, 100, 50))
        got = decode(encoded(image, "PNG", transparency=(200, 100, 50)))
        assert got[0].tolist() == [[9, 9, 9], [0, 0, 0]]


class TestDeepValues:
    def test_16_bit_grey_png_is_linear_over_all_bits(self) -> None:
        deep = np.array([[0, 257, 32896, 65535]], np.uint16)
        assert decode(encoded(Image.fromarray(deep), "PNG"))[0, :, 0].tolist() == [0, 1, 128, 255]

    def test_values_that_fit_in_12_bits_are_taken_for_12_bits(self) -> None:
        deep = np.array([[0, 2048, 4095]], np.uint16)
        assert decode(encoded(Image.fromarray(deep), "PNG"))[0, :, 0].tolist() == [0, 128, 255]

    def test_a_darker_12_bit_image_stays_darker(self) -> None:
        bright, dark = np.full((2, 2), 4000, np.uint16), np.full((2, 2), 400, np.uint16)
        levels = [int(decode(encoded(Image.fromarray(deep), "PNG")).mean()) for deep in (bright, dark)]
        assert levels == [249, 25]

    def test_16_bit_rgb_png(self) -> None:
        row = b"\0" + struct.pack(">6H", 65535, 0, 32896, 257, 65535, 0)
        assert decode(png(2, 1, 16, 2, row)).tolist() == [[[255, 0, 128], [1, 255, 0]]]

    def test_16_bit_tiff(self) -> None:
        deep = np.array([[0, 32896, 65535]], np.uint16)
        assert decode(encoded(Image.fromarray(deep), "TIFF"))[0, :, 0].tolist() == [0, 128, 255]

    def test_a_declared_largest_value_is_white(self) -> None:
        deep = np.array([[0, 8192, 16383]], np.uint16)
        assert decode(encoded(Image.fromarray(deep), "TIFF", tiffinfo={281: 16383}))[0, :, 0].tolist() == [
            0,
            128,
            255,
        ]

    @pytest.mark.parametrize("top", [1.0, 255.0, 65535.0])
    def test_float_tiff(self, top: float) -> None:
        values = np.array([[0.0, 0.5 * top, top]], np.float32)
        assert decode(encoded(Image.fromarray(values), "TIFF"))[0, :, 0].tolist() == [0, 128, 255]

    @pytest.mark.parametrize("bad", [-1.0, 1e6, np.nan, np.inf])
    def test_float_without_a_scale_is_an_error(self, bad: float) -> None:
        values = np.array([[0.0, bad]], np.float32)
        with pytest.raises(ImageError, match=r"no known scale|not finite"):
            decode(encoded(Image.fromarray(values), "TIFF"))

    def test_32_bit_integers(self) -> None:
        values = np.array([[0, 65535]], np.int32)
        assert decode(encoded(Image.fromarray(values), "TIFF"))[0, :, 0].tolist() == [0, 255]


class TestExifTurns:
    @pytest.mark.parametrize("orientation", range(1, 9))
    @pytest.mark.parametrize("format", ["PNG", "TIFF", "WEBP"])
    def test_upright(self, orientation: int, format: str) -> None:
        # What a camera stores for each orientation so that a viewer shows `picture()`.
        p = picture()
        stored = {
            1: p, 2: p[:, ::-1], 3: p[::-1, ::-1], 4: p[::-1],
            5: p.transpose(1, 0, 2), 6: np.rot90(p, 1), 7: p[::-1, ::-1].transpose(1, 0, 2), 8: np.rot90(p, -1),
        }[orientation]  # fmt: skip
        exif = Image.Exif()
        exif[0x0112] = orientation
        options = {"lossless": True} if format == "WEBP" else {}
        data = encoded(Image.fromarray(np.ascontiguousarray(stored)), format, exif=exif, **options)
        assert (decode(data) == p).all()

    def test_jpeg(self) -> None:
        exif = Image.Exif()
        exif[0x0112] = 6
        data = encoded(
            Image.fromarray(np.ascontiguousarray(np.rot90(picture()))), "JPEG", exif=exif, quality=98
        )
        assert np.abs(decode(data).astype(int) - picture()).max() < 30

    def test_damaged_exif_loses_no_pixels(self) -> None:
        data = encoded(
            RGB, "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\xff\xff" + b"\x12\x01\x03\0\xff\xff\xff\xff" * 3
        )
        assert decode(data).shape == (H, W, 3)

    def test_an_orientation_that_does_not_exist(self) -> None:
        exif = Image.Exif()
        exif[0x0112] = 99
        assert (decode(encoded(RGB, "PNG", exif=exif)) == picture()).all()


class TestUnpackedSmaller:
    def large(self, **options: object) -> tuple[np.ndarray, bytes]:
        rgb = np.asarray(Image.fromarray(picture()).resize((36 * 32, 24 * 32), Image.Resampling.BICUBIC))
        return rgb, encoded(Image.fromarray(rgb), "JPEG", quality=95, **options)

    @pytest.mark.parametrize(
        ("least", "height"), [(0, 768), (500, 768), (384, 384), (200, 192 * 2), (96, 96), (1, 96)]
    )
    def test_to_no_less_than_was_asked_for(self, least: int, height: int) -> None:
        rgb, data = self.large()
        small = decode(data, least=least)
        assert small.shape == (height, height * 3 // 2, 3)
        assert np.abs(resize(small, 48).astype(int) - resize(rgb, 48)).mean() < 2

    def test_upright_too(self) -> None:
        exif = Image.Exif()
        exif[0x0112] = 6
        _, data = self.large(exif=exif)
        assert decode(data, least=96).shape == (144, 96, 3)

    @pytest.mark.parametrize("left_out", [4, 200, 5000])
    def test_a_damaged_end_is_found(self, left_out: int) -> None:
        _, data = self.large()
        for least in (0, 96):
            with pytest.raises(ImageError, match="truncated"):
                decode(data[:-left_out], least=least)

    @pytest.mark.parametrize("format", ["PNG", "TIFF", "WEBP", "BMP"])
    def test_other_formats_are_whole(self, format: str) -> None:
        deep = Image.fromarray(np.arange(24 * 36, dtype=np.uint16).reshape(24, 36) * 60)
        for image in (RGB, RGB.convert("RGBA"), deep) if format in ("PNG", "TIFF") else (RGB,):
            data = encoded(image, format)
            assert np.array_equal(decode(data, least=4), decode(data))


class TestResize:
    def test_squeezes_the_whole_picture(self) -> None:
        wide = np.zeros((10, 40, 3), np.uint8)
        wide[:, 20:] = 255
        small = resize(wide, 8)
        assert small.shape == (8, 8, 3)
        assert (small[:, :3] == 0).all()
        assert (small[:, 5:] == 255).all()

    def test_averages_instead_of_skipping(self) -> None:
        checks = np.indices((64, 64)).sum(axis=0) % 2 * 255
        small = resize(np.repeat(checks[:, :, None], 3, axis=2).astype(np.uint8), 8)
        assert np.abs(small.astype(int) - 128).max() < 8

    def test_the_right_size_is_left_alone(self) -> None:
        square = np.ascontiguousarray(picture()[:, :H])
        assert (resize(square, H) == square).all()


class TestReadMany:
    def files(self, folder: Path, write: Callable[[int], bytes], n: int = 30) -> list[Path]:
        paths = [folder / f"{k}.png" for k in range(n)]
        for k, path in enumerate(paths):
            path.write_bytes(write(k))
        return paths

    def test_in_order_with_every_bad_file_named(self, tmp_path: Path) -> None:
        paths = self.files(
            tmp_path, lambda k: b"" if k in (0, 17, 29) else encoded(Image.new("L", (9, 9), k), "PNG")
        )
        seen: list[tuple[int, int, str]] = []
        reading = read_many(paths, size=4, workers=3, progress=lambda *step: seen.append(step))
        got = dict(reading)
        assert list(got) == [k for k in range(30) if k not in (0, 17, 29)]
        assert all((rgb == k).all() and rgb.shape == (4, 4, 3) for k, rgb in got.items())
        assert [(position, error.path) for position, error in reading.failures] == [
            (k, str(paths[k])) for k in (0, 17, 29)
        ]
        assert all("is empty" in error.reason for _, error in reading.failures)
        assert [done for done, _, _ in seen] == list(range(1, 31))

    def test_fail_stops_at_the_first(self, tmp_path: Path) -> None:
        paths = self.files(tmp_path, lambda k: PNG if k < 5 else b"")
        reading = read_many(paths, on_error="fail", workers=2)
        assert [next(reading)[0] for _ in range(5)] == [0, 1, 2, 3, 4]
        with pytest.raises(ImageError, match=r"5\.png: is empty"):
            next(reading)

    def test_reads_only_a_few_ahead(self) -> None:
        begun: list[int] = []
        lock = threading.Lock()

        def read(position: int) -> np.ndarray:
            with lock:
                begun.append(position)
            return picture()

        reading = read_many(1000, read=read, workers=2)
        next(reading)
        assert len(begun) <= 20

    def test_one_that_is_dropped_half_way_holds_nobody_up(self) -> None:
        # The garbage collector may find it in any thread, also in one that is just starting and holds threading's own
        # lock (up to Python 3.12, in the function replaced here). Joining threads from there would wait for ever.
        code = """
            import gc, threading
            import numpy as np
            from steelyard.images.decode import read_many
            inside = getattr(threading, "_maintain_shutdown_locks", lambda: None)
            def collect_first():
                gc.collect()
                inside()
            black = np.zeros((2, 2, 3), np.uint8)
            gc.disable()
            dropped = read_many(100, read=lambda position: black, workers=2)
            next(dropped)
            dropped.circle = dropped
            del dropped
            threading._maintain_shutdown_locks = collect_first
            assert len(list(read_many(9, read=lambda position: black, workers=2))) == 9
            gc.collect()
            for thread in threading.enumerate():
                if thread is not threading.main_thread():
                    thread.join(20)
            print(threading.active_count())
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        assert done.stdout.split() == ["1"]

    def test_closing(self) -> None:
        reading = read_many(1000, read=lambda _: picture(), workers=2)
        next(reading)
        reading.close()
        assert list(reading) == []

    def test_other_errors_are_not_swallowed(self) -> None:
        with pytest.raises(ZeroDivisionError):
            list(read_many(5, read=lambda position: picture(1 // (position - 2))))

    def test_a_number_needs_a_reader(self) -> None:
        with pytest.raises(TypeError, match="read="):
            read_many(3)

    def test_damaged_files_in_many_threads_leave_no_warning(self, tmp_path: Path) -> None:
        exif = b"Exif\0\0II*\0\x08\0\0\0\xff\xff" + b"\x12\x01\x03\0\xff\xff\xff\xff" * 3
        paths = self.files(tmp_path, lambda _: encoded(RGB, "JPEG", exif=exif), 40)
        before = list(warnings.filters)
        reading = read_many(paths, workers=8)
        assert len(list(reading)) == 40
        assert not reading.failures
        assert list(warnings.filters) == before
