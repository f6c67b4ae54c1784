"""A folder, bucket or server whose new images join a study: looked at again and again.

What is known is what the study has; a restart begins with that, and adds nothing twice. A file counts as whole when two looks
in a row tell the same of it and it can be decoded; until then it is tried again. A source that is away is waited for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from pathlib import Path

from steelyard.errors import CatalogError, ImageError
from steelyard.images.assemble import NoImagesError
from steelyard.images.files import find_images, signatures_of
from steelyard.images.remote import as_place, join
from steelyard.images.report import Noticed
from steelyard.images.search import Signature
from steelyard.progress import Progress, counted
from steelyard.store.errors import UnavailableError
from steelyard.study.images import add_images
from steelyard.study.study import Study

__all__ = ["Look", "Watcher"]

RETRY_LOOKS = 20
"""After so many looks a file that could not be read is tried again although nothing about it seems to have changed."""


@dataclass(frozen=True)
class Look:
    """What one look brought.

    Attributes:
        joined: images that joined the study.
        waiting: files that are not whole yet, as far as one can tell, or cannot be read; and folders that cannot be looked into.
    """

    joined: int = 0
    waiting: int = 0


@dataclass
class Watcher:
    """Lets new images of a source join a study.

    Args:
        study: open, served by somebody else or not.
        source: a folder or URL.
        by: who adds them, for the audit log; None is the user of this machine.
        say: told in a sentence what happened, each thing once.
        layout: how the source is read; None takes the study's own.
    """

    study: Study
    source: str | Path
    by: str | None = None
    say: Callable[[str], None] = lambda _: None
    layout: str | None = None
    _seen: dict[str, Signature] = field(default_factory=dict)  # by the look before
    _done: dict[str, Signature] = field(default_factory=dict)  # joined, or copies of images that had
    _bad: dict[str, tuple[Signature, str]] = field(default_factory=dict)
    _trouble: str = ""
    _looks: int = 0

    def __post_init__(self) -> None:
        self._place = as_place(self.source)

    def look(self, progress: Progress | None = None) -> Look:
        """Look once; images that are whole join.

        A source or database that is away is told once, and waited for.

        Raises:
            SteelyardError: the study itself cannot be read or written.
        """
        try:
            found = self._look(progress)
        except (CatalogError, ImageError, UnavailableError) as error:
            if str(error) != self._trouble:
                self.say(f"{error}; waiting until it goes on")
            self._trouble = str(error)
            return Look(waiting=len(self._seen))
        if self._trouble:
            self.say(f"{self.source} is there again")
        self._trouble = ""
        return found

    def _look(self, progress: Progress | None) -> Look:
        self._looks += 1
        search = find_images(self._place)
        now = signatures_of(self._place, search)
        unseen = {one.path for one in search.bad}
        # What is no longer there, or can be looked into again, is told of once more when it fails again.
        self._bad = {path: bad for path, bad in self._bad.items() if path in now or path in unseen}
        for one in search.bad:
            self._note(one, (), "at every look")
        self.study.follow()
        known = self._known()
        fresh = [path for path in now if path not in known and self._done.get(path) != now[path]]
        whole = [path for path in fresh if self._seen.get(path) == now[path] and self._due(path, now[path])]
        self._seen = {path: now[path] for path in fresh}
        joined = self._add(whole, now, progress) if whole else 0
        return Look(joined, sum(path not in self._done for path in fresh) + len(unseen))

    def _add(self, paths: list[str], now: dict[str, Signature], progress: Progress | None) -> int:
        """Let these files join; how many did."""
        grades = self.study.catalog.grade_names
        try:
            added = add_images(
                self.study,
                self.source,
                layout=self.layout,
                by=self.by,
                only=frozenset(paths),
                progress=progress,
            )
            images, bad = added.images, added.report.bad
        except NoImagesError as error:
            images, bad = 0, error.bad
        refused = set()
        for one in bad:
            if (path := self._below(one.path, now)) in now:
                self._note(Noticed(path, one.reason), now[path])
                refused.add(path)
        for path in set(paths) - refused:
            self._done[path] = now[path]
            self._bad.pop(path, None)
        if grades and (more := self.study.catalog.grade_names[len(grades) :]):
            self.say(f"new grades, worse than {grades[-1]}: {', '.join(more)}")
        if images:
            self.say(f"{counted(images, 'image')} joined; the study has {len(self.study.catalog):,}")
        return images

    def _known(self) -> set[str]:
        """Paths below the source under which the study knows an image."""
        catalog = self.study.catalog
        frames = catalog._has("frame")
        start = self._start()
        root = f"{catalog.root.resolve().as_posix()}/" if catalog.root else ""
        known = set()
        for row, path in enumerate(catalog.paths.tolist()):
            if frames and (frame := catalog.place(row)[1]):
                path = path.removesuffix(f"#{frame}")
            whole = path if "://" in path or path.startswith("/") else root + path
            if whole.startswith(start):
                known.add(whole[len(start) :])
        return known

    def _start(self) -> str:
        """What whole paths of files of the source begin with."""
        place = self._place
        return join(place, "") if isinstance(place, str) else f"{place.resolve().as_posix()}/"

    def _below(self, path: str, now: Container[str]) -> str:
        """The file that a report means, as listed: it may name its whole path, or a frame of it."""
        root = self.study.catalog.root
        whole = (
            path
            if "://" in path or path.startswith("/") or not root
            else f"{root.resolve().as_posix()}/{path}"
        )
        names = (path, whole.removeprefix(self._start()))
        return next((name for one in names for name in (one, re.sub(r"#\d+$", "", one)) if name in now), path)

    def _due(self, path: str, now: Signature) -> bool:
        if path not in self._bad:
            return True
        return self._bad[path][0] != now or not now or self._looks % RETRY_LOOKS == 0

    def _note(self, bad: Noticed, now: Signature, again: str = "when it changes") -> None:
        if self._bad.get(bad.path, ((), ""))[1] != bad.reason:
            self.say(f"{bad.path} {bad.reason}; it is tried again {again}")
        self._bad[bad.path] = (now, bad.reason)
