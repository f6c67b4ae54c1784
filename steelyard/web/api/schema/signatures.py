"""Bodies about signatures."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from steelyard.web.api.schema.fields import In, printable

__all__ = ["SignatureIn", "SignatureList", "SignatureOut"]


class SignatureIn(In):
    """What a signature says, and the signer's password where people sign in."""

    meaning: Annotated[
        str,
        StringConstraints(min_length=1, max_length=300, strip_whitespace=True),
        AfterValidator(printable),
        Field(description="What it stands for, such as “reviewed and approved”."),
    ]
    password: str = Field("", max_length=256, repr=False)


class SignatureOut(BaseModel):
    """Who vouched for what; `changed_since` says what is not any more as it was signed."""

    number: int
    at: float
    signer: str
    meaning: str
    via: str
    heads: list[str]
    model: str | None
    configuration: str
    catalog: str
    key: str | None
    changed_since: list[str]


class SignatureList(BaseModel):
    """Every signature, oldest first."""

    signatures: list[SignatureOut]
