"""What bodies are made of: bounded, printable fields and the refusal of unknown ones."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

__all__ = ["ChangeId", "ImageId", "In", "Name", "PairNumber", "RowId", "Seconds", "Text", "Uuid", "printable"]


def printable(text: str) -> str:
    """Names and remarks are shown and logged: no control characters, no broken surrogates, no NUL (PostgreSQL)."""
    if any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000 for c in text):
        raise ValueError("may not contain control characters")
    return text


Text = Annotated[str, AfterValidator(printable)]
ImageId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
Uuid = Annotated[
    str,
    StringConstraints(
        pattern=r"^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$"
    ),
]
ChangeId = Annotated[
    Uuid | None,
    Header(
        alias="Idempotency-Key",
        description="Your name for this change: sent again with it, the change is not made twice.",
    ),
]
Name = Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(printable)]
Seconds = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False, description="UTC, seconds since 1970.")]
RowId = Annotated[int, Field(ge=1, le=2**31 - 1)]
PairNumber = Annotated[int, Field(ge=1, le=2**51 - 1)]


class In(BaseModel):
    """A body that comes in."""

    model_config = ConfigDict(extra="forbid")
