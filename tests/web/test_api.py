"""The API on both databases: what the page does, a program can do, and nothing is done twice."""

from __future__ import annotations

import uuid
from typing import Any

from steelyard.study import Study
from tests.web.actors import Client, Enter, MakeStudy, N, Serve, Teach, Team


def test_an_answer_sent_twice_is_one_answer(local: Client, study: Study) -> None:
    [pair] = local.lease()
    name = str(uuid.uuid4())
    first, again = local.answer(pair, id=name), local.answer(pair, id=name)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["seq"] == again.json()["seq"]
    assert study.store.answers.count() == 1
    other = local.answer(pair, "right", id=name)
    assert other.status_code == 409
    assert other.headers["content-type"] == "application/problem+json"


def test_times_sides_note_and_exclusion_are_recorded(local: Client, study: Study) -> None:
    [pair] = local.lease()
    reply = local.answer(
        pair, "cannot judge", shown_at=1000.5, answered_at=1003.0, note="blurred", exclude=[pair["left"]]
    )
    assert reply.status_code == 201
    [row] = study.store.answers.log()
    left, right = map(local.server.content, (pair["left"], pair["right"]))
    assert (row.left, row.right, row.shown_at, row.answered_at) == (left, right, 1000.5, 1003.0)
    assert (row.note, row.source, row.annotator) == ("blurred", "page", "you")
    assert {image.id for image in study.store.images.all() if image.excluded} == {left}
    assert local.patch(f"/api/v1/images/{pair['left']}", json={"excluded": False}).status_code == 204
    assert {image.id for image in study.store.images.all() if image.excluded} == set()


def test_undo_gives_the_pair_back_with_the_same_sides(local: Client, study: Study) -> None:
    [pair] = local.lease()
    name = str(uuid.uuid4())
    local.answer(pair, id=name)
    undo = {"id": str(uuid.uuid4())}
    replies = [local.post(f"/api/v1/comparisons/{name}/undo", json=undo) for _ in range(2)]
    assert [r.status_code for r in replies] == [200, 200]
    assert [r.json()["created"] for r in replies] == [True, False]
    assert study.store.answers.count() == 0
    [again] = local.lease(1)
    assert (again["id"], again["left"], again["right"]) == (pair["id"], pair["left"], pair["right"])
    assert local.answer(again, "equal").status_code == 201


def test_a_reload_keeps_what_was_handed_out(local: Client) -> None:
    assert [p["id"] for p in local.lease(4)] == [p["id"] for p in local.lease(4)]


def test_two_people_never_hold_the_same_pair(team: Team) -> None:
    kt, mo = team("kt"), team("mo")
    seen: dict[int, str] = {}
    for _ in range(6):
        for name, person in (("kt", kt), ("mo", mo)):
            for pair in person.lease(3):
                assert seen.setdefault(pair["id"], name) == name
                assert person.answer(pair).status_code == 201
    assert set(seen.values()) == {"kt", "mo"}


def test_several_raters_are_different_people(
    make_study: MakeStudy,
    serve: Serve,
    enter: Enter,
    store_url: str,
) -> None:
    study = make_study(store=store_url, ask={"raters": 2, "start": "random", "budget": 0.1})
    server = serve(study, {"kt": "annotator", "mo": "annotator"})
    kt, mo = enter(server, "kt"), enter(server, "mo")
    mine = {pair["id"]: kt.answer(pair).status_code for pair in kt.lease(3)}
    theirs = {pair["id"]: mo.answer(pair).status_code for pair in mo.lease(3)}
    assert set(mine) == set(theirs)
    assert set(mine.values()) | set(theirs.values()) == {201}


def test_the_end_is_said(
    make_study: MakeStudy,
    serve: Serve,
    enter: Enter,
    store_url: str,
) -> None:
    study = make_study(store=store_url, ask={"budget": 0.1, "start": "random"})  # six answers
    client = enter(serve(study))
    while pairs := client.lease(3):
        for pair in pairs:
            client.answer(pair)
    reply = client.post("/api/v1/pairs/lease", json={}).json()
    assert (reply["state"], reply["answered"], reply["wanted"]) == ("done", 6, 6)
    reached = client.get("/api/v1/achieved").json()
    assert reached["sentence"].startswith("6 answers have been given")
    assert "The planned 6 answers are in" in reached["sentence"]
    assert "you can stop" not in reached["sentence"], "six answers cannot tell whether they are enough"


def test_lists_are_paged_to_the_end_without_gap_or_double(local: Client) -> None:
    for pair in local.lease(7):
        local.answer(pair)
    found: list[int] = []
    cursor: str | None = None
    for _ in range(10):
        query = {"limit": 3, **({"cursor": cursor} if cursor else {})}
        reply = local.get("/api/v1/comparisons", params=query).json()
        found += [row["seq"] for row in reply["comparisons"]]
        cursor = reply["next"]
        if cursor is None:
            break
    assert found == sorted(set(found))
    assert len(found) == 7
    assert local.get("/api/v1/images", params={"cursor": "nonsense"}).status_code == 422
    assert len(local.get("/api/v1/images", params={"limit": 1000}).json()["images"]) == N


