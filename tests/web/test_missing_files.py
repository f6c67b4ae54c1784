"""`mv images pictures`: told at once, nothing is asked or recorded about pictures that nobody sees, and the page follows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from steelyard.cli import app
from steelyard.images.catalog import Catalog
from steelyard.store.records import NewPair
from steelyard.study import Study
from steelyard.web.app import serve as run_server
from tests.waiting import until
from tests.web.actors import Enter, Open, Serve, Window


@pytest.fixture
def movable(pictures: Path, tmp_path: Path) -> Iterator[Study]:
    """A study of files in a folder of its own, with a space in its name."""
    folder = tmp_path / "my images"
    shutil.copytree(pictures, folder, ignore=shutil.ignore_patterns("*.npy", "*.csv"))
    settings = {"ask": {"budget": "200%", "start": "random"}}
    with Study.create(
        tmp_path / "my study", Catalog.from_folder(folder), preset="small", **settings
    ) as study:
        yield study


def move(study: Study) -> Path:
    """The folder of the images gets another name."""
    assert study.catalog.root is not None
    return study.catalog.root.rename(study.catalog.root.with_name("pictures"))


def command(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def lease(client: Any, count: int = 6) -> dict[str, Any]:
    """One request for pairs."""
    reply: dict[str, Any] = client.post("/api/v1/pairs/lease", json={"count": count}).json()
    return reply


def test_status_counts_missing_files_and_quotes_the_remedy(movable: Study) -> None:
    assert json.loads(command("status", movable.folder, "--json"))["missing files"] == 0
    place = move(movable)
    said = json.loads(command("status", movable.folder, "--json"))
    assert said["missing files"] == len(movable.catalog)
    assert f"steelyard relocate '{movable.folder}' DIR" in said["next"]
    command("relocate", movable.folder, place)
    assert json.loads(command("status", movable.folder, "--json"))["missing files"] == 0


def test_serve_warns_at_its_start(movable: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    said: list[str] = []
    run_server(movable.folder, port=0, train=False, say=said.append)
    assert not any("not where they were" in line for line in said)
    move(movable)
    run_server(movable.folder, port=0, train=False, say=said.append)
    [warning] = [line for line in said if "not where they were" in line]
    assert f"{len(movable.catalog)} of {len(movable.catalog)} image files" in warning
    assert f"steelyard relocate '{movable.folder}' DIR" in warning


def test_pairs_whose_files_are_gone_are_not_handed_out_and_others_are(
    movable: Study, serve: Serve, enter: Enter
) -> None:
    movable.store.pairs.add_all([NewPair(0, 1), NewPair(1, 2), NewPair(3, 4), NewPair(1, 5), NewPair(6, 7)])
    client = enter(serve(movable))
    path = movable.catalog.raw_path(1)
    assert path is not None
    content = path.read_bytes()
    path.unlink()
    gone = client.server.public(1)
    reply = lease(client, 2)
    assert reply["state"] == "open"
    assert {image for pair in reply["pairs"] for image in (pair["left"], pair["right"])} == {
        client.server.public(row) for row in (3, 4, 6, 7)
    }
    path.write_bytes(content)
    until(lambda: any(gone in (p["left"], p["right"]) for p in lease(client)["pairs"]), "the image is back")


def test_an_answer_that_was_given_before_is_taken(movable: Study, serve: Serve, enter: Enter) -> None:
    """Somebody saw both pictures and then the disk went away; or a program answers that needs no picture."""
    client = enter(serve(movable))
    [pair] = client.lease(1)
    move(movable)
    assert client.answer(pair).status_code == 201


def test_relocate_reaches_a_running_server(movable: Study, serve: Serve, enter: Enter) -> None:
    client = enter(serve(movable))
    client.lease(1)
    before = json.loads(command("status", movable.folder, "--json"))["open pairs"]
    place = move(movable)
    reply = lease(client)
    assert (reply["pairs"], reply["state"]) == ([], "missing")
    assert before
    command("relocate", movable.folder, place)
    until(lambda: len(lease(client)["pairs"]) == 6, "pairs are asked again")
    for pair in lease(client)["pairs"]:
        assert client.get(f"/api/v1/images/{pair['left']}/pixels").status_code == 200
    assert client.patch("/api/v1/study", json={"question": "Which has more bleeding?"}).status_code == 200
    assert Study.open(movable.folder).config.images.root == str(place), "the page does not move it back"


def test_a_study_whose_folder_is_gone_from_the_start_says_so(
    movable: Study, serve: Serve, enter: Enter
) -> None:
    move(movable)
    client = enter(serve(movable))
    assert lease(client)["state"] == "missing"
    assert movable.store.pairs.open_count() == 0


# ---------------------------------------------------------------------- in a browser


def note(user: Window) -> Any:
    return user.page.locator(".frame-note")


def forgive(user: Window) -> None:
    """A picture that is not there is what these tests are about."""
    user.errors[:] = [error for error in user.errors if "404" not in error and "ERR_FAILED" not in error]


@pytest.mark.browser
def test_no_answer_before_both_pictures_are_painted(movable: Study, serve: Serve, window: Open) -> None:
    """The second picture is on its way: keys, buttons and “can't judge” do nothing."""
    server = serve(movable)
    movable.store.pairs.add_all([NewPair(0, 1), NewPair(2, 3)])
    user, held = window(server), []
    slow = server.public(0)
    user.page.route(f"**/images/{slow}/pixels*", lambda route: held.append(route))
    page = user.open("/compare")
    page.wait_for_function("() => document.querySelectorAll('.stage img.now').length === 2")
    page.wait_for_function(
        "() => [...document.querySelectorAll('.stage img.now')].some((n) => n.naturalWidth)"
    )
    for key in ("ArrowLeft", "ArrowDown", " ", "1"):
        page.keyboard.press(key)
    page.locator('[data-answer="right"]').click()
    assert page.locator("#why").is_hidden()
    assert (
        page.evaluate("() => Object.keys(localStorage).some((k) => k.startsWith('steelyard.queue'))") is False
    )
    held[0].continue_()
    assert slow in user.pair()
    user.press("ArrowLeft")
    user.saved()
    assert len(movable.store.answers.log()) == 1


