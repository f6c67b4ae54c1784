"""The hash chain over the logs: what it is, computed and verified without a database (`evidence.py` reads one).

A log is a sequence of rows in the order of their numbers (`seq`). Each row carries `hash`, 64 lower-case hex digits:

    hash(row) = SHA-256( hash of the row before it in the same log, as its 64 ASCII characters ‖ encoding of the row )

Before the first row stands SHA-256 of the ASCII text `steelyard log 1: NAME`, where NAME is `comparisons`, `grades` or
`audit`. So a row cannot be changed, removed, put in or moved without changing every hash after it; whoever has noted
the last number and hash – the *head* – elsewhere can tell that everything up to there is as it was.

The encoding of a row is the encodings of the fields in `FIELDS`, in that order, one after the other. The kind of a field
decides, not the value's type; every encoding says its own length, so two different rows never have the same one:

    nothing (null)  the byte `n`
    integer         `i`, then 8 bytes: big-endian two's complement
    time            `f`, then 8 bytes: IEEE 754 double, big-endian (zero has no sign)
    text            `t`, then 4 bytes: the number of bytes, big-endian; then the text in UTF-8
    document        `j`, then like text: JSON with sorted keys, no spaces, everything beyond ASCII as \\uXXXX, and
                    floating-point numbers as the shortest digits that read back the same (Python's `repr`)

A field that came later stands in `OPTIONAL`, with the value that every earlier row has. Only where a row has another
one it is encoded, after all others: its name as text, then its value. So rows without it keep the hashes they have.

`left`, `right` and `image` are content ids of images: a row vouches for what was shown, not only for its row in a table.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from steelyard.store.errors import StoreError

__all__ = ["FIELDS", "LOGS", "OPTIONAL", "Head", "Verifier", "encode", "genesis", "link", "read_heads"]

FIELDS: dict[str, tuple[tuple[str, str], ...]] = {
    "comparisons": (
        ("seq", "integer"),
        ("id", "text"),
        ("pair", "integer"),
        ("annotator", "text"),
        ("answer", "text"),
        ("left_row", "integer"),
        ("right_row", "integer"),
        ("left", "text"),
        ("right", "text"),
        ("shown_at", "time"),
        ("answered_at", "time"),
        ("received_at", "time"),
        ("supersedes", "text"),
        ("note", "text"),
        ("source", "text"),
    ),
    "grades": (
        ("seq", "integer"),
        ("id", "text"),
        ("image_row", "integer"),
        ("image", "text"),
        ("annotator", "text"),
        ("grade", "integer"),
        ("shown_at", "time"),
        ("answered_at", "time"),
        ("received_at", "time"),
        ("supersedes", "text"),
        ("note", "text"),
        ("source", "text"),
    ),
    "audit": (
        ("seq", "integer"),
        ("at", "time"),
        ("actor", "text"),
        ("action", "text"),
        ("detail", "document"),
    ),
}
"""The fields of a row of each log and their kinds, in the order in which they are encoded."""

OPTIONAL: dict[str, tuple[tuple[str, str, Any], ...]] = {
    "comparisons": (("question", "text", ""), ("role", "text", "answer")),
    "grades": (),
    "audit": (),
}
"""Fields that came later, their kinds, and the values of rows that do not say: encoded only where they say something else."""

LOGS = tuple(FIELDS)

_HEAD = re.compile(r"(comparisons|grades|audit):(\d{1,19}):([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Head:
    """Where a log ends: the number of its last row (0: it is empty) and that row's hash. `str` is one line to note.

    `noted` says by whom or where it was noted, for the sentence that tells of a difference.
    """

    log: str
    seq: int
    hash: str
    noted: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.log}:{self.seq}:{self.hash}"


def genesis(log: str) -> str:
    """The hash before the first row of a log."""
    return hashlib.sha256(f"steelyard log 1: {log}".encode("ascii")).hexdigest()


def encode(log: str, values: Sequence[Any]) -> bytes:
    """A row's fields, in the order of `FIELDS` and then of `OPTIONAL`, as bytes; different rows have different ones."""
    writers = _WRITERS[log]
    plain = [b"n" if value is None else write(value) for write, value in zip(writers, values, strict=False)]
    later = zip(_LATER[log], values[len(writers) :], strict=True)
    return b"".join(plain) + b"".join(_later(field, value) for field, value in later)


def link(log: str, previous: str, row: Mapping[str, Any]) -> str:
    """The hash of a row that follows the one with hash `previous`."""
    later = [row.get(name, usual) for name, _, usual in OPTIONAL[log]]
    return _hash(previous, encode(log, [*(row[name] for name in _NAMES[log]), *later]))


def read_heads(text: str) -> list[Head]:
    """Heads as `str(Head)` writes them, found anywhere in a text: a line, a note, the output of `steelyard check`.

    Raises:
        StoreError: there is none.
    """
    found = [Head(log, int(seq), hash) for log, seq, hash in _HEAD.findall(text)]
    if not found:
        raise StoreError(
            f"no head of a log was found in {text[:80]!r}; one looks like comparisons:120:9f86d0… with 64 hex digits, "
            f"as `steelyard check` prints it"
        )
    return found


