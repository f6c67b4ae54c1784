"""An import is all or nothing, once, written down – whatever a spreadsheet did to the file and whoever pulls the plug."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import steelyard as sy
from steelyard.errors import StoreError, StudyError
from steelyard.exchange import answers_table, export_file, import_file
from steelyard.store.errors import ConflictError
from steelyard.store.importing import ForeignAnswer
from steelyard.store.records import NewComparison, NewPair
from steelyard.study import Study
from tests.exchange.files import make_study, write

BACKENDS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]


@pytest.fixture(params=BACKENDS)
def where(request: pytest.FixtureRequest) -> dict[str, str]:
    """Where a study keeps its answers."""
    return {} if request.param == "sqlite" else {"store": request.getfixturevalue("postgres_url")}


def lines(n: int, rows: int = 40) -> list[str]:
    """n answers as lines of a CSV file."""
    rng = random.Random(n)
    found = ["left,right,answer,annotator,answered_at"]
    for k in range(n):
        i, j = rng.sample(range(rows), 2)
        found.append(f"i{i}.png,i{j}.png,{rng.choice(('left', 'right', 'equal'))},kt,{1000 + k}")
    return found


def nothing_there(study: Study) -> bool:
    return (
        not study.store.answers.log()
        and not len(study.store.pairs.columns().rows)
        and not study.store.audit.log(action="imported")
    )


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("i1.png,i2.png,left,kt,1e400", "answered_at is in seconds since 1970"),
        ("i1.png,i2.png,left,kt,1731850000000", "answered_at is in seconds since 1970"),
        ("i1.png,i2.png,left,kt,-5", "answered_at is in seconds since 1970"),
        ("i1.png,i2.png,left,kt,17.11.2026 13:54", "a date and time like .* not '17.11.2026 13:54'"),
        ("i1.png,i2.png,left,k\x01t,5", "printable characters"),
        (f"i1.png,i2.png,left,{'x' * 101},5", "at most 100"),
        ("i1.png,i2.png,left,kt,5,extra", "6 cells under 5 columns"),
        ("i1.png", "image '' is not in the study"),
    ],
)
def test_one_bad_row_at_the_end_leaves_nothing(
    tmp_path: Path, where: dict[str, str], bad: str, message: str
) -> None:
    file = write(tmp_path / "a.csv", [*lines(100), bad])
    with make_study(tmp_path / "s", **where) as study:
        with pytest.raises(
            StudyError, match=rf"a\.csv.*answer 101 \(line 102\).*{message}.*nothing was imported"
        ):
            import_file(study, file)
        assert nothing_there(study)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("round", "2.5", "round is a whole number, not '2.5'"),
        ("round", "-1", "a round is a whole number from 0"),
        ("round", "99999999999", "a round is a whole number from 0"),
        ("reserved", "maybe", "reserved is true or false .* not 'maybe'"),
        ("note", "x" * 2001, "a note has 2001 characters"),
        ("strategy", "x" * 2001, "a strategy's name has 2001"),
        ("id", "an id", "the id of an answer has 1 to 100"),
        ("source", "rumour", "source is one of .* not 'rumour'"),
        ("shown_at", "soon", "shown_at is in seconds since 1970"),
        ("received_at", "soon", "received_at is in seconds since 1970"),
    ],
)
def test_every_field_is_checked_before_the_first_write(
    study: Study, tmp_path: Path, column: str, value: str, message: str
) -> None:
    file = write(
        tmp_path / "a.csv",
        [f"left,right,answer,{column}", "i1.png,i2.png,left,", f"i1.png,i3.png,left,{value}"],
    )
    with pytest.raises(StudyError, match=rf"answer 2 \(line 3\): {message}"):
        import_file(study, file)
    assert nothing_there(study)


def test_several_problems_are_told_at_once(study: Study, tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", ["left,right,answer", *["i1.png,i2.png,worse"] * 9])
    with pytest.raises(StudyError) as told:
        import_file(study, file)
    assert str(told.value).count("not 'worse'") == 5
    assert "; and 4 more; nothing was imported" in str(told.value)


def test_an_error_in_the_last_statement_takes_the_pairs_back(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise StoreError("disk full")

    monkeypatch.setattr("steelyard.store.importing.append_audit", full)
    with pytest.raises(StoreError, match="disk full"):
        import_file(study, write(tmp_path / "a.csv", lines(20)))
    assert nothing_there(study)


def test_killed_at_any_moment_nothing_or_everything_is_there(tmp_path: Path, where: dict[str, str]) -> None:
    make_study(tmp_path / "s", **where).close()
    script = Path(__file__).with_name("killing_imports.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "s" / "study"), "8", "800"],
        capture_output=True, text=True, timeout=280, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 2, "some were killed before their end"


def test_two_imports_of_one_file_at_once_are_one(tmp_path: Path, where: dict[str, str]) -> None:
    file = write(tmp_path / "a.csv", lines(400))
    with make_study(tmp_path / "s", **where) as study:
        done: list[Any] = []

        def run() -> None:
            with Study.open(tmp_path / "s" / "study") as mine:
                done.append(import_file(mine, file))

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted((d.added, d.known) for d in done) == [(0, 400)] * 3 + [(400, 0)]
        assert len(study.store.answers.log()) == 400
        assert study.store.check() == []


def test_importing_while_people_answer_the_same_pairs(tmp_path: Path, where: dict[str, str]) -> None:
    """Nobody's answer is lost and nobody waits in a circle."""
    with make_study(tmp_path / "s", rows=12, **where) as study:
        numbers = study.store.pairs.add_all([NewPair(i, j) for i in range(12) for j in range(i)])
        failed: list[BaseException] = []

        def answer() -> None:
            try:
                with Study.open(tmp_path / "s" / "study") as mine:
                    for number in numbers:
                        pair = mine.store.pairs.get(number)
                        mine.store.answers.add(
                            NewComparison(number, "ann", sy.Answer.LEFT, pair.first, pair.second)
                        )
            except BaseException as error:
                failed.append(error)

        person = threading.Thread(target=answer)
        person.start()
        added = 0
        for k in range(6):
            file = write(tmp_path / f"{k}.csv", lines(30 + k, rows=12))
            added += import_file(study, file).added
        person.join()
        assert failed == []
        assert len(study.store.answers.log()) == added + len(numbers)
        assert study.store.check() == []


