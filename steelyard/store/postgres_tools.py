"""PostgreSQL's own tools, `pg_dump` and `pg_restore`, where they are installed and fit the server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from sqlalchemy.engine import URL

from steelyard.environment import read_secret
from steelyard.store.errors import UnavailableError

__all__ = ["dump", "restore", "tool_for"]


def tool_for(name: str, server: int) -> str | None:
    """Path of a tool that is not older than the server's major version; None without one.

    Args:
        name: `pg_dump` or `pg_restore`.
        server: the server's major version.
    """
    path = shutil.which(name)
    if path is None:
        return None
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"\b([0-9]+)(?:\.[0-9]+|beta|rc|devel)", said)
    return path if found is not None and int(found[1]) >= server else None


def dump(tool: str, url: URL, target: Path, *, snapshot: str, without: list[str]) -> None:
    """Write a database in pg_dump's custom format, as a snapshot of another connection sees it.

    Args:
        tool: path of `pg_dump`.
        url: the database.
        target: the file to write.
        snapshot: from `pg_export_snapshot()`, whose transaction is still open.
        without: tables whose rows are left out.
    """
    options = [f"--exclude-table-data={table}" for table in without]
    _run(
        [
            tool, "--format=custom", "--compress=0", "--no-owner", "--no-privileges", f"--snapshot={snapshot}",
            f"--file={target}", *options,
        ],
        url,
    )  # fmt: skip


def restore(tool: str, url: URL, source: Path) -> None:
    """Read such a file into an empty database, all or nothing."""
    _run([tool, "--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges", str(source)], url)


def _run(command: list[str], url: URL) -> None:
    # The password goes through the environment: arguments are seen by every user of the machine.
    # `URL.set` takes None for "as it is" and would leave it in.
    plain = url._replace(drivername="postgresql", password=None).render_as_string(hide_password=False)
    password = str(url.password or "") or read_secret("STEELYARD_STORE_PASSWORD")
    environment = {**os.environ, **({"PGPASSWORD": password} if password else {})}
    done = subprocess.run(
        [*command, "--no-password", f"--dbname={plain}"], env=environment, capture_output=True, text=True, check=False
    )  # fmt: skip
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if "error" in line.lower()] or [done.stderr.strip()]
        raise UnavailableError(
            f"{Path(command[0]).name} failed; try again when the database and its disk are well", said=said[0]
        )
