"""A reply is lost after a commit, the browser sends the change again: what is stored is what one clean call would leave."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from steelyard.pairs import Answer
from steelyard.store import schema
from steelyard.store.errors import BusyError
from steelyard.store.records import NewComparison, NewGrade, NewPair
from steelyard.study import Study
from steelyard.web.asker import Asker
from steelyard.web.auth import digest
from tests.web.actors import Client, Enter, MakeStudy, Serve, Server
from tests.web.test_blinding import routes

ANSWER, GRADE, DECISION, WHO = str(uuid.uuid4()), str(uuid.uuid4()), str(uuid.uuid4()), "you"
ASKED = {"key": "bleeding", "question": "Which has more bleeding?"}
NAMES = iter(str(uuid.UUID(int=k)) for k in range(1, 10**6))


@pytest.fixture
def prepared(make_study: MakeStudy, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study with something to answer, grade, undo, exclude and revoke; nobody puts new pairs up meanwhile."""
    monkeypatch.setattr(Asker, "top_up", lambda self: 0)
    study = make_study("prepared")
    store = study.store
    study.config.with_changes(questions=[ASKED]).save(study.folder / "study.toml")
    store.settings.keep("image key", "5e" * 32)
    store.people.add("mo", link_hash=digest("mo"))
    store.people.tokens.add(digest("a token"), "mo", "script of mo")
    store.pairs.add_all([NewPair(k, k + 1, 0, "random", "") for k in range(0, 20, 2)])
    first, *_ = store.pairs.lease(WHO, 4, seconds=9000, rng=np.random.default_rng(0))
    store.answers.add(NewComparison(first.pair, WHO, Answer.LEFT, first.left, first.right, id=ANSWER))
    store.decisions.add(NewComparison(first.pair, WHO, Answer.RIGHT, first.left, first.right, id=DECISION))
    store.grades.lease(WHO, [0, 3, 6], 3, most=8)
    store.grades.add(NewGrade(study.catalog.ids[3], WHO, 1, id=GRADE))
    study.close()
    return study.folder


def held(client: Client) -> dict[str, Any]:
    pair: dict[str, Any] = client.post("/api/v1/pairs/lease", json={"count": 3}).json()["pairs"][0]
    return pair


def excluding(client: Client) -> dict[str, Any]:
    pair = held(client)
    sides = {side: pair[side] for side in ("left", "right")}
    body = {
        "id": ANSWER.replace(ANSWER[:8], "aaaaaaaa"),
        "pair": pair["id"],
        **sides,
        "answer": "cannot judge",
    }
    return {"json": {**body, "note": "stool", "exclude": [pair["left"]]}}


def deciding(client: Client) -> dict[str, Any]:
    pair = held(client)
    body = {"id": "dddddddd-0000-4000-8000-000000000000", "pair": pair["id"], "answer": "left"}
    return {"json": {**body, "left": pair["left"], "right": pair["right"]}}


def named(path: str, **more: Any) -> Callable[[Client], dict[str, Any]]:
    return lambda client: {"path": path, **more}


UNDO = {"id": "bbbbbbbb-0000-4000-8000-000000000000"}
# How to make each change; what only ends or begins a session, or keeps nothing, needs no name.
CHANGES: dict[tuple[str, str], Callable[[Client], dict[str, Any]]] = {
    ("POST", "/pairs/lease"): lambda client: {"json": {"count": 6}},
    ("POST", "/comparisons"): excluding,
    ("POST", "/comparisons/{id}/undo"): named(f"/comparisons/{ANSWER}/undo", json=UNDO),
    ("POST", "/decisions"): deciding,
    ("POST", "/decisions/{id}/undo"): named(f"/decisions/{DECISION}/undo", json=UNDO),
    ("POST", "/grades"): lambda c: {
        "json": {"id": "cccccccc-0000-4000-8000-000000000000", "image": c.server.public(0), "grade": 2}
    },
    ("POST", "/grades/{id}/undo"): named(f"/grades/{GRADE}/undo", json=UNDO),
    ("PATCH", "/images/{id}"): lambda c: {
        "path": f"/images/{c.server.public(9)}", "json": {"excluded": True, "reason": "blurred"},
    },
    ("PATCH", "/study"): lambda client: {
        "json": {"question": "Which is redder?", "raters": 2},
        "headers": {"If-Match": client.get("/api/v1/study").json()["etag"]},
    },
    ("POST", "/questions"): lambda client: {"json": {"key": "vessels", "question": "Which shows fewer vessels?"}},
    ("PATCH", "/questions/{name}"): named("/questions/bleeding", json={"question": "Which bleeds more?", "weight": 0.5}),
    ("DELETE", "/questions/{name}"): named("/questions/bleeding"),
    ("POST", "/backup"): lambda client: {},
    ("POST", "/annotators"): lambda client: {"json": {"name": "new", "role": "lead"}},
    ("PATCH", "/annotators/{name}"): named("/annotators/mo", json={"role": "lead", "active": False}),
    ("POST", "/annotators/{name}/link"): named("/annotators/mo/link", json={}),
    ("POST", "/annotators/{name}/password"): named("/annotators/mo/password", json={"password": "lantern-orchid-47"}),
    ("DELETE", "/annotators/{name}/sessions"): named("/annotators/mo/sessions"),
    ("POST", "/tokens"): lambda client: {"json": {"label": "script"}},
    ("DELETE", "/tokens/{id}"): named("/tokens/1"),
    ("POST", "/signatures"): lambda client: {"json": {"meaning": "reviewed"}},
}  # fmt: skip
# Agreeing and skipping the warm-up are noted once however often they are sent (test_training.py).
EXEMPT = {
    ("POST", "/session"), ("DELETE", "/session"), ("POST", "/place"), ("POST", "/instructions"), ("POST", "/warmup/skip"),
}  # fmt: skip


