"""Annotators stay blind: every route is asked as one, and nothing in any reply says which file, how severe, how ranked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from steelyard.study import Study
from tests.web.actors import Client, Enter, N, Server
from tests.web.blinded import FAR, SIZES, new, routes

WORDS = {"rank", "score", "std", "path", "group", "file", "strategy", "reason", "row", "content", "median", "density", "model", "unlike", "off_domain", "domain_note"}  # fmt: skip


def giveaways(study: Study) -> list[str]:
    """Every text that names a file, a patient or an image's content."""
    catalog = study.catalog
    assert catalog.groups is not None
    found = {str(study.folder), str(study.folder.parent), *catalog.ids.tolist(), *catalog.groups}
    for path in catalog.paths:
        found.update((path, Path(path).name, Path(path).stem, Path(path).parent.name))
    return sorted(found)


def leaks(study: Study, reply: httpx.Response) -> list[str]:
    """What a reply gives away: texts in its body or headers, scores, and words of a ranking."""
    headers = "\n".join(f"{name}: {value}" for name, value in reply.headers.items())
    text = reply.content.decode("utf-8", "replace")
    everything = f"{headers}\n{text}"
    found = [word for word in giveaways(study) if word in everything]
    for number in re.findall(r"(?<![\w.-])-?\d+\.\d+(?![\w-])", everything):
        if FAR - 100 < float(number) < FAR + 100:
            found.append(f"a score: {number}")
    json_body = reply.content and reply.headers.get("content-type", "").startswith("application/json")
    if json_body and "openapi" not in reply.json():  # that describes replies to leads too, and has no data
        found += sorted(WORDS & set(keys(reply.json())))
    return found


def keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner)


class Walk:
    """Asks every route as somebody, with parameters that exist."""

    def __init__(self, client: Client, others: dict[tuple[str, str], Client]) -> None:
        self.client, self.others = client, others
        self.pairs = client.lease(4)
        self.answered = new()
        assert client.answer(self.pairs[0], id=self.answered).status_code == 201
        self.images = client.get("/api/v1/grading/next", params={"count": 8}).json()["images"]
        self.graded = [new(), new()]
        for name, image in zip(self.graded, self.images, strict=False):
            body = {"id": name, "image": image["id"], "grade": 1}
            assert client.post("/api/v1/grades", json=body).status_code == 201
        self.token = client.post("/api/v1/tokens", json={"label": "script"}).json()["id"]
        self.bodies: dict[tuple[str, str], Any] = {
            ("POST", "/pairs/lease"): lambda: {"count": 6},
            ("POST", "/comparisons"): lambda: self._answer(self.pairs[1]),
            ("POST", "/comparisons/{id}/undo"): lambda: {"id": new()},
            ("POST", "/grades"): lambda: {"id": new(), "image": self.images[2]["id"], "grade": 2},
            ("POST", "/grades/{id}/undo"): lambda: {"id": new()},
            ("POST", "/session"): lambda: {"name": "kt", "password": "wrong password"},
            ("POST", "/tokens"): lambda: {"label": "another"},
            ("POST", "/instructions"): lambda: {"version": "0"},
            ("POST", "/warmup/skip"): dict,
            ("POST", "/signatures"): lambda: {"meaning": "seen", "password": "x"},
            ("POST", "/annotators/{name}/password"): lambda: {"password": "correct horse battery"},
            # of leads and admins: any body, they are refused before it matters
            **dict.fromkeys(LEADS, dict),
        }

    def _answer(self, pair: dict[str, Any]) -> dict[str, Any]:
        ids = {"id": new(), "pair": pair["id"], "left": pair["left"], "right": pair["right"]}
        return {**ids, "answer": "cannot judge", "note": "stool", "exclude": [pair["left"]]}

    def address(self, path: str) -> str:
        """A route's path with parameters that exist; fails for one that it does not know how to fill."""
        for part, value in {
            "/images/{id}": self.pairs[0]["left"],
            "/comparisons/{id}": self.answered,
            "/decisions/{id}": self.answered,
            "/grades/{id}/undo": self.graded[1],
            "/grades/{id}": self.graded[0],
            "/tokens/{id}": self.token,
            "/models/{id}": 1,
            "{name}": "ko",
        }.items():
            if part in path:
                path = path.replace(part, part.replace("{id}", str(value)).replace("{name}", str(value)))
        assert "{" not in path, f"{path}: say here how to call it"
        return path

    def ask(self, method: str, path: str) -> httpx.Response:
        """Call a route."""
        short = path.removeprefix("/api/v1")
        if method == "GET":
            return self.client.get(self.address(path), follow_redirects=False)
        # What ends a session is done by somebody else, or the rest of the walk would be refused.
        client = self.others.get((method, short), self.client)
        if method == "DELETE":
            return client.delete(self.address(path))
        assert (method, short) in self.bodies, f"{method} {path}: say here how to call it"
        return client.request(method, self.address(path), json=self.bodies[method, short]())


