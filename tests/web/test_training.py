"""Instructions, warm-up, hidden pairs and limits: decided by the server, whatever a page or program tries."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from steelyard.store.records import NewKnown
from steelyard.study import Study
from steelyard.study.checks import add_known
from steelyard.web.prose import read_prose
from steelyard.web.training import day_of
from tests.web.actors import Client, Enter, MakeStudy, N, Serve, Server

PEOPLE = {"ada": "admin", "lea": "lead", "kt": "annotator", "mo": "annotator"}
HOSTILE = "<script>alert(1)</script> **<img src=x onerror=alert(2)>** [a](javascript:alert(3))\n\n# </article><b>\n\n- {{ 7 * 7 }}"


def lease(client: Client, count: int = 6, **more: Any) -> dict[str, Any]:
    reply = client.post("/api/v1/pairs/lease", json={"count": count, **more})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def gold(study: Study, n: int = 20, kind: str = "gold") -> set[frozenset[int]]:
    """Pairs of neighbours by row, from the end for warming up."""
    rows = [(k, k + 1) if kind == "gold" else (N - 1 - k, N - 2 - k) for k in range(0, 2 * n, 2)]
    add_known(study, [NewKnown(worse, other, kind) for worse, other in rows])  # type: ignore[arg-type]
    return {frozenset(pair) for pair in rows}


def rows_of(server: Server, pair: dict[str, Any]) -> frozenset[int]:
    ids = server.app.state.web.ids
    return frozenset({ids.row(pair["left"]), ids.row(pair["right"])})


# ---------------------------------------------------------------------- consent


def test_nothing_is_handed_out_before_somebody_agrees(
    make_study: MakeStudy, store_url: str, serve: Serve, enter: Enter
) -> None:
    study = make_study(store=store_url, people={"instructions": "# Look\n\nclosely", "consent": True})
    server = serve(study, PEOPLE)
    kt = enter(server, "kt")
    for beyond in (False, True):
        reply = lease(kt, beyond=beyond)
        assert (reply["pairs"], reply["state"]) == ([], "consent")
    assert kt.get("/api/v1/grading/next").json()["state"] == "consent"
    with study.store.database.reading() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM pair_leases").scalar_one() == 0
    page = kt.get("/compare", follow_redirects=False)
    assert (page.status_code, page.headers["location"]) == (303, "/instructions?next=/compare")
    shown = kt.get("/api/v1/instructions").json()
    assert (shown["consent"], shown["accepted"]) == (True, False)
    wrong = kt.post("/api/v1/instructions", json={"version": "0" * 16})
    assert (wrong.status_code, wrong.json()["code"]) == (409, "version")
    token = kt.post("/api/v1/tokens", json={"label": "script"}).json()["token"]
    bearer = {"Authorization": f"Bearer {token}"}
    machine = enter(server, headers=bearer).post("/api/v1/instructions", json={"version": shown["version"]})
    assert machine.status_code == 403, "only a person agrees"
    for _ in range(2):
        assert kt.post("/api/v1/instructions", json={"version": shown["version"]}).status_code == 204
    [noted] = study.store.audit.log(action="consent given")
    assert (noted.actor, noted.detail) == ("kt", {"version": shown["version"]})
    assert kt.lease(2)
    assert lease(enter(server, "mo"))["state"] == "consent", "one agrees for oneself only"


def test_a_changed_text_is_agreed_to_anew_and_what_was_handed_out_may_be_answered(
    make_study: MakeStudy, serve: Serve, enter: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.web.training.LOOK_SECONDS", 0.0)
    study = make_study(people={"instructions": "Look.", "consent": True})
    server = serve(study, PEOPLE)
    kt = enter(server, "kt")
    version = kt.get("/api/v1/instructions").json()["version"]
    kt.post("/api/v1/instructions", json={"version": version})
    held = kt.lease(2)
    wording = lease(kt)["wording"]
    web = server.app.state.web
    web.configure(study.config.with_changes(people={"instructions": "Look again."}), by="ada")
    reply = lease(kt)
    assert (reply["state"], reply["pairs"]) == ("consent", [])
    assert reply["wording"] != wording, "an open page loads itself again"
    assert kt.answer(held[0]).status_code == 201
    version = kt.get("/api/v1/instructions").json()["version"]
    kt.post("/api/v1/instructions", json={"version": version})
    assert lease(kt)["state"] == "open"
    study.store.audit.add("ada", "consent withdrawn", {"name": "kt", "note": "by letter"})
    assert lease(kt)["state"] == "consent"
    lea = enter(server, "lea")
    assert [a["name"] for a in lea.get("/api/v1/checks").json()["agreements"]] == []


def test_instructions_are_text_whatever_is_in_them(make_study: MakeStudy, serve: Serve, enter: Enter) -> None:
    study = make_study(people={"instructions": HOSTILE})
    path = str(study.catalog.paths[0])
    study.config = study.config.with_changes(
        people={"examples": [f"{path}: <script>alert(4)</script> \"' onload=x"]}
    )
    kt = enter(serve(study, PEOPLE), "kt")
    html = kt.get("/instructions").text
    body = html[html.index("<main") : html.index("</main>")]
    for bad in (
        "<script",
        "<img src=x",
        "</article><b>",
        'javascript:alert(3)"',
        'href="javascript',
        "<li>49",
        "' onload",
    ):
        assert bad not in body, bad
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in body
    assert "<strong>&lt;img src=x" in body
    data = html[html.index('id="page-data"') :]
    assert "<script>alert" not in data[: data.index("</script>")]
    [example] = kt.get("/api/v1/instructions").json()["examples"]
    assert kt.get(f"/api/v1/images/{example['id']}/pixels?size=view").status_code == 200
    assert lease(kt)["state"] != "consent", "without consent the page is shown, and nothing is enforced"


def test_prose_knows_a_little_markdown() -> None:
    blocks = read_prose("# One\ntext *a* **b c** 2 * 3 * 4\nmore\n\n1. first\n2. second\n- point\n## Two ##")
    assert [b.kind for b in blocks] == ["h2", "p", "ol", "ul", "h3"]
    assert [(r.text, r.style) for r in blocks[1].lines[0]] == [
        ("text ", ""), ("a", "em"), (" ", ""), ("b c", "strong"), (" 2 * 3 * 4 more", ""),
    ]  # fmt: skip
    assert len(blocks[2].lines) == 2
    assert read_prose("") == []
    started = time.perf_counter()
    read_prose("*" * 20_000 + "**a" * 5_000)
    assert time.perf_counter() - started < 5, "no text keeps the server busy"


# ---------------------------------------------------------------------- warm-up


def test_a_warm_up_comes_first_with_feedback_and_is_remembered(
    make_study: MakeStudy, store_url: str, serve: Serve, enter: Enter
) -> None:
    study = make_study(store=store_url, people={"warmup": 3})
    known = gold(study, 5, "warm-up")
    server = serve(study, PEOPLE)
    kt = enter(server, "kt")
    reply = lease(kt)
    assert reply["warmup"] == {"done": 0, "of": 3, "skippable": False}
    assert [rows_of(server, p) in known for p in reply["pairs"]] == [True] * 3
    first = reply["pairs"][0]
    worse = max(rows_of(server, first))  # from the end: the larger row is the worse one
    side = "left" if server.app.state.web.ids.row(first["left"]) == worse else "right"
    other = {"left": "right", "right": "left"}[side]
    sent = {"id": str(uuid.uuid4())}
    for _ in range(2):  # sent again it is the same, feedback and all
        said = kt.answer(first, other, **sent).json()
        assert said["feedback"] == {"expected": side, "right": False}
    assert (said["answered"], lease(kt)["mine"]) == (0, 0), "it does not count"
    again = enter(server, "kt")  # another device
    assert lease(again)["warmup"] == {"done": 1, "of": 3, "skippable": False}
    assert again.post("/api/v1/warmup/skip").status_code == 409
    for pair in lease(again)["pairs"]:
        assert again.answer(pair).json()["feedback"] is not None
    real = again.lease(3)
    assert not [pair for pair in real if rows_of(server, pair) in known]
    done = again.answer(real[0]).json()
    assert (done["feedback"], done["answered"]) == (None, 1)
    assert lease(again)["warmup"] is None
    assert study.store.answers.count() == 1


def test_a_warm_up_can_be_skipped_only_where_the_study_says_so(
    make_study: MakeStudy, serve: Serve, enter: Enter
) -> None:
    study = make_study(people={"warmup": 2, "warmup_skip": True})
    gold(study, 2, "warm-up")
    server = serve(study, PEOPLE)
    kt = enter(server, "kt")
    assert lease(kt)["warmup"] == {"done": 0, "of": 2, "skippable": True}
    for _ in range(2):
        assert kt.post("/api/v1/warmup/skip").status_code == 204
    assert kt.lease(1)
    assert lease(kt)["warmup"] is None
    assert [e.actor for e in study.store.audit.log(action="warm-up skipped")] == ["kt"]
    assert lease(enter(server, "mo"))["warmup"] is not None


def test_without_pairs_for_it_there_is_no_warm_up(make_study: MakeStudy, serve: Serve, enter: Enter) -> None:
    kt = enter(serve(make_study(people={"warmup": 3}), PEOPLE), "kt")
    assert kt.lease(1)
    assert lease(kt)["warmup"] is None


# ---------------------------------------------------------------------- limits


def test_nobody_is_handed_more_than_the_limit_of_a_day(
    make_study: MakeStudy, store_url: str, serve: Serve, enter: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = make_study(store=store_url, people={"limit_per_day": 4})
    server = serve(study, PEOPLE)
    kt = enter(server, "kt")
    held = kt.lease(4)
    assert len(lease(kt, 50)["pairs"]) == 4, "however many are asked for"
    for pair in held[:3]:
        # A browser's clock says nothing here: yesterday's time does not help.
        assert kt.answer(pair, answered_at=time.time() - 86400).status_code == 201
    assert [p["id"] for p in lease(kt, 50)["pairs"]] == [held[3]["id"]]
    assert enter(server, "kt").answer(held[3]).status_code == 201
    reply = lease(kt, 50, beyond=True)
    assert (reply["state"], reply["pairs"]) == ("limit", [])
    assert 0 < reply["again_at"] - time.time() <= 90_000
    assert enter(server, "mo").lease(1), "others go on"
    monkeypatch.setattr("steelyard.web.training._now", lambda: time.time() + 86_400)
    assert kt.lease(1), "tomorrow"


def test_nobody_gives_more_than_the_limit_of_a_person_but_what_was_handed_out_is_kept(
    make_study: MakeStudy, serve: Serve, enter: Enter
) -> None:
    study = make_study()
    server = serve(study, PEOPLE)
    kt = enter(server, "kt")
    held = kt.lease(3)
    study.config = study.config.with_changes(people={"limit_per_person": 1})
    assert kt.answer(held[0]).status_code == 201
    reply = lease(kt)
    assert (reply["state"], reply["again_at"]) == ("limit", None)
    for pair in held[1:]:
        assert kt.answer(pair).status_code == 201, "never lost"
    assert study.store.answers.count("kt") == 3


def test_an_answer_that_arrives_while_pairs_are_handed_out_makes_no_room_twice(
    make_study: MakeStudy, serve: Serve, enter: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = make_study(people={"limit_per_day": 5})
    server = serve(study, PEOPLE)
    kt = enter(server, "kt")
    held = kt.lease(3)
    training = server.app.state.web.training
    pairs = training._pairs

    def late(name: str, count: int) -> Any:
        assert kt.answer(held[0]).status_code == 201  # after the limit was looked at
        return pairs(name, count)

    monkeypatch.setattr(training, "_pairs", late)
    found = training.hand("kt", 6).pairs
    assert len(found) == 4, "one is answered, so four are left"
    monkeypatch.setattr(training, "_pairs", pairs)
    assert len(study.store.pairs.held("kt")) == 4
    assert study.store.pairs.free_count("mo") >= 1, "what was taken back is for others"


def test_a_day_is_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        monkeypatch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        begin, end = day_of(1_774_764_000.0)  # 2026-03-29, when clocks there are put forward
        assert end - begin == 23 * 3600
    finally:
        monkeypatch.undo()
        time.tzset()


def test_without_settings_everything_is_as_it_was(make_study: MakeStudy, serve: Serve, enter: Enter) -> None:
    study = make_study()
    gold(study), gold(study, 3, "warm-up")
    kt = enter(serve(study, PEOPLE), "kt")
    reply = lease(kt)
    kt.lease(6)
    reply = lease(kt)
    assert (reply["warmup"], reply["again_at"], reply["wanted"]) == (None, None, study.budget)
    assert max(pair["id"] for pair in reply["pairs"]) < 2**31
    assert kt.get("/compare", follow_redirects=False).status_code == 200
    assert kt.get("/instructions", follow_redirects=False).status_code == 303
    assert kt.get("/api/v1/instructions").json()["accepted"] is True
    assert "/instructions" not in kt.get("/compare").text
