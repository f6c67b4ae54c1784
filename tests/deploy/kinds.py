"""Kubernetes' own description of its objects (lightkube-models, generated from the API), held against a manifest."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from types import ModuleType
from typing import Any, Union, get_args, get_origin, get_type_hints

__all__ = ["faults"]

# The models ask lightkube, a client, for the three words they are written with; these are Python's own. The client brings
# nine more packages.
_WORDS = ModuleType("lightkube.core.schema")
vars(_WORDS).update(DictMixin=object, field=dataclasses.field, dataclass=dataclasses.dataclass)
sys.modules.setdefault("lightkube.core", ModuleType("lightkube.core"))
sys.modules.setdefault("lightkube.core.schema", _WORDS)

_MODULES = {"v1": "core_v1", "networking.k8s.io/v1": "networking_v1"}


def faults(manifest: dict[str, Any]) -> list[str]:
    """Everything in a manifest that Kubernetes does not know, or that is missing; empty where it is sound."""
    group, kind = str(manifest["apiVersion"]), str(manifest["kind"])
    name = _MODULES.get(group, group.split(".")[0].replace("/", "_"))
    try:
        model = getattr(importlib.import_module(f"lightkube.models.{name}"), kind)
    except (ImportError, AttributeError):
        return [f"there is no {kind} in {group}"]
    return _compare(model, manifest, kind)


def _compare(model: Any, value: Any, where: str) -> list[str]:
    if get_origin(model) is Union:  # something or nothing, a number or a name
        tried = [_compare(one, value, where) for one in get_args(model) if one is not type(None)]
        return [] if value is None else min(tried, key=len)
    if get_origin(model) is list:
        if not isinstance(value, list):
            return [f"{where} is a list, not {value!r}"]
        return [
            fault
            for k, item in enumerate(value)
            for fault in _compare(get_args(model)[0], item, f"{where}[{k}]")
        ]
    if dataclasses.is_dataclass(model):
        return _fields(model, value, where)
    if model in (int, str, bool, float) and type(value) is not model:
        return [f"{where} is {model.__name__}, not {value!r}"]
    if model is dict and not (isinstance(value, dict) and all(type(one) is str for one in value.values())):
        return [f"{where} maps names to text, not {value!r}"]
    return []


def _fields(model: Any, value: Any, where: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{where} is a mapping, not {value!r}"]
    hints = get_type_hints(model, vars(sys.modules[model.__module__]))
    known = {field.metadata.get("json", field.name): field for field in dataclasses.fields(model)}
    found = [f"{where} has no {name}" for name in value if name not in known]
    found += [
        f"{where} lacks {name}"
        for name, field in known.items()
        if field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
        and name not in value
    ]
    for name in value:
        if name in known:
            found += _compare(hints[known[name].name], value[name], f"{where}.{name}")
    return found
