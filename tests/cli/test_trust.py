"""Commands for those who must show that nothing was tampered with."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from steelyard.errors import StoreError, StudyError
from steelyard.images.catalog import Catalog
from steelyard.pairs import Answer
from steelyard.study import Study
from steelyard.study.signing import Key, proof_holds

from .test_cli import run


@pytest.fixture
def study(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32))
    (tmp_path / "labels.csv").write_text("image\n" + "\n".join(f"i{k}" for k in range(12)))
    catalog = Catalog.from_features(tmp_path / "x.npy", tmp_path / "labels.csv")
    with Study.create(tmp_path / "study", catalog, preset="features") as made:
        for pair in made.ask(5, annotator="kt"):
            made.tell(pair, Answer.LEFT, annotator="kt")
    return tmp_path / "study"


def tamper(study: Path, *statements: str) -> None:
    with closing(sqlite3.connect(study / "study.db")) as raw, raw:
        triggers = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            raw.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            raw.execute(statement)
        for _, made in triggers:
            raw.execute(made)


def test_check_prints_heads_and_holds_the_study_against_them(study: Path) -> None:
    heads = json.loads(run("check", study, "--json").output)["heads"]
    assert [head.split(":")[:2] for head in heads] == [["comparisons", "5"], ["grades", "0"], ["audit", "1"]]
    assert all(head in run("check", study).output for head in heads)
    run("check", study, "--expect", heads[0], "--expect", heads[1])
    tamper(
        study, "DELETE FROM comparisons WHERE seq = 5", "UPDATE pairs SET answers = 0, open = 1 WHERE id = 5"
    )
    run("check", study)  # nothing in the database tells
    refused = run("check", study, "--expect", heads[0], ok=False)
    assert refused.exit_code == 1
    assert "row 5 of comparisons was noted and is gone" in refused.output
    with pytest.raises(StoreError, match="looks like comparisons:120"):
        run("check", study, "--expect", "nonsense")


def test_a_changed_answer_is_found_by_check(study: Path) -> None:
    tamper(study, "UPDATE comparisons SET answer = 'right' WHERE seq = 2")
    found = run("check", study, ok=False)
    assert (found.exit_code, "comparisons: row 2 changed" in found.output) == (1, True)


def test_a_log_is_written_and_verified_anywhere(study: Path, tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    heads = json.loads(run("log", study, "-o", file, "--json").output)["heads"]
    assert "steelyard verify" in run("log", study, "-o", file).output
    assert "as it was written" in run("verify", file, "--expect", heads[0]).output
    file.write_text(file.read_text().replace('"left", "left_row"', '"right", "left_row"', 1))
    broken = run("verify", file, "--json", ok=False)
    assert (broken.exit_code, json.loads(broken.output)["problems"][0][:18]) == (1, "comparisons: row 1")
    assert "not as it was written" in run("verify", file, ok=False).output


def test_a_study_is_signed_and_says_what_changed_since(study: Path) -> None:
    assert "nobody has signed" in run("signatures", study).output
    said = run("sign", study, "--by", "Dr. K", "--meaning", "reviewed [and] approved").output
    assert "Dr. K (command line): reviewed [and] approved" in said
    assert "nothing has changed" in said
    with Study.open(study) as opened:
        [pair] = opened.ask(1, annotator="kt")
        opened.tell(pair, Answer.LEFT, annotator="kt")
    with (study / "study.toml").open("a") as file:
        file.write("# a remark\n")
    [one] = json.loads(run("signatures", study, "--json").output)
    assert one["changed_since"] == ["1 row in the log of answers", "another configuration"]
    assert "1 row in the log of answers" in run("signatures", study).output
    looked = run("check", study).output
    assert "came after 'Dr. K' signed" in looked
    tamper(study, "UPDATE audit SET actor = 'Dr. X'")
    assert "audit: row 1 changed" in run("check", study, ok=False).output


def test_a_key_outside_the_database_cannot_be_forged_from_inside(study: Path, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = tmp_path / "key.pem"
    file.write_bytes(Ed25519PrivateKey.generate().private_bytes(*form))
    run("sign", study, "--by", "kt", "--meaning", "approved", "--key", file)
    assert "its signature holds" in run("signatures", study).output
    with Study.open(study) as opened:
        [one] = opened.store.audit.signatures()
    assert one.key == Key(file).public
    assert proof_holds(one)
    # Somebody who may write the database makes kt say something else: without the key it does not hold.
    with Study.open(study) as opened:
        detail = {**opened.store.audit.log()[-1].detail, "meaning": "rejected"}
        opened.store.audit.add("kt", "signed", detail, now=one.at)
    assert [s["proof_holds"] for s in json.loads(run("signatures", study, "--json").output)] == [True, False]
    assert "DOES NOT HOLD" in run("signatures", study).output

    (tmp_path / "other.pem").write_bytes(generate_private_key(SECP256R1()).private_bytes(*form))
    (tmp_path / "none.pem").write_text("nothing")
    for name in ("other.pem", "none.pem", "nowhere.pem"):
        with pytest.raises(StudyError, match=name):
            run("sign", study, "--by", "kt", "--meaning", "approved", "--key", tmp_path / name)