def test_an_id_that_stands_for_another_answer_is_refused(study: Study, tmp_path: Path) -> None:
    import_file(study, write(tmp_path / "a.csv", ["id,left,right,answer", "x1,i1.png,i2.png,left"]))
    for second in ("x1,i1.png,i2.png,right", "x1,i2.png,i1.png,left", "x1,i1.png,i3.png,left"):
        with pytest.raises(ConflictError, match="answer x1 is there already with another"):
            import_file(
                study, write(tmp_path / "b.csv", ["id,left,right,answer", "x2,i4.png,i5.png,left", second])
            )
    twice = ["id,left,right,answer", "x3,i1.png,i2.png,left", "x3,i1.png,i2.png,right"]
    with pytest.raises(ConflictError, match="answer x3"):
        import_file(study, write(tmp_path / "c.csv", twice))
    assert [c.id for c in study.store.answers.log()] == ["x1"]
    same = ["id,left,right,answer", "x4,i1.png,i2.png,left", "x4,i1.png,i2.png,left"]
    assert import_file(study, write(tmp_path / "d.csv", same)).to_dict() == {"added": 1, "known": 1}


def test_what_0_1_imported_is_not_doubled(study: Study, tmp_path: Path) -> None:
    """0.1 did not understand a date and made the row's id without it."""
    ids = [str(id) for id in study.catalog.ids]
    old = hashlib.blake2b("\x1f".join(("kt", ids[1], ids[2], "left", "", "1")).encode(), digest_size=16)
    study.store.answers.import_all(
        [ForeignAnswer(old.hexdigest(), 1, 2, sy.Answer.LEFT, "kt", answered_at=5.0)], actor="kt"
    )
    file = write(
        tmp_path / "a.csv",
        ["left,right,answer,annotator,answered_at", "i1.png,i2.png,left,kt,2026-11-17T13:54:45Z"],
    )
    assert import_file(study, file).to_dict() == {"added": 0, "known": 1}


