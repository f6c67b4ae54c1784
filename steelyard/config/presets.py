"""Rankers by preset, and rankers changed: every way to a `RankerConfig` from plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from steelyard.config.old import ranker_words
from steelyard.config.ranker import ConvexConfig, NetworkConfig, RankerConfig, RankerSection
from steelyard.config.section import plainly
from steelyard.errors import ConfigError, did_you_mean

__all__ = ["RankerField", "change_ranker", "ranker_config", "ranker_preset"]

RankerField = Annotated[
    ConvexConfig | NetworkConfig, Field(discriminator="kind"), BeforeValidator(ranker_words)
]
"""A ranker as a field of a configuration: older words are understood, `kind` decides which settings there are."""

_ADAPTER: TypeAdapter[RankerConfig] = TypeAdapter(RankerField)

_PRESETS: dict[str, dict[str, Any]] = {
    "quick": {},
    "features": {"backbone": "none"},
    "small": {
        "kind": "network", "backbone": "small", "image_size": 64, "learning_rate": 1e-3, "epochs": 60, "patience": 10,
        "ties": "half",
    },
    # The last blocks of a pretrained network, trained on cached activations: features are learnt in seconds on one core.
    "tuned": {
        "kind": "network", "backbone": "lite0", "trained_stages": 1, "image_size": 128, "hidden": 0, "dropout": 0.2,
        "learning_rate": 3e-4, "epochs": 40, "patience": 8, "posterior": "draws", "draws": 30, "ties": "half",
    },
    # docs/paper.md: what is the authors', and what is not
    "paper": {
        "kind": "network", "backbone": "densenet169", "image_size": 224, "hidden": 0, "dropout": 0.2, "units": "element",
        "weight_decay": 1e-4, "learning_rate": 2e-5, "batch_size": 32, "epochs": 300, "patience": 20, "ties": "half", "draws": 30,
    },
}  # fmt: skip


def ranker_config(**values: Any) -> RankerConfig:
    """A ranker from plain values; `kind` decides which settings there are.

    >>> ranker_config(kind="network", backbone="small").posterior
    'draws'

    Raises:
        ConfigError: an unknown key, a key of the other kind, or a bad value.
    """
    try:
        return _ADAPTER.validate_python(values)
    except ValidationError as error:
        raise ConfigError(plainly(_Whole, error.errors(include_url=False)[0])) from None


def change_ranker(config: RankerConfig, changes: Mapping[str, Any]) -> RankerConfig:
    """A ranker with some settings changed. Where the kind changes, what both kinds have is kept.

    >>> change_ranker(ConvexConfig(components=64), {"kind": "network"}).backbone
    'lite2'

    Raises:
        ConfigError: an unknown key, a key of the other kind, or a bad value.
    """
    wanted = ranker_words(changes, kind=config.kind)
    kept = {name: getattr(config, name) for name in type(config).model_fields}
    if wanted["kind"] != config.kind:
        kept = {
            name: value
            for name, value in kept.items()
            if name in ConvexConfig.model_fields and name in NetworkConfig.model_fields
        }
    return ranker_config(**{**kept, **wanted})


def ranker_preset(preset: str, **changes: Any) -> RankerConfig:
    """The ranker of a preset, with some settings changed.

    >>> ranker_preset("paper").backbone
    'densenet169'

    Raises:
        ConfigError: no such preset, an unknown key, a key of the other kind, or a bad value.
    """
    if preset not in _PRESETS:
        raise ConfigError(
            f"unknown preset {preset!r}{did_you_mean(str(preset), _PRESETS)}; there are {', '.join(_PRESETS)}"
        )
    try:
        return change_ranker(ranker_config(preset=preset, **_PRESETS[preset]), changes)
    except ConfigError as error:
        raise ConfigError(f"preset {preset}: {error}") from None


class _Whole(RankerSection):
    """Stands for either kind in messages about the kind itself."""