def test_json_has_an_etag_and_is_not_sent_again(local: Client) -> None:
    first = local.get("/api/v1/study")
    again = local.get("/api/v1/study", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    local.answer(local.lease()[0])
    changed = local.get("/api/v1/study", headers={"If-None-Match": first.headers["etag"]})
    assert changed.status_code == 200


def test_wording_changes_once_and_is_kept(local: Client, study: Study) -> None:
    info = local.get("/api/v1/study").json()
    body = {"question": "Which is redder?", "raters": 2, "break_minutes": 0}
    saved = local.patch("/api/v1/study", json=body, headers={"If-Match": f'"{info["etag"]}"'})
    assert saved.json()["question"] == "Which is redder?"
    late = local.patch("/api/v1/study", json={"question": "?"}, headers={"If-Match": info["etag"]})
    assert late.status_code == 412
    assert "Which is redder?" in local.get("/compare").text
    with Study.open(study.folder) as opened:
        assert (opened.config.page.question, opened.config.ask.raters) == ("Which is redder?", 2)
    assert local.patch("/api/v1/study", json={"grades": ["only one"]}).status_code == 409


def test_a_token_can_do_what_the_page_can(local: Client, study: Study, enter: Enter) -> None:
    made = local.post("/api/v1/tokens", json={"label": "script"}).json()
    bearer = {"Authorization": f"Bearer {made['token']}"}
    program = enter(local.server, headers=bearer)
    assert program.get("/api/v1/me").json()["via"] == "token"
    [pair] = program.lease()
    assert program.answer(pair).status_code == 201
    assert study.store.answers.log()[0].source == "api"
    assert program.get("/api/v1/annotators").status_code == 200
    assert local.delete(f"/api/v1/tokens/{made['id']}").status_code == 204
    assert program.get("/api/v1/me").status_code == 401


def test_people_and_roles(team: Team) -> None:
    ada, lea, kt = team("ada"), team("lea"), team("kt")
    assert ada.post("/api/v1/annotators", json={"name": "new", "role": "lead"}).status_code == 201
    assert ada.post("/api/v1/annotators", json={"name": "new"}).status_code == 409
    assert lea.post("/api/v1/annotators", json={"name": "x"}).status_code == 403
    for path in ("ranking", "images", "annotators", "export", "audit"):
        assert kt.get(f"/api/v1/{path}").status_code == 403
    assert lea.get("/api/v1/audit").status_code == 403
    password = {"password": "correct horse battery"}
    assert kt.post("/api/v1/annotators/new/password", json=password).status_code == 403
    assert kt.post("/api/v1/annotators/kt/password", json=password).status_code == 204
    anon = team("")
    reply = anon.post("/api/v1/session", json={"name": "kt", **password})
    assert reply.json()["name"] == "kt"
    assert ada.patch("/api/v1/annotators/kt", json={"active": False}).status_code == 200
    assert anon.get("/api/v1/me").status_code == 401
    assert kt.get("/api/v1/me").status_code == 401
    assert ada.patch("/api/v1/annotators/ada", json={"role": "lead"}).status_code == 409
    actions = [entry["action"] for entry in ada.get("/api/v1/audit").json()["entries"]]
    assert {"annotator added", "password set", "annotator changed", "signed in"} <= set(actions)


def test_the_audit_log_is_paged_from_its_end(local: Client, study: Study) -> None:
    """Every entry once, newest first, while others are written."""
    for k in range(50):
        study.store.audit.add("kt", f"looked {k}")
    everything = [entry.seq for entry in study.store.audit.log()][::-1]
    page = local.get("/api/v1/audit?limit=20").json()
    study.store.audit.add("mo", "came in between")
    seen = [entry["seq"] for entry in page["entries"]]
    while page["next"]:
        page = local.get("/api/v1/audit", params={"limit": 15, "cursor": page["next"]}).json()
        seen += [entry["seq"] for entry in page["entries"]]
    assert seen == everything
    assert local.get("/api/v1/audit?limit=1").json()["entries"][0]["action"] == "came in between"


def test_annotators_see_nothing_that_steers_them(team: Team, study: Study, teach: Teach) -> None:
    teach(study, 30, annotator="mo")
    kt = team("kt")
    seen = kt.get("/api/v1/progress").json()
    assert seen["next"] == []
    assert seen["unsure"]["points"] == []
    assert [row["annotator"] for row in seen["people"]["rows"]] in ([], ["kt"])
    [pair] = kt.lease()
    assert set(pair) == {"id", "left", "right", "expires", "answered"}
    assert pair["answered"] == []
    assert kt.get("/api/v1/achieved").json()["ladder"] == []


def test_a_password_works_and_a_link_is_replaced(team: Team) -> None:
    ada = team("ada")
    made = ada.post("/api/v1/annotators/mo/link").json()["link"]
    secret = made.partition("#link=")[2]
    anon = team("")
    old = anon.post("/api/v1/session", json={"link": anon.server.secrets["mo"]})
    assert old.status_code == 401
    assert anon.post("/api/v1/session", json={"link": secret}).json()["name"] == "mo"


BAD: list[tuple[str, str, dict[str, Any] | None]] = [
    ("POST", "/api/v1/pairs/lease", {"count": 0}),
    ("POST", "/api/v1/pairs/lease", {"count": 1, "more": 1}),
    ("POST", "/api/v1/comparisons", {}),
    ("PATCH", "/api/v1/study", {"question": "a\u0000b"}),
    ("POST", "/api/v1/annotators", {"name": "a\r\nSet-Cookie: x=1"}),
    ("GET", "/api/v1/images/../../etc/passwd", None),
]


def test_bad_requests_are_problem_documents(local: Client) -> None:
    for method, path, body in BAD:
        reply = local.request(method, path, json=body)
        assert reply.status_code in (404, 422), (method, path)
        assert reply.headers["content-type"] == "application/problem+json"
        assert set(reply.json()) == {"type", "title", "status", "detail", "code"}
