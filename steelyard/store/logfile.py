"""A whole log as a file of JSON Lines, which anybody can verify without the database.

The first line says what the file is and where the logs end:

    {"steelyard log": 1, "heads": ["comparisons:120:9f86d0…", "grades:0:…", "audit:31:…"]}

Every other line is a row: `log`, the fields of `chain.FIELDS` by name, those of `chain.OPTIONAL` that are not as usual, and `hash`. Rows of a log are in their order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard.files import replacing
from steelyard.store.chain import FIELDS, LOGS, OPTIONAL, Head, Verifier, read_heads
from steelyard.store.errors import StoreError

__all__ = ["Verified", "verify_log", "write_log"]

BLOCK = 1000


@dataclass(frozen=True)
class Verified:
    """What a file of a log holds.

    Attributes:
        heads: where each log ends.
        rows: how many rows there are of each log.
        problems: what is not as it was written, in sentences; empty: all is.
    """

    heads: tuple[Head, ...]
    rows: dict[str, int]
    problems: list[str]


def write_log(path: Path, heads: Iterable[Head], rows: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Write a file of logs; it appears under its name when it is whole.

    Raises:
        StoreError: it cannot be written.
    """
    try:
        with replacing(path) as file:
            first = {"steelyard log": 1, "heads": [str(head) for head in heads]}
            file.write(json.dumps(first).encode() + b"\n")
            for log, row in rows:
                file.write(json.dumps({"log": log, **row}, ensure_ascii=False).encode() + b"\n")
    except OSError as error:
        raise StoreError(f"{path}: the log could not be written: {error.strerror}") from error


def verify_log(path: str | Path, expect: Iterable[Head] = ()) -> Verified:
    """Compute every hash of a file of logs again.

    Args:
        path: what `steelyard log` wrote.
        expect: heads that were noted elsewhere; the file's own are compared in any case.

    Raises:
        StoreError: the file cannot be read or is no log.
    """
    path = Path(path)
    found: list[str] = []
    try:
        with path.open(encoding="utf-8") as file:
            noted = [*_heads_of(path, file.readline()), *expect]
            verifiers = {log: Verifier(log, noted) for log in LOGS}
            usual = {log: {name: value for name, _, value in OPTIONAL[log]} for log in LOGS}
            names = {log: (*(name for name, _ in FIELDS[log]), *usual[log], "hash") for log in LOGS}
            for number, line in enumerate(file, start=2):
                row = _row(line)
                if row is not None:
                    row = usual[row["log"]] | row
                if row is None or row.keys() != {"log", *names[row["log"]]}:
                    found.append(f"line {number} is no row of a log")
                    continue
                log = row["log"]
                verifiers[log].read([[row[name] for name in names[log]]])
    except UnicodeDecodeError:
        raise StoreError(f"{path}: is no text in UTF-8, so no log that `steelyard log` wrote") from None
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}") from error
    for verifier in verifiers.values():
        found += verifier.finish()
    return Verified(
        tuple(verifier.head for verifier in verifiers.values()),
        {log: verifier.rows for log, verifier in verifiers.items()},
        found[: Verifier.MOST * len(LOGS)],
    )


def _heads_of(path: Path, line: str) -> list[Head]:
    try:
        first = json.loads(line)
    except ValueError:
        first = None
    if not isinstance(first, dict) or first.get("steelyard log") != 1:
        raise StoreError(f"{path}: does not begin like a log; write one with: steelyard log STUDY FILE")
    return read_heads(str(first.get("heads")))


def _row(line: str) -> dict[str, Any] | None:
    """A line as a row, or None. Numbers are numbers: `true` is not 1 and 1.0 is no whole number."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict) or not isinstance(row.get("log"), str) or row["log"] not in FIELDS:
        return None
    later = ((name, kind) for name, kind, _ in OPTIONAL[row["log"]] if name in row)
    for name, kind in (*FIELDS[row["log"]], *later):
        value = row.get(name)
        if value is None and name != "seq":
            continue
        wanted: Any = {"integer": int, "time": (int, float), "text": str}.get(kind, object)
        if not isinstance(value, wanted) or (isinstance(value, bool) and kind != "document"):
            return None
    return row if isinstance(row.get("hash"), str) else None