LEADS = [
    ("POST", "/annotators"),
    ("PATCH", "/annotators/{name}"),
    ("POST", "/annotators/{name}/link"),
    ("PATCH", "/images/{id}"),
    ("POST", "/place"),
    ("PATCH", "/study"),
    ("POST", "/backup"),
    ("POST", "/questions"),
    ("PATCH", "/questions/{name}"),
    ("POST", "/decisions"),
    ("POST", "/decisions/{id}/undo"),
]
ENDING = {("POST", "/annotators/{name}/password"): "ko", ("DELETE", "/session"): "ke"}


def test_no_route_tells_an_annotator_anything(clinic: Server, enter: Enter) -> None:
    kt = enter(clinic, "kt")
    walk = Walk(kt, {route: enter(clinic, name) for route, name in ENDING.items()})
    found, statuses = {}, {}
    for method, path in routes(clinic.app):
        reply = walk.ask(method, path)
        statuses[method, path] = reply.status_code
        if hits := leaks(clinic.study, reply):
            found[method, path] = hits
    assert found == {}
    for size in SIZES:
        reply = kt.get(f"/api/v1/images/{walk.pairs[0]['left']}/pixels", params={"size": size})
        assert reply.status_code == 200
        assert leaks(clinic.study, reply) == []
    # A walk of refusals would find nothing.
    refused = {route for route, status in statuses.items() if status >= 400}
    known = {(method, f"/api/v1{path}") for method, path in LEADS}
    # There is nothing to agree to and no warm-up in this study.
    known |= {("POST", f"/api/v1/{path}") for path in ("session", "instructions", "warmup/skip")}
    for method, path in refused - known:
        assert statuses[method, path] == 403, (method, path, statuses[method, path])
    assert len(statuses) - len(refused) >= 20


def test_the_walk_would_notice(clinic: Server, enter: Enter) -> None:
    """The same eyes find what a lead is shown: paths, groups, scores, ranks."""
    lea = enter(clinic, "lea")
    [image, *_] = lea.get("/api/v1/ranking").json()["images"]
    for path in (f"/images/{image['id']}", "/images", "/ranking", "/progress", "/export"):
        assert leaks(clinic.study, lea.get(f"/api/v1{path}")), path