def test_the_audit_log_says_who_when_which_file_and_how_many(study: Study, tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", lines(7))
    import_file(study, file, by="Dr. K")
    import_file(study, file)
    first, second = study.store.audit.log(action="imported")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert (first.actor, first.action) == ("Dr. K", "imported")
    assert first.detail == {
        "file": "a.csv", "sha256": digest, "bytes": file.stat().st_size, "added": 7, "known": 0,
    }  # fmt: skip
    assert abs(first.at - time.time()) < 60
    assert (second.detail["added"], second.detail["known"]) == (0, 7)
    assert second.actor


def test_the_source_says_import_and_what_it_was(study: Study, tmp_path: Path) -> None:
    for pair, source in zip(study.ask(3), ("page", "api", "virtual"), strict=True):
        study.tell(pair, sy.Answer.LEFT, source=source, note=source)
    table = answers_table(study)
    assert sorted(table["source"]) == ["api", "page", "virtual"]
    assert (abs(table["received_at"] - time.time()) < 60).all()
    export_file(study, tmp_path / "a.csv")
    with make_study(tmp_path / "two") as other:
        import_file(other, tmp_path / "a.csv")
        assert {c.note: c.source for c in other.store.answers.log()} == {
            "page": "import:page", "api": "import:api", "virtual": "import:virtual",
        }  # fmt: skip
        export_file(other, tmp_path / "b.json")
    with make_study(tmp_path / "three") as third:
        import_file(third, tmp_path / "b.json")
        assert {c.source for c in third.store.answers.log()} == {
            "import:page",
            "import:api",
            "import:virtual",
        }


names = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=20)
notes = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=40)
times = st.floats(0, 1e11, allow_nan=False)
answers = st.lists(
    st.builds(
        lambda pair, answer, annotator, shown, answered, round, strategy, reserved, note: ForeignAnswer(
            sy_id(), *pair, answer, annotator, shown, answered, round, strategy, reserved, note
        ),
        st.tuples(st.integers(0, 39), st.integers(0, 39)).filter(lambda p: p[0] != p[1]),
        st.sampled_from(sy.Answer),
        names,
        st.none() | times,
        times,
        st.integers(0, 2**31 - 1),
        notes.filter(bool),
        st.booleans(),
        notes,
    ),
    max_size=6,
)


def sy_id() -> str:
    from steelyard.store.records import new_id

    return new_id()


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("empty")
    make_study(folder).close()
    return folder / "study"


def fresh(empty: Path, folder: Path) -> Study:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(empty, folder)
    return Study.open(folder)


LOSSLESS = [
    "left", "right", "answer", "annotator", "shown_at", "answered_at", "round", "strategy", "reserved", "note",
]  # fmt: skip


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(answers, st.sampled_from(["a.csv", "a.json", "a.parquet", "labelstudio.json"]))
def test_whatever_was_answered_comes_back_from_every_format(
    empty: Path, tmp_path: Path, given: list[ForeignAnswer], name: str
) -> None:
    form = "labelstudio" if name.startswith("label") else None
    with fresh(empty, tmp_path / "one") as one, fresh(empty, tmp_path / "two") as two:
        one.store.answers.import_all(given, actor="kt")
        assert export_file(one, tmp_path / name, form=form) == len(given)
        assert import_file(two, tmp_path / name).added == len(given)
        before, after = (answers_table(study) for study in (one, two))
        # A pair says once which round and strategy chose it: two answers about one pair share the first one's.
        pd.testing.assert_frame_equal(before[["id", *LOSSLESS]], after[["id", *LOSSLESS]])
        assert import_file(one, tmp_path / name).added == 0


def test_a_deep_or_huge_json_file_is_refused(study: Study, tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 200_000)
    with pytest.raises(StudyError, match="nested too deeply"):
        import_file(study, tmp_path / "deep.json")
    (tmp_path / "long.json").write_text(
        json.dumps([{"left": "i1.png", "right": "i2.png", "answer": ["left"]}])
    )
    with pytest.raises(StudyError, match="answer is text, not a list"):
        import_file(study, tmp_path / "long.json")
    (tmp_path / "ipv6.json").write_text('[{"left": "http://[", "right": "i2.png", "answer": "left"}]')
    with pytest.raises(StudyError, match="not in the study"):
        import_file(study, tmp_path / "ipv6.json")
    assert nothing_there(study)
