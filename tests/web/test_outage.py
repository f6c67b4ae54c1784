"""A real browser while the database goes away, the disk fills up or the server refuses: an answer leaves the browser
when the server has acknowledged it, or when the person says so – never otherwise."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from steelyard.study import Study
from steelyard.web.ids import ImageIds
from tests.chaos.disk import Disk
from tests.chaos.postgres import Postgres
from tests.web.actors import MakeStudy, Open, Serve, Window
from tests.web.kept import counted, entries, forgive, state

pytestmark = pytest.mark.browser


def six_during(
    user: Window, outage: Callable[[], None], back: Callable[[], None]
) -> list[tuple[str, str, str]]:
    """Two answers, the outage, four more answers that wait, the end of the outage; what was answered in order."""
    user.page.clock.install()
    user.compare()
    user.stocked(6)
    expected = []
    for k in range(6):
        if k == 2:
            user.saved()
            outage()
        expected.append((*user.pair(), "left"))
        if k < 5:
            user.press("ArrowLeft")
        else:
            user.page.keyboard.press("ArrowLeft")
    state(user, "waiting")
    for _ in range(2):  # it is tried again and again
        with user.page.expect_response("**/api/v1/comparisons"):
            user.page.clock.fast_forward(20_000)
        state(user, "waiting")
    assert user.page.locator("#saved").inner_text() == "waiting for the network (4)"
    assert len(entries(user)) == 4
    back()
    user.page.clock.fast_forward(20_000)
    user.saved()
    assert user.page.locator("#saved").inner_text() == "saved"
    return expected


@pytest.mark.postgres
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["stopped", "killed"])
def test_postgresql_goes_away_while_somebody_answers(
    make_study: MakeStudy, serve: Serve, window: Open, own_postgres: Postgres, how: signal.Signals
) -> None:
    study = make_study(store=own_postgres.url)
    user = window(serve(study, {"kt": "annotator"}))
    user.page.goto(user.server.link("kt"))
    user.page.wait_for_url("**/compare")
    expected = six_during(user, lambda: own_postgres.stop(how), own_postgres.start)
    assert counted(study) == expected
    assert entries(user, "steelyard.refused") == []
    forgive(user)


def test_the_disk_of_sqlite_is_full_while_somebody_answers(
    make_study: MakeStudy, serve: Serve, window: Open, tmp_path: Path
) -> None:
    own = Disk(tmp_path / "disk", megabytes=8)
    try:
        study = make_study("disk/colon")
        user = window(serve(study))

        def fill() -> None:
            # The write-ahead log keeps its size when it is used again from the start; a full disk has no such room.
            with closing(sqlite3.connect(study.folder / "study.db", timeout=30)) as raw:
                raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            disk.fill([])

        # Without the right to mount, SQLite itself is told to write nothing.
        disk = own if own.mounted else Cramped(study)
        expected = six_during(user, fill, lambda: disk.clear([]))
        assert counted(study) == expected
        assert study.store.check() == []
        study.close()
    finally:
        own.remove()
    forgive(user)


class Cramped:
    """A SQLite that may not write, where no disk of its own can be mounted."""

    def __init__(self, study: Study) -> None:
        self._engine = study.store.database.engine

    def fill(self, _: object) -> None:
        sa.event.listen(self._engine, "begin", self._limit)

    def clear(self, _: object) -> None:
        sa.event.remove(self._engine, "begin", self._limit)
        self._engine.dispose()

    @staticmethod
    def _limit(connection: Any) -> None:
        connection.exec_driver_sql("PRAGMA query_only = ON")


def test_entries_of_version_0_1_are_sent(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    """As 0.1 wrote them: the same key, the same JSON, an answer and the undo of another."""
    study = make_study()
    study.store.settings.keep("content ids until", time.time() + 1000)  # as in a study that 0.1 made
    user = window(serve(study))
    page = user.compare()
    user.press("ArrowLeft")
    user.saved()
    [given] = study.store.answers.log()
    pair = study.store.pairs.lease("you", 6, seconds=600, rng=np.random.default_rng(0))[0]
    old = [
        {"kind": "undo", "of": given.id, "id": "7b8e1c52-5a60-4a8e-9c1f-000000000001", "pair": given.pair},
        {"kind": "comparison", "body": {
            "id": "7b8e1c52-5a60-4a8e-9c1f-000000000002", "pair": pair.pair, "left": pair.left, "right": pair.right,
            "answer": "equal", "shown_at": 1.7e9, "answered_at": 1.7e9 + 2}},
    ]  # fmt: skip
    prefix = page.evaluate("() => { const p = JSON.parse(document.getElementById('page-data').textContent);"
                           " return `steelyard.queue.${p.study}.${p.annotator}.` }")  # fmt: skip
    for k, event in enumerate(old):
        page.evaluate("([key, text]) => localStorage.setItem(key, text)",
                      [f"{prefix}001700000000000.00000{k}", json.dumps(event)])  # fmt: skip
    page.reload()
    user.saved()
    name = ImageIds(study).public
    assert counted(study) == [(name(pair.left), name(pair.right), "equal")]


@pytest.mark.parametrize(
    "reply",
    [
        {
            "status": 503,
            "headers": {"Retry-After": "1"},
            "content_type": "application/problem+json",
            "body": "{}",
        },
        {"status": 500, "content_type": "text/html", "body": "Internal Server Error"},
        {
            "status": 429,
            "headers": {"Retry-After": "1"},
            "content_type": "application/problem+json",
            "body": "{}",
        },
        {"status": 408, "content_type": "application/problem+json", "body": "{}"},
        {"status": 502, "content_type": "text/html", "body": "<h1>Bad Gateway</h1>"},
        {"status": 404, "content_type": "text/html", "body": "<h1>nginx</h1>"},
        {"status": 413, "content_type": "text/html", "body": "<h1>nginx</h1>"},
        {
            "status": 200,
            "content_type": "text/html",
            "body": "<h1>Hospital guest network: accept the terms</h1>",
        },
        {"status": 201, "content_type": "application/json", "body": '{"id": "somebody else\'s"}'},
        {"status": 201, "content_type": "application/json", "body": '{"id": "cut o'},
    ],
    ids=lambda reply: f"{reply['status']} {reply['body'][:12]}",
)
def test_only_an_acknowledgement_of_this_answer_removes_it(
    make_study: MakeStudy, serve: Serve, window: Open, reply: dict[str, Any]
) -> None:
    study = make_study()
    user = window(serve(study))
    user.page.clock.install()
    page = user.compare()
    page.route("**/api/v1/comparisons", lambda route: route.fulfill(**reply))
    given = (*user.pair(), "left")
    user.press("ArrowLeft")
    state(user, "waiting")
    with page.expect_response("**/api/v1/comparisons"):  # it is tried again, and stays where it is
        page.clock.fast_forward(1300)
    state(user, "waiting")
    assert len(entries(user)) == 1
    assert page.locator("#saved").inner_text() == "waiting for the network (1)"
    page.unroute("**/api/v1/comparisons")
    page.clock.fast_forward(2600)
    user.saved()
    assert counted(study) == [given]
    forgive(user)


def test_a_server_that_asks_for_time_gets_it(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    user = window(serve(make_study()))
    user.page.clock.install()
    page = user.compare()
    asked: list[str] = []

    def busy(route: Any) -> None:
        asked.append(route.request.method)
        route.fulfill(
            status=503, headers={"Retry-After": "120"}, content_type="application/problem+json", body="{}"
        )

    page.route("**/api/v1/comparisons", busy)
    user.press("ArrowLeft")
    state(user, "waiting")
    page.clock.fast_forward(119_000)  # without the header it would have been tried again long ago
    page.evaluate("() => fetch('/api/v1/me')")  # whatever the clock set off would have gone out before this
    assert len(asked) == 1
    with page.expect_response("**/api/v1/comparisons"):
        page.clock.fast_forward(32_000)
    assert len(asked) == 2
    state(user, "waiting")
    page.unroute("**/api/v1/comparisons")
    page.locator("#saved").click()
    page.locator("#stuck-retry").click()  # a person may be quicker
    user.saved()
    forgive(user)


def test_a_reply_that_does_not_come_is_not_called_saved(
    make_study: MakeStudy, serve: Serve, window: Open
) -> None:
    user = window(serve(make_study()))
    page = user.compare()
    held = []
    page.route("**/api/v1/comparisons", lambda route: held.append(route))
    user.press("ArrowLeft")
    page.wait_for_function("() => document.querySelector('#saved').textContent === 'saving (1)'")
    held[0].continue_()
    user.saved()
    assert page.locator("#saved").inner_text() == "saved"


def test_answers_never_go_out_under_somebody_elses_name(
    make_study: MakeStudy, serve: Serve, window: Open
) -> None:
    """A colleague signs in in another tab of the same browser while an answer waits."""
    study = make_study()
    server = serve(study, {"kt": "annotator", "mo": "annotator"})
    user = window(server)
    user.page.goto(server.link("kt"))
    user.page.wait_for_url("**/compare")
    given = (*user.pair(), "left")
    user.page.route("**/api/v1/comparisons", lambda route: route.abort("connectionreset"))
    user.press("ArrowLeft")
    state(user, "waiting")
    other = user.context.new_page()
    other.goto(server.link("mo"))
    other.wait_for_url("**/compare")
    user.page.unroute("**/api/v1/comparisons")
    state(user, "stuck")
    user.page.locator("#saved").click()
    assert "mo is signed in now" in user.page.locator("#stuck").inner_text()
    assert study.store.answers.log() == []
    other.goto(server.link("kt"))
    other.wait_for_url("**/compare")
    user.page.locator("#stuck-retry").click()
    user.saved()
    assert counted(study) == [given]
    assert study.store.answers.log()[0].annotator == "kt"
    forgive(user)


def test_entries_of_somebody_whose_name_begins_alike_are_not_touched(
    make_study: MakeStudy, serve: Serve, window: Open
) -> None:
    """kt.b answered without a network and left; kt signs in on the same PC."""
    study = make_study(ask={"budget": "200%", "start": "random", "raters": 2})
    server = serve(study, {"kt": "annotator", "kt.b": "annotator"})
    user = window(server)
    user.page.goto(server.link("kt.b"))
    user.page.wait_for_url("**/compare")
    user.pair()
    user.page.route("**/api/v1/comparisons", lambda route: route.abort("connectionreset"))
    user.press("ArrowLeft")
    state(user, "waiting")
    [waiting] = entries(user)
    user.page.goto(server.link("kt"))
    user.page.wait_for_url("**/compare")
    user.page.unroute("**/api/v1/comparisons")
    user.press("ArrowRight")
    user.page.wait_for_function(
        "() => Object.keys(localStorage).filter((k) => k.startsWith('steelyard.queue')).length < 2"
    )
    state(user, "saved")
    assert [(c.annotator, c.answer.value) for c in study.store.answers.log() if c.answer] == [("kt", "right")]
    assert entries(user) == [waiting]
    user.page.goto(server.link("kt.b"))
    user.page.wait_for_url("**/compare")
    user.saved()
    assert {c.annotator for c in study.store.answers.log()} == {"kt", "kt.b"}
    assert entries(user) == []
    forgive(user)


def test_who_could_not_be_signed_out_is_told(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    """On a shared PC the next person would go on under this name, behind a login page that says otherwise."""
    server = serve(make_study(), {"kt": "annotator"})
    user = window(server)
    page = user.page
    page.goto(server.link("kt"))
    page.wait_for_url("**/compare")
    user.pair()
    said: list[str] = []
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.accept()))
    page.route("**/api/v1/session", lambda route: route.fulfill(status=503, body="{}"))
    sign_out = "() => document.querySelector('[data-do=sign-out]').click()"
    page.evaluate(sign_out)
    page.wait_for_event("dialog")
    assert "still signed in" in said[0]
    assert page.url.endswith("/compare")
    page.unroute("**/api/v1/session")
    page.evaluate(sign_out)
    page.wait_for_url("**/login")
    assert page.evaluate("() => fetch('/api/v1/me').then((reply) => reply.status)") == 401
    forgive(user)
