"""What the server writes down: one line an event, as text or as JSON, without names of patients or files.

A picture's file name often is a patient's name. Routes are therefore logged as templates (`/images/{id}`), never as they
were called; nobody's name is logged; and what an error says goes through `described` first, which leaves out file names.
Every line that belongs to a request carries its id, which the person saw on the page.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import traceback
from contextvars import ContextVar
from datetime import datetime, timezone
from typing import Any, TextIO

from steelyard.errors import ConfigError, ImageError

__all__ = ["FORMATS", "chosen_format", "described", "request_id", "set_up"]

FORMATS = ("quiet", "text", "json")
"""Warnings and errors only; also a line per request; the same as JSON."""

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""Of the request that this code works for, also in the threads that work for it."""

_PICTURE = re.compile(
    r"[^:'\"\n]*\.(?:png|jpe?g|jpe|jfif|jp2|j2k|bmp|dib|tiff?|gif|webp|dcm|dicom|ima|p[bgpn]m|tga)(?:#\d+)?\b",
    re.I,
)


def chosen_format(given: str = "") -> str:
    """The format that was asked for, by option or by STEELYARD_LOG.

    Raises:
        ConfigError: there is no such format.
    """
    form = given or os.environ.get("STEELYARD_LOG", "") or "quiet"
    if form not in FORMATS:
        raise ConfigError(f"the log is written as one of {', '.join(FORMATS)}; not '{form}'")
    return form


def set_up(form: str, stream: TextIO | None = None) -> None:
    """Send everything that Steelyard and its server log to stderr, in one format.

    Args:
        form: one of `FORMATS`.
        stream: where to; stderr by default.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    for name in ("steelyard", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.WARNING if form == "quiet" or name == "uvicorn" else logging.INFO)


def described(error: BaseException) -> str:
    """What an error says, without the name of a picture.

    >>> described(ImageError("Doe, Jane.png", "is truncated"))
    'a picture is truncated'
    """
    if isinstance(error, ImageError):
        return f"a picture {scrubbed(error.reason)}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return scrubbed(str(error))


def scrubbed(text: str) -> str:
    """A text without names of picture files."""
    return _PICTURE.sub(" [file]", text)


def trace(error: BaseException) -> list[str]:
    """Where an error came from, the first cause first: types, sentences and lines of code."""
    chain: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in chain:
        chain.append(one)
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    lines = []
    for one in reversed(chain):
        lines.append(f"{type(one).__name__}: {described(one)}")
        lines += [
            f"  {frame.filename}:{frame.lineno} {frame.name}"
            for frame in traceback.extract_tb(one.__traceback__)
        ]
    return lines


class _Lines(logging.Formatter):
    """What both formats share."""

    def facts(self, record: logging.LogRecord) -> dict[str, Any]:
        if isinstance(record.args, tuple):
            record.args = tuple(described(a) if isinstance(a, BaseException) else a for a in record.args)
        facts: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": scrubbed(record.getMessage()),
        }
        if known := request_id.get():
            facts["request_id"] = known
        facts |= getattr(record, "facts", {})
        if record.exc_info and record.exc_info[1] is not None:
            facts["trace"] = trace(record.exc_info[1])
        return facts


class JsonLines(_Lines):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """As logging.Formatter."""
        return json.dumps(self.facts(record), ensure_ascii=False, default=str)


class TextLines(_Lines):
    """One line for people, and the trace below it."""

    def format(self, record: logging.LogRecord) -> str:
        """As logging.Formatter."""
        facts = self.facts(record)
        below = facts.pop("trace", [])
        head = f"{facts.pop('time')} {facts.pop('level'):7} {facts.pop('message')}"
        facts.pop("logger")
        rest = " ".join(f"{key}={value}" for key, value in facts.items())
        return "\n    ".join([f"{head}  {rest}".rstrip(), *below])
