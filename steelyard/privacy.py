"""Whom a study's files are for: their owner alone, unless STEELYARD_UMASK says otherwise.

Answers, names, hashes of passwords and perhaps the address of a database are in them. The folder itself is left as it
is where it was there before: `steelyard init .` must not lock a shared project away.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

from steelyard.errors import ConfigError

__all__ = ["keep_private", "make_private", "read_umask", "user_name"]

_OURS = ("study.toml", "study.db*", "catalog*", "models", "cache", "backups")
log = logging.getLogger("steelyard.study")


def read_umask() -> int:
    """The rights that files do not get, from STEELYARD_UMASK; 077 (nothing for others) without it.

    Raises:
        ConfigError: it is no octal number up to 077 that leaves the owner's rights alone.
    """
    text = os.environ.get("STEELYARD_UMASK", "") or "077"
    try:
        mask = int(text, 8)
    except ValueError:
        mask = -1
    if not 0 <= mask <= 0o077:
        raise ConfigError(
            f"STEELYARD_UMASK is an octal number from 000 to 077, as in 077 (the owner alone) or 007 (a group too); "
            f"not {text!r}"
        )
    return mask


def make_private(path: Path) -> None:
    """Make an empty file that others cannot read, before anything is written to it."""
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o666 & ~read_umask()))


def keep_private(folder: Path, *, new: bool = False) -> None:
    """Take the rights of others from a study's files, and say so once where there were any.

    Args:
        folder: the study.
        new: it is being made, so there is nothing to say.
    """
    if os.name != "posix":
        return
    mask, opened = read_umask(), []
    for path in sorted({found for name in _OURS for found in folder.glob(name)}):
        try:
            mode = stat.S_IMODE(path.lstat().st_mode)
            if mode & mask and not path.is_symlink():
                path.chmod(mode & ~mask)
                opened.append(path.name)
        except OSError:  # another owner's, or gone meanwhile: theirs to decide
            continue
    if opened and not new:
        log.warning(
            "%s: others on this machine could read %s; now only you can. To share a study with your group, set "
            "STEELYARD_UMASK=007 for everybody who uses it.", folder, ", ".join(opened),
        )  # fmt: skip


def user_name() -> str:
    """Who works on this machine, for the audit log."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container's user may have no name
        return "unknown"