@pytest.mark.browser
def test_a_picture_that_cannot_be_loaded_is_skipped_or_comes_after_all(
    movable: Study, serve: Serve, window: Open
) -> None:
    server = serve(movable)
    movable.store.pairs.add_all([NewPair(0, 1), NewPair(2, 3), NewPair(4, 5)])
    user = window(server)
    broken = [server.public(0), server.public(2)]
    for image in broken:
        user.page.route(f"**/images/{image}/pixels*", lambda route: route.abort())
    page = user.open("/compare")
    note(user).wait_for()
    assert "nothing is recorded about this pair" in note(user).inner_text()
    user.shot("picture-missing")
    for key in ("ArrowLeft", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    page.keyboard.press(" ")  # on to the next pair, which lacks a picture as well
    page.wait_for_function(
        "(id) => [...document.querySelectorAll('.stage img.now')].some((n) => n.dataset.image === id)",
        arg=broken[1],
    )
    note(user).wait_for()
    page.unroute(f"**/images/{broken[1]}/pixels*")
    assert broken[1] in user.pair(), "it is tried again"
    assert note(user).count() == 0
    user.press("ArrowLeft")
    user.saved()
    [row] = movable.store.answers.log()
    assert server.public(2) in {
        server.app.state.web.ids.public(row.left),
        server.app.state.web.ids.public(row.right),
    }
    forgive(user)


@pytest.mark.browser
def test_the_next_pair_by_a_button(movable: Study, serve: Serve, window: Open) -> None:
    server = serve(movable)
    movable.store.pairs.add_all([NewPair(0, 1), NewPair(4, 5)])
    user = window(server)
    user.page.route(f"**/images/{server.public(0)}/pixels*", lambda route: route.abort())
    page = user.open("/compare")
    note(user).locator("button").click()
    assert set(user.pair()) == {server.public(4), server.public(5)}
    assert movable.store.answers.log() == []
    page.unroute(f"**/images/{server.public(0)}/pixels*")
    forgive(user)


@pytest.mark.browser
def test_the_page_follows_a_folder_that_moves(movable: Study, serve: Serve, window: Open) -> None:
    server = serve(movable)
    user = window(server)
    user.compare()
    user.stocked(6)
    place = move(movable)
    server.app.state.web.pictures._kept.clear()
    for _ in range(5):
        user.press("ArrowLeft")  # these were in the browser before
    user.page.keyboard.press("ArrowLeft")
    user.page.locator("#finished-title", has_text="The pictures cannot be found").wait_for()
    user.shot("pictures-moved")
    user.saved()
    assert len(movable.store.answers.log()) == 6
    command("relocate", movable.folder, place)
    user.pair()
    user.press("ArrowRight")
    user.saved()
    assert len(movable.store.answers.log()) == 7
    forgive(user)
