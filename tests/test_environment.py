"""What a deployment sets: every variable is in the table, every option has one, a typing mistake is told, no secret is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from steelyard.cli import app
from steelyard.environment import SECRETS, VARIABLES, is_on, read_secret, thread_limits, unknown_variables
from steelyard.errors import ConfigError

ROOT = Path(__file__).parents[1]
# Who does something once by hand needs no variable for it.
# A worker without a folder takes STEELYARD_STORE for --store; beside a folder the variable is the study's (`store/address.py`).
BY_HAND = {"study", "once", "store", "help"}


def table() -> list[str]:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `STEELYARD_")]
    return [name for row in rows for name in re.findall(r"STEELYARD_[A-Z_]+", row)]


def options(command: str) -> dict[str, str | None]:
    """Options of a command and the variable of each."""
    group: Any = typer.main.get_command(app)
    return {one.name: getattr(one, "envvar", None) for one in group.commands[command].params}


def test_the_table_lists_what_is_read_and_nothing_else() -> None:
    told = table()
    assert sorted(told) == sorted(VARIABLES)
    read = {
        name
        for path in (ROOT / "steelyard").rglob("*.py")
        if path.name != "environment.py"
        for name in re.findall(r"\"(STEELYARD_[A-Z_]*[A-Z])\"", path.read_text(encoding="utf-8"))
    }
    assert read <= VARIABLES
    by_rule = {name for name in VARIABLES if name.startswith("STEELYARD_OIDC_") or name.endswith("_FILE")}
    assert VARIABLES - read <= by_rule, "what is in the table is read somewhere"


def test_every_option_of_what_keeps_running_can_be_set_from_outside() -> None:
    for command in ("serve", "worker"):
        found = options(command)
        assert {name for name, variable in found.items() if variable is None} <= BY_HAND, command
        assert {variable for variable in found.values() if variable} <= VARIABLES
    assert options("serve")["port"] == "STEELYARD_PORT"


def test_what_is_set_from_outside_reaches_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import steelyard.web.app

    given: dict[str, Any] = {}
    monkeypatch.setattr(
        steelyard.web.app, "serve", lambda study, **options: given.update(options, study=study)
    )
    for name in ("OMP", "OPENBLAS", "MKL"):
        monkeypatch.setenv(f"{name}_NUM_THREADS", "7")
    for name, value in {
        "HOST": "0.0.0.0", "PORT": "9000", "PUBLIC_URL": "https://a.example", "TLS_CERT": "c.pem", "TLS_KEY": "k.pem",
        "PROXIES": "10.0.0.5,10.1.0.0/24", "AUTH_HEADER": "X-User", "AUTH_CREATE": "1", "LOG": "json", "TRAIN": "0",
        "THREADS": "3", "PEOPLE": "colon",
    }.items():  # fmt: skip
        monkeypatch.setenv(f"STEELYARD_{name}", value)
    app(["serve", str(tmp_path), "--port", "9001"], standalone_mode=False)
    assert given == {
        "study": [tmp_path], "many": False, "host": "0.0.0.0", "port": 9001, "public_url": "https://a.example", "tls_cert": Path("c.pem"),
        "tls_key": Path("k.pem"), "proxies": ["10.0.0.5,10.1.0.0/24"], "auth_header": "X-User", "auth_create": True,
        "log_format": "json", "train": False, "people": "colon",
    }, "an option wins"  # fmt: skip
    assert os.environ["OMP_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == "3"
    assert thread_limits(0) == {}, "whoever set OMP_NUM_THREADS has set it"


def test_a_typing_mistake_is_told_with_what_was_meant_and_without_its_value() -> None:
    told = {"STEELYARD_METRICS_TOKN": "s3cret", "STEELYARD_DATABASE_URL": "s3cret", "STEELYARD_DATA": "/data"}
    # What Kubernetes sets beside a service that is called steelyard, or steelyard-page.
    told |= {
        "STEELYARD_SERVICE_HOST": "10.0.0.1",
        "STEELYARD_PORT_80_TCP_ADDR": "10.0.0.1",
        "STEELYARD_PORT": "80",
    }
    told |= {"STEELYARD_PAGE_SERVICE_PORT_HTTP": "80", "STEELYARD_PAGE_PORT": "tcp://10.0.0.1:80"}
    done = subprocess.run(
        [sys.executable, "-m", "steelyard.cli", "--version"],
        env=os.environ | told, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr.count("warning:") == 2
    assert (
        "STEELYARD_METRICS_TOKN is set, but nothing reads it – did you mean 'STEELYARD_METRICS_TOKEN'?"
        in done.stderr
    )
    assert "STEELYARD_DATABASE_URL is set, but nothing reads it; docs/operations.md lists" in done.stderr
    assert "s3cret" not in done.stderr + done.stdout
    assert unknown_variables(dict.fromkeys(VARIABLES, "1")) == []


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_comes_from_its_variable_or_from_a_file(name: str, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    assert read_secret(name, {}) == ""
    assert read_secret(name, {name: "s3cret"}) == "s3cret"
    file.write_text("s3 cret \n", encoding="utf-8")
    assert read_secret(name, {f"{name}_FILE": str(file)}) == "s3 cret ", "only the end of the line goes"
    with pytest.raises(ConfigError, match="both set") as refused:
        read_secret(name, {name: "s3cret", f"{name}_FILE": str(file)})
    assert "s3" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "does not exist"), (b"", "is empty"), (b"\n", "is empty"), (b"s3cret\nother\n", "several lines"),
     (b"s3cret\xff", "is no text")],
)  # fmt: skip
def test_a_file_that_holds_no_secret_is_refused_by_its_name(
    content: bytes | None, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=why) as refused:
        read_secret("STEELYARD_METRICS_TOKEN", {"STEELYARD_METRICS_TOKEN_FILE": str(file)})
    assert "STEELYARD_METRICS_TOKEN_FILE" in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_a_switch_is_on_or_off() -> None:
    for value, on in (
        ("1", True),
        ("true", True),
        ("YES", True),
        ("0", False),
        ("false", False),
        ("", False),
    ):
        assert is_on("STEELYARD_LOGIN", {"STEELYARD_LOGIN": value}) is on
    with pytest.raises(ConfigError, match="STEELYARD_LOGIN is 1"):
        is_on("STEELYARD_LOGIN", {"STEELYARD_LOGIN": "maybe"})
