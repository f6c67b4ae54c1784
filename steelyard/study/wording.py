"""The wording of a study over time: which question was asked when, and in which order the grades stood.

An answer belongs to the question that was on the page when it was given, and a grade to a place in the list of its day. So
whoever shows a wording notes it in the audit log if it is another than before – also one that somebody wrote into
`study.toml` by hand – and a list of grades that would give grades another meaning is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.config import StudyConfig
from steelyard.config.grades import GradeList
from steelyard.errors import ConfigError, StudyError
from steelyard.images.catalog import Catalog
from steelyard.store.store import Store

if TYPE_CHECKING:
    from steelyard.study.study import Study

__all__ = [
    "Asked",
    "Regraded",
    "Wording",
    "catalog_codes",
    "check_grades",
    "check_new_grades",
    "note_wording",
    "questions_asked",
    "read_wordings",
    "regraded",
    "show_wording",
    "study_grades",
]

SHOWN = "wording shown"
CHANGED = "study changed"  # what the page wrote before wordings were noted, and writes still


@dataclass(frozen=True)
class Wording:
    """What people were shown from some time on. `grades` is None where only the question was noted.

    `further` are the further questions by key.
    """

    at: float
    question: str
    grades: GradeList | None
    further: Mapping[str, str] = field(default_factory=dict)

    def asked(self, key: str) -> str:
        """What was asked under a key, empty for the main question; "" where nothing was."""
        return self.further.get(key, "") if key else self.question


@dataclass(frozen=True)
class Asked:
    """Answers to one question.

    Attributes:
        question: as it was worded; "" where that was not noted.
        imported: whether the answers came from elsewhere, where the question may have been another.
        key: of a further question, empty for the main one.
        answers: how many count.
        first: time of the first one.
        last: time of the last one.
    """

    question: str
    imported: bool
    key: str
    answers: int
    first: float
    last: float


@dataclass(frozen=True)
class Regraded:
    """Grades that would mean something else by another list.

    Attributes:
        given: by people.
        catalog: that came with the images.
        lost: one of their codes would have no grade at all; -1 where none.
    """

    given: int
    catalog: int
    lost: int

    def __bool__(self) -> bool:
        return bool(self.given or self.catalog)

    def sentence(self) -> str:
        """How many of whom."""
        parts = [(self.given, "given by people"), (self.catalog, "that came with the images")]
        return " and ".join(
            f"{number:,} grade{'s' * (number != 1)} {whose}" for number, whose in parts if number
        )


def study_grades(config: StudyConfig, catalog: Catalog) -> GradeList:
    """The grades of a study: the page's, or the catalog's where the page names none."""
    return GradeList(tuple(config.page.grades) or tuple(catalog.grade_names))


def note_wording(store: Store, config: StudyConfig, catalog: Catalog, by: str = "system") -> None:
    """Write down what people are shown from now on, if it is another wording than before."""
    page = config.page
    said = {
        "question": page.question,
        "chosen": page.words.chosen,
        "reasons": list(page.reasons),
        "grades": list(study_grades(config, catalog).texts),
        **({"questions": {one.key: one.question for one in config.questions}} if config.questions else {}),
    }
    before = store.audit.latest(1, action=SHOWN)
    if not before or before[0].detail != said:
        store.audit.add(by, SHOWN, said)


def show_wording(study: Study, by: str = "system") -> None:
    """The same for a study that is open: people see its wording from now on."""
    if study.wording_noted is not study.config:
        note_wording(study.store, study.config, study.catalog, by)
        study.wording_noted = study.config


def read_wordings(store: Store) -> list[Wording]:
    """Every wording that was noted, oldest first."""
    entries = sorted(
        (*store.audit.log(action=SHOWN), *store.audit.log(action=CHANGED)), key=lambda entry: entry.seq
    )
    return [
        Wording(
            entry.at, str(entry.detail["question"]), GradeList(tuple(grades)) if grades is not None else None,
            entry.detail.get("questions", {}),
        )
        for entry in entries
        if "question" in entry.detail
        for grades in [entry.detail.get("grades") if entry.action == SHOWN else None]
    ]  # fmt: skip


def questions_asked(
    wordings: Sequence[Wording],
    told: Iterable[Mapping[str, Sequence[Any]]],
    only: NDArray[np.int64] | None = None,
) -> list[Asked]:
    """Which question each answer that counts was given to, a row a question, in the order of the first answers.

    A pair that was up when the wording changed was asked with the old one: the earliest of its times decides.

    Args:
        wordings: as `read_wordings` gives them.
        told: blocks of the log, as `Answers.told` gives them.
        only: numbers of the answers that are meant; None takes all.
    """
    starts = np.array([wording.at for wording in wordings])
    found: dict[tuple[str, bool, str], tuple[int, float, float]] = {}
    for block in told:
        answered, received, shown = (
            np.array(block[name], dtype=np.float64) for name in ("answered_at", "received_at", "shown_at")
        )
        at = np.fmin(np.fmin(received, answered), shown)  # where nobody noted when it was shown, that is NaN
        # A browser's clock may be behind; what arrived after the first wording was noted was asked with a noted one.
        noted = np.minimum(np.searchsorted(starts, received, side="right"), 1)
        place = np.maximum(np.searchsorted(starts, at, side="right"), noted) - 1
        imported = np.array([source.startswith("import") for source in block["source"]], dtype=bool)
        meant = np.ones(len(at), dtype=bool) if only is None else np.isin(block["seq"], only)
        questions = np.array(block["question"], dtype=object)
        for key, its in _alike(place[meant], imported[meant], questions[meant], answered[meant]):
            where, was_imported, question = key
            worded = wordings[where].asked(question) if where >= 0 and not was_imported else ""
            count, first, last = found.get((worded, was_imported, question), (0, np.inf, -np.inf))
            found[worded, was_imported, question] = (
                count + len(its), min(first, float(its.min())), max(last, float(its.max())),
            )  # fmt: skip
    rows = [Asked(*key, *its) for key, its in found.items()]
    return sorted(rows, key=lambda row: (row.first, row.question))


def _alike(
    place: NDArray[np.int64],
    imported: NDArray[np.bool_],
    question: NDArray[np.object_],
    times: NDArray[np.float64],
) -> Iterator[tuple[tuple[int, bool, str], NDArray[np.float64]]]:
    """Times by wording, origin and question."""
    for key in sorted(set(zip(place.tolist(), imported.tolist(), question.tolist(), strict=True))):
        yield key, times[(place == key[0]) & (imported == key[1]) & (question == key[2])]


def catalog_codes(catalog: Catalog, grades: GradeList) -> NDArray[np.int64] | None:
    """The catalog's grades as places in a list: by name where all its names are there, else as they stand."""
    if catalog.grades is None:
        return None
    places = np.array(_places(catalog, grades), dtype=np.int64)
    return np.where(catalog.grades >= 0, places[catalog.grades], -1) if len(places) else catalog.grades


