"""Odd and hostile files, each with the outcome that is promised for it."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import textwrap
import threading
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from steelyard.errors import ImageError
from steelyard.images.decode import decode, read_many, resize

H, W = 24, 36


def picture(seed: int = 0) -> np.ndarray:
    """A smooth picture, so that lossy formats come close."""
    y, x = np.mgrid[0:H, 0:W]
    rgb = np.stack([x * 7, y * 10, (x + y) * 4 + seed], axis=2)
    return rgb.astype(np.uint8)


def encoded(image: Image.Image, format: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, depth: int, colour: int, rows: bytes, extra: bytes = b"") -> bytes:
    """A PNG by hand, for what Pillow cannot write."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


RGB = Image.fromarray(picture())
PNG = encoded(RGB, "PNG")
JPEG = encoded(RGB, "JPEG", quality=95)
NOISY = encoded(Image.fromarray(np.random.default_rng(0).integers(0, 256, (99, 99, 3), np.uint8)), "JPEG")


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


def bomb() -> bytes:
    """A few kilobytes that claim to be 3 600 megapixels."""
    return png(60000, 60000, 8, 2, b"\0" * 1000)


def zip_bytes() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.txt", "hello")
    return buffer.getvalue()


HOSTILE: dict[str, tuple[str, bytes, str]] = {
    "empty": ("a.jpg", b"", "is empty"),
    "text": ("a.jpg", "Grüße, this is a text".encode(), "not an image: it is text"),
    "text that starts like a bitmap": ("a.bmp", b"BMI of 40 patients", "not an image: it is text"),
    "web page": ("a.jpg", b"\n<!DOCTYPE html><html>404</html>", "web page"),
    "xml": ("a.png", b"<?xml version='1.0'?><a/>", "XML"),
    "svg": ("a.png", b"<svg xmlns='x'></svg>", "SVG"),
    "zip": ("a.png", zip_bytes(), "ZIP"),
    "pdf": ("a.tif", b"%PDF-1.7 ...", "PDF"),
    "git lfs pointer": ("a.png", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS"),
    "heic": ("a.jpg", b"\0\0\0\x18ftypheic" + bytes(50), "HEIC"),
    "zeros": ("a.jpg", bytes(5000), "zero bytes"),
    "noise": ("a.jpg", np.random.default_rng(0).bytes(5000), "no known kind"),
    "postscript": ("a.jpg", b"%!PS-Adobe-3.0 EPSF-3.0\n", "PostScript"),
    "truncated jpeg": ("a.jpg", JPEG[: len(JPEG) // 2], "truncated"),
    "jpeg cut in its pixels": ("a.jpg", NOISY[: len(NOISY) * 7 // 10], "truncated"),
    "truncated png": ("a.png", PNG[: len(PNG) // 2], "truncated|damaged"),
    "truncated bmp": ("a.bmp", encoded(RGB, "BMP")[:500], "truncated"),
    "truncated tiff": ("a.tif", encoded(RGB, "TIFF")[:300], "truncated|damaged"),
    "truncated compressed tiff": ("a.tif", encoded(RGB, "TIFF", compression="tiff_lzw")[:300], "truncated|damaged"),
    "truncated webp": ("a.webp", encoded(RGB, "WEBP")[:60], "truncated|damaged"),
    "truncated gif": ("a.gif", encoded(RGB, "GIF")[:900], "truncated|damaged"),
    "header only jpeg": ("a.jpg", b"\xff\xd8\xff\xe0", "truncated"),
    "header only png": ("a.png", PNG[:8], "truncated"),
    "png header only": ("a.png", PNG[:33], "truncated|damaged"),
    "png with a wrong checksum": ("a.png", PNG[:60] + bytes([PNG[60] ^ 255]) + PNG[61:], "damaged|truncated"),
    "png of a bad colour type": ("a.png", png(2, 2, 8, 5, b"\0" * 6), "damaged"),
    "png without width": ("a.png", png(0, 5, 8, 2, b"\0" * 6), "no pixels|damaged"),
    "bmp without width": ("a.bmp", encoded(RGB, "BMP")[:18] + bytes(4) + encoded(RGB, "BMP")[22:], "no pixels|damaged"),
    "decompression bomb": ("a.png", bomb(), "decompression bomb"),
    "bmp that claims terabytes": (
        "a.bmp", b"BM" + struct.pack("<IHHIIiiHHIIiiII", 54, 0, 0, 54, 40, 2**30, 2**30, 1, 24, 0, 0, 0, 0, 0, 0),
        "decompression bomb",
    ),
    "text chunk bomb": (
        "a.png",
        png(1, 1, 8, 0, b"\0\0", chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(200_000_000)))),
        "damaged",
    ),
}  # fmt: skip


class TestHostileFiles:
    @pytest.mark.parametrize("kind", HOSTILE)
    def test_each_is_reported_by_name_with_the_reason(self, tmp_path: Path, kind: str) -> None:
        name, data, reason = HOSTILE[kind]
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(ImageError, match=reason) as caught:
            decode(path)
        assert caught.value.path == str(path)
        assert "\n" not in caught.value.reason
        with pytest.raises(ImageError, match=reason):
            decode(data)

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(ImageError, match="is missing"):
            decode(tmp_path / "no.jpg")

    def test_folder(self, tmp_path: Path) -> None:
        with pytest.raises(ImageError, match="is a folder"):
            decode(tmp_path)

    def test_a_path_with_a_nul_byte(self) -> None:
        with pytest.raises(ImageError, match=r"cannot be read|is missing"):
            decode("a\0b.png")

    def test_a_file_that_may_not_be_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "a.png").write_bytes(PNG)

        def denied(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(
            Path, "open", denied
        )  # root may read everything, so the mode bits would prove nothing
        with pytest.raises(ImageError, match="cannot be read: Permission denied"):
            decode(tmp_path / "a.png")

    def test_the_limit_is_the_callers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(ImageError, match="megapixels"):
            decode(PNG, max_megapixels=0.0001)
        monkeypatch.setattr(
            Image, "MAX_IMAGE_PIXELS", 10
        )  # what is allowed here is allowed, whatever Pillow thinks
        assert (decode(PNG) == picture()).all()

    def test_a_png_named_jpg_decodes(self, tmp_path: Path) -> None:
        (tmp_path / "a.jpg").write_bytes(PNG)
        assert (decode(tmp_path / "a.jpg") == picture()).all()

    @pytest.mark.parametrize("format", ["GIF", "WEBP", "PNG", "TIFF"])
    def test_of_an_animation_the_first_frame(self, format: str) -> None:
        first, second = Image.new("RGB", (8, 8), (255, 0, 0)), Image.new("RGB", (8, 8), (0, 0, 255))
        options = {"lossless": True} if format == "WEBP" else {}
        data = encoded(first, format, save_all=True, append_images=[second], **options)
        assert (decode(data) == (255, 0, 0)).all()

    @settings(max_examples=150, deadline=None)
    @given(
        start=st.sampled_from(
            [PNG, JPEG, encoded(RGB, "BMP"), encoded(RGB, "TIFF"), encoded(RGB, "WEBP"), encoded(RGB, "GIF")]
        ),
        flips=st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 255)), min_size=1, max_size=20),
        cut=st.integers(4, 4000),
    )
    def test_damage_anywhere_gives_pixels_or_an_image_error(
        self, start: bytes, flips: list[tuple[int, int]], cut: int
    ) -> None:
        data = bytearray(start)
        for at, value in flips:
            data[at % len(data)] ^= value
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                assert decode(bytes(data[:cut]), max_megapixels=1).ndim == 3
            except ImageError:
                return

    def test_warning_filters_are_left_alone(self) -> None:
        before = list(warnings.filters)
        decode(PNG)
        assert list(warnings.filters) == before


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
