"""What a file is, by its first bytes – names lie.

kind = sniff(head)          "PNG", "JPEG", "DICOM", …, or None
describe(head)              "a web page (HTML)", "a ZIP archive", …: what it is when it is not an image
"""

from __future__ import annotations

from pathlib import PurePath

__all__ = ["HEAD_BYTES", "IMAGE_SUFFIXES", "describe", "is_image_name", "mislabelled", "sniff"]

HEAD_BYTES = 1024
"""How much of a file `sniff` and `describe` want to see."""

_SUFFIXES: dict[str, tuple[str, ...]] = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "PNG": (".png",),
    "BMP": (".bmp", ".dib"),
    "TIFF": (".tif", ".tiff"),
    "WEBP": (".webp",),
    "GIF": (".gif",),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm"),
    "JPEG2000": (".jp2", ".j2k", ".jpx"),
    "DICOM": (".dcm", ".dicom"),
}
IMAGE_SUFFIXES: frozenset[str] = frozenset(suffix for suffixes in _SUFFIXES.values() for suffix in suffixes)

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"BM", "BMP"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"II+\0", "TIFF"),
    (b"MM\0+", "TIFF"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG2000"),
    (b"\xff\x4f\xff\x51", "JPEG2000"),
)

_OTHERS: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "a ZIP archive (or an Office document)"),
    (b"PK\x05\x06", "an empty ZIP archive"),
    (b"%PDF", "a PDF document"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf", "a 7-Zip archive"),
    (b"Rar!", "a RAR archive"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"SQLite format 3", "a SQLite database"),
    (b"8BPS", "a Photoshop document"),
    (b"%!PS", "a PostScript document"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"version https://git-lfs", "a Git LFS pointer: the picture itself was not downloaded (git lfs pull)"),
)


def sniff(head: bytes) -> str | None:
    """The kind of image that starts with these bytes, or None.

    >>> sniff(b"BM" + bytes(30)), sniff(b"<!doctype html>")
    ('BMP', None)
    """
    for magic, kind in _MAGIC:
        # Two letters are too little evidence: a text can start with "BM"; a bitmap's next four bytes are a size.
        if head.startswith(magic) and not (kind == "BMP" and _is_text(head)):
            return kind
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WEBP"
    if head[128:132] == b"DICM":
        return "DICOM"
    if len(head) > 2 and head[:1] == b"P" and head[1:2] in b"123456" and head[2:3] in b" \t\r\n":
        return "PPM"
    return None


def describe(head: bytes) -> str:
    """What bytes that are no image seem to be, as the end of the sentence "it is …"."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return "a web page (HTML), perhaps the error page of a download"
    if start.startswith((b"<?xml", b"<svg")):
        return "an SVG drawing" if b"<svg" in start else "an XML document"
    if head[4:8] == b"ftyp":
        return "a HEIC or AVIF picture or a video: convert it to JPEG or PNG"
    if head and not head.strip(b"\0"):
        return "nothing but zero bytes"
    for magic, what in _OTHERS:
        if head.startswith(magic):
            return what
    return "text" if _is_text(head) else "of no known kind"


def is_image_name(name: str) -> bool:
    """Whether a file of this name is taken for an image when a folder is searched."""
    return PurePath(name).suffix.lower() in IMAGE_SUFFIXES


def mislabelled(name: str, kind: str) -> str:
    """Why the name does not fit the kind, or an empty string where it does (or where there is no suffix).

    >>> mislabelled("polyp.jpg", "PNG")
    'is named .jpg but holds PNG'
    """
    suffix = PurePath(name).suffix.lower()
    if suffix not in IMAGE_SUFFIXES or suffix in _SUFFIXES[kind]:
        return ""
    return f"is named {suffix} but holds {kind}"


def _is_text(head: bytes) -> bool:
    if b"\0" in head:
        return False
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        # The cut may fall inside the last character.
        if error.start < len(head) - 3:
            return False
        text = head[: error.start].decode("utf-8")
    return bool(text) and all(c.isprintable() or c in "\r\n\t\f" for c in text)
