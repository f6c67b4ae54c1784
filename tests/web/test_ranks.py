"""One rule about excluded images everywhere, and one rank: command line, grades, report, API and page."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from steelyard.cli import app
from steelyard.images.catalog import Catalog
from steelyard.images.synthetic import SyntheticImages
from steelyard.report.study_report import write_study_report
from steelyard.study import Study
from tests.web.actors import GRADES, Client, Enter, N, Open, Serve, answer_truly


@pytest.fixture
def tied(pictures: Path, drawn: SyntheticImages, tmp_path: Path) -> Iterator[Study]:
    """A trained study in which every fourth image has the same features as the one before: their scores are equal."""
    rows = np.load(pictures / "features.npy")
    rows[1::4] = rows[0::4]
    np.save(tmp_path / "features.npy", rows)
    catalog = Catalog.from_features(tmp_path / "features.npy", pictures / "labels.csv", root=pictures)
    settings = {"page": {"grades": GRADES}, "ask": {"budget": "200%", "start": "random"}}
    with Study.create(tmp_path / "colon", catalog, preset="features", **settings) as study:
        answer_truly(study, drawn, 60, "kt")
        yield study


def command(*arguments: object) -> tuple[dict[str, int], str]:
    """Ranks by image that a command prints, and what it says beside them."""
    done = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert done.exit_code == 0, done.output
    return {row["image"]: int(row["rank"]) for row in json.loads(done.stdout)}, done.stderr


def of_the_api(client: Client) -> dict[str, int]:
    """Ranks by image that the API tells."""
    rows = client.get("/api/v1/ranking", params={"limit": 1000}).json()["images"]
    return {client.server.content(row["id"]): row["rank"] for row in rows}


def of_one(client: Client, row: int) -> dict[str, Any]:
    """What the API says about one image."""
    found: dict[str, Any] = client.get(f"/api/v1/images/{client.server.public(row)}").json()
    return found


def test_ranks_agree_everywhere_whatever_is_excluded(
    tied: Study, serve: Serve, enter: Enter, tmp_path: Path
) -> None:
    client, ids = enter(serve(tied)), tied.catalog.ids
    assert len(set(tied.score()["score"].round(12))) < N, "some scores are equal"
    out: set[int] = set()
    # The third step takes one out and another in: as many are out as before, but not the same.
    for step in ([], [8, 20], [20, 33], [8, 9, 33]):
        for row in range(N):
            if (row in step) != (row in out):
                body = {"excluded": row in step}
                assert (
                    client.patch(f"/api/v1/images/{client.server.public(row)}", json=body).status_code == 204
                )
        out = set(step)
        scored, said = command("score", tied.folder)
        graded, also_said = command("grade", tied.folder)
        assert scored == graded == of_the_api(client)
        assert sorted(scored.values()) == list(range(1, N - len(out) + 1))
        assert {ids[row] for row in range(N)} - set(scored) == {ids[row] for row in out}
        for text in (said, also_said):
            assert (f"{len(out)} of {N} images have no score and no rank" in text) == bool(out)
        for row in (0, 1, 20, 8):
            image = of_one(client, row)
            assert (image["rank"], image["excluded"]) == (scored.get(ids[row]), row in out)
            assert (image["score"] is None) == (row in out)
            assert image["total"] == N - len(out)
        page = write_study_report(tied.folder, tmp_path / "report.html", formats=("svg",)).read_text()
        assert (f"{len(out)} excluded" in page) == bool(out)
        assert f"for each of {N - len(out)} images" in page
        ends = (tmp_path / "report_files" / "tables" / "ends.csv").read_text(encoding="utf-8")
        for line in csv.DictReader(ends.splitlines()):
            assert int(line["rank"]) == scored[ids[tied.catalog.paths.tolist().index(line["image"])]]


@pytest.mark.browser
def test_the_page_shows_the_same_ranks(tied: Study, serve: Serve, window: Open) -> None:
    server = serve(tied)
    tied.store.images.exclude(tied.catalog.ids[8], "lea", "stool")
    scored = tied.score()
    ids = tied.catalog.ids
    user = window(server)
    page = user.open("/ranking")
    for row in (0, 1, 4, 5):
        [rank] = scored[scored["image"] == ids[row]]["rank"]
        page.fill("input[type=search]", server.public(row))
        cell = page.locator(f"#wall .cell:has(img[src*='{server.public(row)}'])")
        cell.wait_for()
        page.wait_for_function("() => document.querySelectorAll('#wall .cell').length === 1")
        cell.click()
        page.locator("#image-title", has_text=f"Rank {rank} of {N - 1}").wait_for()
        page.keyboard.press("Escape")


def test_answers_about_an_excluded_image_move_nothing_until_it_is_back(tied: Study) -> None:
    """Between two models, too: each answer moves what is believed, and this one must not."""
    before = tied.posterior
    assert before is not None
    pair = next(pair for pair in tied.ask(20, annotator="mo"))
    start = before.mean.copy()
    tied.tell(pair, "left", annotator="mo")
    assert tied.posterior is not None
    moved = tied.posterior.mean.copy()
    assert not np.allclose(moved, start)
    tied.store.images.exclude(pair.left, "lea")
    np.testing.assert_allclose(tied.posterior.mean, start)
    tied.store.images.include(pair.left, "lea")
    np.testing.assert_allclose(tied.posterior.mean, moved)


def test_the_grade_filter_knows_what_was_graded_a_moment_ago(
    trained: Study, serve: Serve, enter: Enter
) -> None:
    server = serve(trained)
    client = enter(server)

    def graded(grade: int) -> set[str]:
        found = client.get("/api/v1/ranking", params={"grade": grade, "limit": 1000}).json()["images"]
        return {server.content(row["id"]) for row in found}

    image = str(trained.catalog.ids[int((trained.known_grades() < 0).argmax())])
    assert image not in graded(2)
    trained.tell_grade(image, 2, annotator="kt")
    assert image in graded(2)
