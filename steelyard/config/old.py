"""What older files and callers say, in the words of today. Everything about earlier versions is here.

Version 0.1 had one ranker of thirty settings and ignored those that did not apply; its files carry no `version`. Its words
`head`, `trainer` and `posterior = "auto"` are still understood where people write them. Version 2 of the files does not say by
which recipe features are computed: it knew only the first, and so do models that do not say. Nor do models say whether their
masks switched the colours of a picture before that could be chosen: they did.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, overload

from steelyard.config.budget import budget_of_0_1
from steelyard.config.ranker import ConvexConfig, Kind, NetworkConfig, RankerConfig
from steelyard.config.section import Section
from steelyard.errors import ConfigError

__all__ = ["VERSION", "ranker_from_saved", "ranker_words", "study_words", "upgrade"]

VERSION = 3
"""Of the files that are written now."""

_KINDS = {"convex": "convex", "mlp": "network"}  # by 0.1's `head`
_REASONS_OF_0_1 = [
    "blurred",
    "stool",
    "wrong organ",
    "duplicate",
    "other",
]  # on the page of every study, and its keys
_CLASSES: dict[str, type[ConvexConfig] | type[NetworkConfig]] = {
    "convex": ConvexConfig,
    "network": NetworkConfig,
}


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
    if told == 1 and isinstance(rest.get("page", {}), Mapping):
        rest["page"] = {"reasons": _REASONS_OF_0_1, **rest.get("page", {})}
    if told < 3 and isinstance(ask := rest.get("ask"), Mapping) and "budget" in ask:
        rest["ask"] = {**ask, "budget": budget_of_0_1(ask["budget"])}
    if told == 1 and isinstance(rest.get("ranker", {}), Mapping):  # what is no table is refused later
        rest["ranker"] = _ranker_of_0_1(rest.get("ranker", {}))
    if told < 3 and isinstance(rest.get("ranker", {}), Mapping):
        rest["ranker"] = _with_first_recipe(rest.get("ranker", {}))
    return study_words(rest)


def study_words(values: Mapping[str, Any]) -> dict[str, Any]:
    """A study's values with `trainer` translated.

    Raises:
        ConfigError: both words are used.
    """
    if "trainer" in values and "refit_after" in values:
        raise ConfigError(
            "'trainer' is the older word for 'refit_after', and both are there; leave 'trainer' out"
        )
    return {("refit_after" if key == "trainer" else key): value for key, value in values.items()}


def ranker_words(values: Any, kind: str = "convex") -> Any:
    """A ranker's values with `head` and `posterior = "auto"` translated, and always with a `kind`.

    Args:
        values: by key; what is no table is left as it is.
        kind: of a ranker that does not say.

    Raises:
        ConfigError: `head` and `kind` contradict each other.
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
    own = dict(values) if "kind" in values else _as_0_1_did(values)
    found = _applicable({"recipe": 1, "mask_colours": True, **own, "kind": kind or own["kind"]})
    return _CLASSES[found["kind"]](**found)


def _is_new(values: Mapping[str, Any]) -> bool:
    """Whether a file without a version uses a word that 0.1 did not know: somebody wrote it by hand."""
    ranker = values.get("ranker", {})
    return "refit_after" in values or (isinstance(ranker, Mapping) and "kind" in ranker)


def _ranker_of_0_1(values: Mapping[str, Any]) -> dict[str, Any]:
    """0.1's settings without those it ignored; what it did not know either stays, to be refused."""
    if values.get("head", "convex") not in tuple(_KINDS):
        return dict(values)
    known = {*ConvexConfig.model_fields, *NetworkConfig.model_fields, "head"}
    strange = {key: value for key, value in values.items() if key not in known}
    return {**_applicable(_as_0_1_did(values)), **strange}


def _with_first_recipe(values: Mapping[str, Any]) -> dict[str, Any]:
    """A ranker from before there were recipes: its features, and its caches, are by the first."""
    words = ranker_words(values)
    section = _CLASSES.get(str(words["kind"]))
    if section is None or "recipe" in section.model_construct(**_only(section, words)).unused():
        return dict(values)
    return {"recipe": 1, **values}


def _as_0_1_did(values: Mapping[str, Any]) -> dict[str, Any]:
    """What 0.1 made of its settings."""
    found = dict(values)
    head = found.pop("head", "convex")
    sketch = NetworkConfig.model_construct(**_only(NetworkConfig, found))
    # A backbone that is trained made a network of the convex head.
    found["kind"] = "network" if head == "mlp" or sketch.inputs != "features" else "convex"
    if sketch.inputs == "features":
        found.pop("weights", None)  # features came from the usual weights, whatever this said
    if sketch.dropout == 0 and found["kind"] == "network":
        found["posterior"] = "laplace"  # the other two had no uncertainty then, or failed
    if sketch.masks == "independent":
        found.pop("screening", None)  # failed
    return found


def _applicable(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that exist and have an effect."""
    found = dict(ranker_words(values))
    section = _CLASSES.get(str(found["kind"]))
    if section is None:
        raise ConfigError(f"'ranker.kind' is one of {', '.join(_CLASSES)}; not {found['kind']!r}")
    own = _only(section, found)
    idle = section.model_construct(**own).unused()
    return {key: value for key, value in own.items() if key not in idle}


def _only(section: type[Section], values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key in section.model_fields}
