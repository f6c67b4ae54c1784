"""Conflicts and decisions over HTTP: leads decide without knowing who said what, annotators learn nothing of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from steelyard.pairs import Answer
from steelyard.store.records import NewComparison, NewPair
from steelyard.study import Study
from tests.web.actors import Client, Enter, MakeStudy, Serve, Server, Teach
from tests.web.blinded import new

PEOPLE = {"ingrid": "admin", "leandra": "lead", "katarina": "annotator", "moritz": "annotator"}
ASK = {"raters": 2, "start": "random", "budget": "400%"}


@pytest.fixture
def disputed(make_study: MakeStudy, store_url: str, serve: Serve, enter: Enter) -> tuple[Server, list[int]]:
    """A server at which two people have contradicted each other on three pairs and agreed on a fourth."""
    study = make_study(ask=ASK, store=store_url)
    server = serve(study, PEOPLE)
    pairs = study.store.pairs.add_all([NewPair(2 * k, 2 * k + 1, raters=2) for k in range(4)])
    for number in pairs:
        for who, answer in (("katarina", Answer.LEFT), ("moritz", Answer.RIGHT)):
            said = Answer.LEFT if number == pairs[3] else answer
            tell(study, number, who, said, note=f"{who} thinks so")
    return server, pairs


def tell(study: Study, number: int, who: str, answer: Answer, **more: Any) -> None:
    """About (first, second)."""
    pair = study.store.pairs.get(number)
    study.store.answers.add(NewComparison(number, who, answer, pair.first, pair.second, **more))


def listed(client: Client, **query: Any) -> dict[str, Any]:
    reply = client.get("/api/v1/conflicts", params=query)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def decision(conflict: dict[str, Any], answer: str = "left", **more: Any) -> dict[str, Any]:
    sides = {side: conflict[side] for side in ("left", "right")}
    return {"id": new(), "pair": conflict["pair"], "answer": answer, **sides, **more}


def test_a_lead_sees_counts_and_no_names_until_the_decision(
    disputed: tuple[Server, list[int]], enter: Enter
) -> None:
    server, pairs = disputed
    lead = enter(server, "leandra")
    raw = lead.get("/api/v1/conflicts").text
    for name in PEOPLE:
        assert name not in raw
    found = json.loads(raw)
    assert {one["pair"] for one in found["conflicts"]} == set(pairs[:3])
    assert (found["open"], found["decided"]) == (3, 0)
    first = found["conflicts"][0]
    assert first["said"] == {"left": 1, "right": 1, "equal": 0, "cannot_judge": 0}
    assert (first["decision"], first["revealed"], first["answers"]) == (None, None, 2)
    body = decision(first, "right", note="vessels")
    made = lead.post("/api/v1/decisions", json=body)
    assert made.status_code == 201, made.text
    told = made.json()
    assert {one["annotator"]: one["answer"] for one in told["revealed"]["said"]}.keys() == {
        "katarina",
        "moritz",
    }
    assert sorted(one["answer"] for one in told["revealed"]["said"]) == ["left", "right"]
    assert (told["open"], told["decided"], told["created"]) == (2, 1, True)
    again = lead.post("/api/v1/decisions", json=body)
    assert (again.status_code, again.json()["created"]) == (200, False)
    [stands] = server.study.store.decisions.all()
    assert (stands.annotator, stands.note, stands.source) == ("leandra", "vessels", "page")
    assert first["pair"] not in {one["pair"] for one in listed(lead)["conflicts"]}
    [done] = listed(lead, decided=True)["conflicts"]
    assert (done["decision"]["answer"], done["decision"]["annotator"]) == ("right", "leandra")
    assert {one["annotator"] for one in done["revealed"]["said"]} == {"katarina", "moritz"}


def test_what_was_said_is_about_the_sides_that_are_shown(
    disputed: tuple[Server, list[int]], enter: Enter
) -> None:
    server, pairs = disputed
    lead = enter(server, "ingrid")
    turned = set()
    for one in listed(lead)["conflicts"]:
        stored = server.study.store.pairs.get(one["pair"])
        first_left = server.content(one["left"]) == stored.first
        turned.add(first_left)
        said = lead.post("/api/v1/decisions", json=decision(one)).json()["revealed"]["said"]
        assert {s["annotator"]: s["answer"] for s in said}["katarina"] == ("left" if first_left else "right")
        [kept] = server.study.store.decisions.of_pairs([one["pair"]]).values()
        assert (kept.left == stored.first) == first_left
    labels = server.study.store.answers.lessons().labels.tolist()
    assert len(labels) == len(pairs) + 1  # three decisions, and two answers that agree


def test_a_decision_is_taken_back_by_any_lead(disputed: tuple[Server, list[int]], enter: Enter) -> None:
    server, _ = disputed
    lead, other = enter(server, "leandra"), enter(server, "ingrid")
    conflict = listed(lead)["conflicts"][0]
    body = decision(conflict)
    lead.post("/api/v1/decisions", json=body)
    refused = other.post("/api/v1/decisions", json=decision(conflict, "right"))
    assert refused.status_code == 409
    assert "somebody has decided" in refused.json()["detail"]
    replaced = decision(conflict, "right", supersedes=body["id"])
    assert other.post("/api/v1/decisions", json=replaced).status_code == 201
    undone = new()
    for created in (True, False):
        reply = lead.post(f"/api/v1/decisions/{replaced['id']}/undo", json={"id": undone})
        assert (reply.status_code, reply.json()["created"]) == (200, created)
    assert (reply.json()["open"], reply.json()["decided"]) == (3, 0)
    assert conflict["pair"] in {one["pair"] for one in listed(lead)["conflicts"]}
    assert other.post(f"/api/v1/decisions/{new()}/undo", json={"id": new()}).status_code == 404


def test_an_answer_cannot_be_undone_as_a_decision_nor_the_other_way_round(
    disputed: tuple[Server, list[int]], enter: Enter
) -> None:
    server, _ = disputed
    lead, kat = enter(server, "leandra"), enter(server, "katarina")
    [mine, *_] = kat.get("/api/v1/comparisons").json()["comparisons"]
    body = decision(listed(lead)["conflicts"][0])
    lead.post("/api/v1/decisions", json=body)
    assert lead.post(f"/api/v1/decisions/{mine['id']}/undo", json={"id": new()}).status_code in (404, 422)
    for somebody in (lead, kat):
        assert somebody.post(f"/api/v1/comparisons/{body['id']}/undo", json={"id": new()}).status_code == 404


def test_where_people_agree_the_model_does_not_steer(
    make_study: MakeStudy, teach: Teach, serve: Serve, enter: Enter, drawn: Any
) -> None:
    """A sure model contradicts two people: neither what they said nor what it thinks is told before the decision."""
    study = make_study(ask={**ASK, "raters": 1})
    teach(study, 60)
    order = drawn.severity.argsort()
    i, j = sorted((int(order[0]), int(order[-1])))
    [number] = study.store.pairs.add_all([NewPair(i, j, raters=2, repeat=5)])
    wrong = Answer.LEFT if drawn.severity[i] < drawn.severity[j] else Answer.RIGHT
    for who in ("katarina", "moritz"):
        tell(study, number, who, wrong)
    lead = enter(serve(study, {"leandra": "lead"}), "leandra")
    conflict = next(one for one in listed(lead, limit=1000)["conflicts"] if one["pair"] == number)
    assert (conflict["said"], conflict["answers"], conflict["revealed"]) == (None, 2, None)
    worse = lead.server.public(int(order[-1]))
    side = "left" if conflict["left"] == worse else "right"
    revealed = lead.post("/api/v1/decisions", json=decision(conflict, side)).json()["revealed"]
    assert all(one["answer"] != side for one in revealed["said"])
    assert (revealed["model_left"] > 0.9) == (side == "left")


# ---------------------------------------------------------------------- what annotators learn: nothing

READS = (
    "/me", "/study", "/comparisons", "/grades", "/achieved", "/progress", "/grading/next",
)  # fmt: skip


def seen(client: Client) -> str:
    """Everything that an annotator can read, but for what moves with time."""
    texts = []
    for path in READS:
        reply = client.get(f"/api/v1{path}")
        texts.append(f"{path} {reply.status_code} {reply.text}")
    return "\n".join(texts)


def test_an_annotator_is_refused_and_told_nothing(disputed: tuple[Server, list[int]], enter: Enter) -> None:
    server, _ = disputed
    kat, lead = enter(server, "katarina"), enter(server, "leandra")
    conflict = listed(lead)["conflicts"][0]
    body = decision(conflict)
    before = seen(kat)
    refusals = [
        kat.get("/api/v1/conflicts"),
        kat.get("/api/v1/conflicts", params={"decided": True}),
        kat.post("/api/v1/decisions", json=body),
        kat.post(f"/api/v1/decisions/{body['id']}/undo", json={"id": new()}),
        kat.get("/adjudicate"),
    ]
    assert [reply.status_code for reply in refusals] == [403] * 5
    assert server.study.store.decisions.all() == []
    assert lead.post("/api/v1/decisions", json=body).status_code == 201
    refusals += [
        kat.get("/api/v1/conflicts", params={"decided": True}),
        kat.post(f"/api/v1/decisions/{body['id']}/undo", json={"id": new()}),
        # By the ways that are open to annotators: an answer that replaces or repeats the decision.
        kat.post("/api/v1/comparisons", json={**body, "id": new(), "supersedes": body["id"]}),
        kat.post(f"/api/v1/comparisons/{body['id']}/undo", json={"id": new()}),
    ]
    assert all(reply.status_code >= 400 for reply in refusals)
    for reply in refusals:
        assert not any(name in reply.text for name in ("leandra", "moritz"))
    assert len(server.study.store.decisions.all()) == 1
    after = seen(kat)
    assert after == before
    assert "decision" not in after
    assert "leandra" not in after
    pages = kat.get("/compare").text + kat.get("/progress").text
    assert "/adjudicate" not in pages
    assert "leandra" not in pages


def test_a_token_that_only_answers_decides_nothing(disputed: tuple[Server, list[int]], enter: Enter) -> None:
    server, _ = disputed
    lead = enter(server, "leandra")
    conflict = listed(lead)["conflicts"][0]
    token = lead.post("/api/v1/tokens", json={"label": "script", "scope": "answer"}).json()["token"]
    bearer = {"Authorization": f"Bearer {token}"}
    plain = enter(server, "", headers=bearer)
    reply = plain.post("/api/v1/decisions", json=decision(conflict))
    assert (reply.status_code, reply.json()["code"]) == (403, "scope")
    full = lead.post("/api/v1/tokens", json={"label": "all", "scope": "full"}).json()["token"]
    plain.headers["Authorization"] = f"Bearer {full}"
    assert plain.post("/api/v1/decisions", json=decision(conflict)).status_code == 201
    [kept] = server.study.store.decisions.all()
    assert (kept.source, kept.annotator) == ("api", "leandra")


def test_nonsense_is_named(disputed: tuple[Server, list[int]], enter: Enter) -> None:
    server, _ = disputed
    lead = enter(server, "leandra")
    conflict = listed(lead)["conflicts"][0]
    for wrong, status in (
        ({"pair": 10**6}, 404),
        ({"left": "0" * 32}, 404),
        ({"left": conflict["right"]}, 422),
        ({"answer": "both"}, 422),
        ({"role": "answer"}, 422),
        ({"supersedes": new()}, 404),
    ):
        reply = lead.post("/api/v1/decisions", json=decision(conflict) | wrong)
        assert reply.status_code == status, (wrong, reply.text)
    assert server.study.store.decisions.all() == []


def test_raters_stay_two_where_the_reading_is_two_plus_one(
    make_study: MakeStudy, serve: Serve, enter: Enter
) -> None:
    study = make_study(ask={**ASK, "reading": "two_plus_one"})
    admin = enter(serve(study, PEOPLE), "ingrid")
    reply = admin.patch("/api/v1/study", json={"raters": 3})
    assert reply.status_code == 422, reply.text
    assert "set raters = 2" in reply.json()["detail"]
    assert study.config.ask.raters == 2