def _places(catalog: Catalog, grades: GradeList) -> list[int]:
    own = GradeList(tuple(catalog.grade_names)).names
    found = [grades.find(name) for name in own]
    if None not in found and len(set(found)) == len(own):
        return [place for place in found if place is not None]
    # Images that joined later may have brought a grade that the list does not have: it stands behind all others.
    joined = len(own) - len(grades)
    if 0 < joined < len(own) and set(found[:-joined]) == set(range(len(grades))):
        return [code if place is None else place for code, place in enumerate(found)]
    return list(range(len(own)))


def regraded(store: Store, catalog: Catalog, before: GradeList, after: GradeList) -> Regraded:
    """Which grades another list would give another meaning."""
    moved = before.moved(after)
    given = store.grades.arrays().grade
    people, images = int(np.isin(given, moved).sum()), 0
    lost = int(given.max(initial=-1))
    if catalog.grades is not None and len(catalog.grade_names):
        known = catalog.grades[catalog.grades >= 0]
        counts = np.bincount(known, minlength=len(catalog.grade_names)).tolist()
        for number, was, now in zip(counts, _places(catalog, before), _places(catalog, after), strict=True):
            if not number:
                continue
            lost = max(lost, now)
            follows = was < len(before) and now < len(after) and _same(before.names[was], after.names[now])
            images += number if was in moved and not follows else 0
    return Regraded(people, images, lost if lost >= len(after) else -1)


def _same(name: str, other: str) -> bool:
    return GradeList((name,)).find(other) == 0


def check_new_grades(config: StudyConfig, catalog: Catalog) -> None:
    """Refuse grades of a new study by which nobody can grade.

    Raises:
        ConfigError: there are too many, or two have one name.
    """
    if not (why := study_grades(config, catalog).fault()):
        return
    if config.page.grades:
        raise ConfigError(f"'page.grades': {why}")
    labels = config.images.labels
    where = f" in {labels}, or leave its column grade out" if labels else ", or leave the grades out"
    raise ConfigError(f"{why}{where}")


def check_grades(store: Store, config: StudyConfig, catalog: Catalog, source: str) -> None:
    """Refuse a list of grades that somebody changed in `study.toml` so that grades mean something else.

    Raises:
        ConfigError: nobody can grade by it.
        StudyError: grades would change their meaning, or have none.
    """
    noted = [wording.grades for wording in read_wordings(store) if wording.grades is not None]
    now = study_grades(config, catalog)
    if not noted or noted[-1] == now:
        return
    if why := now.fault():
        raise ConfigError(f"{source}: 'page.grades': {why}")
    found = regraded(store, catalog, noted[-1], now)
    if not found and found.lost < 0:
        return
    was, what = ", ".join(noted[-1].names), found.sentence() or f"grade {found.lost}, which images have"
    raise StudyError(
        f"{source}: the list of grades was changed ({was} became {', '.join(now.names) or 'none'}), and {what} would mean "
        f"something else; put it back to [page] grades = {json.dumps(noted[-1].texts, ensure_ascii=False)}. In its place a grade may be renamed, and new "
        "ones go to the end; the Admin page makes any other change when you confirm it"
    )
