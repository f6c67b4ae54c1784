"""Small pictures, encoded in every way that the tests need."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
from PIL import Image

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
