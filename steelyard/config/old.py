"""What older files and callers say, in the words of today. Everything about earlier versions is here.

Version 0.1 had one ranker of thirty settings and ignored those that did not apply; its files carry no `version`. Its words
`head`, `trainer` and `posterior = "auto"` are still understood where people write them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, overload

from steelyard.config.ranker import ConvexConfig, Kind, NetworkConfig, RankerConfig
from steelyard.errors import ConfigError

__all__ = ["VERSION", "ranker_from_saved", "ranker_words", "study_words", "upgrade"]

VERSION = 2
"""Of the files that are written now."""

_KINDS = {"convex": "convex", "mlp": "network"}  # by 0.1's `head`
_CLASSES: dict[str, type[ConvexConfig] | type[NetworkConfig]] = {
    "convex": ConvexConfig,
    "network": NetworkConfig,
}
_ONLY_0_1 = ("head",)  # settings of 0.1's ranker that neither kind has


def upgrade(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The values of a file of any version, as this version writes them.

    Raises:
        ConfigError: the file was written by a newer version.
    """
    told = values.get("version", VERSION if _is_new(values) else 1)
    if type(told) is not int or told < 1:
        raise ConfigError(f"{source}: 'version' is a whole number, 1 or more, not {told!r}")
    if told > VERSION:
        raise ConfigError(
            f"{source} has version {told}, which a newer Steelyard wrote; this one reads up to version {VERSION}: install the "
            "newer one"
        )
    rest = {key: value for key, value in values.items() if key != "version"}
    if told == 1 and isinstance(rest.get("ranker", {}), Mapping):
        rest["ranker"] = _ranker_of_0_1(rest.get("ranker", {}))
    return study_words(rest)


def study_words(values: Mapping[str, Any]) -> dict[str, Any]:
    """A study's values with `trainer` translated."""
    return {("refit_after" if key == "trainer" else key): value for key, value in values.items()}


def ranker_words(values: Any, kind: str = "convex") -> Any:
    """A ranker's values with `head` and `posterior = "auto"` translated, and always with a `kind`.

    Args:
        values: by key; what is no table is left as it is.
        kind: of a ranker that does not say.
    """
    if not isinstance(values, Mapping):
        return values
    found = dict(values)
    if "head" in found:
        head = found.pop("head")
        told = _KINDS.get(head, head) if isinstance(head, str) else head
        if found.setdefault("kind", told) != told:
            raise ConfigError(
                f"'ranker.head' {head!r} is the older word for kind = {told!r}, and kind is {found['kind']!r}; leave 'head' out"
            )
    found.setdefault("kind", kind)
    if found["kind"] == "convex" and found.get("posterior") in ("auto", "laplace"):
        del found["posterior"]
    elif found["kind"] == "network" and found.get("posterior") == "auto":
        found["posterior"] = "draws"
    return found


@overload
def ranker_from_saved(values: Mapping[str, Any], kind: Literal["convex"]) -> ConvexConfig: ...
@overload
def ranker_from_saved(values: Mapping[str, Any], kind: Literal["network"]) -> NetworkConfig: ...
@overload
def ranker_from_saved(values: Mapping[str, Any], kind: None = None) -> RankerConfig: ...
def ranker_from_saved(values: Mapping[str, Any], kind: Kind | None = None) -> RankerConfig:
    """The settings a model was saved with, by this version or an older one.

    Settings that no longer exist, or that had no effect, are left out: the model was trained without them.

    Args:
        values: as they were saved.
        kind: of the model, where it is known from elsewhere.
    """
    found = _applicable(values, kind)
    return _CLASSES[found["kind"]](**found)


def _is_new(values: Mapping[str, Any]) -> bool:
    """Whether a file without a version uses a word that 0.1 did not know: somebody wrote it by hand."""
    ranker = values.get("ranker", {})
    return "refit_after" in values or (isinstance(ranker, Mapping) and "kind" in ranker)


def _ranker_of_0_1(values: Mapping[str, Any]) -> dict[str, Any]:
    """0.1's settings without those it ignored; what it did not know either stays, to be refused."""
    if values.get("head", "convex") not in tuple(_KINDS):
        return dict(values)
    known = {*ConvexConfig.model_fields, *NetworkConfig.model_fields, *_ONLY_0_1}
    strange = {key: value for key, value in values.items() if key not in known}
    return {**_applicable(values), **strange}


def _applicable(values: Mapping[str, Any], kind: Kind | None = None) -> dict[str, Any]:
    """The settings that apply, by today's names."""
    found = dict(values)
    head = found.pop("head", None)
    found.setdefault("kind", _KINDS.get(str(head), "convex"))
    sketch = NetworkConfig.model_construct(
        **{k: v for k, v in found.items() if k in NetworkConfig.model_fields}
    )
    if found["kind"] == "convex" and sketch.inputs != "features":  # 0.1 trained a network then
        found["kind"] = "network"
    found["kind"] = kind or found["kind"]
    if (
        head is not None and sketch.inputs == "features"
    ):  # 0.1 took the usual weights for features, whatever this said
        found.pop("weights", None)
    found = dict(ranker_words(found))
    if found["kind"] not in tuple(_CLASSES):
        return found
    section = _CLASSES[found["kind"]]
    found = {key: value for key, value in found.items() if key in section.model_fields}
    idle = section.model_construct(**found).unused()
    return {key: value for key, value in found.items() if key not in idle}
