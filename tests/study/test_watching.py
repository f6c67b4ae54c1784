"""A watched folder: whole files join once, half-written and broken ones wait, a source that is away is waited for."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from steelyard.errors import CatalogError, ImageError
from steelyard.images.catalog import Catalog
from steelyard.store.errors import UnavailableError
from steelyard.study import Study, watching
from steelyard.study.watching import Look, Watcher
from tests.images.closing import close
from tests.study.growing import N, draw, sound
from tests.waiting import until


@pytest.fixture
def incoming(tmp_path: Path) -> Path:
    folder = tmp_path / "incoming"
    folder.mkdir()
    return folder


def test_a_file_joins_at_the_second_look_and_only_once(
    make_growing: Callable[..., Study], incoming: Path
) -> None:
    study, said = make_growing(), list[str]()
    watcher = Watcher(study, incoming, by="ada", say=said.append)
    assert watcher.look() == Look()
    draw(incoming / "deep" / "a.png", 20)
    assert watcher.look() == Look(joined=0, waiting=1)
    assert watcher.look() == Look(joined=1, waiting=0)
    assert watcher.look() == Look()
    assert said == [f"1 image joined; the study has {N + 1}"]
    assert study.store.audit.latest(1)[0].actor == "ada"
    again = Watcher(study, incoming, say=said.append)  # started anew
    assert [again.look() for _ in range(3)] == [Look()] * 3
    assert len(said) == 1
    assert sound(study)


def test_a_file_that_still_grows_or_is_cut_waits_and_is_told_once(
    make_growing: Callable[..., Study], incoming: Path, tmp_path: Path
) -> None:
    study, said = make_growing(), list[str]()
    watcher = Watcher(study, incoming, say=said.append)
    whole = draw(tmp_path / "a.png", 20).read_bytes()
    for size in (100, 400, 700):
        (incoming / "a.png").write_bytes(whole[:size])
        assert watcher.look().joined == 0
    assert said == []  # it grew all the time
    for _ in range(3):  # whoever writes it has paused
        assert watcher.look() == Look(joined=0, waiting=1)
    assert len(said) == 1
    assert "a.png is truncated" in said[0]
    (incoming / "a.png").write_bytes(whole)
    until(lambda: watcher.look().joined == 1, "the whole file", seconds=5, every=0)
    assert said[1:] == [f"1 image joined; the study has {N + 1}"]


def test_a_broken_file_keeps_nobody_else_out(make_growing: Callable[..., Study], incoming: Path) -> None:
    study, said = make_growing(images={"on_error": "fail"}), list[str]()
    (incoming / "broken.png").write_bytes(b"not a picture")
    draw(incoming / "good.png", 20)
    shutil.copy(incoming / "good.png", incoming / "twin.png")
    watcher = Watcher(study, incoming, say=said.append)
    watcher.look()
    assert watcher.look() == Look(joined=1, waiting=1)
    assert [watcher.look() for _ in range(3)] == [Look(waiting=1)] * 3
    assert sum("broken.png" in line for line in said) == 1


def test_what_cannot_be_read_is_tried_again_in_a_while(
    make_growing: Callable[..., Study], incoming: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "RETRY_LOOKS", 4)
    study = make_growing()
    whole, file = draw(tmp_path / "a.png", 20).read_bytes(), incoming / "a.png"
    file.write_bytes(b"\0" * len(whole))  # as a download does that makes room first
    watcher = Watcher(study, incoming)
    monkeypatch.setattr(
        watching, "signatures_of", lambda place, search: dict.fromkeys(search.paths, ("same",))
    )
    for _ in range(3):
        assert watcher.look().joined == 0
    file.write_bytes(whole)
    until(lambda: watcher.look().joined == 1, "another try", seconds=5, every=0)


def test_a_source_that_is_away_is_told_once_and_waited_for(
    make_growing: Callable[..., Study], incoming: Path, tmp_path: Path
) -> None:
    study, said = make_growing(), list[str]()
    incoming.rename(tmp_path / "away")
    watcher = Watcher(study, incoming, say=said.append)
    assert [watcher.look() for _ in range(3)] == [Look()] * 3
    assert len(said) == 1
    assert "there is no folder" in said[0]
    draw(tmp_path / "away" / "a.png", 20)
    (tmp_path / "away").rename(incoming)
    watcher.look()
    assert watcher.look().joined == 1
    assert said[1:] == [f"{incoming} is there again", f"1 image joined; the study has {N + 1}"]


def test_a_folder_that_cannot_be_looked_into_is_told_once_and_waited_for(
    make_growing: Callable[..., Study], incoming: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, said = make_growing(), list[str]()
    draw(incoming / "p1" / "a.png", 20)
    draw(incoming / "p2" / "b.png", 21)
    watcher = Watcher(study, incoming, say=said.append)
    for turn in (1, 2):
        with monkeypatch.context() as patched:
            close(patched, incoming / "p1", errno.EIO)
            looks = [watcher.look() for _ in range(3)]
        assert looks[-1] == Look(waiting=1)
        assert len([line for line in said if line.startswith("p1 is a folder that cannot be read")]) == turn
        if turn == 1:
            assert sum(look.joined for look in looks) == 1  # what can be read does not wait for it
            watcher.look()
            assert watcher.look() == Look(joined=1)
    assert len(study.catalog) == N + 2
    assert sound(study)


@pytest.mark.parametrize("apart", [False, True])
def test_a_grade_that_is_none_keeps_nobody_else_out(tmp_path: Path, apart: bool) -> None:
    for k, grade in enumerate(("mild", "moderate", "severe")):
        draw(tmp_path / "graded" / grade / "a.png", k)
    images = {"layout": "grades", "root": str(tmp_path / "graded")}
    catalog, said = Catalog.from_grades(tmp_path / "graded"), list[str]()
    source = tmp_path / ("incoming" if apart else "graded")
    with Study.create(tmp_path / "study", catalog, preset="small", images=images) as study:
        draw(source / "blurry" / "odd.png", 20)
        draw(source / "unsure" / "odd.png", 21)
        draw(source / "severe" / "new.png", 22)
        watcher = Watcher(study, source, say=said.append)
        looks = [watcher.look() for _ in range(4)]
        assert looks[1:] == [Look(1, waiting=2), Look(waiting=2), Look(waiting=2)]
        assert [line.split(",")[0] for line in said[:2]] == [
            f"{grade}/odd.png has the grade '{grade}'" for grade in ("blurry", "unsure")
        ]
        assert "none of the study's grades mild, moderate, severe" in said[0]
        draw(source / "mild" / "newer.png", 23)  # while the others lie there
        watcher.look()
        assert watcher.look().joined == 1
        (source / "unsure" / "odd.png").rename(source / "mild" / "odd.png")
        watcher.look()
        assert watcher.look() == Look(1, waiting=1)
        assert study.catalog.grade_names == ("mild", "moderate", "severe")
        assert study.catalog.grades is not None
        assert study.catalog.grades.tolist() == [0, 1, 2, 2, 0, 0]
        assert len(said) == 5
        assert sound(study)


def test_a_source_that_cannot_be_read_is_waited_for(
    make_growing: Callable[..., Study], incoming: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, said = make_growing(), list[str]()
    draw(incoming / "a.png", 20)
    watcher = Watcher(study, incoming, say=said.append)
    watcher.look()

    def refused(_: object) -> None:
        raise ImageError("a", "may not be read")

    with monkeypatch.context() as patched:
        patched.setattr(watching, "find_images", refused)
        assert [watcher.look() for _ in range(3)] == [Look(waiting=1)] * 3
    assert said == ["a: may not be read; waiting until it goes on"]
    assert watcher.look().joined == 1


def test_a_database_that_is_away_loses_nothing(
    make_growing: Callable[..., Study], incoming: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, said = make_growing(), list[str]()
    draw(incoming / "a.png", 20)
    watcher = Watcher(study, incoming, say=said.append)
    watcher.look()
    append = study.store.images.append

    def away(*_: object, **__: object) -> int:
        raise UnavailableError("the database does not answer")

    monkeypatch.setattr(study.store.images, "append", away)
    assert [watcher.look() for _ in range(2)] == [Look(waiting=1)] * 2
    monkeypatch.setattr(study.store.images, "append", append)
    assert watcher.look().joined == 1
    assert len(said) == 3


def test_an_address_with_a_secret_is_refused_at_once(make_growing: Callable[..., Study]) -> None:
    with pytest.raises(CatalogError, match="name or password"):
        Watcher(make_growing(), "https://me:secret@example.org/images")


def test_killed_and_started_again_every_image_joins_once(
    make_growing: Callable[..., Study], incoming: Path
) -> None:
    study = make_growing()
    order = [
        sys.executable,
        "-m",
        "steelyard.cli",
        "watch",
        str(study.folder),
        str(incoming),
        "--every",
        "0.1",
    ]

    def joined() -> int:
        return len(Catalog.open(study.folder / "catalog.arrow")) - N

    for k in range(5):
        draw(incoming / f"i{k}.png", 20 + k)
    process = subprocess.Popen(order, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(joined, "some image")
    process.kill()
    process.wait()
    for k in range(5, 10):
        draw(incoming / f"i{k}.png", 20 + k)
    process = subprocess.Popen(order, stderr=subprocess.PIPE, text=True)
    until(lambda: joined() == 10, "the rest")
    os.kill(process.pid, signal.SIGTERM)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 0, told
    with Study.open(study.folder) as opened:
        assert len(opened.catalog) == N + 10
        assert sound(opened)


def test_the_wait_between_two_looks_ends_with_the_signal(
    make_growing: Callable[..., Study], incoming: Path
) -> None:
    study = make_growing()
    process = subprocess.Popen(
        [sys.executable, "-m", "steelyard.cli", "watch", str(study.folder), str(incoming / "none"), "--every", "3600"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert "there is no folder" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    said, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (0, "")
    assert said == "stopped; 0 images joined\n"
