"""A whole study out and in again: the tables that come out are those that went in, and no secret is among them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from steelyard.cli import app
from steelyard.errors import StudyError
from steelyard.exchange import export_study, import_study, study_tables
from steelyard.images.labels import read_labels
from steelyard.rescue import backup_study
from steelyard.store.records import NewKnown
from steelyard.study import Study
from steelyard.web.auth import digest
from tests.exchange.files import make_study

GRADES = ("none: nothing to see", "some", "much: everywhere")
HERE = {"answers": ["received_at", "source", "seq", "hash"], "grades": ["source"], "people": ["active"]}
"""What a table says about the study it is in."""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def store_url(request: pytest.FixtureRequest) -> str:
    return "" if request.param == "sqlite" else request.getfixturevalue("postgres_reused")()


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Study]:
    """A study with everything: answers in several words, one undone, grades, exclusions, people with secrets."""
    page = {
        "question": "Which has more bleeding?",
        "grades": GRADES,
        "reasons": ("blurred", "=other"),
        "keys": {"left": "j"},
    }
    people = {
        "instructions": "# Look closely\n\nBoth images, *then* answer.", "examples": ["i30.png: mild redness"],
        "consent": True, "warmup": 2, "gold_rate": 0.1, "limit_per_day": 300,
    }  # fmt: skip
    with make_study(tmp_path / "old", page=page, people=people) as study:
        store = study.store
        store.people.add("lea", role="lead", link_hash=digest("secret-link"), now=1_700_000_000.125)
        store.people.set_password("lea", "$argon2id$secret-hash")
        store.people.add("gone")
        store.people.update("gone", active=False)
        said = ("left", "right", "equal", "cannot judge")
        for k, pair in enumerate(study.ask(12, annotator="kt")):
            study.tell(
                pair, said[k % 4], annotator="kt", note="=1+1" if k == 3 else "", shown_at=1_700_000_100.0 + k
            )
        study.undo(store.answers.log()[0].id, annotator="kt")
        ids = study.catalog.ids
        for row, grade in ((3, 2), (4, 0), (5, 1)):
            study.tell_grade(ids[row], grade, annotator="lea", note='sure, "very"' if row == 3 else "")
        store.images.exclude(ids[7], "lea", "blurred", now=1_700_000_200.5)
        store.images.exclude(ids[8], "kt")
        known = [
            NewKnown(20, 21, "warm-up"),
            NewKnown(23, 22, "warm-up"),
            NewKnown(24, 25, "gold", equal=True),
        ]
        store.known.add_all([*known, NewKnown(27, 26, "gold")])
        store.known.remove([pair.id for pair in store.known.all("gold") if pair.expected == "equal"])
        [pair] = store.known.lease("kt", "gold", 1, seconds=60, rng=np.random.default_rng(0))
        study.tell(pair.shown(), "left", annotator="kt")
        yield study
        assert store.check() == []


@pytest.fixture
def new(tmp_path: Path, store_url: str) -> Iterator[Study]:
    """Another study on the same images."""
    with make_study(tmp_path / "new", store=store_url) as study:
        yield study
        assert study.store.check() == []


def tables(study: Study) -> dict[str, pd.DataFrame]:
    return {name: table.drop(columns=HERE.get(name, [])) for name, table in study_tables(study).items()}


@pytest.mark.parametrize("name", ["study.zip", "folder"])
def test_what_goes_out_comes_in_the_same_and_once(old: Study, new: Study, tmp_path: Path, name: str) -> None:
    counts = export_study(old, tmp_path / name)
    assert counts == {"images": 40, "answers": 11, "grades": 3, "exclusions": 2, "people": 3, "known": 4}
    done = import_study(new, tmp_path / name, by="ada")
    assert done.wording == "taken"
    assert (done.answers.added, done.grades.added, done.exclusions.added, done.people.added) == (11, 3, 2, 3)
    for name_, table in tables(old).items():
        pd.testing.assert_frame_equal(tables(new)[name_], table, obj=name_)
    assert not any(person.active for person in new.store.people.all()), "who may come in is decided here"
    with Study.open(new.folder) as opened:
        assert opened.config.page == old.config.page
        assert opened.config.people == old.config.people

    again = import_study(new, tmp_path / name, by="ada")
    assert again.wording == "same"
    assert (again.answers.added, again.grades.added, again.exclusions.added, again.people.added) == (
        0,
        0,
        0,
        0,
    )
    export_study(new, tmp_path / "again.zip")
    assert import_study(old, tmp_path / "again.zip").to_dict() == again.to_dict()  # and back


def test_no_secret_and_no_address_is_in_it(old: Study, tmp_path: Path) -> None:
    old.store.people.tokens.add(digest("secret-token"), "lea", "a script")
    export_study(old, tmp_path / "s.zip")
    with zipfile.ZipFile(tmp_path / "s.zip") as archive:
        text = "\n".join(archive.read(name).decode() for name in archive.namelist())
    for secret in ("argon2id", digest("secret-link"), digest("secret-token"), "study.db", str(tmp_path)):
        assert secret not in text
    assert "Which has more bleeding?" in text
    assert "nothing to see" in text
    assert "2023-11-14T22:13:20.125Z" in text  # when Lea was made known, for people
    assert "'=1+1" in text  # nothing for a spreadsheet to compute


def test_people_who_are_there_keep_their_role(old: Study, new: Study, tmp_path: Path) -> None:
    new.store.people.add("lea", role="annotator")
    export_study(old, tmp_path / "s.zip")
    import_study(new, tmp_path / "s.zip")
    assert new.store.people.get("lea").role == "annotator"
    assert not new.store.people.get("gone").active


def test_a_study_with_answers_of_its_own_keeps_its_wording(old: Study, new: Study, tmp_path: Path) -> None:
    [pair] = new.ask(1, annotator="mo")
    new.tell(pair, "left", annotator="mo")
    export_study(old, tmp_path / "s.zip")
    with pytest.raises(
        StudyError, match=r"grades\.csv, row 1 \(line 2\): grade 'much' with code 2 is none of this study's"
    ):
        import_study(new, tmp_path / "s.zip")
    assert new.store.answers.count() == 1
    new.config = new.config.with_changes(page={"grades": ("none", "some", "much")})
    done = import_study(new, tmp_path / "s.zip")
    assert done.wording == "kept"
    assert new.config.page.question == "Which is more severe?"
    assert new.store.answers.count() == 12


@pytest.mark.parametrize(
    ("part", "old_text", "new_text", "message"),
    [
        (
            "people.csv",
            ",lead,",
            ",boss,",
            r"people\.csv, row \d .*a role is one of annotator, lead, admin; not 'boss'",
        ),
        ("exclusions.csv", "blurred", "blurred,,,,,x", r"exclusions\.csv: row \d \(line \d\) has"),
        ("answers.csv", ",left,kt", ",up,kt", r"answers\.csv, answer \d.*'up'"),
        ("wording.toml", "question", "qestion", "did you mean"),
        ("wording.toml", "[page]", "[page", r"wording\.toml is not valid"),
        ("about.json", "study 1", "study 9", "update Steelyard"),
        ("grades.csv", "much,2", "much,1", "grade 'much' with code 1"),
        ("known.csv", "warm-up", "cold", r"known\.csv, row 1 .*kind is gold or warm-up; not 'cold'"),
        ("wording.toml", "i30.png", "i99.png", "'people.examples' names 'i99.png', which is no image"),
        ("wording.toml", "gold_rate", "gold_rte", "did you mean"),
    ],
)
def test_one_mistake_and_nothing_is_imported(
    old: Study, tmp_path: Path, part: str, old_text: str, new_text: str, message: str
) -> None:
    export_study(old, tmp_path / "out")
    text = (tmp_path / "out" / part).read_text()
    assert old_text in text
    (tmp_path / "out" / part).write_text(text.replace(old_text, new_text, 1))
    with make_study(tmp_path / "new") as new:
        with pytest.raises(StudyError, match=message):
            import_study(new, tmp_path / "out")
        assert new.store.people.all() == []
        assert new.store.answers.log() == []
        assert new.store.grades.log() == []
        assert new.store.known.all(retired=True) == []
        assert new.config.people.instructions == ""
        assert not len(new.store.images.excluded_rows())
        assert new.config.page.question == "Which is more severe?"


def test_pairs_that_are_known_here_stay_what_they_are(old: Study, new: Study, tmp_path: Path) -> None:
    new.store.known.add_all([NewKnown(21, 20, "gold"), NewKnown(1, 2, "gold")])
    export_study(old, tmp_path / "s.zip")
    done = import_study(new, tmp_path / "s.zip", by="ada")
    assert (done.known.added, done.known.known) == (3, 1)
    found = {(pair.first_row, pair.second_row): pair for pair in new.store.known.all(retired=True)}
    assert (found[20, 21].kind, found[20, 21].expected) == ("gold", "second")
    assert found[24, 25].retired
    assert not found[22, 23].retired
    [entry] = new.store.audit.latest(1, action="imported study")
    assert entry.detail["known pairs"] == 3
    again = import_study(new, tmp_path / "s.zip", by="ada")
    assert (again.known.added, again.known.known) == (0, 4)


def test_warm_up_pairs_keep_their_order_and_answers_to_them_stay_at_home(
    old: Study, new: Study, tmp_path: Path
) -> None:
    export_study(old, tmp_path / "s.zip")
    import_study(new, tmp_path / "s.zip")
    rng = np.random.default_rng(0)
    handed = [
        [pair.left for pair in study.store.known.lease("mo", "warm-up", 2, seconds=60, rng=rng)]
        for study in (old, new)
    ]
    images = [{frozenset((p.first, p.second)) for p in s.store.known.all("warm-up")} for s in (old, new)]
    assert len(handed[0]) == len(handed[1]) == 2
    assert images[0] == images[1]
    assert (old.store.known.count(), new.store.known.count()) == (1, 0)


def test_an_export_from_before_known_pairs(old: Study, new: Study, tmp_path: Path) -> None:
    export_study(old, tmp_path / "out")
    (tmp_path / "out" / "known.csv").unlink()
    wording = (tmp_path / "out" / "wording.toml").read_text(encoding="utf-8")
    (tmp_path / "out" / "wording.toml").write_text(wording[: wording.index("[people]")], encoding="utf-8")
    new.config = new.config.with_changes(people={"limit_per_day": 7})
    done = import_study(new, tmp_path / "out")
    assert (done.wording, done.known.added, done.answers.added) == ("taken", 0, 11)
    assert new.config.people.limit_per_day == 7, "what the file does not speak of stays"


def test_other_images_and_other_files(old: Study, tmp_path: Path) -> None:
    export_study(old, tmp_path / "s.zip")
    with make_study(tmp_path / "small", rows=5) as other:
        with pytest.raises(StudyError, match="is not in the study"):
            import_study(other, tmp_path / "s.zip")
        backup_study(old.folder, tmp_path / "b.zip")
        with pytest.raises(StudyError, match="is a backup; make a study of it with: steelyard restore"):
            import_study(other, tmp_path / "b.zip")
        (tmp_path / "x.zip").write_bytes(b"PK no archive")
        with pytest.raises(StudyError, match=r"x\.zip cannot be read"):
            import_study(other, tmp_path / "x.zip")
        with pytest.raises(StudyError, match="is not a whole study: it lacks"):
            import_study(other, tmp_path / "old")
    with pytest.raises(StudyError, match="not an earlier export"):
        export_study(old, tmp_path / "old")


def test_a_folder_that_was_packed_by_hand(old: Study, new: Study, tmp_path: Path) -> None:
    export_study(old, tmp_path / "colon")
    shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path, "colon")
    assert import_study(new, tmp_path / "packed.zip").answers.added == 11


def test_killed_between_store_and_wording_the_next_import_completes_it(
    old: Study, new: Study, tmp_path: Path
) -> None:
    export_study(old, tmp_path / "s.zip")
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom steelyard.config import StudyConfig\n"
        "from steelyard.exchange import import_study\nfrom steelyard.study import Study\n"
        "study = Study.open(sys.argv[1])\n"
        "StudyConfig.save = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "import_study(study, Path(sys.argv[2]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(new.folder), str(tmp_path / "s.zip")], check=False
    )
    assert done.returncode == -9
    assert new.store.answers.count() == 11
    again = import_study(new, tmp_path / "s.zip")
    assert (again.wording, again.answers.added) == ("taken", 0)
    assert new.config.page == old.config.page


def test_commands(old: Study, new: Study, tmp_path: Path) -> None:
    def run(*arguments: str | Path) -> str:
        done = CliRunner().invoke(app, [str(a) for a in arguments])
        assert done.exit_code == 0, done.output
        return done.output

    said = run("export", old.folder, "-o", tmp_path / "s.zip")
    assert "11 answers, 3 grades, 2 exclusions, 3 people and 4 known pairs" in said
    run("export", old.folder, "-o", tmp_path / "folder", "--format", "study")
    assert (tmp_path / "folder" / "README.txt").exists()
    assert len(read_labels(tmp_path / "folder" / "images.csv").images) == 40  # as init takes it
    said = run("import", new.folder, tmp_path / "s.zip")
    assert "11 answers, 3 grades, 2 exclusions, 3 people and 4 known pairs added" in said
    assert "wording" in said
    facts = json.loads(run("import", new.folder, tmp_path / "folder", "--json"))
    assert facts["answers"] == {"added": 0, "known": 11}
