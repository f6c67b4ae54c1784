"""The ranking on any scale: by the API, as a table, and on the page in a real browser."""

from __future__ import annotations

import io
from pathlib import Path
from typing import NoReturn

import numpy as np
import pandas as pd
import pytest

from steelyard.store.errors import UnavailableError
from steelyard.study import Study
from steelyard.web.ranking import Rankings
from tests.web.actors import Enter, MakeStudy, N, Open, Serve
from tests.web.looking import SIZES, serious, settle
from tests.web.test_questions_page import ASKED, BLEEDING, VESSELS

ORDER = "() => [...document.querySelectorAll('.cell')].sort((a, b) => a.index - b.index).slice(0, 12).map((c) => c.dataset.image)"


def tell(study: Study, n: int, rows: np.ndarray, keys: tuple[str, ...]) -> None:
    """Somebody answers n pairs: question k goes by feature k."""
    columns = ["", "bleeding", "vessels"]
    for pair in study.ask(n, annotator="kt"):
        left, right = (study.catalog.index_of(image) for image in (pair.left, pair.right))
        for key in keys:
            more = rows[left, columns.index(key)] > rows[right, columns.index(key)]
            study.tell(pair, "left" if more else "right", annotator="kt", question=key)


@pytest.fixture
def rows(pictures: Path) -> np.ndarray:
    found: np.ndarray = np.load(pictures / "features.npy")
    return found


@pytest.fixture
def scaled(make_study: MakeStudy, rows: np.ndarray) -> Study:
    """Three questions: the second has a scale, the third too few answers for one."""
    study = make_study(questions=[{**BLEEDING, "weight": 2.0}, VESSELS])
    tell(study, 40, rows, ("", "bleeding"))
    tell(study, 4, rows, ("", "bleeding", "vessels"))
    study.fit()
    return study


def test_each_scale_has_its_ranking(scaled: Study, serve: Serve, enter: Enter) -> None:
    server = serve(scaled)
    client = enter(server)

    def order(scale: str) -> list[str]:
        reply = client.get("/api/v1/ranking", params={"scale": scale, "limit": 1000})
        assert reply.status_code == 200, reply.text
        images = reply.json()["images"]
        assert all(row["low"] < row["score"] < row["high"] for row in images)
        return [server.content(row["id"]) for row in images][::-1]

    for scale in ("", "main"):
        assert order(scale) == scaled.score(question="main")["image"].tolist()
    own = scaled.score(question="bleeding")
    assert order("bleeding") == own["image"].tolist() != order("")
    [lowest] = client.get("/api/v1/ranking", params={"scale": "bleeding", "limit": 1}).json()["images"]
    expected = own.iloc[-1]
    assert [lowest[key] for key in ("score", "low", "high", "rank")] == pytest.approx(
        [expected[key] for key in ("score", "low", "high", "rank")]
    )
    pairs = scaled.store.answers.arrays(question="bleeding").pairs
    assert (
        lowest["comparisons"] == (pairs == scaled.catalog.index_of(server.content(lowest["id"]))).any(1).sum()
    )
    raw = client.get("/api/v1/ranking/scores", params={"scale": "bleeding"}).content
    assert np.allclose(np.frombuffer(raw, "<f4"), own["score"].to_numpy()[::-1], atol=1e-6)


def test_a_scale_that_is_not_there_yet_says_why(
    scaled: Study, rows: np.ndarray, serve: Serve, enter: Enter
) -> None:
    client = enter(serve(scaled))

    def summary(scale: str) -> dict[str, object]:
        return client.get("/api/v1/ranking/summary", params={"scale": scale}).json()  # type: ignore[no-any-return]

    assert (summary("bleeding")["count"], summary("bleeding")["no_scale"]) == (N, "")
    assert summary("vessels")["no_scale"] == (
        "It has 4 answers, and a scale needs 10. Answer it for more pairs; the scale appears with the training after."
    )
    assert (summary("vessels")["count"], summary("vessels")["model"]) == (0, 1)
    assert "“Which shows fewer vessels?” has none yet" in str(summary("composite")["no_scale"])
    assert client.get("/api/v1/ranking", params={"scale": "vessels"}).json()["images"] == []
    assert client.get("/api/v1/ranking/table", params={"scale": "vessels"}).status_code == 409
    wrong = client.get("/api/v1/ranking", params={"scale": "colour"})
    assert (wrong.status_code, "no question 'colour'" in wrong.text) == (422, True)
    tell(scaled, 12, rows, ("", "bleeding", "vessels"))
    assert (
        summary("vessels")["no_scale"]
        == "Its answers came after the newest model; the scale appears with the next training."
    )
    scaled.fit()
    assert summary("vessels")["count"] == summary("composite")["count"] == N


def raising(error: Exception) -> NoReturn:
    raise error


