"""The API on both databases: what the page does, a program can do, and nothing is done twice."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from steelyard.images.catalog import Catalog
from steelyard.pairs import Answer, PairSet, random_pairs
from steelyard.store.records import NewComparison, NewPair
from steelyard.study import Study
from tests.waiting import until

if TYPE_CHECKING:
    from conftest import Client, Server

Teach = Callable[..., None]
N = 60


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


def test_two_people_never_hold_the_same_pair(team: Callable[[str], Client]) -> None:
    kt, mo = team("kt"), team("mo")
    seen: dict[int, str] = {}
    for _ in range(6):
        for name, person in (("kt", kt), ("mo", mo)):
            for pair in person.lease(3):
                assert seen.setdefault(pair["id"], name) == name
                assert person.answer(pair).status_code == 201
    assert set(seen.values()) == {"kt", "mo"}


def test_several_raters_are_different_people(
    make_study: Callable[..., Study],
    serve: Callable[..., Server],
    enter: Callable[..., Client],
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
    make_study: Callable[..., Study],
    serve: Callable[..., Server],
    enter: Callable[..., Client],
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
    assert reached["sentence"].startswith("6 answers have put 60 images in order")


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


def test_grades(local: Client, study: Study, teach: Teach) -> None:
    teach(study, 20)
    suggested = local.get("/api/v1/grading/next", params={"count": 5}).json()
    assert len(suggested["images"]) == 5
    image = suggested["images"][0]["id"]
    name = str(uuid.uuid4())
    body = {"id": name, "image": image, "grade": 2}
    first, again = (local.post("/api/v1/grades", json=body) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert set(first.json()) == {"id", "seq", "created", "graded", "wanted"}
    assert local.post("/api/v1/grades", json={**body, "id": str(uuid.uuid4()), "grade": 3}).status_code == 201
    assert local.post("/api/v1/grades", json={**body, "id": str(uuid.uuid4()), "grade": 4}).status_code == 422
    assert image not in [
        i["id"] for i in local.get("/api/v1/grading/next", params={"count": 50}).json()["images"]
    ]
    assert [g.grade for g in study.store.grades.log() if g.effective] == [3]
    newest = next(g.id for g in study.store.grades.log() if g.effective)
    assert local.post(f"/api/v1/grades/{newest}/undo", json={"id": str(uuid.uuid4())}).status_code == 200
    assert len(local.get("/api/v1/grades").json()["grades"]) == 3
    assert local.get(f"/api/v1/grades/{newest}/neighbours").status_code == 409


def test_examples_are_few_and_the_same_for_everybody(team: Callable[[str], Client], study: Study) -> None:
    """Three a grade of the study's own table, one a patient; left out, not replaced, and never to be graded."""
    kt, mo = team("kt"), team("mo")
    catalog, server = study.catalog, kt.server
    assert catalog.groups is not None
    assert catalog.grades is not None

    def ask(client: Client) -> dict[str, list[list[str]]]:
        found = client.get("/api/v1/grading/next", params={"count": 100}).json()["images"]
        return {image["id"]: image["examples"] for image in found}

    fixed = [set(rows) for rows in server.app.state.web.examples._by_grade()]
    assert [len(rows) for rows in fixed][:3] == [3, 3, 3], "the worst grade is rare"
    seen: list[set[int]] = [set(), set(), set(), set()]
    for turn in range(6):
        for client in (kt, mo):
            handed = ask(client)
            for image, examples in handed.items():
                row = catalog.index_of(server.content(image))
                for grade, ids in enumerate(examples):
                    rows = {catalog.index_of(server.content(id)) for id in ids}
                    assert rows == {r for r in fixed[grade] if catalog.groups[r] != catalog.groups[row]}
                    assert {int(catalog.grades[r]) for r in rows} <= {grade}
                    seen[grade] |= rows
                assert row not in set().union(*fixed), "nobody is asked about an example"
                body = {"id": str(uuid.uuid4()), "image": image, "grade": turn % 4}
                assert client.post("/api/v1/grades", json=body).status_code == 201
    assert all(some <= fixed[grade] for grade, some in enumerate(seen)), "grades given meanwhile add none"
    gone = min(fixed[0])
    study.store.images.exclude(catalog.ids[gone], "ada", "blurred")
    shown = {id for examples in ask(kt).values() for id in examples[0]}
    assert server.public(gone) not in shown
    assert len(shown) <= 2
    from steelyard.web.examples import Examples

    assert [set(rows) for rows in Examples(study)._by_grade()] == fixed, "another server shows the same"


