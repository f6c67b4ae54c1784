"""Hostile files, each refused with its reason."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from steelyard.errors import ImageError
from steelyard.images.decode import decode
from tests.images.encoded import JPEG, PNG, RGB, chunk, encoded, picture, png

NOISY = encoded(Image.fromarray(np.random.default_rng(0).integers(0, 256, (99, 99, 3), np.uint8)), "JPEG")


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
