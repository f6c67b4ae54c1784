"""An image's id: the first 32 hex digits of the BLAKE2b hash of its bytes."""

from __future__ import annotations

import hashlib

__all__ = ["content_id", "frame_id", "has_id"]


def content_id(*parts: bytes | memoryview) -> str:
    """The id of these bytes: the first 32 hex digits of their BLAKE2b hash.

    >>> content_id(b"abc") == hashlib.blake2b(b"abc").hexdigest()[:32]
    True
    """
    digest = hashlib.blake2b()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:32]


def frame_id(digest: hashlib.blake2b, frame: int) -> str:
    """The id of one of several frames in a file, counted from 1; `digest` has seen the whole file."""
    copy = digest.copy()
    copy.update(f"#{frame}".encode())
    return copy.hexdigest()[:32]


def has_id(content: bytes, id: str, frame: int = 0) -> bool:
    """Whether a file (or its frame, 0 where it has one alone) is the image with this id."""
    digest = hashlib.blake2b(content)
    return id == (frame_id(digest, frame) if frame else digest.hexdigest()[:32])
