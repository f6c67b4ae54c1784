"""Grades, the ranking, progress, pictures and files by the API."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.images.catalog import Catalog
from steelyard.pairs import Answer, PairSet, random_pairs
from steelyard.store.records import NewComparison, NewPair
from steelyard.study import Study
from tests.waiting import until
from tests.web.actors import Client, Enter, MakeStudy, N, Serve, Teach, Team


def test_grades(local: Client, study: Study, teach: Teach) -> None:
    teach(study, 20)
    suggested = local.get("/api/v1/grading/next", params={"count": 5}).json()
    assert len(suggested["images"]) == 5
    image = suggested["images"][0]["id"]
    name = str(uuid.uuid4())
    body = {"id": name, "image": image, "grade": 2}
    first, again = (local.post("/api/v1/grades", json=body) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert set(first.json()) == {"id", "seq", "created", "graded", "given", "wanted", "gone"}
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


def test_examples_are_few_and_the_same_for_everybody(team: Team, study: Study) -> None:
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
    make_study: MakeStudy,
    pictures: Any,
    tmp_path: Any,
    serve: Serve,
    enter: Enter,
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
    assert before["trainer"]["sentence"] == (
        "There is no model yet. The first training starts after 20 more answers."
    )
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
    assert after["trainer"]["sentence"] == (
        "Model 1 knows all answers. The next training starts after 20 more answers."
    )
    assert "more than twice as uncertain." in after["unsure"]["sentence"]
    assert {p["id"] for p in after["unsure"]["points"]} <= {local.server.public(row) for row in range(N)}
    assert "Enough is when the rest of the plan would bring less than 1 point" in after["stop"]
    assert "you can stop" not in after["stop"] or after["answered"] >= after["wanted"]


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