def test_no_examples_before_anything_is_graded(
    make_study: Callable[..., Study],
    pictures: Any,
    tmp_path: Any,
    serve: Callable[..., Server],
    enter: Callable[..., Client],
) -> None:
    catalog = Catalog.from_features(pictures / "features.npy")
    with Study.create(
        tmp_path / "ungraded", catalog, preset="features", page={"grades": ("mild", "severe")}
    ) as bare:
        client = enter(serve(bare))
        image = client.get("/api/v1/grading/next").json()["images"][0]
        assert image["examples"] == [[], []]
        assert (
            client.post(
                "/api/v1/grades", json={"id": str(uuid.uuid4()), "image": image["id"], "grade": 1}
            ).status_code
            == 201
        )
        assert client.get("/api/v1/grading/next").json()["images"][0]["examples"] == [[], []]


def test_what_random_pairs_alone_would_have_given(local: Client, study: Study, drawn: Any) -> None:
    """No curve before enough random pairs are answered; then one that ends where they do, once for each model."""
    assert local.get("/api/v1/progress").json()["accuracy"]["random"] == []
    rng = np.random.default_rng(0)
    index = random_pairs(40, N, taken=PairSet(N), rng=rng)
    ids = study.store.pairs.add_all(
        [NewPair(int(i), int(j), 0, "random", "", 0.0, reserved=True) for i, j in index]
    )
    assert len(ids) == 40
    for pair in study.store.pairs.lease("kt", 40, seconds=600, rng=rng):
        left, right = (drawn.severity[study.catalog.index_of(id)] for id in (pair.left, pair.right))
        answer = Answer.LEFT if left > right else Answer.RIGHT
        study.store.answers.add(NewComparison(pair.pair, "kt", answer, pair.left, pair.right))
    study.fit()
    # The document is kept for a second.
    random = until(lambda: local.get("/api/v1/progress").json()["accuracy"]["random"], "a new document")
    assert [point["answers"] for point in random] == [10, 16, 22, 28, 34, 40]
    assert all(0 <= p["low"] <= p["estimate"] <= p["high"] <= 1 for p in random)
    assert random[-1]["estimate"] > 0.7


