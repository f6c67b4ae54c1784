"""What deploy/ holds is what Docker, Compose, Kubernetes and systemd understand, and runs without rights that it does not need."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from steelyard import __version__
from steelyard.cli import app
from steelyard.environment import VARIABLES
from tests.deploy.described import DEPLOY, compose, image_environment
from tests.deploy.kinds import faults

ROOT = DEPLOY.parent
BIN = Path(sys.executable).parent
MANIFESTS = [
    (path.name, manifest)
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    if path.name != "kustomization.yaml"
    for manifest in yaml.safe_load_all(path.read_text(encoding="utf-8"))
]
PODS = [
    (name, one["spec"]["template"]["spec"]) for name, one in MANIFESTS if "template" in one.get("spec", {})
]
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def run(*command: str | Path) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def parsed(words: list[str]) -> None:
    """Have our own command line read a command, without running it."""
    group: Any = typer.main.get_command(app)
    command = group.commands[words[0]]
    command.make_context(words[0], list(words[1:]))


# ---------------------------------------------------------------------- the image


def test_hadolint_finds_nothing_in_the_dockerfile(tmp_path: Path) -> None:
    run(BIN / "hadolint", DEPLOY / "Dockerfile")
    worse = tmp_path / "Dockerfile"
    worse.write_text("FROM python\nRUN cd /tmp && pip install torch\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="DL3006"):
        run(BIN / "hadolint", worse)


def test_the_image_is_nobodys_and_holds_no_tools_to_build() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    first, _, last = text.rpartition("\nFROM ")
    assert "USER 10001:10001" in last
    assert "pip" not in last
    assert "apt" not in text
    assert "TORCH_INDEX=https://download.pytorch.org/whl/cpu" in first, "plain torch brings CUDA"
    assert "HEALTHCHECK" in last
    parsed(["serve", "/study"])
    assert 'ENTRYPOINT ["steelyard"]\nCMD ["serve", "/study"]' in last
    assert {name for name in image_environment() if name.startswith("STEELYARD_")} <= VARIABLES


def test_what_is_copied_into_the_image_is_let_through() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines
    allowed = {line[1:] for line in lines if line.startswith("!")}
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    copied = {
        word
        for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE)
        for word in line.split()[:-1]
    }
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)


# ---------------------------------------------------------------------- Compose


def test_compose_is_as_its_specification_says(tmp_path: Path) -> None:
    check = [BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec"]
    run(*check, DEPLOY / "compose.yaml", DEPLOY / "compose.gpu.yaml")
    worse = tmp_path / "compose.yaml"
    worse.write_text("services: {app: {image: a, enviroment: {}}}\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="enviroment"):
        run(*check, worse)


def test_compose_has_one_door_and_no_secret() -> None:
    described = compose({"DOMAIN": "severity.example.org"})
    services = described["services"]
    assert [name for name, one in services.items() if "ports" in one] == ["proxy"]
    assert described["networks"]["back"] == {"internal": True}
    assert services["database"]["networks"] == services["worker"]["networks"] == ["back"]
    assert (
        services["app"]["environment"]["STEELYARD_PROXIES"]
        == services["proxy"]["networks"]["front"]["ipv4_address"]
    )
    assert services["app"]["healthcheck"]["test"][1:] == _health_of_the_image()
    for name in ("app", "worker", "init"):
        one = services[name]
        parsed(one["command"])
        assert one["user"] == "10001:10001", name
        assert one["read_only"], name
        assert one["cap_drop"] == ["ALL"], name
        assert set(one["environment"]) <= VARIABLES, name
    assert services["init"]["profiles"] == ["init"], "never by itself"
    assert all(one["restart"] == "unless-stopped" for name, one in services.items() if name != "init")
    assert {secret for one in services.values() for secret in one.get("secrets", [])} == set(
        described["secrets"]
    )
    assert {f.name for f in (DEPLOY / "secrets").iterdir()} == {".gitignore"}, (
        "nobody's password is in the repository"
    )
    with pytest.raises(LookupError, match="DOMAIN"):
        compose({})
    settings = re.findall(
        r"^#? *([A-Z_]+)=", (DEPLOY / ".env.example").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert set(settings) <= set(
        re.findall(r"\$\{([A-Z_]+)", (DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    )


def _health_of_the_image() -> list[str]:
    import json

    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    found = re.search(r"^    CMD (\[.*\])$", text, re.MULTILINE)
    assert found
    words: list[str] = json.loads(found[1])
    return words


# ---------------------------------------------------------------------- Kubernetes


@pytest.mark.parametrize(("name", "manifest"), MANIFESTS, ids=[f"{n}-{m['kind']}" for n, m in MANIFESTS])
def test_manifests_are_as_kubernetes_describes_them(name: str, manifest: dict[str, Any]) -> None:
    assert faults(manifest) == []


def test_a_mistake_in_a_manifest_is_found() -> None:
    server = next(one for name, one in MANIFESTS if name == "server.yaml")
    spec = server["spec"]["template"]["spec"]
    worse = {**server, "spec": {"replicas": "1", "template": {"spec": {**spec, "restartPolcy": "Always"}}}}
    assert faults(worse) == [
        "Deployment.spec lacks selector",
        "Deployment.spec.replicas is int, not '1'",
        "Deployment.spec.template.spec has no restartPolcy",
    ]


@pytest.mark.parametrize(("name", "pod"), PODS, ids=[name for name, _ in PODS])
def test_pods_need_no_rights(name: str, pod: dict[str, Any]) -> None:
    assert pod["enableServiceLinks"] is False, "a service called steelyard would set STEELYARD_PORT"
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] == 10001
    volumes = {volume["name"] for volume in pod["volumes"]}
    for container in pod["containers"]:
        parsed(container["args"])
        inside = container["securityContext"]
        assert inside["readOnlyRootFilesystem"]
        assert not inside["allowPrivilegeEscalation"]
        assert inside["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
        assert {one["name"] for one in container.get("env", [])} <= VARIABLES


def test_manifests_fit_together() -> None:
    kinds = {(one["kind"], one["metadata"]["name"]): one for _, one in MANIFESTS}
    listed = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text(encoding="utf-8"))
    assert set(listed["resources"]) == {name for name, _ in MANIFESTS} - {"init.yaml", "secret.example.yaml"}
    server, service = kinds["Deployment", "server"], kinds["Service", "server"]
    assert server["spec"]["replicas"] == 1
    assert server["spec"]["strategy"] == {"type": "Recreate"}
    for name in ("server", "worker"):
        one = kinds["Deployment", name]["spec"]
        assert one["selector"]["matchLabels"] == one["template"]["metadata"]["labels"]
        assert kinds["NetworkPolicy", name]["spec"]["podSelector"] == one["selector"]
    assert service["spec"]["selector"] == server["spec"]["selector"]["matchLabels"]
    container = server["spec"]["template"]["spec"]["containers"][0]
    assert container["ports"][0]["name"] == service["spec"]["ports"][0]["targetPort"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz", (
        "a database that is away needs no new server"
    )
    ingress = kinds["Ingress", "server"]["spec"]
    host = ingress["rules"][0]["host"]
    assert ingress["tls"][0]["hosts"] == [host]
    assert {"name": "STEELYARD_PUBLIC_URL", "value": f"https://{host}"} in container["env"]
    assert set(kinds["ConfigMap", "steelyard"]["data"]) <= VARIABLES
    assert set(kinds["Secret", "steelyard"]["stringData"].values()) == {""}
    assert listed["images"][0]["newTag"] == __version__
    assert kinds["Job", "init"]["spec"]["template"]["spec"]["containers"][0]["image"].endswith(
        f":{__version__}"
    )


# ---------------------------------------------------------------------- systemd


@pytest.mark.parametrize("unit", UNITS, ids=[unit.name for unit in UNITS])
def test_units_run_our_commands_without_rights(unit: Path, tmp_path: Path) -> None:
    sections: dict[str, dict[str, list[str]]] = {}
    for line in unit.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, equals, value = line.partition("=")
            assert equals, line
            section.setdefault(key, []).append(value)
    assert list(sections) == ["Unit", "Service", "Install"]
    service = sections["Service"]
    assert service["User"] == ["steelyard"]
    assert service["NoNewPrivileges"] == ["yes"]
    assert service["CapabilityBoundingSet"] == [""]
    assert service["ProtectSystem"] == ["strict"]
    assert service["ReadWritePaths"] == ["/srv/steelyard/%i"]
    assert service["EnvironmentFile"] == ["-/etc/steelyard/common.env", "-/etc/steelyard/%i.env"]
    words = service["ExecStart"][0].split()
    assert words[0] == "/opt/steelyard/bin/steelyard"
    parsed(words[1:])
    if tool := shutil.which(
        "systemd-analyze"
    ):  # where systemd is, it says what it thinks of words it does not know
        named = tmp_path / unit.name.replace("@", "@colon")
        named.write_text(unit.read_text(encoding="utf-8").replace(words[0], "/bin/true"), encoding="utf-8")
        assert run(tool, "verify", "--man=no", named) == ""


def test_the_example_of_an_environment_file_is_known() -> None:
    text = (DEPLOY / "systemd" / "colon.env.example").read_text(encoding="utf-8")
    named = re.findall(r"^#?(STEELYARD_[A-Z_]+)=", text, re.MULTILINE)
    assert len(named) >= 6
    assert set(named) <= VARIABLES


# ---------------------------------------------------------------------- the page about all of them


def test_the_commands_of_the_page_are_ones_that_there_are() -> None:
    text = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    lines = [line.partition("  #")[0].strip() for line in text.splitlines() if line.startswith("    ")]
    lines += re.findall(r"`([^`]+)`", text)
    ours = re.compile(
        r"(?:compose run --rm (?:-v \S+ )?init|-- steelyard|/opt/steelyard/bin/steelyard|:ro steelyard) (\w.*)$"
    )
    found = [
        re.sub(r"\$\(.*?\)", "TODAY", match[1]).split() for line in lines if (match := ours.search(line))
    ]
    assert {words[0] for words in found} == {"init", "status", "backup", "check"}
    for words in found:
        parsed(words)
    files = {name for line in lines for name in re.findall(r"(?:tests/)?deploy/[\w./*-]+", line)}
    assert len(files) >= 6
    for name in files:
        assert list(ROOT.glob(name.rstrip("/"))), name
    services = compose({"DOMAIN": "severity.example.org"})["services"]
    assert set(re.findall(r"docker compose logs (\w+)", text)) <= set(services)
    assert set(re.findall(r"--build-arg (\w+)=", text)) <= set(_arguments())
    assert sorted(re.findall(r"^\| `([A-Z_]+)` \|", text, re.MULTILINE)) == _arguments()


def _arguments() -> list[str]:
    return sorted(
        re.findall(r"^ARG (\w+)", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    )
