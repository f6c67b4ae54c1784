"""What the files in deploy/ say: a service of compose.yaml as a process to start here, and the variables of the image."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"


@dataclass(frozen=True)
class Service:
    """A service as compose.yaml describes it, in the places of a test.

    Attributes:
        command: what the container would run.
        environment: all that it would see.
        health: its health check, empty without one.
        grace: seconds it is given to stop.
    """

    command: list[str]
    environment: dict[str, str]
    health: list[str]
    grace: float


def compose(settings: Mapping[str, str]) -> dict[str, Any]:
    """compose.yaml with the variables of an .env filled in as Compose does.

    Raises:
        LookupError: one is missing that has no default.
    """

    def fill(found: re.Match[str]) -> str:
        name, otherwise, default = found["name"], found["how"], found["default"]
        if settings.get(name):
            return settings[name]
        if otherwise == ":-":
            return str(default)
        raise LookupError(f"{name}: {default or 'not set'}")

    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    filled = re.sub(r"\$\{(?P<name>[A-Z_]+)(?:(?P<how>:[-?])(?P<default>[^}]*))?\}", fill, text)
    described: dict[str, Any] = yaml.safe_load(filled)
    return described


def image_environment() -> dict[str, str]:
    """The variables that the Dockerfile sets for whatever runs in the image."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").rpartition("\nFROM ")[2].replace("\\\n", " ")
    words = [word for line in re.findall(r"^ENV (.*)$", text, re.MULTILINE) for word in shlex.split(line)]
    return dict(word.split("=", 1) for word in words)


def service(described: dict[str, Any], name: str, places: Mapping[str, str]) -> Service:
    """A service as a process of this machine: the image's entry point is this Python's, places are replaced.

    Args:
        described: by `compose`.
        name: of the service.
        places: paths and addresses within containers → those of the test; in values, the whole word.
    """

    words = "|".join(re.escape(word) for word in sorted(places, key=len, reverse=True))

    def here(text: str) -> str:
        return re.sub(rf"(?<![\w/.])(?:{words})(?![\w.-])", lambda found: places[found[0]], text)

    one = described["services"][name]
    environment = image_environment() | one.get("environment", {})
    health = [here(word) for word in one.get("healthcheck", {}).get("test", [])[1:]]
    return Service(
        command=[sys.executable, "-m", "steelyard.cli", *map(here, one["command"])],
        environment={key: here(str(value)) for key, value in environment.items() if key != "PATH"},
        health=[sys.executable, *health[1:]] if health[:1] == ["python"] else health,
        grace=float(one["stop_grace_period"].removesuffix("s")),
    )
