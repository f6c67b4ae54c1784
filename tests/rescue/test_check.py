"""`check` finds what is wrong, in a sentence with a remedy, and a damaged study does what it still can."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from steelyard.cli import app
from steelyard.errors import CatalogError, ConfigError, StoreError, StudyError
from steelyard.pairs import Answer
from steelyard.rescue import check_study
from steelyard.store.errors import DamagedError
from steelyard.store.records import NewImage
from steelyard.store.store import Store
from steelyard.study import Study


def found(folder: Path, **options: bool) -> dict[str, str]:
    """Problems by part."""
    return {f.part: f.sentence for f in check_study(folder, **options) if f.level == "problem"}


def cut(path: Path) -> None:
    """Keep the first half; of text, up to the middle of a line: one that ends with a line may be whole."""
    content = path.read_bytes()
    middle = len(content) // 2
    if path.suffix == ".toml":
        middle = content.index(b"=", middle) + 1
    path.write_bytes(content[:middle])


def test_a_sound_study_has_no_findings(study: Study) -> None:
    assert check_study(study.folder, images=True) == []


def test_every_truncated_part_is_a_finding_and_no_traceback(sqlite_study: Study, tmp_path: Path) -> None:
    sqlite_study.close()
    whole = sqlite_study.folder
    [model] = (path.name for path in (whole / "models").iterdir())
    parts = {
        "study.toml": "configuration", "catalog.arrow": "catalog", "study.db": "store",
        f"models/{model}/posterior.safetensors": "models", f"models/{model}/rows.npy": "models",
        f"models/{model}/checkpoint.json": "models", "catalog.features.npy": "images",
    }  # fmt: skip
    [weights] = (whole / "models" / model).glob("weights-*")
    parts[str(weights.relative_to(whole))] = "models"
    for name, part in parts.items():
        for damage in (
            cut,
            lambda p: p.write_bytes(b""),
            Path.unlink,
            lambda p: p.write_bytes(b"\xff" * 5000),
        ):
            folder = Path(shutil.copytree(whole, tmp_path / "damaged"))
            damage(folder / name)
            problems = {f.part: f for f in check_study(folder) if f.level == "problem"}
            assert part in problems, (name, problems)
            assert problems[part].remedy
            shutil.rmtree(folder)


def test_a_damaged_card_is_a_finding_and_a_missing_one_is_not(sqlite_study: Study) -> None:
    sqlite_study.close()
    [card] = sqlite_study.folder.glob("models/*/card.json")
    cut(card)
    assert "model card" in found(sqlite_study.folder)["models"]
    card.unlink()  # as of every model made before there were cards
    assert found(sqlite_study.folder) == {}


def test_a_changed_catalog_is_found(sqlite_study: Study) -> None:
    catalog = sqlite_study.catalog.subset(np.arange(15, -1, -1))
    catalog.save(sqlite_study.folder / "catalog.arrow")
    assert "not the same in the same order" in found(sqlite_study.folder)["catalog"]


def test_an_unsound_store_is_found(study: Study) -> None:
    with study.store.database.writing() as connection:
        connection.execute(sa.text("UPDATE pairs SET answers = answers + 1 WHERE id = 1"))
    assert "pair 1" in found(study.folder)["store"]


def test_missing_and_unreadable_images_are_counted(sqlite_study: Study, tmp_path: Path) -> None:
    (tmp_path / "images" / "5.png").unlink()
    excluded = sqlite_study.catalog.raw_path(3)
    assert excluded is not None
    excluded.unlink()  # excluded in the study: nobody misses it
    assert found(sqlite_study.folder)["images"].startswith("1 of 15 images: 5.png: is missing")
    (tmp_path / "images" / "6.png").write_bytes(b"not a picture")
    assert found(sqlite_study.folder, images=True)["images"].startswith("2 of 15 images")


def test_leftovers_are_notes(sqlite_study: Study) -> None:
    folder = sqlite_study.folder
    (folder / "models" / "round-001.new").mkdir()
    (folder / "models" / "round-007").mkdir()
    (folder / "models" / "round-007-5f0c12ab").mkdir()
    (folder / "models" / ".training-0123-4567").mkdir()
    (folder / ".restoring-abc").mkdir()
    (folder / ".study.toml.x.unfinished").touch()
    notes = check_study(folder)
    assert {f.level for f in notes} == {"note"}
    assert len(notes) == 6


def test_a_short_cache_is_found(sqlite_study: Study) -> None:
    cache = sqlite_study.folder / "cache" / "0123456789abcdef"
    cache.mkdir(parents=True)
    (cache / "settings.json").write_text(json.dumps({"row_shape": [4], "dtype": "<f4"}))
    (cache / "ids.dat").write_bytes(b"0" * 64)
    (cache / "rows.dat").write_bytes(b"0" * 32)
    assert "cache" not in found(sqlite_study.folder)
    (cache / "rows.dat").write_bytes(b"0" * 31)
    assert "lists 2 rows and holds 1" in found(sqlite_study.folder)["cache"]


def test_an_older_store_is_looked_at_and_not_migrated(tmp_path: Path) -> None:
    files = Path(__file__).parent.parent / "files" / "study-0.1"
    folder = Path(shutil.copytree(files, tmp_path / "old"))
    before = (folder / "study.db").read_bytes()
    findings = check_study(folder)
    assert [f.level for f in findings] == ["note"]
    assert "older revision 0002" in findings[0].sentence
    assert sorted(p.name for p in folder.iterdir()) == sorted(p.name for p in files.iterdir())
    assert (folder / "study.db").read_bytes() == before
    done = CliRunner().invoke(app, ["check", str(folder), "--json"])
    assert (done.exit_code, json.loads(done.stdout)["heads"]) == (0, [])
    assert sorted(p.name for p in folder.iterdir()) == sorted(p.name for p in files.iterdir())
    assert (folder / "study.db").read_bytes() == before, "the command leaves it as it was, too"


def test_exit_codes_and_json(sqlite_study: Study, tmp_path: Path) -> None:
    folder = str(sqlite_study.folder)
    done = CliRunner().invoke(app, ["check", folder, "--json"])
    heads = [str(head) for head in sqlite_study.store.audit.heads()]
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"sound": True, "findings": [], "heads": heads})
    made = CliRunner().invoke(app, ["backup", folder, "-o", str(tmp_path / "b.zip"), "--json"])
    assert json.loads(made.stdout)["answers"] == 9
    [model] = (sqlite_study.folder / "models").iterdir()
    shutil.rmtree(model)
    done = CliRunner().invoke(app, ["check", folder])
    assert done.exit_code == 1
    assert f"{model.name} is missing" in done.stdout.replace("\n", "")
    assert f"→ train again with: steelyard train {folder}" in done.stdout
    again = CliRunner().invoke(app, ["restore", str(tmp_path / "b.zip"), str(tmp_path / "again")])
    assert again.exit_code == 0
    assert "people sign in again" in again.stdout
    assert "checked: sound" in again.stdout
    (tmp_path / "images").rename(tmp_path / "moved")
    assert CliRunner().invoke(app, ["check", str(tmp_path / "again")]).exit_code == 1
    moved = CliRunner().invoke(app, ["relocate", str(tmp_path / "again"), str(tmp_path / "moved")])
    assert "15 of 16 images found" in moved.stdout or "16 of 16 images found" in moved.stdout
    assert CliRunner().invoke(app, ["check", str(tmp_path / "again"), "--images"]).exit_code == 0


# --------------------------------------------------------------------------- opening


def test_opening_says_what_a_quick_look_finds(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "study.db"
    with Store.open(f"sqlite:///{file}") as store:
        assert store.trouble is None
        store.images.add_all([NewImage(k, f"{k:032x}", "x" * 100) for k in range(2000)])
    content = bytearray(file.read_bytes())
    page = content.index(b"0" * 20, 20 * 4096) // 4096  # somewhere in the rows of images
    content[page * 4096 + 8 : page * 4096 + 40] = b"\xff" * 32
    file.write_bytes(content)
    with caplog.at_level(logging.WARNING), Store.open(f"sqlite:///{file}") as store:
        assert "damaged" in str(store.trouble)
    assert "steelyard check" in caplog.text


def test_a_large_store_is_not_read_when_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from steelyard.store import opening

    file = tmp_path / "study.db"
    Store.open(f"sqlite:///{file}").close()
    asked: list[str] = []

    def watch(connection: object, cursor: object, statement: str, *_: object) -> None:
        asked.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", watch)
    try:
        monkeypatch.setattr(opening, "_MOST", 1000)
        Store.open(f"sqlite:///{file}").close()
        assert not [s for s in asked if "quick_check" in s]
        with Store.open(f"sqlite:///{file}") as store:
            store.settings.keep("x", 1)
            Store.open(f"sqlite:///{file}").close()  # a -wal lies there: somebody is at work, or died
        assert len([s for s in asked if "quick_check" in s]) == 1
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", watch)


@pytest.mark.parametrize("file", ["posterior.safetensors", "rows.npy"])
def test_a_truncated_model_makes_room_for_the_one_before(
    sqlite_study: Study, file: str, answer: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    before = sqlite_study.score()
    answer(sqlite_study, 4)
    newest = sqlite_study.fit()
    assert not sqlite_study.score().equals(before)
    cut(newest.folder / file)
    [weights] = newest.folder.glob("weights-*")
    cut(weights)
    with Study.open(sqlite_study.folder) as study:
        assert study.score().equals(before)
        assert study.posterior is not None
        assert "round-001" in caplog.text
        assert "steelyard check" in caplog.text
        said = len(caplog.records)
        for _ in range(3):
            assert study.posterior is not None
        assert len(caplog.records) == said  # once, not with every question
        [pair] = study.ask(1, annotator="kt")
        study.tell(pair, Answer.LEFT, annotator="kt")
        assert study._knowledge._ranker().config.backbone == "none"
        assert study.fit().round == 2
        assert found(study.folder) == {}
    for path in (sqlite_study.folder / "models").glob("*/rows.npy"):
        cut(path)
    with Study.open(sqlite_study.folder) as study, pytest.raises(StudyError, match="cannot be read"):
        study.score()


def test_the_page_falls_back_as_well(sqlite_study: Study) -> None:
    from steelyard.web.ranking import Rankings

    before = sqlite_study.store.models.newest()
    assert before is not None
    cut(sqlite_study.fit().folder / "rows.npy")
    rankings = Rankings(sqlite_study)
    ranking = rankings.newest()
    assert ranking is not None
    assert ranking.model.path == before.path
    sqlite_study.store.images.exclude(str(sqlite_study.catalog.ids[7]), "alma", "dark")
    again = rankings.newest()
    assert again is not None
    assert 7 not in again.order


def test_truncated_parts_name_the_remedy(sqlite_study: Study, tmp_path: Path) -> None:
    sqlite_study.close()
    remedies: dict[str, tuple[type[Exception], str]] = {
        "study.toml": (ConfigError, "steelyard restore"),
        "catalog.arrow": (CatalogError, "steelyard restore"),
        "study.db": (StoreError, "restore the newest backup"),
    }
    for name, (error, words) in remedies.items():
        folder = Path(shutil.copytree(sqlite_study.folder, tmp_path / f"without-{name}"))
        cut(folder / name)
        with pytest.raises(error, match=words):
            Study.open(folder)
    with pytest.raises(DamagedError):
        Study.open(tmp_path / "without-study.db")