class Lost(BusyError):
    """The commit happened, and nobody heard of it."""


@contextmanager
def losing(server: Server, after: int) -> Iterator[list[int]]:
    """Let the store fail right after its k-th commit; gives how many commits there were."""
    store, commits = server.study.store, [0]
    writing = store.database.writing

    @contextmanager
    def failing() -> Iterator[Any]:
        nested = getattr(store.database._running, "connection", None) is not None
        with writing() as connection:
            yield connection
        if not nested:
            commits[0] += 1
            if commits[0] == after:
                raise Lost("the line went dead after the commit")

    store.database.writing = failing  # type: ignore[method-assign]
    try:
        yield commits
    finally:
        del store.database.writing  # type: ignore[attr-defined]


def kept(study: Study) -> dict[str, Any]:
    """Everything that is stored, without times, secrets and what chance decides."""
    found: dict[str, Any] = {"study.toml": (study.folder / "study.toml").read_text(encoding="utf-8")}
    found["backups"] = len(list((study.folder / "backups").glob("*.zip")))
    with study.store.database.reading() as connection:
        for table in schema.metadata.sorted_tables:
            if table.name in ("sessions", "changes", "settings"):
                continue
            plain = [c for c in table.c if "hash" not in c.name and c.name != "left_row"]
            rows = [dict(row) for row in connection.execute(sa.select(*plain)).mappings()]
            for row in rows:
                for column in plain:
                    if isinstance(column.type, sa.Float) and row[column.name] is not None:
                        row[column.name] = "some time"
                if row.get("action") in (
                    "backup made",
                    "signed",
                ):  # a file named by the time, hashes over times
                    row["detail"] = "of this moment"
            found[table.name] = sorted(rows, key=repr)
    return found


Run = Callable[[tuple[str, str], int], tuple[dict[str, Any], int, list[httpx.Response]]]


@pytest.fixture
def run(prepared: Path, tmp_path: Path, serve: Serve, enter: Enter) -> Iterator[Run]:
    """Make a change in a copy of the study: once (0), or with the reply lost after the k-th commit and sent again."""
    opened: list[Study] = []

    def attempt(change: tuple[str, str], after: int) -> tuple[dict[str, Any], int, list[httpx.Response]]:
        folder = tmp_path / f"copy-{len(opened)}"
        shutil.copytree(prepared, folder)
        study = Study.open(folder)
        opened.append(study)
        client = enter(serve(study))
        options = CHANGES[change](client)
        path = f"/api/v1{options.pop('path', change[1])}"
        headers = {"Idempotency-Key": next(NAMES), **options.pop("headers", {})}
        replies = []
        with losing(client.server, after) as commits:
            replies.append(client.request(change[0], path, headers=headers, **options))
        if after:
            replies.append(client.request(change[0], path, headers=headers, **options))
        return kept(study), commits[0], replies

    yield attempt
    for study in opened:
        study.close()


def test_every_change_is_known(prepared: Path, serve: Serve) -> None:
    """A route that changes something and is not below is one that nobody has tried to break."""
    with Study.open(prepared) as study:
        found = {
            (m, p.removeprefix("/api/v1")) for m, p in routes(serve(study).app) if m not in ("GET", "HEAD")
        }
    assert found == set(CHANGES) | EXEMPT


@pytest.mark.parametrize("change", CHANGES, ids=" ".join)
def test_sent_again_is_as_sent_once(change: tuple[str, str], run: Run) -> None:
    """After each of its commits the line goes dead; then once more with everything done and only the reply lost."""
    expected, commits, [reply] = run(change, 0)
    assert reply.status_code < 300, reply.text
    assert commits >= 1
    for after in (*range(1, commits + 1), commits + 1):
        state, _, [first, again] = run(change, after)
        assert first.status_code == (503 if after <= commits else reply.status_code), first.text
        assert again.status_code < 300, again.text
        assert state == expected, f"lost after commit {after} of {commits}"


def test_a_secret_that_never_arrived_is_worthless(prepared: Path, serve: Serve, enter: Enter) -> None:
    """Sent again, a link or token comes with another secret; the first one opens nothing."""
    with Study.open(prepared) as study:
        client = enter(serve(study))
        key = {"Idempotency-Key": next(NAMES)}
        first, second = (client.post("/api/v1/tokens", json={"label": "x"}, headers=key).json() for _ in "ab")
        assert first["id"] == second["id"]
        codes = []
        for made in (first, second):
            bearer = {"Authorization": f"Bearer {made['token']}"}
            codes.append(httpx.get(f"{client.server.url}/api/v1/me", headers=bearer).status_code)
        assert codes == [401, 200]
        other = client.post("/api/v1/annotators", json={"name": "x"}, headers=key)
        assert other.status_code == 409, "an id belongs to one change"
