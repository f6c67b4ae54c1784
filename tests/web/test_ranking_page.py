"""The ranking page in a real browser."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steelyard.images.catalog import Catalog
from steelyard.study import Study
from tests.web.actors import MakeStudy, Open, Serve, Teach
from tests.web.looking import serious, settle

pytestmark = pytest.mark.browser


def test_the_ranking_moves_with_a_new_model(
    make_study: MakeStudy, serve: Serve, window: Open, teach: Teach
) -> None:
    study = make_study()
    teach(study, 12)
    user = window(serve(study))
    page = user.open("/ranking")
    settle(user, "ranking")
    order = "() => [...document.querySelectorAll('.cell')].sort((a, b) => a.index - b.index).slice(0, 12).map((c) => c.dataset.image)"
    before = page.evaluate(order)
    teach(study, 40)
    page.wait_for_function(
        "(old) => JSON.stringify([...document.querySelectorAll('.cell')].sort((a, b) => a.index - b.index).slice(0, 12).map((c) => c.dataset.image ?? '')) !== old",
        arg=str(before).replace("'", '"').replace(", ", ","),
    )
    settle(user, "ranking")
    table = study.score()
    assert [user.server.content(id) for id in page.evaluate(order)] == table["image"].tolist()[::-1][:12]


def test_threshold_search_and_one_image(trained: Study, serve: Serve, window: Open) -> None:
    user = window(serve(trained), size=(1440, 900))
    page = user.open("/ranking")
    settle(user, "ranking")
    total = len(trained.catalog)
    assert page.locator("#threshold-text").inner_text() == f"{total} above, 0 below"
    handle = page.locator("#threshold")
    handle.focus()
    for _ in range(5):
        page.keyboard.press("PageDown")
    text = page.locator("#threshold-text").inner_text()
    above, below = (int(part.split()[0]) for part in text.split(", "))
    cut = float(handle.get_attribute("aria-valuenow") or "nan")
    scores = trained.score()["score"].to_numpy().astype(np.float32)
    assert (above, below) == (int((scores >= np.float32(cut)).sum()), int((scores < np.float32(cut)).sum()))
    assert page.locator(".cell.below").count() > 0
    box = handle.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 100, box["y"] + 12)
    page.mouse.down()
    page.mouse.move(box["x"] + 100, box["y"] - 200, steps=4)
    page.mouse.up()
    assert page.locator("#threshold-text").inner_text() != text
    user.shot("ranking-threshold")
    page.locator(".cell").first.hover()
    page.wait_for_function("() => document.querySelector('#look').textContent.includes('rank')")
    page.locator(".cell").nth(20).click()
    page.wait_for_selector("#image[open] .large")
    assert "Rank" in page.locator("#image-title").inner_text()
    assert page.locator("#image .side .neighbour").count() == 4
    assert serious(page) == []
    page.wait_for_function("() => [...document.querySelectorAll('#image img')].every((i) => i.complete)")
    user.shot("ranking-image")
    page.keyboard.press("Escape")
    page.locator("#filter-text").fill("00007")
    page.wait_for_function("() => document.querySelector('#count').textContent.startsWith('1 image')")
    page.locator("#filter-text").fill("no such thing")
    page.wait_for_selector("#empty:not([hidden])")
    page.locator("#filter-text").fill("")
    page.locator("#filter-grade").select_option("0")
    count = int((trained.known_grades() == 0).sum())
    page.wait_for_function(f"() => document.querySelector('#count').textContent.startsWith('{count} images')")


def test_a_wall_of_100000_images_keeps_few_nodes(window: Open, serve: Serve, tmp_path: Path) -> None:
    """Rows come as they are scrolled to; the document stays small; the last image is reached at once."""
    rng = np.random.default_rng(0)
    n = 100_000
    np.save(tmp_path / "features.npy", rng.normal(size=(n, 2)).astype(np.float32))
    catalog = Catalog.from_features(tmp_path / "features.npy")
    with Study.create(tmp_path / "study", catalog, preset="features", ask={"start": "random"}) as study:
        for pair in study.ask(20, annotator="kt"):
            study.tell(pair, "left", annotator="kt")
        study.fit()
        user = window(serve(study))
        page = user.open("/ranking")
        page.wait_for_function("() => document.querySelectorAll('.cell[data-image]').length > 50")
        page.evaluate("() => { const w = document.querySelector('#wall'); w.scrollTop = w.scrollHeight }")
        page.wait_for_function(
            "() => [...document.querySelectorAll('.cell[data-image]')].some((c) => c.index === 99999)"
        )
        last = page.evaluate(
            "() => [...document.querySelectorAll('.cell')].find((c) => c.index === 99999).row.rank"
        )
        assert last == 1
        assert page.locator(".cell").count() < 400
        user.errors[:] = [
            error for error in user.errors if "404" not in error
        ]  # features only: there are no pictures


def test_a_dropped_image_lands_in_its_place(
    trained: Study, serve: Serve, window: Open, monkeypatch: pytest.MonkeyPatch, pictures: Path
) -> None:
    """The scoring process is tested elsewhere; here it is what the page does with its answer."""
    server = serve(trained)
    table = trained.score()
    middle = float(table["score"].median())
    placer = server.app.state.web.placer
    said = {
        "score": middle,
        "uncertainty": 0.5,
        "rank": 1.0,
        "unlike": 0.5,
        "off_domain": False,
        "domain_note": "",
    }
    monkeypatch.setattr(placer, "place", lambda rgb: dict(said))
    user = window(server)
    page = user.open("/ranking")
    settle(user, "ranking")
    page.locator("#place-file").set_input_files(pictures / "image-00003.png")
    page.wait_for_selector("#placed-text:has-text('It falls at rank')")
    rank = int((table["score"] > middle).sum()) + 1
    assert f"rank {rank} of {len(table)}" in page.locator("#placed-text").inner_text()
    page.wait_for_selector(".cell.near")
    assert not page.locator("#placed-unlike").is_visible()
    assert serious(page) == []
    user.shot("ranking-placed")
    said |= {"unlike": 179 / 180, "off_domain": True}
    page.locator("#place-file").set_input_files(pictures / "image-00004.png")
    page.wait_for_selector("#placed-unlike:has-text('does not look like the images of this study')")
    assert "more than 99 % of them are more typical" in page.locator("#placed-unlike").inner_text()
    assert serious(page) == []
    user.shot("ranking-placed-unlike")
    page.locator("#place-file").set_input_files(pictures / "labels.csv")
    page.wait_for_selector("#placed-text:has-text('not a picture')")
    user.errors[:] = [error for error in user.errors if "422" not in error]
