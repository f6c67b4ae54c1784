"""Counters that make sense: whose answers, of how many, and on beyond the plan for those who want to."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pytest

from steelyard.images.catalog import Catalog
from steelyard.study import Study
from tests.waiting import until
from tests.web.actors import Client, Enter, MakeStudy, N, Open, Serve, Teach, Window


def take(client: Client, **body: Any) -> dict[str, Any]:
    """What a request for pairs says once there is something to say."""
    reply: dict[str, Any] = {}

    def told() -> bool:
        reply.update(client.post("/api/v1/pairs/lease", json=body).json())
        return reply["state"] != "choosing"

    until(told, "pairs, or their end", seconds=30)
    return reply


def leave_images(study: Study, n: int) -> None:
    """Exclude all images but n."""
    for id in study.catalog.ids[n:]:
        study.store.images.exclude(str(id), "kt", "test")


def test_pairs_beyond_the_plan_are_for_those_who_ask(
    make_study: MakeStudy, serve: Serve, enter: Enter, store_url: str
) -> None:
    study = make_study(store=store_url, ask={"budget": 0.1, "start": "random"})  # six answers
    server = serve(study, {"kt": "annotator", "mo": "annotator"})
    kt, mo = enter(server, "kt"), enter(server, "mo")
    while pairs := kt.lease(3):
        for pair in pairs:
            kt.answer(pair)
    done = take(mo)
    assert (done["state"], done["more"], done["mine"], done["answered"]) == ("done", True, 0, 6)
    further = take(kt, beyond=True, count=3)
    assert further["state"] == "open"
    for pair in further["pairs"]:
        assert kt.answer(pair).status_code == 201
    assert study.store.answers.count() > study.budget
    assert len(study.store.pairs.all(open=True)) <= 12, "a few at a time"


def test_the_last_pair_beyond_the_plan_is_the_end(make_study: MakeStudy, serve: Serve, enter: Enter) -> None:
    study = make_study(ask={"budget": 0.02, "start": "random", "repeat_share": 0.0})  # one answer
    leave_images(study, 3)
    client = enter(serve(study))
    given = 0
    for _ in range(10):
        reply = take(client, beyond=True)
        if reply["state"] == "done":
            break
        for pair in reply["pairs"]:
            given += client.answer(pair).status_code == 201
    assert (reply["state"], reply["more"]) == ("done", False)
    assert given == 3, "three images are three pairs"


@pytest.mark.browser
def test_continue_anyway_until_nothing_is_left(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    study = make_study(ask={"budget": 0.02, "start": "random", "repeat_share": 0.0})
    leave_images(study, 3)
    study.propose(1)
    user = window(serve(study))
    page = user.compare()
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("#finished-title:has-text('Done')")
    assert pace(user) == "1 of 1"
    page.locator("#go-on").click()
    user.pair()
    user.press("ArrowLeft")
    user.saved()
    assert pace(user) == "2 answers (1 planned)"
    page.reload()
    user.pair()  # who goes on, goes on
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#finished-text:has-text('Every pair that can be asked has been answered.')")
    assert page.locator("#go-on").is_hidden(), "there is nothing to continue with"
    assert study.store.answers.count() == 3


@pytest.mark.browser
def test_the_counter_says_whose_answers(
    make_study: MakeStudy, serve: Serve, window: Open, teach: Teach
) -> None:
    study = make_study()
    teach(study, 20, annotator="mo")
    user = window(serve(study))
    user.compare()
    assert pace(user) == "0 by you · 20 of 120 by all"
    for _ in range(4):
        user.press("ArrowLeft")
    user.saved()
    assert pace(user) == "4 by you · 24 of 120 by all", "and no time: nobody knows how fast the others are"
    user.press("z")
    assert pace(user).startswith("3 by you")


def pace(user: Window) -> str:
    return str(user.page.locator("#pace").inner_text())


# ---------------------------------------------------------------------- grades


def test_nothing_to_grade_says_why(make_study: MakeStudy, serve: Serve, enter: Enter) -> None:
    study = make_study()
    free = np.flatnonzero(study.known_grades() < 0)
    client = enter(serve(study))
    came, first = N - len(free), free[0]
    for row in free[1:]:
        study.store.images.exclude(str(study.catalog.ids[row]), "kt", "test")
    suggested = client.get("/api/v1/grading/next").json()
    assert [image["id"] for image in suggested["images"]] == [client.server.public(int(first))]
    assert suggested["sentence"] == ""
    body = {"id": str(uuid.uuid4()), "image": suggested["images"][0]["id"], "grade": 1}
    assert client.post("/api/v1/grades", json=body).json()["given"] == 1
    said = client.get("/api/v1/grading/next").json()
    none = len(free) - 1
    assert said["sentence"] == (
        f"{none} images have no grade, but are excluded or could not be read. "
        f"Of the others, {came} came with one and you graded 1."
    )


@pytest.mark.browser
def test_grades_that_came_with_the_images_are_not_called_yours(
    pictures: Any, tmp_path: Any, serve: Serve, window: Open
) -> None:
    lines = (pictures / "labels.csv").read_text(encoding="utf-8").splitlines()
    table = tmp_path / "labels.csv"
    cells = [line.split(",") for line in lines[1:]]
    table.write_text(
        "\n".join([lines[0], *(",".join([image, grade or "1", *rest]) for image, grade, *rest in cells)])
        + "\n",
        encoding="utf-8",
    )
    catalog = Catalog.from_features(pictures / "features.npy", table, root=pictures)
    with Study.create(tmp_path / "colon", catalog, preset="features") as study:
        user = window(serve(study))
        page = user.open("/grade")
        page.wait_for_selector("#finished-title:has-text('Nothing left to grade')")
        assert page.locator("#finished-text").inner_text() == f"Every image has a grade: {N} came with one."
        assert pace(user) == "0 grades"


# ---------------------------------------------------------------------- progress


@pytest.mark.browser
def test_one_reason_is_said_once(make_study: MakeStudy, serve: Serve, window: Open, teach: Teach) -> None:
    study = make_study(ask={"budget": 0.4, "start": "random"})
    teach(study, 25)
    study.propose(8, strategy="random")
    user = window(serve(study))
    page = user.open("/progress")
    page.wait_for_selector("#next-list li")
    reasons = page.locator("#next-list li span").all_inner_texts()
    assert len(reasons) == 1
    assert reasons[0].startswith("6 pairs, each with this reason: ")
    assert page.locator("#next-list img").count() == 12
    assert page.locator("#state").inner_text() == "25 answers (24 planned) · 60 images"
