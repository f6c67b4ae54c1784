"""The processes beside the server say what is wrong in a sentence, and leave quietly when the server has gone."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.web.actors import MakeStudy


@pytest.mark.parametrize("part", ["chooser", "placer", "trainer"])
def test_a_study_that_cannot_be_opened_is_named_without_a_traceback(part: str, make_study: MakeStudy) -> None:
    study = make_study()
    (study.folder / "study.toml").write_text("name = ", encoding="utf-8")  # cut short
    done = subprocess.run(
        [sys.executable, "-m", f"steelyard.web.{part}", str(study.folder)],
        input=bytes(64),
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 2
    said = done.stderr.decode()
    assert "study.toml is not valid TOML" in said
    assert "Traceback" not in said


def test_an_answer_that_nobody_reads_any_more_is_no_error(make_study: MakeStudy) -> None:
    reading, writing = os.pipe()
    os.close(reading)  # as after kill -9 of the server
    done = subprocess.run(
        [sys.executable, "-m", "steelyard.web.chooser", str(make_study().folder)],
        input=(3).to_bytes(8, "little"),
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=120,
    )
    os.close(writing)
    assert done.stderr.decode() == ""
    assert done.returncode == 0
