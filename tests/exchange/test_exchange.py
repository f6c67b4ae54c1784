"""Answers go out and come back as the same answers, in every format; a file is imported whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import choix
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import steelyard as sy
from steelyard.errors import StudyError
from steelyard.exchange import COLUMNS, answers_table, export_file, import_file, write_table
from steelyard.study import Study


def make_study(folder: Path, rows: int = 12) -> Study:
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "x.npy", np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32))
    (folder / "labels.csv").write_text("image\n" + "\n".join(f"ward/i{k}.png" for k in range(rows)))
    catalog = sy.Catalog.from_features(folder / "x.npy", folder / "labels.csv")
    return Study.create(folder / "study", catalog, preset="features")


@pytest.fixture
def study(tmp_path: Path):  # type: ignore[no-untyped-def]
    with make_study(tmp_path / "one") as made:
        for k, pair in enumerate(made.ask(8, annotator="ann")):
            said = list(sy.Answer)[k % 4]
            made.tell(pair, said, annotator="ann", shown_at=100.0 + k, answered_at=101.5 + k)
        yield made


def told(study: Study) -> list[tuple[object, ...]]:
    return sorted(
        (c.id, c.left, c.right, c.answer, c.annotator) for c in study.store.answers.log() if c.effective
    )


@pytest.mark.parametrize("name", ["answers.csv", "answers.json", "answers.parquet"])
def test_what_goes_out_comes_back_and_never_twice(study: Study, tmp_path: Path, name: str) -> None:
    assert export_file(study, tmp_path / name) == 8
    with make_study(tmp_path / "two") as other:
        assert import_file(other, tmp_path / name).added == 8
        assert told(other) == told(study)
        again = import_file(other, tmp_path / name)
        assert (again.added, again.known) == (0, 8)
    back = import_file(study, tmp_path / name)
    assert (back.added, back.known) == (0, 8)


def test_label_studio_goes_both_ways(study: Study, tmp_path: Path) -> None:
    export_file(study, tmp_path / "tasks.json", form="labelstudio")
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    sided = [t for t in tasks if t["annotations"][0]["result"]]
    assert {t["annotations"][0]["result"][0]["value"]["selected"] for t in sided} == {"left", "right"}
    assert all(t["annotations"][0]["result"][0]["type"] == "pairwise" for t in sided)
    with make_study(tmp_path / "two") as other:
        assert import_file(other, tmp_path / "tasks.json").added == 8
        assert told(other) == told(study)


def test_tasks_made_by_label_studio_itself_are_understood(tmp_path: Path) -> None:
    task = {
        "id": 7,
        "data": {"image1": "/data/upload/1/i3.png", "image2": "http://host:8080/data/local/ward%2Fi5.png"},
        "annotations": [
            {
                "completed_by": 4,
                "result": [{"type": "pairwise", "from_name": "pw", "value": {"selected": "right"}}],
            },
            {"completed_by": 5, "was_cancelled": True, "result": []},
        ],
    }
    (tmp_path / "ls.json").write_text(json.dumps([task]))
    with make_study(tmp_path / "s") as study:
        assert import_file(study, tmp_path / "ls.json").added == 2
        first, second = study.store.answers.log()
        paths = [str(p) for p in study.catalog.paths]
        assert paths[study.catalog.index_of(first.left)] == "ward/i3.png"
        assert paths[study.catalog.index_of(first.right)] == "ward/i5.png"
        assert (first.annotator, first.answer) == ("4", sy.Answer.RIGHT)
        assert (second.annotator, second.answer) == ("5", sy.Answer.CANNOT_JUDGE)


def test_choix_fits_what_is_exported_for_it(study: Study, tmp_path: Path) -> None:
    assert export_file(study, tmp_path / "c.json", form="choix") == 4, "ties and unjudged pairs are left out"
    content = json.loads((tmp_path / "c.json").read_text())
    scores = choix.ilsr_pairwise(len(content["items"]), content["comparisons"], alpha=0.1)
    assert np.isfinite(scores).all()
    with make_study(tmp_path / "two") as other:
        assert import_file(other, tmp_path / "c.json").added == 4
    (tmp_path / "plain.json").write_text(json.dumps([[0, 1], [2, 1]]))
    with make_study(tmp_path / "three") as third:
        assert import_file(third, tmp_path / "plain.json", annotator="kt").added == 2
        assert {c.annotator for c in third.store.answers.log()} == {"kt"}


def test_the_same_question_answered_twice_is_a_repeat(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "left,right,answer\ni1.png,i2.png,left\ni2.png,i1.png,left\ni1.png,i2.png,left\n"
    )
    with make_study(tmp_path / "s") as study:
        assert import_file(study, tmp_path / "a.csv").added == 3
        assert study.agreement()["with themselves"]["imported"] == {"repeats": 2, "agreement": 0.5}
        assert import_file(study, tmp_path / "a.csv").known == 3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "left,right\ni1.png,i2.png\n", "lacks the column 'answer'"),
        (
            "a.csv",
            "left,right,answer\ni1.png,i99.png,left\n",
            r"answer 1 \(line 2\): image 'i99.png' is not in the study",
        ),
        (
            "a.csv",
            "left,right,answer\ni1.png,i2.png,left\ni1.png,i1.png,left\n",
            r"answer 2 \(line 3\): compares image .* with itself",
        ),
        (
            "a.csv",
            "left,right,answer\ni1.png,i2.png,both\n",
            "an answer is left, right, equal or cannot judge .* not 'both'",
        ),
        ("a.json", "{", "not a valid JSON"),
        ("a.json", "3", "no list of answers"),
        ("a.json", "[1]", "something that is not an answer: 1"),
        ("a.json", '{"comparisons": [[1]]}', r"\[1\] is not a \(winner, loser\)"),
        ("a.json", '{"items": ["x"], "comparisons": [[0, 5]]}', "is not a .winner, loser. of the items"),
        ("a.parquet", "no", "not a valid Parquet"),
        ("a.txt", "no", "ends in .csv, .json or .parquet"),
    ],
)
def test_a_bad_file_is_named_and_nothing_is_imported(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)
    with make_study(tmp_path / "s") as study:
        with pytest.raises(StudyError, match=message):
            import_file(study, tmp_path / name)
        assert study.store.answers.log() == []
        assert len(study.store.pairs.columns().rows) == 0


def test_missing_files_and_unknown_formats_are_said(study: Study, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="cannot be read"):
        import_file(study, tmp_path / "none.csv")
    with pytest.raises(StudyError, match="'xlsx' is not a format"):
        export_file(study, tmp_path / "a.xlsx")
    with pytest.raises(StudyError, match="cannot be written"):
        export_file(study, tmp_path / "no" / "a.csv")
    with pytest.raises(StudyError, match=r"\.csv or \.parquet"):
        write_table(pd.DataFrame(), tmp_path / "a.txt")


def test_tables_are_written_by_ending(tmp_path: Path) -> None:
    table = pd.DataFrame({"score": [1.5, 2.5]})
    write_table(table, tmp_path / "a.csv")
    write_table(table, tmp_path / "a.parquet")
    assert pd.read_csv(tmp_path / "a.csv").equals(pd.read_parquet(tmp_path / "a.parquet"))


def test_the_table_has_the_columns_that_are_promised(study: Study) -> None:
    table = answers_table(study)
    assert tuple(table.columns) == COLUMNS
    assert (table["answered_at"] - table["shown_at"] == 1.5).all()
    assert table["left_path"].str.startswith("ward/").all()
    log = {c.seq: c.hash for c in study.store.answers.log()}  # what the hash chain vouches for
    assert dict(zip(table["seq"], table["hash"], strict=True)).items() <= log.items()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r"), max_size=60))
def test_no_csv_breaks_the_import(study: Study, tmp_path: Path, text: str) -> None:
    (tmp_path / "fuzz.csv").write_text(text, encoding="utf-8", newline="")
    before = told(study)
    with pytest.raises(StudyError):
        import_file(study, tmp_path / "fuzz.csv")
    assert told(study) == before
