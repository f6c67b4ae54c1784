"""The one error tree.

    SteelyardError
    ├── ConfigError        an option or a key of study.toml
    ├── ImageError         one file that could not become pixels (carries `path` and `reason`)
    ├── CatalogError       a folder, CSV or matrix that does not describe images
    ├── PairError          pairs that cannot be formed
    ├── RankerError        training, weights, checkpoints, prediction
    ├── ProcessError       processes that cannot train together, or no longer: one of them is gone
    ├── AcquireError       choosing what to ask next
    ├── StoreError         the database of answers (store/errors.py tells yours, try again and broken apart)
    ├── StudyError         the folder that ties them together
    ├── EngineError        where work runs: a cluster that does not answer, workers that are killed again and again
    ├── ExperimentError    methods × folds × seeds
    └── MissingExtraError  an optional part that is not installed

Every message names what was given, what was expected and what to do. The library raises; the command line
(exit code 2, one line) and the web app (a problem document) each translate in exactly one place.

The message itself is for whoever runs Steelyard: it may name a file, a database, a host. What may be told to anybody
else is `public`; where that is None, others learn only that something went wrong.
"""

from __future__ import annotations

import difflib
import errno
import shlex
from collections.abc import Iterable
from pathlib import Path

__all__ = [
    "AcquireError",
    "CatalogError",
    "ConfigError",
    "EngineError",
    "ExperimentError",
    "ImageError",
    "MissingExtraError",
    "PairError",
    "ProcessError",
    "RankerError",
    "SteelyardError",
    "StoreError",
    "StudyError",
    "command",
    "did_you_mean",
    "why_not",
]


class SteelyardError(Exception):
    """Base of everything Steelyard raises on purpose.

    Attributes:
        public: what may be told to somebody who does not run the server – no path, host or user – or None.
    """

    public: str | None = None


class ConfigError(SteelyardError):
    """An option or a key of `study.toml` is unknown or has a bad value."""


class ImageError(SteelyardError):
    """One file could not become pixels."""

    def __init__(self, path: str | Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = str(path)
        self.reason = reason

    def __reduce__(self) -> tuple[type[ImageError], tuple[str, str]]:
        # Errors cross process borders in parallel decoding; the default rebuilds from the one-string args.
        return type(self), (self.path, self.reason)


class CatalogError(SteelyardError):
    """A folder, CSV or matrix does not describe images as expected."""


class PairError(SteelyardError):
    """Pairs cannot be formed as asked."""


class RankerError(SteelyardError):
    """Training, weights, checkpoints or prediction went wrong."""


class ProcessError(SteelyardError):
    """Several processes cannot train together, or no longer, because one is gone; no fault of the model or its checkpoint."""


class AcquireError(SteelyardError):
    """The next pairs cannot be chosen as asked."""


class StoreError(SteelyardError):
    """The database of answers refuses what it was given.

    Args:
        message: what was given, what was expected, what to do; it may be told to anybody.
        place: where the store is; told to whoever runs it.
        said: what the driver said; told to whoever runs it.
    """

    def __init__(self, message: str, *, place: str = "", said: str = "") -> None:
        super().__init__((f"{place}: " if place else "") + message + (f" ({said})" if said else ""))
        self.public = message


class StudyError(SteelyardError):
    """A study folder is missing, damaged or used in the wrong order."""


class EngineError(SteelyardError):
    """Work that was handed to other processes or machines did not come back."""


class ExperimentError(SteelyardError):
    """An experiment is described or resumed inconsistently."""


class MissingExtraError(SteelyardError):
    """An optional part is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional part; install it with: pip install 'steelyard[{extra}]'")
        self.what, self.extra = what, extra

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str]]:
        return type(self), (self.what, self.extra)


def command(*words: object) -> str:
    """A command for whoever reads a message, as it has to be typed: paths with spaces are quoted.

    >>> command("serve", Path("my study"))
    "steelyard serve 'my study'"
    """
    return shlex.join(["steelyard", *(str(word) for word in words)])


def why_not(error: OSError, path: str | Path | None = None) -> str:
    """What the system refused, as a sentence with the remedy.

    Args:
        error: as it was raised.
        path: what somebody asked for, where the error names something else or nothing.

    >>> why_not(IsADirectoryError(errno.EISDIR, "Is a directory", "images"))
    'images is a folder; name a file in it'
    """
    given = path if path is not None else error.filename
    if given is None:
        return str(error.strerror or error)
    place = Path(given if isinstance(given, (str, Path)) else str(given))
    above = next((one for one in place.parents if one.exists()), place)
    if error.errno in (errno.ENOTDIR, errno.EEXIST) and (place.is_file() or above.is_file()):
        return f"{place if place.is_file() else above} is a file, not a folder; choose another path"
    if error.errno == errno.EISDIR or (error.errno == errno.EEXIST and place.is_dir()):
        return f"{place} is a folder; name a file in it"
    if error.errno == errno.ENOENT:
        missing = place if place.parent.exists() else place.parent
        return f"{missing} does not exist; create it first, or choose another path"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{place} may not be read or written by you ({error.strerror}); choose another folder, or change whose it is"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"{place} does not fit on the disk ({error.strerror}); free some space, or choose another folder"
        )
    return f"{place}: {error.strerror or error}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The known word nearest to a mistyped one, as the end of a message; empty where none is near.

    >>> did_you_mean("epgi", ["epig", "random"])
    " – did you mean 'epig'?"
    """
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" – did you mean '{near[0]}'?" if near else ""
