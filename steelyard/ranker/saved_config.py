"""The settings that were saved with a model, read by a version that may know fewer of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from steelyard.config import RankerConfig

__all__ = ["saved_config"]


def saved_config(values: Mapping[str, Any]) -> RankerConfig:
    """Settings of a saved model. One that is not known any more has done its work in training and is left out."""
    known = {field.name for field in fields(RankerConfig)}
    return RankerConfig(**{name: value for name, value in values.items() if name in known})