def test_no_refusal_tells_an_annotator_anything(clinic: Server, enter: Enter) -> None:
    """Wrong ids, wrong sides, other people's images: what comes back names nothing."""
    study, kt, lea = clinic.study, enter(clinic, "kt"), enter(clinic, "lea")
    first, second = kt.lease(2)
    mine = {first["left"], first["right"], second["left"], second["right"]}
    hidden = next(clinic.public(row) for row in range(N) if clinic.public(row) not in mine)
    content = study.catalog.ids[0]
    unknown = "0" * 32
    attempts = [
        kt.answer({**first, "left": second["left"]}),
        kt.answer({**first, "left": hidden}),
        kt.answer({**first, "left": content}),
        kt.answer({**first, "id": 99999}),
        kt.answer(first, exclude=[hidden]),
        *(kt.post("/api/v1/grades", json={"id": new(), "image": i, "grade": 1}) for i in (hidden, content, unknown)),
        kt.get(f"/api/v1/grades/{new()}/neighbours"),
        kt.get("/api/v1/comparisons", params={"cursor": "x"}),
        kt.get("/api/v1/nothing"),
        kt.get("/nothing"),
    ]  # fmt: skip
    for reply in attempts:
        assert 400 <= reply.status_code < 500, reply.text
        assert leaks(study, reply) == [], reply.text
    # A picture that exists and was not handed out is as unknown as one that does not.
    refusals = [kt.get(f"/api/v1/images/{id}/pixels") for id in (hidden, content, unknown)]
    assert {(reply.status_code, reply.text) for reply in refusals} == {(404, refusals[0].text)}
    assert {tuple(sorted(set(reply.headers))) for reply in refusals} == {
        tuple(sorted(set(refusals[0].headers)))
    }
    assert lea.get(f"/api/v1/images/{hidden}/pixels").status_code == 200
    # A file that is gone: a lead is told why, an annotator is told that it is so.
    catalog = study.catalog
    row = catalog.index_of(clinic.content(first["left"]))
    path = catalog.raw_path(row)
    assert path is not None
    path.rename(path.with_name("moved.png"))
    gone = kt.get(f"/api/v1/images/{first['left']}/pixels")
    assert (gone.status_code, leaks(study, gone)) == (404, [])


def test_an_unreadable_model_tells_an_annotator_nothing(clinic: Server, enter: Enter) -> None:
    study, kt = clinic.study, enter(clinic, "kt")
    newest = study.store.models.newest()
    assert newest is not None
    for file in (study.folder / newest.path).iterdir():
        file.write_bytes(b"not a model")
    for path in ("/api/v1/progress", "/api/v1/achieved", "/api/v1/grading/next", "/progress", "/grade"):
        assert leaks(study, kt.get(path)) == [], path


def test_nobody_learns_which_pairs_others_are_asked(clinic: Server, enter: Enter) -> None:
    """Which images the model wants compared says how close it puts them: guesses at a colleague's pair all fail alike."""
    kt, ko = enter(clinic, "kt"), enter(clinic, "ko")
    [hers] = ko.lease(1)
    other = kt.lease(1)[0]["left"]
    assert hers["id"] not in {pair["id"] for pair in kt.lease(6)}
    guesses = [hers, {**hers, "left": hers["right"], "right": hers["left"]}, {**hers, "left": other}]
    replies = [kt.answer(guess) for guess in guesses]
    assert {(reply.status_code, reply.json()["detail"]) for reply in replies} == {
        (replies[0].status_code, replies[0].json()["detail"])
    }
    assert replies[0].status_code in (403, 409)


def test_grading_reading_and_undoing_rebuilds_nothing(clinic: Server, enter: Enter) -> None:
    """The attack of the review: grade any image, read its neighbours, undo; 71 of 71 came out in order."""
    study, kt = clinic.study, enter(clinic, "kt")
    learnt: dict[str, Any] = {}
    tried: set[str] = set()

    def grade(image: str) -> tuple[str, httpx.Response]:
        name = new()
        return name, kt.post("/api/v1/grades", json={"id": name, "image": image, "grade": 1})

    def attack(image: str) -> None:
        tried.add(image)
        name, reply = grade(image)
        if "below" in reply.json():
            learnt.setdefault(image, reply.json())
        for _ in range(2):
            seen = kt.get(f"/api/v1/grades/{name}/neighbours")
            if seen.status_code == 200 and (seen.json()["below"] or seen.json()["above"]):
                assert image not in learnt, "once an image"
                learnt[image] = seen.json()
        undone = kt.post(f"/api/v1/grades/{name}/undo", json={"id": new()})
        again, _ = grade(image)
        if kt.get(f"/api/v1/grades/{again}/neighbours").status_code == 200:
            assert image not in learnt, "once an image, whatever the grade is called"
        if image in learnt:
            assert undone.status_code == 409
            assert "stands" in undone.json()["detail"]

    everything = [clinic.public(row) for row in range(N)]  # ids from a colleague, say
    for image in everything[:20]:
        attack(image)
    assert learnt == {}, "nothing was handed out yet"
    handed = [image["id"] for image in kt.get("/api/v1/grading/next", params={"count": 100}).json()["images"]]
    assert 0 < len(handed) <= 8
    again = [image["id"] for image in kt.get("/api/v1/grading/next", params={"count": 100}).json()["images"]]
    assert again == handed, "nobody leafs through the study by asking"
    for image in everything:
        if image not in handed:
            attack(image)
    assert learnt == {}
    for image in handed:
        attack(image)
    standing = {g.image for g in study.store.grades.log() if g.effective and g.annotator == "kt"}
    assert {clinic.content(image) for image in learnt} <= standing
    assert len(learnt) == len(handed), "what was promised is shown"
    for reply in learnt.values():
        assert set(reply) == {"below", "above"}
        for image in (*reply["below"], *reply["above"]):
            assert kt.get(f"/api/v1/images/{image}/pixels?size=thumb").status_code == 200


