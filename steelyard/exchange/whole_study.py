"""A whole study out and in again: answers, grades, exclusions, wording, people and known pairs, but no secrets, models, images.

Nothing is there twice, however often it is imported, and the tables that come out of the new study are those that went in.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from steelyard import __version__
from steelyard.config import StudyConfig
from steelyard.errors import ConfigError, StoreError, StudyError
from steelyard.exchange import cells
from steelyard.exchange.bundle import ABOUT, FORMAT, read_about, read_parts, write_parts
from steelyard.exchange.exporting import csv_text
from steelyard.exchange.gold import known_pair, known_table, take_over_known
from steelyard.exchange.importing import ImageFinder, read_answers, read_source
from steelyard.exchange.reading import csv_rows
from steelyard.exchange.table import answers_table
from steelyard.privacy import user_name
from steelyard.store.importing import ForeignAnswer, Imported
from steelyard.store.records import Annotator, Excluded, NewGrade, NewKnown, Role, Source
from steelyard.study.asked import question_key
from steelyard.study.instructions import read_instructions
from steelyard.study.wording import note_wording, study_grades

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    import pandas as pd

    from steelyard.study import Study

__all__ = ["StudyImported", "export_study", "import_study", "study_tables"]


@dataclass(frozen=True)
class StudyImported:
    """What an import of a whole study did; `wording` is `taken`, `same` or `kept` (the study's own, which has other answers).

    `known` are pairs with known answers.
    """

    answers: Imported
    grades: Imported
    exclusions: Imported
    people: Imported
    known: Imported
    wording: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def export_study(study: Study, path: Path) -> dict[str, int]:
    """Write a whole study to a ZIP archive, or to a folder if the name does not end in .zip.

    Returns:
        How many rows each table has.

    Raises:
        StudyError: it cannot be written.
    """
    import tomli_w

    tables = study_tables(study)
    counts = {name: len(table) for name, table in tables.items()}
    page = _page(study.config, study)
    about = {
        "format": FORMAT,
        "study": study.config.name,
        "version": __version__,
        "written": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "catalog": study.catalog.fingerprint(),
        "rows": counts,
    }
    write_parts(
        path,
        {
            **{f"{name}.csv": csv_text(table) for name, table in tables.items()},
            "wording.toml": tomli_w.dumps(
                {"page": page, **_questions(study.config), "people": study.config.to_dict()["people"]},
                multiline_strings=False,
            ),
            ABOUT: json.dumps(about, indent=2, ensure_ascii=False) + "\n",
        },
    )
    return counts


def study_tables(study: Study) -> dict[str, pd.DataFrame]:
    """The tables of a whole study, by name."""
    import pandas as pd

    catalog = study.catalog
    paths = dict(zip(catalog.ids, catalog.paths, strict=True))
    names = study_grades(study.config, catalog).names
    groups = None if catalog.groups is None else catalog.groups.tolist()
    given = None if catalog.grades is None else catalog.grades.tolist()
    images = [
        (
            path, catalog.grade_names[given[row]] if given is not None and given[row] >= 0 else "",
            groups[row] if groups is not None and groups[row] != id else "", id,
        )
        for row, (id, path) in enumerate(paths.items())
    ]  # fmt: skip
    grades = [
        (
            g.id, g.image, paths.get(g.image, ""), names[g.grade] if g.grade < len(names) else "", g.grade, g.annotator,
            g.shown_at, g.answered_at, cells.utc(g.answered_at), g.note, g.source,
        )
        for g in study.store.grades.log()
        if g.effective and g.grade is not None
    ]  # fmt: skip
    exclusions = [
        (i.id, i.path, i.excluded_at, cells.utc(i.excluded_at), i.excluded_by or "", i.excluded_reason or "")
        for i in study.store.images.all()
        if i.excluded
    ]
    people = [(p.name, p.role, p.active, p.created, cells.utc(p.created)) for p in study.store.people.all()]
    return {
        "images": pd.DataFrame(images, columns=["image", "grade", "group", "id"]),
        "answers": answers_table(study),
        "grades": pd.DataFrame(grades, columns=list(_GRADES)),
        "exclusions": pd.DataFrame(exclusions, columns=list(_EXCLUSIONS)),
        "people": pd.DataFrame(people, columns=list(_PEOPLE)),
        "known": known_table(study),
    }


_GRADES = (
    "id", "image", "path", "grade", "code", "annotator", "shown_at", "answered_at", "answered_at_utc", "note", "source",
)  # fmt: skip
_EXCLUSIONS = ("image", "path", "excluded_at", "excluded_at_utc", "excluded_by", "reason")
_PEOPLE = ("name", "role", "active", "created", "created_utc")


def import_study(study: Study, path: Path, *, by: str | None = None) -> StudyImported:
    """Take a whole study in: all of it or, if anything in it is wrong, nothing.

    Images are known by their content. Somebody who is in the study already keeps the role they have here; whoever comes with
    the file comes deactivated: who may enter is decided here, by an admin, and not by a file. The wording is
    taken unless the study has answers or grades of its own, and so is `[people]`: how they are prepared, checked and spared.

    Args:
        study: on the same images.
        path: what `export_study` wrote.
        by: who imports; None is the user of this machine.

    Raises:
        StudyError: something in it cannot be understood, is about other images, or grades mean something else here.
        StoreError: an id stands for something else here.
    """
    parts = read_parts(path)
    about = read_about(path, parts[ABOUT])
    actor = by or user_name()
    try:
        config, answers, wording = _wording(study, parts)
        grades = list(_grades(study, parts["grades.csv"], config))
        exclusions = list(_exclusions(study, parts["exclusions.csv"]))
        people = list(_people(parts["people.csv"]))
        known_pairs = list(_known(study, parts.get("known.csv")))
    except (StudyError, StoreError, ConfigError) as error:
        raise StudyError(
            f"{path.name}: {error}" + ("" if "nothing was" in str(error) else "; nothing was imported")
        ) from None
    digest = hashlib.sha256(b"".join(parts[name] for name in sorted(parts))).hexdigest()
    detail = {"file": path.name, "sha256": digest, "study": str(about.get("study", ""))[:200]}
    store = study.store
    with store.change(None, actor, "import study"):
        known = {person.name for person in store.people.all()}
        for person in people:
            if person.name not in known:
                store.people.add(person.name, role=person.role, now=person.created)
        new_people = sum(person.name not in known for person in people)
        done = store.answers.import_all(answers, actor=actor, detail=detail)
        graded = {grade.id for grade in store.grades.log()}
        for grade in grades:
            store.grades.add(grade)
        new_grades = sum(grade.id not in graded for grade in grades)
        out = store.images.take_over(exclusions, actor=actor)
        new_known = take_over_known(study, known_pairs)
        for person in store.people.all():  # grades and exclusions name people, too
            if person.name not in known:
                store.people.update(person.name, active=False)
        counts = {"people": new_people, "grades": new_grades, "exclusions": out, "known pairs": new_known}
        if any(counts.values()):
            store.audit.add(actor, "imported study", {**detail, **counts})
    if wording == "taken":
        config.save(study.folder / "study.toml")
        study.config = config
        note_wording(store, config, study.catalog, actor)
    return StudyImported(
        done,
        Imported(new_grades, len(grades) - new_grades),
        Imported(out, len(exclusions) - out),
        Imported(new_people, len(people) - new_people),
        Imported(new_known, len(known_pairs) - new_known),
        wording,
    )


def _wording(study: Study, parts: Mapping[str, bytes]) -> tuple[StudyConfig, list[ForeignAnswer], str]:
    """The configuration to go on with, the answers, and whether the wording is the file's."""
    try:
        said = tomllib.loads(parts["wording.toml"].decode("utf-8-sig"))
        page, questions = said["page"], said.get("questions", [])
        people = said.get("people", {})  # which exports did not have at first: it stays as it is then
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise StudyError(f"wording.toml is not valid: {error}") from None
    changed = study.config.with_changes(page=page, questions=questions, people=people)
    answers = read_answers(study, parts["answers.csv"], ".csv", name="answers.csv", config=changed)
    before, after = (
        (_page(config, study), config.questions, config.people) for config in (study.config, changed)
    )
    if before == after:
        return study.config, answers, "same"
    if not _asked_here(study, answers, _ids(parts["grades.csv"])):
        read_instructions(changed, study.catalog)  # its examples are images of this study, too
        return changed, answers, "taken"
    for answer in answers:
        question_key(study.config, answer.question)
    return study.config, answers, "kept"


def _asked_here(study: Study, answers: list[ForeignAnswer], grades: set[str]) -> bool:
    """Whether the study has answers or grades that are not from this very file."""
    # What was asked in other words stays as it was asked; what came from this very file did not.
    brought = {answer.id for answer in answers} | {answer.alias for answer in answers}
    own = any(c.id not in brought for c in study.store.answers.log() if c.effective)
    return own or any(g.id not in grades for g in study.store.grades.log() if g.effective)


def _page(config: StudyConfig, study: Study) -> dict[str, Any]:
    """What annotators see, with the grades that the catalog names where the page names none."""
    page = config.to_dict()["page"]
    return {**page, "grades": list(study_grades(config, study.catalog).texts)}


def _questions(config: StudyConfig) -> dict[str, Any]:
    return {"questions": [one.to_dict() for one in config.questions]} if config.questions else {}


def _ids(content: bytes) -> set[str]:
    return {cells.text(row.get("id"), "id") for _, row in csv_rows(content, ("image", "code"), "grade")}


def _rows(name: str, content: bytes, needed: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        yield from csv_rows(content, needed, "row")
    except StudyError as error:
        raise StudyError(f"{name}: {error}") from None


def _grades(study: Study, content: bytes, config: StudyConfig) -> Iterator[NewGrade]:
    images = ImageFinder(study)
    grades = study_grades(config, study.catalog)
    for where, row in _rows("grades.csv", content, ("image", "grade", "code", "annotator")):
        try:
            code, name = cells.whole(row["code"], "code"), cells.text(row["grade"], "grade")
            if not 0 <= code < len(grades) or (name and grades.find(name) != code):
                raise StudyError(
                    f"grade {name!r} with code {code} is none of this study's: {', '.join(grades.names) or 'it has none'}"
                )
            yield NewGrade(
                images.ids[images.find(row["image"])],
                cells.text(row["annotator"], "annotator"),
                code,
                cells.moment(row.get("shown_at"), "shown_at"),
                cells.either_moment(row, "answered_at"),
                cells.text(row.get("id"), "id"),
                note=cells.text(row.get("note"), "note"),
                source=cast(Source, read_source(row.get("source"))),
            )
        except (StudyError, StoreError) as error:
            raise StudyError(f"grades.csv, {where}: {error}") from None


def _exclusions(study: Study, content: bytes) -> Iterator[Excluded]:
    images = ImageFinder(study)
    for where, row in _rows("exclusions.csv", content, ("image",)):
        try:
            yield Excluded(
                images.ids[images.find(row["image"])],
                cells.either_moment(row, "excluded_at"),
                cells.text(row.get("excluded_by"), "excluded_by") or "imported",
                cells.text(row.get("reason"), "reason"),
            )
        except (StudyError, StoreError) as error:
            raise StudyError(f"exclusions.csv, {where}: {error}") from None


def _people(content: bytes) -> Iterator[Annotator]:
    for where, row in _rows("people.csv", content, ("name", "role")):
        try:
            role = cells.text(row["role"], "role")
            if role not in get_args(Role):
                raise StudyError(f"a role is one of {', '.join(get_args(Role))}; not {role[:80]!r}")
            active = cells.truth(row.get("active", "true"), "active")
            created = cells.either_moment(row, "created")
            yield Annotator(cells.text(row["name"], "name"), cast(Role, role), active, created or 0.0)
        except StudyError as error:
            raise StudyError(f"people.csv, {where}: {error}") from None


def _known(study: Study, content: bytes | None) -> Iterator[tuple[NewKnown, bool]]:
    """Pairs with known answers, and whether each is handed out no more; none in a file of an earlier version."""
    if content is None:
        return
    images = ImageFinder(study)
    for where, row in _rows("known.csv", content, ("left", "right", "answer", "kind")):
        try:
            yield known_pair(images, row), cells.truth(row.get("retired", "false"), "retired")
        except (StudyError, StoreError) as error:
            raise StudyError(f"known.csv, {where}: {error}") from None
