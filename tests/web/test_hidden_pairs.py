"""Pairs with known answers hidden among the others: nobody who is checked can tell them apart."""

from __future__ import annotations

import time
import uuid
from typing import Any

import numpy as np

from steelyard.study import Study
from tests.web.actors import Enter, MakeStudy, Serve
from tests.web.test_training import PEOPLE, gold, lease, rows_of


def hidden_study(make_study: MakeStudy, **more: Any) -> tuple[Study, set[frozenset[int]]]:
    study = make_study(people={"gold_rate": 0.4, **more}, ask={"budget": "200%", "start": "random"})
    return study, gold(study)


def test_an_annotator_cannot_tell_a_hidden_pair_from_any_other(
    make_study: MakeStudy, serve: Serve, enter: Enter
) -> None:
    """Somebody who reads every reply: names, numbers, order, times and counts say nothing."""
    study, known = hidden_study(make_study)
    server = serve(study, PEOPLE)
    kt = enter(server, "kt")
    kt.lease(6)
    told: list[bool] = []
    numbers: list[int] = []
    places: list[list[bool]] = []
    for k in range(40):
        before = lease(kt)
        assert len({frozenset(pair) for pair in before["pairs"]}) == 1, "the same fields"
        assert len({pair["expires"] for pair in before["pairs"]}) == 1
        assert before["warmup"] is None
        pair = before["pairs"][0]
        hidden = rows_of(server, pair) in known
        places.append([rows_of(server, p) in known for p in before["pairs"]])
        progress, info = kt.get("/api/v1/progress").json(), kt.get("/api/v1/study").json()
        reply = kt.answer(pair, answered_at=1.7e9 + k)
        body = reply.json()
        assert (reply.status_code, body["feedback"], body["created"]) == (201, None, True)
        assert body["answered"] == before["answered"] + 1 == k + 1, "every answer counts as one more"
        assert body["wanted"] == before["wanted"] == info["wanted"] == progress["wanted"]
        assert info["answered"] == progress["answered"] == k
        assert before["mine"] == k
        assert kt.get("/api/v1/agreement").json()["answers"] == 0, (
            "figures that count without them are not told"
        )
        assert f"{k + 1} answer" in kt.get("/api/v1/achieved").json()["sentence"]
        assert kt.get("/api/v1/achieved").json()["accuracy"] == []
        told.append(hidden)
        numbers.append(pair["id"])
    assert 5 < sum(told) < 30
    # Numbers in the store are low for hidden pairs; those that are told say nothing about the kind, and give no order.
    log = kt.get("/api/v1/comparisons", params={"limit": 100}).json()["comparisons"]
    assert [row["pair"] for row in log] == numbers
    assert min(numbers) >= 2**50
    ranks = np.argsort(np.argsort(numbers))
    mine, others = ranks[np.array(told)], ranks[~np.array(told)]
    assert abs(mine.mean() - others.mean()) < 3.5 * np.sqrt(40**2 / 12 * (1 / len(mine) + 1 / len(others)))
    # Nor does the place in a reply: hidden ones come first, in the middle and last.
    assert len({place for row in places for place, is_it in enumerate(row) if is_it}) > 3
    # Nobody is asked the same hidden pair twice.
    seen = [rows_of(server, {"left": row["left"], "right": row["right"]}) for row in log]
    assert len({*seen} & known) == sum(told)


def test_numbers_of_the_store_open_no_back_door(make_study: MakeStudy, serve: Serve, enter: Enter) -> None:
    study, _ = hidden_study(make_study)
    server = serve(study, PEOPLE)
    kt = enter(server, "kt")
    pairs = kt.lease(6)
    for pair in pairs:  # with every number that the store has, hidden or not, the answer is the same
        replies = {
            (reply.status_code, reply.json()["detail"])
            for number in range(1, 40)
            for reply in [kt.answer({**pair, "id": number})]
        }
        assert len(replies) == 1, replies
        assert {status for status, _ in replies} == {403}
    images = {side for pair in pairs for side in (pair["left"], pair["right"])}
    wrong = [kt.answer({**p, "left": min(images - {p["left"], p["right"]})}) for p in pairs]
    assert len({(reply.status_code, reply.json()["detail"]) for reply in wrong}) == 1
    assert not [char for char in wrong[0].json()["detail"] if char.isdigit()]