class Verifier:
    """Reads a log from its first row to its last and notes where it is not what was written.

    Args:
        log: which one.
        expect: heads that were noted earlier; those of other logs are passed over.

    Attributes:
        seq: number of the last row read, 0 before the first.
        hash: its hash.
        rows: how many were read.
        problems: sentences, the first broken row first, at most `MOST`.
    """

    MOST = 20

    def __init__(self, log: str, expect: Iterable[Head] = ()) -> None:
        self.log, self.seq, self.hash, self.rows = log, 0, genesis(log), 0
        self.problems: list[str] = []
        self._noted: dict[int, list[Head]] = {}
        for head in expect:
            if head.log == log:
                self._noted.setdefault(head.seq, []).append(head)
        self._compare_noted()

    def read(self, rows: Iterable[Sequence[Any]]) -> None:
        """Go on with the next rows: their fields in the order of `FIELDS` and of `OPTIONAL`, then their hash."""
        log, previous, seq = self.log, self.hash, self.seq
        writers, noted, later = _WRITERS[log], self._noted, _LATER[log]
        plain = len(writers)
        for row in rows:
            try:
                encoded = b"".join(
                    [
                        b"n" if value is None else write(value)
                        for write, value in zip(writers, row, strict=False)
                    ]
                )
                for field, value in zip(later, row[plain:-1], strict=True):
                    encoded += _later(field, value)
            except (struct.error, TypeError, AttributeError, ValueError):
                encoded = b""  # text where a number belongs, say: not what was written
            if _hash(previous, encoded) != row[-1] or row[0] <= seq:
                self._broken(seq, row[0])
            # From what is stored, so that the next break is found where it is.
            seq, previous = row[0], row[-1]
            self.seq, self.hash, self.rows = seq, previous, self.rows + 1
            if noted and seq in noted:
                self._compare_noted()

    def finish(self) -> list[str]:
        """The problems, once the last row has been read."""
        for seq in sorted(self._noted):
            for head in self._noted[seq]:
                end = f": the log ends at row {self.seq}" if seq > self.seq else ""
                self._say(f"row {seq} of {self.log} was {head.noted or 'noted'} and is gone{end}")
        return self.problems

    @property
    def head(self) -> Head:
        """Where the log ends as far as it was read."""
        return Head(self.log, self.seq, self.hash)

    def _compare_noted(self) -> None:
        for head in self._noted.pop(self.seq, ()):
            if head.hash != self.hash:
                self._say(
                    f"row {self.seq} of {self.log} has another hash than was {head.noted or 'noted'}: it or a row before "
                    f"it is not what was written"
                )

    def _broken(self, before: int, seq: int) -> None:
        if seq > before + 1:
            gone = f"row {before + 1}" if seq == before + 2 else f"rows {before + 1} to {seq - 1}"
            self._say(f"{self.log}: {gone} removed, or row {seq} changed: it does not follow row {before}")
        elif before:
            self._say(
                f"{self.log}: row {seq} changed, put in or moved: its hash does not follow from row {before} and what it says"
            )
        else:
            self._say(f"{self.log}: row {seq} changed or put in: its hash does not follow from what it says")

    def _say(self, sentence: str) -> None:
        if len(self.problems) < self.MOST:
            self.problems.append(sentence)


def _hash(previous: str, encoded: bytes) -> str:
    return hashlib.sha256(previous.encode() + encoded).hexdigest()


def _later(field: tuple[bytes, Callable[[Any], bytes], Any], value: Any) -> bytes:
    name, write, usual = field
    return b"" if value == usual else name + (b"n" if value is None else write(value))


def _document(value: Any) -> bytes:
    return _sized(
        b"j", json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    )


def _sized(tag: bytes, content: bytes) -> bytes:
    return tag + len(content).to_bytes(4, "big") + content


def _text(value: str) -> bytes:
    content = value.encode()
    return b"t" + len(content).to_bytes(4, "big") + content


_pack_integer, _pack_time = struct.Struct(">cq").pack, struct.Struct(">cd").pack
_KINDS: dict[str, Callable[[Any], bytes]] = {
    "integer": lambda value: _pack_integer(b"i", value),
    "time": lambda value: _pack_time(b"f", value + 0.0),  # minus zero plus zero is zero
    "text": _text,
    "document": _document,
}
_NAMES = {log: tuple(name for name, _ in fields) for log, fields in FIELDS.items()}
_WRITERS = {log: tuple(_KINDS[kind] for _, kind in fields) for log, fields in FIELDS.items()}
_LATER = {
    log: tuple((_text(name), _KINDS[kind], usual) for name, kind, usual in fields)
    for log, fields in OPTIONAL.items()
}