def test_the_composite_and_the_table(
    scaled: Study, rows: np.ndarray, serve: Serve, enter: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(scaled, 12, rows, ("", "bleeding", "vessels"))
    scaled.fit()
    client = enter(serve(scaled))
    reply = client.get("/api/v1/ranking/table", params={"scale": "composite"})
    assert reply.headers["content-type"] == "text/csv; charset=utf-8"
    assert 'filename="ranking-composite.csv"' in reply.headers["content-disposition"]
    table = pd.read_csv(io.BytesIO(reply.content)).set_index("image")
    own = scaled.score().set_index("image")
    assert table["rank"].tolist() == list(range(1, N + 1))
    assert set(table["scale"]) == {"composite"}
    assert np.allclose(table["score"], own["composite"][table.index])
    assert np.allclose(table["uncertainty"], own["uncertainty_composite"][table.index])
    main = pd.read_csv(io.BytesIO(client.get("/api/v1/ranking/table").content))
    assert main["image"].tolist() == scaled.score()["image"].tolist()
    monkeypatch.setattr("steelyard.web.api.ranking.TABLE_ROWS", 7)
    pieces = pd.read_csv(io.BytesIO(client.get("/api/v1/ranking/table").content))
    pd.testing.assert_frame_equal(pieces, main)
    some = client.get("/api/v1/ranking/table", params={"text": "00007"}).text.splitlines()
    assert len(some) == 2
    assert [entry.detail for entry in scaled.store.audit.latest(4) if entry.action == "exported"][-1] == {
        "format": "csv", "ranking": "composite",
    }  # fmt: skip
    assert len(client.get("/api/v1/ranking/table", params={"text": "nowhere"}).text.splitlines()) == 1
    with monkeypatch.context() as away:  # said before anything is sent, and nothing was exported
        before = scaled.store.audit.latest(1)
        away.setattr(Rankings, "comparisons", lambda *_: raising(UnavailableError("away", place="x")))
        assert client.get("/api/v1/ranking/table").status_code == 503
        assert scaled.store.audit.latest(1) == before
    # Weights are read afresh: they are no part of a model.
    scaled.config = scaled.config.with_changes(
        questions=[{**BLEEDING, "weight": 0.0}, {**VESSELS, "weight": 0.0}]
    )
    alone = pd.read_csv(
        io.BytesIO(client.get("/api/v1/ranking/table", params={"scale": "composite"}).content)
    )
    assert alone["image"].tolist() == main["image"].tolist()


def test_an_image_on_every_scale(scaled: Study, serve: Serve, enter: Enter) -> None:
    server = serve(scaled)
    client = enter(server)
    image = str(scaled.catalog.ids[3])
    found = client.get(f"/api/v1/images/{server.public(3)}", params={"scale": "bleeding"}).json()
    own = {key: scaled.score(question=key).set_index("image").loc[image] for key in ("main", "bleeding")}
    assert (found["scale"], found["rank"]) == ("bleeding", own["bleeding"]["rank"])
    assert [(one["scale"], one["rank"]) for one in found["scales"]] == [
        ("", own["main"]["rank"]), ("bleeding", own["bleeding"]["rank"]),
    ]  # fmt: skip
    assert found["score"] == pytest.approx(own["bleeding"]["score"])
    said = [c for c in scaled.store.answers.log() if c.question == "bleeding" and image in (c.left, c.right)]
    assert len(found["comparisons"]) == len(said)
    [file] = scaled.store.models.all()[-1:]
    (scaled.folder / file.path / "question-bleeding.safetensors").write_bytes(b"nonsense")
    again = enter(serve(scaled))
    assert [one["scale"] for one in again.get(f"/api/v1/images/{server.public(3)}").json()["scales"]] == [""]
    assert "cannot be read" in again.get("/api/v1/ranking", params={"scale": "bleeding"}).text


def test_annotators_see_no_scale(scaled: Study, serve: Serve, enter: Enter) -> None:
    mo = enter(serve(scaled, {"mo": "annotator"}), "mo")
    for path in ("", "/summary", "/scores", "/table"):
        for scale in ("", "bleeding", "composite", "colour"):
            reply = mo.get(f"/api/v1/ranking{path}", params={"scale": scale})
            assert (reply.status_code, reply.json()["code"]) == (403, "role"), f"{path} {scale}"
    assert mo.get("/ranking?scale=bleeding").status_code == 403


def test_a_picture_is_placed_on_the_scale_that_is_shown(
    scaled: Study, serve: Serve, enter: Enter, monkeypatch: pytest.MonkeyPatch, pictures: Path
) -> None:
    server = serve(scaled)
    client = enter(server)
    middle = float(scaled.score(question="bleeding")["score"].median())
    found = {
        "score": 99.0, "uncertainty": 0.5, "rank": 1.0, "scales": {"bleeding": (middle, 0.1)}, "unlike": 0.5,
        "off_domain": False, "domain_note": "",
    }  # fmt: skip
    monkeypatch.setattr(server.app.state.web.placer, "place", lambda rgb: dict(found))

    def place(scale: str) -> tuple[int, dict[str, float]]:
        picture = (pictures / "image-00003.png").read_bytes()
        reply = client.post("/api/v1/place", params={"scale": scale}, files={"file": ("a.png", picture)})
        return reply.status_code, reply.json()

    assert place("")[1]["rank"] == 1
    assert place("bleeding")[1]["rank"] == N // 2 + 1
    assert place("bleeding")[1]["high"] == pytest.approx(middle + 0.196)
    assert [place(scale)[0] for scale in ("vessels", "composite", "colour")] == [409, 409, 422]


def test_a_study_places_a_picture_on_every_scale(
    scaled: Study, rows: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(scaled, 12, rows, ("", "bleeding", "vessels"))
    scaled.fit()
    monkeypatch.setattr("steelyard.study.knowledge.read_inputs", lambda *_, **__: rows[7:8])
    found = scaled.place(np.zeros((4, 4, 3), dtype=np.uint8))["scales"]
    own = scaled.score().set_index("image").loc[str(scaled.catalog.ids[7])]
    assert found["bleeding"] == pytest.approx((own["score_bleeding"], own["uncertainty_bleeding"]))
    assert found["composite"] == pytest.approx((own["composite"], own["uncertainty_composite"]))


@pytest.mark.browser
def test_choosing_a_scale(scaled: Study, serve: Serve, window: Open) -> None:
    user = window(serve(scaled), size=SIZES["desktop"])
    page = user.open("/ranking")
    settle(user, "ranking")
    assert page.locator("#filter-scale option").all_inner_texts() == [*ASKED, "Composite of all scales"]
    before = page.evaluate(ORDER)
    page.locator("#threshold").focus()
    for _ in range(5):
        page.keyboard.press("PageDown")
    assert page.locator(".cell.below").count() > 0
    page.locator("#filter-scale").select_option("bleeding")
    page.wait_for_function(
        "(old) => { const now = [...document.querySelectorAll('.cell')].sort((a, b) => a.index - b.index).slice(0, 12).map((c) => c.dataset.image);"
        " return now.every(Boolean) && now.length === 12 && now.join() !== old }",
        arg=",".join(before),
    )
    settle(user, "ranking")
    assert page.locator("#order").inner_text() == "From least to most bleeding"
    own = scaled.score(question="bleeding")["image"].tolist()
    assert [user.server.content(id) for id in page.evaluate(ORDER)] == own[::-1][:12]
    assert page.locator("#threshold-text").inner_text() == f"{N} above, 0 below", (
        "another scale, another unit"
    )
    assert page.locator(".cell.below").count() == 0
    assert page.url.endswith("/ranking?scale=bleeding")
    assert page.locator("#table").get_attribute("href") == "/api/v1/ranking/table?scale=bleeding"
    page.locator(".cell").first.click()
    page.wait_for_selector("#image[open] .large")
    names = page.locator("#image-facts dt").all_inner_texts()
    assert names[:2] == [ASKED[1], ASKED[0]], "the scale that is shown, then the others"
    assert "Score" not in names
    assert serious(page) == []
    page.keyboard.press("Escape")
    with page.expect_download() as download:
        page.locator("#table").click()
    assert download.value.suggested_filename == "ranking-bleeding.csv"
    page.locator("#filter-scale").select_option("vessels")
    page.wait_for_selector("#empty:not([hidden])")
    assert page.locator("#empty-title").inner_text() == "This question has no scale yet"
    assert "It has 4 answers, and a scale needs 10" in page.locator("#empty-text").inner_text()
    assert page.locator("#table").is_hidden()
    assert page.locator("#count").inner_text() == ""
    assert serious(page) == []
    page.locator("#filter-scale").select_option("composite")
    page.wait_for_selector("#empty-title:has-text('There is no composite yet')")
    again = user.open("/ranking?scale=bleeding")
    settle(user, "ranking")
    assert again.locator("#filter-scale").input_value() == "bleeding"


@pytest.mark.browser
def test_scales_on_a_phone(scaled: Study, serve: Serve, window: Open) -> None:
    long = "Which of these two shows the vascular pattern less clearly, all in all and in spite of the light?"
    scaled.config = scaled.config.with_changes(questions=[BLEEDING, {**VESSELS, "question": long}])
    user = window(serve(scaled), size=SIZES["phone"], has_touch=True, is_mobile=True)
    page = user.open("/ranking?scale=bleeding")
    settle(user, "ranking")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    box = page.locator("#filter-scale").bounding_box()
    assert box is not None
    assert box["height"] >= 40
    wall = page.locator("#wall").bounding_box()
    assert wall is not None
    assert wall["height"] > 422, "the images own the screen"


@pytest.mark.browser
def test_one_question_has_no_choice_of_scale(trained: Study, serve: Serve, window: Open) -> None:
    user = window(serve(trained))
    page = user.open("/ranking")
    settle(user, "ranking")
    assert page.locator("#filter-scale").count() == 0
    page.locator(".cell").first.click()
    page.wait_for_selector("#image[open] .large")
    assert page.locator("#image-facts dt").first.inner_text() == "Score"
