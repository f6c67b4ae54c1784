"""compose.yaml, started as plain processes: the same commands, variables and health check, a real PostgreSQL with a password,
a user without rights, and TLS in front. What containers would add is walls, not behaviour."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from steelyard.images.synthetic import draw, write
from steelyard.study import Study
from tests.conftest import run_sql
from tests.deploy.described import Service, compose, service
from tests.deploy.tls_proxy import tls_proxy
from tests.waiting import until

DOMAIN = "severity.example.org"
PASSWORD = "p@ss/w:rd %41 ünd 'mehr'"
ROOT = Path(__file__).parents[2]


@dataclass
class Host:
    """A folder in place of volumes, and what makes a process one of somebody without rights; nothing where nobody can."""

    folder: Path
    as_somebody: list[str]
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, what: Service) -> subprocess.Popen[bytes]:
        """Run a service."""
        with self.log(len(self.running)).open("wb") as log:
            process = subprocess.Popen(
                [*self.as_somebody, *what.command], env=self.environment(what), cwd=self.folder / "study",
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self.running.append(process)
        return process

    def environment(self, what: Service) -> dict[str, str]:
        """The container's variables and nothing of this machine's but where programs are."""
        kept = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TMPDIR": str(self.folder / "tmp")}
        return what.environment | kept

    def end_of(self, process: subprocess.Popen[bytes], seconds: float) -> tuple[int, str]:
        """Exit code and everything that was written, once it has ended."""
        return process.wait(timeout=seconds), self.text(process)

    def text(self, process: subprocess.Popen[bytes]) -> str:
        """What a process has written so far."""
        return self.log(self.running.index(process)).read_text(encoding="utf-8")

    def log(self, number: int) -> Path:
        return self.folder / f"{number}.log"


@pytest.fixture
def host(postgres_server: Any) -> Iterator[Host]:
    """Volumes as a fresh deployment has them: an empty study, images that may be read only, a secret in a file."""
    folder = Path(tempfile.mkdtemp(prefix="steelyard-deploy-"))
    folder.chmod(0o755)
    write(folder / "images", draw(12, size=64, seed=1, workers=1))
    (folder / "images" / "labels.csv").unlink()
    for name in ("study", "tmp"):
        (folder / name).mkdir()
    (folder / "secret").write_text(f"{PASSWORD}\n", encoding="utf-8")
    (folder / "secret").chmod(0o444)
    # Whoever runs the database: somebody without rights who gets to its socket. Ourselves where we are nobody special.
    owner = Path(postgres_server.pgdata).stat()
    as_somebody = _somebody(owner.st_uid, owner.st_gid) if os.geteuid() == 0 else []
    for name in ("study", "tmp") if as_somebody else ():
        os.chown(folder / name, owner.st_uid, owner.st_gid)
    made = Host(folder, as_somebody)
    yield made
    for process in made.running:
        if process.poll() is None:
            process.kill()
            process.wait()
    shutil.rmtree(folder, ignore_errors=True)


def _somebody(user: int, group: int) -> list[str]:
    """Words before a command that make it somebody's who may read all of this machine's programs and write nothing of ours."""
    words = [
        "setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--inh-caps=+dac_read_search",
        "--ambient-caps=+dac_read_search", "--no-new-privs",
    ]  # fmt: skip
    if shutil.which("setpriv") is None:
        return []
    look = [*words, sys.executable, "-c", "import numpy"]
    return [] if subprocess.run(look, capture_output=True, cwd="/").returncode else words


@pytest.fixture
def places(postgres_server: Any, host: Host) -> dict[str, str]:
    """Where things that compose.yaml names are in this test, and a database that asks for the password."""
    hba = Path(postgres_server.pgdata) / "pg_hba.conf"
    hba.write_text(f"local all steelyard scram-sha-256\n{hba.read_text()}", encoding="utf-8")
    quoted = PASSWORD.replace("'", "''")
    run_sql(
        postgres_server, "SELECT pg_reload_conf()", f"CREATE ROLE steelyard LOGIN PASSWORD '{quoted}'",
        "CREATE DATABASE steelyard OWNER steelyard",
    )  # fmt: skip
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    scheme = "postgresql+psycopg://"
    return {
        f"{scheme}steelyard@database/steelyard": f"{scheme}steelyard@/steelyard?host={postgres_server.pgdata}",
        "/study": str(host.folder / "study"),
        "/images": str(host.folder / "images"),
        "/run/secrets/database_password": str(host.folder / "secret"),
        "/tmp": str(host.folder / "tmp"),
        "172.31.250.2": "127.0.0.1",
        "8765": str(port),
    }


@pytest.mark.postgres
@pytest.mark.slow
def test_what_compose_describes_starts_answers_trains_and_stops(
    host: Host, places: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = compose({"DOMAIN": DOMAIN, "THREADS": "1"})
    app, worker, init = (service(described, name, places) for name in ("app", "worker", "init"))

    code, said = host.end_of(host.start(app), 120)
    assert code == 2, "an empty volume holds no study"
    assert "steelyard init" in said

    code, said = host.end_of(host.start(init), 120)
    assert code == 0, said
    assert "12 images" in said

    serving, training = host.start(app), host.start(worker)
    until(lambda: _healthy(app, host) or serving.poll() is not None, "the app's health", seconds=120)
    assert serving.poll() is None, host.text(serving)
    with tls_proxy(int(places["8765"]), DOMAIN, tmp_path) as (port, cert), _browser(port, cert) as client:
        secret = until(lambda: re.search(r"#link=(\S+)", host.text(serving)), "the admin's link")
        assert f"https://{DOMAIN}/login{secret[0]}" in host.text(serving)
        signed_in = client.post("/api/v1/session", json={"link": secret[1]})
        assert signed_in.status_code == 200, signed_in.text
        assert "Secure" in signed_in.headers["set-cookie"], "the proxy's word about TLS counts"
        client.headers["X-CSRF-Token"] = signed_in.json()["csrf"]
        assert client.get("/metrics", headers={"X-Forwarded-For": "127.0.0.1"}).status_code == 200, "an admin"
        assert httpx.get(f"http://127.0.0.1:{places['8765']}/login").status_code == 421, "by its name only"

        acknowledged: list[str] = []
        until(lambda: _answer(client, acknowledged) and _trained(client), "a model", seconds=120, every=0.2)
        _answer(client, acknowledged)
        tree = [one for parent in (serving, training) for one in _tree(parent.pid)]
        commands = [" ".join(one.cmdline()) for one in tree]
        assert not [line for line in commands if "trainer" in line], "the worker trains, not the app"
        assert all(one.uids().real != 0 for one in tree) or not host.as_somebody
        serving.terminate()
        training.terminate()
        for process, what in ((serving, app), (training, worker)):
            code, said = host.end_of(process, what.grace)
            assert code == 0, said
            assert "Traceback" not in said
            assert '"level": "error"' not in said

    for name in ("STEELYARD_STORE", "STEELYARD_STORE_PASSWORD_FILE"):
        monkeypatch.setenv(name, app.environment[name])
    with Study.open(host.folder / "study") as study:
        assert study.store.url.startswith("postgresql")
        assert set(acknowledged) <= {one.id for one in study.store.answers.log()}
        assert study.store.models.newest() is not None
        assert study.store.models.trainer.state().owner is None, "the lease was given back"
        assert study.store.check() == []
    told = [*commands, *(host.text(process) for process in host.running)]
    told.append((host.folder / "study" / "study.toml").read_text(encoding="utf-8"))
    for form in (PASSWORD, PASSWORD[:8], httpx.URL(path=PASSWORD).raw_path.decode()):
        assert not [text for text in told if form in text], (
            "no password in logs, arguments or the study's folder"
        )


def _healthy(what: Service, host: Host) -> bool:
    return not subprocess.run(what.health, env=host.environment(what), capture_output=True).returncode


def _browser(port: int, cert: Path) -> httpx.Client:
    """A client that finds the domain at the proxy."""
    import ssl

    class Resolved(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            there = request.url.copy_with(host="127.0.0.1", port=port)
            told = {**request.extensions, "sni_hostname": DOMAIN}
            sent = httpx.Request(
                request.method, there, headers=request.headers, stream=request.stream, extensions=told
            )
            return super().handle_request(sent)

    trust = ssl.create_default_context(cafile=str(cert))
    return httpx.Client(base_url=f"https://{DOMAIN}", transport=Resolved(verify=trust), timeout=60)


def _answer(client: httpx.Client, acknowledged: list[str]) -> bool:
    """Answer what is handed out, and note what the server has acknowledged."""
    for pair in client.post("/api/v1/pairs/lease", json={"count": 6}).json().get("pairs", []):
        body = {key: pair[name] for key, name in (("pair", "id"), ("left", "left"), ("right", "right"))}
        id = str(uuid.uuid4())
        reply = client.post("/api/v1/comparisons", json=body | {"id": id, "answer": "left"})
        assert reply.status_code == 201, reply.text
        acknowledged.append(id)
    return bool(acknowledged)


def _trained(client: httpx.Client) -> bool:
    return client.get("/api/v1/models/newest/card").status_code == 200


def _tree(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]
