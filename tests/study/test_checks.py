"""Pairs with known answers in a study: they teach nothing, grades make some, and a session is read from all answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import steelyard as sy
from steelyard.cli import app
from steelyard.config import StudyConfig
from steelyard.errors import ConfigError, StudyError
from steelyard.exchange.table import answers_table
from steelyard.store.records import NewComparison, NewKnown
from steelyard.study import Study
from steelyard.study.checks import add_known, checked, from_grades, session_of
from steelyard.study.instructions import WITHDRAWN, agreements, read_instructions

from .conftest import answer


def reply(study: Study, who: str, n: int, right: Callable[[int], bool] = lambda k: True, **more: Any) -> None:
    """Answer hidden pairs."""
    held = study.store.known.lease(who, "gold", n, seconds=900, rng=np.random.default_rng(0))
    known = {pair.id: pair for pair in study.store.known.all()}
    for k, one in enumerate(held):
        pair = known[one.pair]
        worse = pair.first if pair.expected == "first" else pair.second
        said = "left" if (one.left == worse) == right(k) else "right"
        study.store.answers.add(
            NewComparison(one.pair, who, sy.Answer(said), one.left, one.right, **more), require_lease=True
        )


def test_hidden_answers_teach_nothing(make_study: Callable[..., Study]) -> None:
    ask = {"start": "random", "random_share": 0.3}
    plain, checking = make_study(ask=ask), make_study(ask=ask)
    for study in (plain, checking):
        answer(study, 20)
    add_known(checking, [NewKnown(k, k + 1, "gold") for k in range(0, 30, 2)])
    reply(checking, "you", 15, lambda k: False)
    for study in (plain, checking):
        study.fit()
    assert checking.score()["score"].to_numpy() == pytest.approx(plain.score()["score"].to_numpy())
    assert checking.accuracy() == plain.accuracy()
    assert checking.agreement() == plain.agreement()
    assert checking.status()["answers"] == 20
    assert checking.status()["annotators"] == {"you": 20}
    assert len(answers_table(checking)) == 20, "nor are they exported, to teach elsewhere"
    assert checking.posterior is not None


def test_pairs_with_a_known_answer_are_not_chosen(make_study: Callable[..., Study]) -> None:
    study = make_study(ask={"start": "random", "random_share": 0.0})
    known = [(i, j) for i in range(40) for j in range(i + 1, 40)][:-15]
    study.store.known.add_all([NewKnown(i, j, "warm-up") for i, j in known])
    rows = [tuple(sorted(study.catalog.rows_of([p.left, p.right]).tolist())) for p in study.ask(15)]
    assert len(set(rows)) == 15
    assert not {*rows} & {*known}


def test_grades_say_which_pairs_are_clear(data: Path) -> None:
    with Study.open(data / "study") as study:
        grades = study.known_grades()
        new = from_grades(study, 12, "gold")
        assert {int(grades[p.worse] - grades[p.other]) for p in new} == {2}
        assert len({(p.worse, p.other) for p in new}) == 12
        assert max(np.unique([(p.worse, p.other) for p in new], return_counts=True)[1]) <= 3, (
            "images are spread"
        )
        add_known(study, new)
        more = from_grades(study, 12, "warm-up")
        assert not {(p.worse, p.other) for p in more} & {(p.worse, p.other) for p in new}
        with pytest.raises(StudyError, match="have grades that differ widely, and 5000 are wanted"):
            from_grades(study, 5000, "gold")


def test_who_is_clearly_below_is_said(make_study: Callable[..., Study]) -> None:
    study = make_study()
    add_known(study, [NewKnown(k, k + 1, "gold") for k in range(0, 40, 2)])
    reply(study, "ada", 20)
    reply(study, "coin", 20, lambda k: k % 2 == 0)
    reply(study, "new", 5, lambda k: False)
    people = {one.annotator: one for one in checked(study)}
    assert (people["ada"].right, people["ada"].below) == (20, False)
    assert (people["coin"].right, people["coin"].judged, people["coin"].below) == (10, 20, True)
    assert (people["new"].share, people["new"].below) == (None, False), "five are too few to say anything"


def test_a_session_is_read_from_all_answers_but_the_warm_up(make_study: Callable[..., Study]) -> None:
    study = make_study(ask={"start": "random"})
    add_known(study, [NewKnown(k, k + 1, "gold") for k in range(0, 24, 2)])
    add_known(study, [NewKnown(30, 31, "warm-up")])
    for k, pair in enumerate(study.ask(18)):
        study.tell(pair, "left", shown_at=1e9 + 10 * k, answered_at=1e9 + 10 * k + 3)
    reply(study, "you", 12, lambda k: k > 0, shown_at=1e9 + 200, answered_at=1e9 + 203)
    found = session_of(study, "you", gold=True)
    assert found.answers == 30
    assert found.seconds.whole is not None
    assert (found.seconds.whole.value, found.seconds.whole.n) == (3.0, 30)
    assert found.gold is not None
    assert found.gold.whole is not None
    assert (found.gold.whole.value, found.gold.whole.n) == (pytest.approx(11 / 12), 12)
    assert session_of(study, "you", gold=False).gold is None
    assert session_of(study, "nobody", gold=True).answers == 0


def test_another_text_is_another_version(make_study: Callable[..., Study]) -> None:
    study = make_study(people={"instructions": "Look *closely*.", "consent": True})
    text = read_instructions(study.config, study.catalog)
    assert text is not None
    assert not text.accepted(study.store, "kt")
    text.accept(study.store, "kt")
    text.accept(study.store, "kt")
    assert text.accepted(study.store, "kt")
    assert not text.accepted(study.store, "mo")
    [noted] = study.store.audit.log(action="consent given")
    assert (noted.actor, noted.detail) == ("kt", {"version": text.version})
    changed = study.config.with_changes(people={"instructions": "Look again."})
    other = read_instructions(changed, study.catalog)
    assert other is not None
    assert not other.accepted(study.store, "kt")
    study.store.audit.add("lea", WITHDRAWN, {"name": "kt", "note": "by telephone"})
    assert not text.accepted(study.store, "kt")
    assert agreements(study.store) == []
    text.accept(study.store, "kt")
    assert text.accepted(study.store, "kt")


def test_reading_is_not_agreeing(make_study: Callable[..., Study]) -> None:
    study = make_study(people={"instructions": "Look."})
    text = read_instructions(study.config, study.catalog)
    assert text is not None
    text.accept(study.store, "kt")
    assert text.accepted(study.store, "kt")
    asked = read_instructions(study.config.with_changes(people={"consent": True}), study.catalog)
    assert asked is not None
    assert not asked.accepted(study.store, "kt")


def test_examples_are_not_asked_about(data: Path) -> None:
    with Study.open(data / "study") as study:
        paths = list(map(str, study.catalog.paths))
        examples = [f"{paths[3]}: mild: a start", f"{study.catalog.ids[5]}: severe"]
        study.config = study.config.with_changes(people={"instructions": "Look.", "examples": examples})
        found = read_instructions(study.config, study.catalog)
        assert found is not None
        assert found.examples == ((3, "mild: a start"), (5, "severe"))
        rows = study.catalog.rows_of([id for p in study.ask(30) for id in (p.left, p.right)])
        assert not {3, 5} & set(rows.tolist())
        wrong = study.config.with_changes(people={"examples": ["no.png: nothing"]})
        with pytest.raises(ConfigError, match=r"names 'no\.png', which is no image of the study"):
            read_instructions(wrong, study.catalog)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"consent": True}, "needs something to agree to"),
        ({"examples": ["a.png: b"]}, "stand below the instructions"),
        ({"instructions": "x", "examples": ["a.png"]}, "“image: caption”"),
        ({"instructions": "x" * 20_001}, "nobody reads more than 20,000"),
        ({"instructions": "a\x07"}, "control characters"),
        ({"warmup_skip": True}, "no effect without a warm-up"),
        ({"gold_shown": True}, "no effect without hidden pairs"),
        ({"gold_rate": 0.6}, "a share between 0 and 0.5, not 0.6"),
    ],
)
def test_settings_that_cannot_stand_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        StudyConfig.from_dict({"people": values})


def test_a_long_text_stays_readable_in_the_file(tmp_path: Path) -> None:
    text = '# Before\n\nJudge "redness" \\ not blur.\n\n- one\n- two # not a comment\n'
    config = StudyConfig.from_dict({"people": {"instructions": text, "warmup": 2}})
    for _ in range(2):
        config.save(tmp_path / "study.toml")
        assert StudyConfig.load(tmp_path / "study.toml") == config
    assert "\n- two # not a comment\n" in (tmp_path / "study.toml").read_text()


# ---------------------------------------------------------------------- commands


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with a study of three grades."""
    rng = np.random.default_rng(0)
    severity = rng.normal(size=40)
    np.save(tmp_path / "x.npy", np.column_stack([severity, rng.normal(size=(40, 3))]).astype(np.float32))
    grades = np.digitize(severity, [-0.5, 0.5])
    lines = ["image,grade", *(f"i{k}.png,{g}" for k, g in enumerate(grades))]
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    catalog = sy.Catalog.from_features(tmp_path / "x.npy", tmp_path / "labels.csv")
    Study.create(tmp_path / "study", catalog, preset="features", ask={"start": "random"}).close()
    return tmp_path


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command_adds_lists_and_removes(data: Path) -> None:
    study = data / "study"
    assert "add some: steelyard gold" in run("gold", study)
    assert "4 pairs added" in run("gold", study, "add", "--from-grades", 4)
    run("gold", study, "add", "i1.png", "i2.png", "right", "--kind", "warm-up")
    (data / "gold.csv").write_text(run("template", "gold").replace("ward-3/0001.png", "i5.png"))
    with pytest.raises(
        StudyError, match=r"gold\.csv, pair 1 .*'0003\.png' is not in the study.*nothing was added"
    ):
        run("gold", study, "add", data / "gold.csv")
    (data / "gold.csv").write_text("left,right,answer,kind\ni5.png,i6.png,equal,gold\ni7.png,i8.png,left,\n")
    added = json.loads(run("gold", study, "add", data / "gold.csv", "--json"))["added"]
    listed = json.loads(run("gold", study, "list", "--json"))["pairs"]
    assert [row["kind"] for row in listed].count("warm-up") == 1
    warm = next(row for row in listed if row["kind"] == "warm-up")
    assert {warm["left"], warm["right"]} == {"i1.png", "i2.png"}
    assert warm[warm["answer"]] == "i2.png"
    run("gold", study, "remove", added[0])
    assert len(json.loads(run("gold", study, "--json"))["pairs"]) == 6
    for bad in (
        ["add"],
        ["add", "i1.png", "i1.png", "left"],
        ["remove", "x"],
        ["list", "x"],
        ["add", "i1.png", "i3.png", "no"],
    ):
        with pytest.raises(StudyError):
            run("gold", study, *bad)
    with Study.open(study) as opened:
        actions = [entry.action for entry in opened.store.audit.log()]
    assert (actions.count("known pairs added"), actions.count("known pairs removed")) == (3, 1)


def test_the_command_says_who_agreed_and_notes_who_withdrew(data: Path) -> None:
    with Study.open(data / "study") as study:
        study.config.with_changes(people={"instructions": "Look.", "consent": True}).save(
            study.folder / "study.toml"
        )
    with Study.open(data / "study") as study:
        study.store.people.add("kt")
        text = read_instructions(study.config, study.catalog)
        assert text is not None
        text.accept(study.store, "kt")
    assert f"kt agreed to version {text.version}" in run("consent", data / "study")
    run("consent", data / "study", "--withdraw", "kt", "--note", "by letter", "--by", "lea")
    assert json.loads(run("consent", data / "study", "--json"))["people"] == []
    with Study.open(data / "study") as study:
        [noted] = study.store.audit.log(action=WITHDRAWN)
    assert (noted.actor, noted.detail) == ("lea", {"name": "kt", "note": "by letter"})
