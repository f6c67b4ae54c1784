"""What people read before their first pair, and who has agreed to it.

A text and its examples are a *version*, named by a hash. Whoever agrees is noted in the audit log with the version; another
text is another version, and is agreed to anew. An admin can note that somebody took the agreement back.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from steelyard.arrays import Rows
from steelyard.errors import CatalogError, ConfigError
from steelyard.images.catalog import Catalog
from steelyard.store.store import Store

if TYPE_CHECKING:
    from steelyard.config import StudyConfig
    from steelyard.study.study import Study

__all__ = ["Agreement", "Instructions", "agreement_of", "agreements", "example_rows", "read_instructions"]

READ, AGREED, WITHDRAWN = "instructions read", "consent given", "consent withdrawn"


@dataclass(frozen=True)
class Instructions:
    """What people read.

    Attributes:
        text: as it was written.
        examples: catalog rows of the images below it, with their captions.
        version: names text and examples.
        consent: whether it has to be agreed to.
    """

    text: str
    examples: tuple[tuple[int, str], ...]
    version: str
    consent: bool

    def accept(self, store: Store, name: str) -> None:
        """Note that somebody has read it, or agrees to it where that is asked for; once for each version."""
        found = agreement_of(store, name)
        wanted = AGREED if self.consent else READ
        if found is None or found.version != self.version or (self.consent and not found.agreed):
            store.audit.add(name, wanted, {"version": self.version})

    def accepted(self, store: Store, name: str) -> bool:
        """Whether somebody has read or agreed to this very version."""
        found = agreement_of(store, name)
        return found is not None and found.version == self.version and (found.agreed or not self.consent)


@dataclass(frozen=True)
class Agreement:
    """What somebody last read or agreed to.

    Attributes:
        name: who.
        version: of the text.
        at: when.
        agreed: whether they agreed, or only read it.
    """

    name: str
    version: str
    at: float
    agreed: bool


def read_instructions(config: StudyConfig, catalog: Catalog) -> Instructions | None:
    """The instructions of a study; None where it has none.

    Raises:
        ConfigError: an example is no image of the study.
    """
    people = config.people
    if not people.instructions.strip():
        return None
    said = json.dumps([people.instructions, people.examples], ensure_ascii=False)
    return Instructions(
        text=people.instructions,
        examples=_examples(people.examples, catalog),
        version=hashlib.blake2b(said.encode(), digest_size=8).hexdigest(),
        consent=people.consent,
    )


def example_rows(study: Study) -> Rows:
    """Rows of the images that stand below the instructions: they are not asked about."""
    try:
        found = _examples(study.config.people.examples, study.catalog)
    except ConfigError:  # said where the server starts; people go on answering
        return np.empty(0, dtype=np.int64)
    return np.array([row for row, _ in found], dtype=np.int64)


def agreement_of(store: Store, name: str) -> Agreement | None:
    """What somebody last read or agreed to and has not taken back."""
    given = [entry for what in (READ, AGREED) for entry in store.audit.latest(1, action=what, actor=name)]
    if not given:
        return None
    last = max(given, key=lambda entry: entry.seq)
    if any(
        e.seq > last.seq and e.detail.get("name") == name for e in store.audit.latest(1000, action=WITHDRAWN)
    ):
        return None
    return Agreement(name, str(last.detail.get("version", "")), last.at, last.action == AGREED)


def agreements(store: Store) -> list[Agreement]:
    """Everybody who has read or agreed to something and has not taken it back, by name."""
    names = {entry.actor for what in (READ, AGREED) for entry in store.audit.log(action=what)}
    found = (agreement_of(store, name) for name in sorted(names))
    return [one for one in found if one is not None]


def _examples(given: tuple[str, ...], catalog: Catalog) -> tuple[tuple[int, str], ...]:
    if not given:
        return ()
    wanted = [example.partition(": ")[::2] for example in given]
    names = {image.strip() for image, _ in wanted}
    rows: dict[str, list[int]] = {name: [] for name in names}
    for row, path in enumerate(map(str, catalog.paths)):
        for name in {path, PurePosixPath(path).name} & names:
            rows[name].insert(0, row) if name == path else rows[name].append(row)
    found = []
    for image, caption in wanted:
        name = image.strip()
        if not rows[name]:
            try:
                rows[name] = [catalog.index_of(name)]
            except CatalogError:
                raise ConfigError(
                    f"'people.examples' names {name!r}, which is no image of the study (by path, unique file name or id)"
                ) from None
        if len(rows[name]) > 1 and str(catalog.paths[rows[name][0]]) != name:
            raise ConfigError(
                f"'people.examples' names {name!r}, and {len(rows[name])} images are called so; write the whole path"
            )
        found.append((rows[name][0], caption.strip()))
    return tuple(found)
