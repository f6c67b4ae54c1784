"""The command line parses, calls and translates; every command is documented."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

import steelyard
from steelyard.cli import app, main
from steelyard.errors import SteelyardError

README = Path(steelyard.__file__).parents[1] / "README.md"
COMMANDS = sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def run(*arguments: object, ok: bool = True) -> Result:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if ok and result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert not ok or result.exit_code == 0, result.output
    return result


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    severity = rng.normal(size=40)
    np.save(tmp_path / "x.npy", np.column_stack([severity, rng.normal(size=(40, 3))]).astype(np.float32))
    grades = np.digitize(severity, [-0.5, 0.5])
    (tmp_path / "labels.csv").write_text(
        "image,grade\n" + "\n".join(f"i{k},{g}" for k, g in enumerate(grades))
    )
    return tmp_path


@pytest.fixture
def study(data: Path) -> Path:
    run("init", data / "study", "--features", data / "x.npy", "--labels", data / "labels.csv")
    return data / "study"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_stands_in_the_readme(name: str) -> None:
    text = run(name, "--help").output
    assert len(text.splitlines()[2].strip()) > 20, "one sentence says what it does"
    assert f"steelyard {name}" in README.read_text(encoding="utf-8")


def test_help_and_version() -> None:
    assert all(name in run("--help").output for name in COMMANDS)
    assert run("--version").output.strip() == f"steelyard {steelyard.__version__}"


def test_status_says_what_is_enough_and_agrees_with_the_advice(data: Path) -> None:
    place = data / "level"
    rule = "accuracy:least=0.9"
    run("init", place, "--features", data / "x.npy", "--labels", data / "labels.csv", "--enough", rule)
    run("next", place, "-n", 15)
    run("simulate", place)
    run("train", place)
    found = json.loads(run("status", place, "--json").output)
    assert found["enough"] == "Enough is at least 90% of unseen pairs ordered right, 95% sure."
    assert "100%" not in found["accuracy"], "a few random pairs tell nothing"
    assert ("you can stop" in found["accuracy"]) == found["next"].startswith("you can stop")
    assert found["next"].startswith("go on answering")


def test_init_next_train_score_grade_export_import(study: Path, data: Path) -> None:
    pairs = json.loads(run("next", study, "-n", 30, "--json").output)
    assert len(pairs) == 30
    grade = dict(pd.read_csv(data / "labels.csv").to_numpy().tolist())
    catalog = steelyard.Catalog.open(study / "catalog.arrow")
    name = {str(i): str(p) for i, p in zip(catalog.ids, catalog.paths, strict=True)}
    rows = ["left,right,answer"]
    for pair in pairs:
        gap = grade[name[pair["left"]]] - grade[name[pair["right"]]]
        rows.append(
            f"{pair['left']},{pair['right']},{'left' if gap > 0 else 'right' if gap < 0 else 'equal'}"
        )
    (data / "answers.csv").write_text("\n".join(rows))
    assert json.loads(run("import", study, data / "answers.csv", "--json").output) == {
        "added": 30,
        "known": 0,
    }
    told = run("import", study, data / "answers.csv").output
    assert "30 were already there" in told
    assert "new here" not in told
    trained = json.loads(run("train", study, "--json").output)
    assert (trained["round"], trained["answers"]) == (0, 30)
    assert "model 2 trained on" in run("train", study).output
    assert re.search(r"newest model +2 \(models/round-001-", run("status", study).output)

    run("score", study, "-o", data / "scores.csv")
    scores = pd.read_csv(data / "scores.csv")
    assert len(scores) == 40
    assert len(json.loads(run("score", study, "--json").output)) == 40
    run("grade", study, "-o", data / "grades.parquet")
    assert set(pd.read_parquet(data / "grades.parquet")["grade"]) <= {"0", "1", "2"}
    assert "image,path,score" in run("score", study).output

    state = json.loads(run("status", study, "--json").output)
    assert (state["images"], state["answers"], state["models"]) == (40, 30, 2)
    assert "answers" in run("status", study).output
    assert json.loads(run("agreement", study, "--json").output)["answers"] == 30
    assert "with the model" in run("agreement", study).output
    for form in ("answers.json", "answers.parquet"):
        assert json.loads(run("export", study, "-o", data / form, "--json").output)["answers"] == 30
    run("export", study, "-o", data / "ls.json", "--format", "labelstudio")
    assert "why" in run("next", study, "-n", 3).output
    later = run("import", study, data / "answers.csv", "--annotator", "mo").output
    assert "new here: mo; nobody comes in by an import" in later


def test_a_question_and_a_name_go_into_the_study(data: Path) -> None:
    run(
        "init",
        data / "s",
        "--features",
        data / "x.npy",
        "--name",
        "Colon",
        "--question",
        "Which is redder?",
        "--json",
    )
    text = (data / "s" / "study.toml").read_text()
    assert 'name = "Colon"' in text
    assert 'question = "Which is redder?"' in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["init", "new"], "--images DIR"),
        (["init", "new", "--images", "nowhere"], "nowhere"),
        (["init", "new", "--images", ".", "--on-error", "perhaps"], "skip or fail, not 'perhaps'"),
        (
            ["init", "new", "--images", ".", "--enough", "accuracy:least=85"],
            "least is an accuracy between 0.5",
        ),
        (["status", "nowhere"], "is not a study"),
        (["score", "STUDY"], "there is no model yet"),
        (["train", "STUDY"], "no answers to learn from"),
        (["next", "STUDY", "--strategy", "epog"], "did you mean 'epig'"),
        (["export", "STUDY", "-o", "a.xlsx"], "'xlsx' is not a format"),
        (["experiment", "--out", "run", "--features", "x.npy", "--only-folds", "a"], "list of whole numbers"),
        (["experiment", "--out", "run", "--features", "x.npy", "--ranker", "dropout"], "KEY=VALUE"),
        (
            ["experiment", "--out", "run", "--features", "x.npy", "--test-pairs", "0"],
            "experiment: 'test_pairs' is 1 or more, not 0",
        ),
        (
            ["experiment", "--out", "run", "--features", "x.npy", "--ranker", "hidden=8"],
            "'ranker.hidden' belongs to the network ranker",
        ),
        (["init", "new", "--features", "x.npy", "--download"], "feature rows need none; leave it out"),
        (["train", "STUDY", "--download"], "feature rows need none; leave it out"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(study: Path, arguments: list[str], message: str) -> None:
    given = [str(study) if a == "STUDY" else a for a in arguments]
    result = run(*given, ok=False)
    assert isinstance(result.exception, SteelyardError)
    assert message in str(result.exception)


def test_errors_leave_by_main_without_a_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "steelyard.cli", "status", "[nowhere]"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: [nowhere] is not a study")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_an_interrupt_says_that_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("steelyard.cli.app", stop)
    with pytest.raises(SystemExit, match="130"):
        main()
    assert "saved" in capsys.readouterr().err


def test_an_experiment_says_what_it_is_measured_on(data: Path) -> None:
    matrix = ["--features", data / "x.npy", "--labels", data / "labels.csv", "--preset", "quick"]
    short = ["--methods", "all", "--only-folds", "0", "--seeds", 1, "--jobs", 1, "--json"]
    run("experiment", *matrix, *short, "--out", data / "usual")
    run("experiment", *matrix, *short, "--out", data / "changed", "--test-pairs", 7, "--no-near-duplicates")
    usual, changed = (
        json.loads((data / name / "experiment.json").read_text())["fixed"] for name in ("usual", "changed")
    )
    assert (usual["test_pairs"], usual["near_duplicates"]) == (1000, True)
    assert (changed["test_pairs"], changed["near_duplicates"]) == (7, False)


def test_doctor_speaks_json_and_words() -> None:
    found = json.loads(run("doctor", "--json").output)
    assert {"what", "state", "detail", "remedy"} == set(found[0])
    assert "torch" in run("doctor").output
