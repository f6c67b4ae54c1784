"""Tables to fill in are taken as they are, and dates can be read by people."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from steelyard.cli import app
from steelyard.errors import StudyError
from steelyard.exchange import answers_table, export_file, import_file
from steelyard.images.catalog import Catalog
from steelyard.study import Study
from tests.exchange.files import write


def run(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    assert done.exit_code == 0, done.output
    return done.output


def draw(folder: Path) -> Path:
    for k, name in enumerate(["ward-3/0001.png", "ward-3/0002.png", "0003.png"]):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8, 3), 40 * k, dtype=np.uint8)).save(folder / name)
    return folder


def test_the_examples_are_taken_as_they_are(tmp_path: Path) -> None:
    images = draw(tmp_path / "images")
    run("template", "labels", "-o", tmp_path / "labels.csv")
    catalog = Catalog.from_csv(tmp_path / "labels.csv", images)
    assert catalog.grades is not None
    assert catalog.groups is not None
    assert catalog.grades.tolist() == [1, -1, 0]
    assert catalog.groups.tolist() == ["patient-01", "patient-01", "patient-02"]
    assert not catalog.report.bad
    with Study.create(tmp_path / "study", catalog, preset="small") as study:
        (tmp_path / "answers.csv").write_text(run("template", "answers"))
        assert import_file(study, tmp_path / "answers.csv").to_dict() == {"added": 2, "known": 0}
        table = answers_table(study)
        assert table["answered_at_utc"].tolist() == ["2026-11-17T13:54:45.000Z", "2026-11-17T13:55:10.000Z"]
        assert table["annotator"].tolist() == ["Dr. K"] * 2


def test_the_images_of_a_folder_are_listed(tmp_path: Path) -> None:
    images = draw(tmp_path / "images")
    text = run("template", "labels", "--images", images)
    (tmp_path / "labels.csv").write_text(text)
    assert Catalog.from_csv(tmp_path / "labels.csv", images).paths.tolist() == [
        "0003.png", "ward-3/0001.png", "ward-3/0002.png",
    ]  # fmt: skip


def test_a_file_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("mine")
    done = CliRunner().invoke(app, ["template", "labels", "-o", str(tmp_path / "labels.csv")])
    assert isinstance(done.exception, StudyError)
    assert (tmp_path / "labels.csv").read_text() == "mine"


def test_times_in_seconds_or_for_people(study: Study, tmp_path: Path) -> None:
    rows = ["left,right,answer,answered_at,answered_at_utc", "i0.png,i1.png,left,,2026-11-17T13:54:45.250Z"]
    import_file(study, write(tmp_path / "a.csv", [*rows, "i1.png,i2.png,left,1763387685.25,"]))
    table = answers_table(study)
    assert table["answered_at"].tolist() == [1794923685.25, 1763387685.25]
    export_file(study, tmp_path / "out.csv")
    text = (tmp_path / "out.csv").read_text()
    assert "1794923685.25,2026-11-17T13:54:45.250Z" in text
    assert import_file(study, tmp_path / "out.csv").to_dict() == {"added": 0, "known": 2}

    # What somebody changed in one column is not passed over in silence.
    (tmp_path / "out.csv").write_text(text.replace("2026-11-17T13:54:45", "2026-11-18T13:54:45"))
    with pytest.raises(StudyError, match="answered_at and answered_at_utc disagree"):
        import_file(study, tmp_path / "out.csv")