def test_images_are_not_handed_out_in_the_order_of_their_scores(clinic: Server, enter: Enter) -> None:
    """They are chosen in that order; they are neither shown in it nor in that of the catalog."""
    kt = enter(clinic, "kt")
    ranking = clinic.app.state.web.rankings.newest()
    images = kt.get("/api/v1/grading/next", params={"count": 8}).json()["images"]
    rows = [clinic.app.state.web.ids.row(image["id"]) for image in images]
    assert len(rows) == 8
    ranks = [int(ranking.rank[row]) for row in rows]
    for order in (ranks, rows):
        assert order not in (sorted(order), sorted(order, reverse=True)), "by chance once in 20,000 times"


def test_what_is_left_out_does_not_tell_whose_image_it_is(clinic: Server, enter: Enter) -> None:
    """Beside an image of an example's patient the example is missing: such images are handed out last."""
    kt, groups = enter(clinic, "kt"), clinic.study.catalog.groups
    assert groups is not None
    examples = clinic.app.state.web.examples.rows()
    patients = {groups[row] for row in examples}
    known = clinic.study.known_grades()
    others = {row for row in range(N) if known[row] < 0 and row != 4 and groups[row] not in patients}
    for _ in range(3):
        images = kt.get("/api/v1/grading/next", params={"count": 8}).json()["images"]
        assert len({json.dumps(image["examples"]) for image in images}) == 1, "the same beside each"
        for image in images:
            assert clinic.app.state.web.ids.row(image["id"]) in others
            body = {"id": new(), "image": image["id"], "grade": 1}
            assert kt.post("/api/v1/grades", json=body).status_code == 201


def test_an_undone_grade_has_no_neighbours_and_nobody_elses_either(clinic: Server, enter: Enter) -> None:
    kt, lea = enter(clinic, "kt"), enter(clinic, "lea")
    image = kt.get("/api/v1/grading/next").json()["images"][0]["id"]
    first, second = new(), new()
    assert kt.post("/api/v1/grades", json={"id": first, "image": image, "grade": 1}).status_code == 201
    assert lea.get(f"/api/v1/grades/{first}/neighbours").status_code == 404
    assert kt.post(f"/api/v1/grades/{first}/undo", json={"id": new()}).status_code == 200
    assert kt.get(f"/api/v1/grades/{first}/neighbours").status_code == 409
    assert kt.post("/api/v1/grades", json={"id": second, "image": image, "grade": 2}).status_code == 201
    assert kt.get(f"/api/v1/grades/{second}/neighbours").status_code == 200
    regrade = {"id": new(), "image": image, "grade": 3}
    for _ in range(2):
        assert kt.post("/api/v1/grades", json=regrade).status_code == 409
    repeat = kt.post("/api/v1/grades", json={"id": second, "image": image, "grade": 2})
    assert repeat.status_code == 200, "sent again because the reply was lost"
