"""docs/dependencies.md says of every dependency what it is for, and of nothing else."""

from __future__ import annotations

import re
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]


def name_of(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\s\[<>=;]", requirement)[0]).lower()


def test_every_dependency_is_accounted_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    asked = [*project["dependencies"], *(name for extra in extras for name in extra)]
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `([a-z0-9-]+)` \|", page, re.MULTILINE)
    assert sorted(set(told)) == sorted({name_of(line) for line in asked} - {"steelyard"})
    assert len(told) == len(set(told)), "each once"
    assert "unknown" not in page
