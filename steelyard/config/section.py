"""What every configuration has in common: frozen, typed, checked by pydantic, and wrong in one sentence.

A section says what its keys may hold by their types. What pydantic finds wrong becomes one `ConfigError` that names the
key, what was given, what is expected and the nearest known word.
"""

from __future__ import annotations

import inspect
import json
import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator

from steelyard.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails
    from typing_extensions import Self

__all__ = ["AtLeastOne", "Expect", "Section", "Share", "Texts", "WholeNumbers", "ZeroOrMore", "plainly"]


@dataclass(frozen=True)
class Expect:
    """What a key may hold, as the end of “'key' is …”; stands beside the bounds in an annotation."""

    text: str


AtLeastOne = Annotated[int, Field(ge=1), Expect("1 or more")]
ZeroOrMore = Annotated[int, Field(ge=0), Expect("0 or more")]
Share = Annotated[float, Field(ge=0, le=1), Expect("a share between 0 and 1")]
# TOML and JSON have lists only; everything else is taken as it is written.
Texts = Annotated[tuple[str, ...], Field(strict=False), Expect("a list of texts")]
WholeNumbers = Annotated[tuple[int, ...], Field(strict=False), Expect("a list of whole numbers")]

_TYPES = {"int": "a whole number", "float": "a number", "string": "text", "bool": "true or false"}


class Section(BaseModel):
    """A part of a configuration.

    Attributes:
        place: the name of the section in `study.toml`, for messages; empty at the top.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
    place: ClassVar[str] = ""

    @classmethod
    def full_key(cls, name: object) -> str:
        """A key as people write it, with its section: `ask.raters`."""
        return ".".join(part for part in (cls.place, str(name)) if part)

    @classmethod
    def unknown_key(cls, name: str) -> str:
        """The sentence about a key that does not exist."""
        return f"unknown key '{cls.full_key(name)}'{did_you_mean(name, cls.model_fields)}"

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], *, source: str = "configuration", context: Any = None
    ) -> Self:
        """Build from plain values.

        Args:
            values: by key.
            source: where they come from, for the message.
            context: handed to validators.

        Raises:
            ConfigError: an unknown key (with the nearest known one) or a bad value.
        """
        try:
            return cls.model_validate(values, context=context)
        except ConfigError as error:
            raise ConfigError(f"{source}: {error}") from None

    @classmethod
    def summary(cls) -> str:
        """What the section is about."""
        return (inspect.getdoc(cls) or "").partition("\n")[0]

    @classmethod
    def meaning(cls, name: str) -> str:
        """What a key means, as its docstring says: the one source of comments in `study.toml` and of the docs."""
        text = (inspect.getdoc(cls) or "").partition("\nAttributes:\n")[2]
        found = re.search(rf"^    {name}: (.*?)(?=^    \w+: |\Z)", text, re.MULTILINE | re.DOTALL)
        return " ".join(found[1].split()).removesuffix(".") if found else ""

    @classmethod
    def explain(cls, name: str) -> str:
        """What a key means, what it may hold and what it holds by default, as a comment."""
        field = cls.model_fields[name]
        meaning = cls.meaning(name)
        default = "needed"
        if not field.is_required():
            shown = json.dumps(field.get_default(call_default_factory=True), ensure_ascii=False)
            default = f"default {shown}"
        return f"{meaning[:1].upper()}{meaning[1:]} ({_expected(field)}; {default})."

    def conflict(self) -> str:
        """Why these values cannot stand together, as a sentence with the remedy; empty where they can."""
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as they stand in TOML and JSON."""
        return self.model_dump(mode="json")

    def with_changes(self, **changes: Any) -> Self:
        """A copy with some keys changed, checked like any other.

        Raises:
            ConfigError: an unknown key or a bad value.
        """
        own = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self)(**{**own, **changes})

    @model_validator(mode="wrap")
    @classmethod
    def _in_one_sentence(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            made = handler(values)
        except ValidationError as error:
            raise ConfigError(plainly(cls, error.errors(include_url=False)[0])) from None
        if why := made.conflict():
            raise ConfigError(why)
        return made


def plainly(section: type[Section], error: ErrorDetails) -> str:
    """What pydantic found wrong in a section, as one sentence."""
    kind, given, where, about = error["type"], error["input"], error["loc"], error.get("ctx", {})
    if kind == "value_error":  # raised by a validator of ours, with the whole sentence
        return str(about["error"])
    if kind == "extra_forbidden":
        return section.unknown_key(str(where[0]))
    key = section.full_key(where[0] if where else "")
    if kind == "missing":
        return f"'{key}' is missing, and it is needed; add it"
    if kind.startswith("model_"):  # a number or a text where a table belongs
        return (
            f"'{key}' is a section ([{key}]), not {_shown(given)}"
            if key
            else f"{_shown(given)} is not a table"
        )
    if kind == "union_tag_invalid":
        tags = [tag.strip(" '") for tag in str(about["expected_tags"]).split(",")]
        return _one_of(f"{key}.{str(about['discriminator']).strip(chr(39))}", tags, about["tag"])
    field = section.model_fields.get(str(where[0])) if where else None
    if kind == "literal_error" and field is not None:
        return _one_of(key, [str(word) for word in get_args(field.annotation)], given)
    expected = _TYPES.get(kind.removesuffix("_type"))
    if expected is None or len(where) > 1:
        expected = _own_words(field) if field else None
    if kind == "finite_number":
        expected = "a finite number"
    if expected is None:  # nothing that our keys can cause; better pydantic's words than none
        return f"'{key}': {error['msg']}, not {_shown(given)}"
    return f"'{key}' is {expected}, not {_shown(given)}"


def _own_words(field: FieldInfo) -> str | None:
    return next((mark.text for mark in field.metadata if isinstance(mark, Expect)), None)


def _expected(field: FieldInfo) -> str:
    """What a key may hold, in a word or two."""
    words = get_args(field.annotation)
    if words and all(isinstance(word, str) for word in words):
        return "only this" if len(words) == 1 else f"one of {', '.join(words)}"
    types: dict[Any, str] = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    return _own_words(field) or types[field.annotation]


def _one_of(key: str, words: list[str], given: Any) -> str:
    near = did_you_mean(str(given), words)
    return f"'{key}' is one of {', '.join(words)}; not {_shown(given)}{near}"


def _shown(value: Any) -> str:
    short = reprlib.Repr()
    short.maxstring = short.maxother = short.maxlong = 80
    return short.repr(value)
