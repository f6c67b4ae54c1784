"""A study of images behind a web server: made, asked, trained, scored and grown; what is away is missed only until it is back."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from steelyard.cli import app
from steelyard.images import remote
from steelyard.rescue import check_study
from steelyard.study import Study, inputs
from steelyard.study.watching import Watcher
from steelyard.web.handing import Handing
from steelyard.web.pictures import Pictures
from tests.images.elsewhere import WebFolder, png
from tests.study.growing import RANKER, answer, sound

N = 6


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebFolder]:
    for name in ("REST_SECONDS", "REMEMBERED_SECONDS"):
        monkeypatch.setattr(remote, name, 0.0)
    server = WebFolder(tmp_path / "web")
    for k in range(N):
        server.write(f"first/i{k:02}.png", png(k, 40))
    yield server
    server.stop()


def run(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output + repr(result.exception)
    return result.stdout


@pytest.fixture
def study(web: WebFolder, tmp_path: Path) -> Iterator[Study]:
    run("init", tmp_path / "study", "--images", f"{web.url}/first/", "--preset", "small", "--later")
    with Study.open(tmp_path / "study") as opened:
        opened.config = opened.config.with_changes(ranker=RANKER, ask={"start": "random"})
        opened.config.save(opened.folder / "study.toml")
        yield opened


def test_from_a_url_to_scores(study: Study, web: WebFolder, tmp_path: Path) -> None:
    assert study.config.images.root == f"{web.url}/first"
    assert study.catalog.paths[0] == f"{web.url}/first/i00.png"
    answer(study, 8)
    study.fit()
    assert len(study.score()) == N
    web.write("second/new.png", png(30, 40))
    told = json.loads(run("score", study.folder, f"{web.url}/second", "--json"))
    assert [row["path"] for row in told] == [f"{web.url}/second/new.png"]
    told = json.loads(run("add", study.folder, f"{web.url}/second", "--json"))
    assert (told["added"], told["images"]) == (1, N + 1)
    assert json.loads(run("add", study.folder, f"{web.url}/second", "--json"))["added"] == 0
    assert study.follow()
    assert study.store.audit.latest(1)[0].detail["folder"] == f"{web.url}/second"
    assert len(study.seen().rows) == N + 1
    assert sound(study)
    kept = study.folder / "cache" / "originals"
    assert sum(path.is_file() for path in kept.glob("??/*")) == N + 1
    assert not any(stat.S_IMODE(path.stat().st_mode) & 0o077 for path in [kept, *kept.rglob("*")])
    with Study.open(study.folder) as again:
        assert len(again.catalog) == N + 1
        assert Pictures(again, tmp_path / "thumbs").get(N, "thumb")[1] == "image/webp"


def test_a_url_with_a_secret_makes_no_study(tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["init", str(tmp_path / "s"), "--images", "https://me:pw@example.org/x"])
    assert told.exit_code != 0
    assert "name or password" in str(told.exception)
    assert "pw@" not in str(told.exception)
    assert not (tmp_path / "s").exists()


def test_a_table_of_urls_needs_no_folder(web: WebFolder, tmp_path: Path) -> None:
    rows = [f"{web.url}/first/i{k:02}.png,{k % 2}" for k in range(N)]
    table = tmp_path / "labels.csv"
    table.write_text("\n".join(["image,grade", *rows]) + "\n", encoding="utf-8")
    told = json.loads(run("init", tmp_path / "graded", "--labels", table, "--later", "--json"))
    assert (told["images"], told["grades"]) == (N, ["0", "1"])


def test_what_is_away_is_missed_until_it_is_back(
    study: Study, web: WebFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "AGAIN_SECONDS", 1e-6)
    study.config = study.config.with_changes(images={"cache_gb": 0.0})
    study.config.save(study.folder / "study.toml")
    gone = web.folder / "first" / "i03.png"
    content = gone.read_bytes()
    gone.unlink()
    with Study.open(study.folder) as opened:
        handing = Handing(opened)
        assert opened.seen().absent.tolist() == [3]
        assert [row for row in range(N) if not handing.there(row)] == [3]
        (finding,) = (f for f in check_study(study.folder) if f.part == "images")
        assert f"1 of {N} images: {web.url}/first/i03.png: is missing" in finding.sentence
        web.stop()  # now nobody answers at all
        assert opened.seen().absent.tolist() == [3]  # what was read before keeps its features
        assert not any(handing.there(row) for row in range(N))
        web.start()
        gone.write_bytes(content)
        assert opened.seen().absent.tolist() == []
        assert all(handing.there(row) for row in range(N))
        assert sound(opened)


def test_an_address_is_watched(study: Study, web: WebFolder) -> None:
    said = list[str]()
    web.write("incoming/a.png", png(40, 40))
    watcher = Watcher(study, f"{web.url}/incoming/", say=said.append)
    watcher.look()
    assert watcher.look().joined == 1
    web.write("incoming/b.png", png(41, 40)[:300])
    assert [watcher.look().waiting for _ in range(3)] == [1, 1, 1]
    web.stop()
    assert [watcher.look().joined for _ in range(2)] == [0, 0]
    web.start()
    web.write("incoming/b.png", png(41, 40))
    watcher.look()
    watcher.look()
    assert len(study.catalog) == N + 2
    away = f"{web.url}/incoming"
    assert [line.split(" ")[0] for line in said] == ["1", "b.png", f"{away}:", "1", f"{away}/"]
    assert sound(study)


@pytest.mark.parametrize("status", [403, 404, 416])
def test_a_file_that_is_refused_does_not_end_the_watch(study: Study, web: WebFolder, status: int) -> None:
    web.write("incoming/a.png", png(40, 40))
    web.write("incoming/README", b"hello")
    web.refuse["/incoming/README"] = status
    watcher = Watcher(study, f"{web.url}/incoming")
    watcher.look()
    assert watcher.look().joined == 1
