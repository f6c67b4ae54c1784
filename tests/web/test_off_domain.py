"""What the API and the page say about images that do not belong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.images.catalog import Catalog
from steelyard.images.synthetic import SyntheticImages
from steelyard.study import Study
from tests.web.actors import Enter, N, Open, Serve, answer_truly
from tests.web.looking import serious, settle

ODD = 17


@pytest.fixture
def odd(drawn: SyntheticImages, pictures: Path, tmp_path: Path) -> Iterator[Study]:
    """Sixty images without groups, one of them of another kind, and a model."""
    rows = np.load(pictures / "features.npy")
    rows[ODD, 1:] = 12
    np.save(tmp_path / "features.npy", rows)
    names = [f"image-{k:05d}.png" for k in range(N)]
    (tmp_path / "labels.csv").write_text("\n".join(["image", *names]) + "\n", encoding="utf-8")
    catalog = Catalog.from_features(tmp_path / "features.npy", tmp_path / "labels.csv", root=pictures)
    with Study.create(tmp_path / "colon", catalog, preset="features", ask={"start": "random"}) as study:
        answer_truly(study, drawn, 30, "kt")
        yield study


def test_the_api_flags_what_the_table_flags(odd: Study, serve: Serve, enter: Enter) -> None:
    server = serve(odd, {"lea": "lead", "mo": "annotator"})
    lead, other = enter(server, "lea"), enter(server, "mo")
    table = odd.score().set_index("image")
    rows = lead.get("/api/v1/ranking", params={"limit": 1000}).json()["images"]
    assert {server.content(row["id"]): row["off_domain"] for row in rows} == table["off_domain"].to_dict()
    assert [row["unlike"] for row in rows] == pytest.approx(
        [table["unlike"][server.content(row["id"])] for row in rows]
    )
    flagged = int(table["off_domain"].sum())
    assert flagged == 2  # 4% of sixty
    summary = lead.get("/api/v1/ranking/summary").json()
    assert (summary["off_domain"], summary["domain_note"], summary["count"]) == (flagged, "", N)
    only = lead.get("/api/v1/ranking", params={"off_domain": True}).json()
    assert only["total"] == flagged
    assert server.public(ODD) in [row["id"] for row in only["images"]]
    assert len(lead.get("/api/v1/ranking/scores", params={"off_domain": True}).content) == 4 * flagged
    image = lead.get(f"/api/v1/images/{server.public(ODD)}").json()
    assert (image["unlike"], image["off_domain"]) == (pytest.approx(59 / 60), True)
    for path in ("ranking", "ranking/summary", f"images/{server.public(ODD)}"):
        assert other.get(f"/api/v1/{path}").status_code == 403


def test_the_api_says_that_an_older_model_does_not_know(odd: Study, serve: Serve, enter: Enter) -> None:
    newest = odd.store.models.newest()
    assert newest is not None
    (odd.folder / newest.path / "domain.safetensors").unlink()
    lead = enter(serve(odd))
    summary = lead.get("/api/v1/ranking/summary").json()
    assert summary["off_domain"] is None
    assert "train again" in summary["domain_note"]
    image = lead.get(f"/api/v1/images/{lead.server.public(0)}").json()
    assert (image["unlike"], image["off_domain"]) == (None, None)
    assert "made before" in image["domain_note"]


@pytest.mark.browser
def test_the_wall_marks_what_does_not_belong(odd: Study, serve: Serve, window: Open) -> None:
    user = window(serve(odd), size=(1440, 900))
    page: Any = user.open("/ranking")
    settle(user, "ranking")
    cell = page.locator(f'.cell[data-image="{user.server.public(ODD)}"]')
    assert cell.locator(".unlike").inner_text() == "unlike"
    assert "unlike the study’s other images" in cell.get_attribute("aria-label")
    assert page.locator(".cell .unlike").count() == 2
    cell.hover()
    page.wait_for_function("() => document.querySelector('#look').textContent.includes('unlike the study')")
    assert serious(page) == []
    user.shot("ranking-unlike")
    page.locator("#filter-unlike input").check()
    page.wait_for_function("() => document.querySelector('#count').textContent.startsWith('2 images of 60')")
    assert page.locator("#filter-unlike").inner_text() == "unlike the others (2)"
    page.locator(f'.cell[data-image="{user.server.public(ODD)}"]').click()
    page.wait_for_selector("#image[open] .large")
    facts = page.locator("#image-facts").inner_text()
    assert "98 % of the study’s images are more typical. Take its score with care." in facts
    assert serious(page) == []
    page.wait_for_function("() => [...document.querySelectorAll('#image img')].every((i) => i.complete)")
    user.shot("ranking-unlike-image")
    page.keyboard.press("Escape")
    page.locator("#filter-unlike input").uncheck()
    page.wait_for_function("() => document.querySelector('#count').textContent.startsWith('60 images')")