def test_the_ranking_is_the_models(local: Client, study: Study, teach: Teach) -> None:
    assert local.get("/api/v1/ranking").json() == {"model": None, "start": 0, "total": 0, "images": []}
    teach(study, 50)
    rows = local.get("/api/v1/ranking", params={"limit": 1000}).json()["images"]
    table = study.score()
    assert [local.server.content(row["id"]) for row in rows][::-1] == table["image"].tolist()
    assert [row["rank"] for row in rows][::-1] == table["rank"].tolist()
    assert np.allclose([row["low"] for row in rows][::-1], table["low"])
    scores = np.frombuffer(local.get("/api/v1/ranking/scores").content, dtype="<f4")
    assert np.allclose(scores, table["score"].to_numpy()[::-1], rtol=1e-4)
    assert sum(row["comparisons"] for row in rows) == 2 * study.store.answers.count()
    graded = local.get("/api/v1/ranking", params={"grade": 3, "limit": 1000}).json()
    assert {row["grade"] for row in graded["images"]} == {"Mayo 3"}
    assert graded["total"] == int((study.known_grades() == 3).sum())
    found = local.get("/api/v1/ranking", params={"text": "IMAGE-0001"}).json()
    assert found["total"] == 10
    for name in (study.catalog.ids[7], local.server.public(7)):
        [image] = local.get("/api/v1/ranking", params={"text": name}).json()["images"]
        assert image["id"] == local.server.public(7)
    assert local.get(f"/api/v1/images/{image['id']}").json()["content"] == study.catalog.ids[7]
    groups = study.catalog.groups
    assert groups is not None
    group = groups[0]
    mine = local.get("/api/v1/ranking/summary", params={"group": group}).json()
    assert mine["count"] == sum(name == group for name in groups)
    middle = rows[N // 2]
    image = local.get(f"/api/v1/images/{middle['id']}").json()
    assert [n["id"] for n in image["below"]] == [row["id"] for row in rows[N // 2 - 2 : N // 2]]
    assert [n["id"] for n in image["above"]] == [row["id"] for row in rows[N // 2 + 1 : N // 2 + 3]]
    local.patch(f"/api/v1/images/{middle['id']}", json={"excluded": True, "reason": "stool"})
    assert local.get("/api/v1/ranking/summary").json()["total"] == N - 1


def test_an_images_comparisons_are_seen_from_its_side(local: Client) -> None:
    pairs = local.lease(4)
    for pair, answer in zip(pairs, ("left", "right", "equal", "cannot judge"), strict=True):
        local.answer(pair, answer)
    outcomes = [local.get(f"/api/v1/images/{pair['left']}").json()["comparisons"] for pair in pairs]
    for pair, rows, expected in zip(pairs, outcomes, ("more", "less", "equal", "cannot"), strict=True):
        assert (pair["right"], expected) in {(row["other"], row["outcome"]) for row in rows}


def test_progress_says_what_happened(local: Client, study: Study, teach: Teach) -> None:
    before = local.get("/api/v1/progress").json()
    assert before["spread"]["shapes"] == []
    assert before["people"]["sentence"] == "Nobody has answered yet."
    teach(study, 40)
    until(lambda: local.get("/api/v1/progress").json()["answered"] == 40, "a new document")
    after = local.get("/api/v1/progress").json()
    assert [shape["name"] for shape in after["spread"]["shapes"]] == ["Mayo 0", "Mayo 1", "Mayo 2", "Mayo 3"]
    assert sum(shape["count"] for shape in after["spread"]["shapes"]) == int(
        (study.known_grades() >= 0).sum()
    )
    [row] = after["people"]["rows"]
    assert (row["annotator"], row["answers"], row["seconds"]) == ("kt", 40, 2.5)
    assert after["answered"] == 40
    assert {p["id"] for p in after["unsure"]["points"]} <= {local.server.public(row) for row in range(N)}
    assert "more answers are in" in after["stop"]


def test_pictures_are_encoded_anew_and_kept(local: Client, study: Study) -> None:
    id = local.server.public(0)
    page = local.get("/compare").text
    name = page.split('"study": "')[1].split('"')[0]
    view = local.get(f"/api/v1/images/{id}/pixels", params={"study": name})
    assert view.headers["content-type"] == "image/png"
    assert "immutable" in view.headers["cache-control"]
    from steelyard.images.decode import decode

    assert np.array_equal(decode(view.content), study.catalog.read(0))
    again = local.get(f"/api/v1/images/{id}/pixels", headers={"If-None-Match": view.headers["etag"]})
    assert again.status_code == 304
    thumb = local.get(f"/api/v1/images/{id}/pixels", params={"size": "thumb"})
    assert decode(thumb.content).shape == (96, 96, 3)
    assert "immutable" not in thumb.headers["cache-control"]


def test_export_and_backup(
    local: Client, study: Study, store_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    for pair in local.lease(3):
        local.answer(pair)
    for kind in ("csv", "json", "parquet", "choix", "labelstudio"):
        reply = local.get("/api/v1/export", params={"format": kind})
        assert reply.status_code == 200, reply.text
        assert "attachment" in reply.headers["content-disposition"]
    assert len(local.get("/api/v1/export").text.strip().splitlines()) == 4
    made = local.post("/api/v1/backup")
    assert made.status_code == 201, made.text
    from steelyard.rescue import restore_study

    file = local.get(f"/api/v1/{made.json()['file']}")
    assert file.headers["cache-control"] == "no-store"
    assert len(file.content) == made.json()["bytes"]
    (tmp_path / "downloaded.zip").write_bytes(file.content)
    restore_study(
        tmp_path / "downloaded.zip",
        tmp_path / "restored",
        store=request.getfixturevalue("postgres_url") if store_url else "",
    )
    with Study.open(tmp_path / "restored") as copy:
        assert copy.store.answers.count() == 3
    assert local.get("/api/v1/backups/none.steelyard.zip").status_code == 404
    for name in ("study.toml", "..%2Fstudy.toml", "%2e%2e%2fstudy.db", ".steelyard.zip"):
        assert local.get(f"/api/v1/backups/{name}").status_code in (404, 422), name


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


def test_a_token_can_do_what_the_page_can(local: Client, study: Study, enter: Callable[..., Client]) -> None:
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


def test_people_and_roles(team: Callable[[str], Client]) -> None:
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


def test_annotators_see_nothing_that_steers_them(
    team: Callable[[str], Client], study: Study, teach: Teach
) -> None:
    teach(study, 30, annotator="mo")
    kt = team("kt")
    seen = kt.get("/api/v1/progress").json()
    assert seen["next"] == []
    assert seen["unsure"]["points"] == []
    assert [row["annotator"] for row in seen["people"]["rows"]] in ([], ["kt"])
    [pair] = kt.lease()
    assert set(pair) == {"id", "left", "right", "expires"}
    assert kt.get("/api/v1/achieved").json()["ladder"] == []


def test_a_password_works_and_a_link_is_replaced(team: Callable[[str], Client]) -> None:
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