def test_what_was_handed_out_before_pairs_were_hidden_is_taken(
    make_study: MakeStudy, serve: Serve, enter: Enter
) -> None:
    study = make_study()
    gold(study)
    server = serve(study, PEOPLE)
    kt = enter(server, "kt")
    held = kt.lease(2)
    assert max(pair["id"] for pair in held) < 2**31, "as they always were"
    study.config = study.config.with_changes(people={"gold_rate": 0.2})
    now = lease(kt)["pairs"]
    assert min(pair["id"] for pair in now) >= 2**50
    assert kt.answer(held[0]).status_code == 201
    other = next(p for p in now if rows_of(server, p) != rows_of(server, held[0]))
    assert kt.answer(other).status_code == 201
    study.config = study.config.with_changes(people={"gold_rate": 0.0})
    assert min(pair["id"] for pair in lease(kt)["pairs"]) >= 2**50, "once begun it stays so"


def test_results_are_for_leads_and_for_oneself_only_if_the_study_says_so(
    make_study: MakeStudy, serve: Serve, enter: Enter
) -> None:
    study, _ = hidden_study(make_study)
    server = serve(study, PEOPLE)
    kt, mo, lea = (enter(server, name) for name in ("kt", "mo", "lea"))
    while study.store.known.count("kt", "gold") < 12:
        for pair in kt.lease(6):
            kt.answer(pair, shown_at=time.time() - 3, answered_at=time.time())
    assert kt.get("/api/v1/checks").status_code == 403
    mine = kt.get("/api/v1/session/figures").json()
    assert (mine["annotator"], mine["gold"]) == ("kt", None)
    assert mine["answers"] == study.store.answers.count("kt") + study.store.known.count("kt", "gold")
    assert "An answer typically took 3" in mine["seconds"]["sentence"]
    assert mo.get("/api/v1/session/figures").json()["answers"] == 0
    [row] = lea.get("/api/v1/checks").json()["people"]
    assert row["annotator"] == "kt"
    assert row["judged"] >= 12
    assert row["low"] <= row["right"] / row["judged"] <= row["high"]
    assert row["session"]["gold"] is not None
    people = kt.get("/api/v1/progress").json()["people"]
    assert people["rows"][0]["answers"] == people["series"][0]["points"][-1][1] == mine["answers"]
    assert lea.get("/api/v1/progress").json()["answered"] == study.store.answers.count()
    study.config = study.config.with_changes(people={"gold_shown": True})
    assert kt.get("/api/v1/session/figures").json()["gold"]["whole"] is not None


def test_hidden_pairs_come_at_their_rate_and_each_once(
    make_study: MakeStudy, store_url: str, serve: Serve, enter: Enter
) -> None:
    study = make_study(store=store_url, people={"gold_rate": 0.2}, ask={"budget": "300%", "start": "random"})
    known = gold(study, 8)
    server = serve(study, PEOPLE)
    kt = enter(server, "kt")
    seen: list[frozenset[int]] = []
    for _ in range(15):
        for pair in kt.lease(6):
            assert kt.answer(pair).status_code == 201
            seen.append(rows_of(server, pair))
    hidden = [pair for pair in seen if pair in known]
    assert 4 <= len(hidden) <= 8
    assert len(hidden) == len(set(hidden))
    assert study.store.answers.count() == len(seen) - len(hidden)


def test_a_reload_shows_the_same_pairs_and_undo_brings_a_hidden_one_back(
    make_study: MakeStudy, serve: Serve, enter: Enter
) -> None:
    study, known = hidden_study(make_study)
    server = serve(study, PEOPLE)
    kt = enter(server, "kt")
    kt.lease(6)
    for _ in range(10):
        first = lease(kt)["pairs"]
        assert [p["id"] for p in lease(kt)["pairs"]] == [p["id"] for p in first]
        pair = next((p for p in first if rows_of(server, p) in known), None)
        if pair is not None:
            break
        kt.answer(first[0])
    assert pair is not None
    id = str(uuid.uuid4())
    assert kt.answer(pair, id=id).status_code == 201
    undone = kt.post(f"/api/v1/comparisons/{id}/undo", json={"id": str(uuid.uuid4())})
    assert undone.status_code == 200
    back = [p for p in lease(kt, 7)["pairs"] if p["id"] == pair["id"]]
    assert back
    assert (back[0]["left"], back[0]["right"]) == (pair["left"], pair["right"])
