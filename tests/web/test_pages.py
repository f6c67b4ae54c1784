"""The other pages in a real browser, at three sizes and in two themes; axe-core finds nothing serious on any."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from steelyard.images.catalog import Catalog
from steelyard.images.synthetic import SyntheticImages, draw, write
from steelyard.study import Study

if TYPE_CHECKING:
    from conftest import Server, Window

pytestmark = pytest.mark.browser
Serve = Callable[..., "Server"]
Open = Callable[..., "Window"]
SIZES = {"desktop": (1440, 900), "tablet": (1024, 1366), "phone": (390, 844)}
GRADES = (
    "Mayo 0: normal",
    "Mayo 1: mild redness",
    "Mayo 2: marked redness, erosions",
    "Mayo 3: ulcers, bleeding",
)
PAGES = ("compare", "grade", "ranking", "progress", "admin", "login", "api", "nothing-here")


@pytest.fixture
def trained(
    make_study: Callable[..., Study], teach: Callable[..., None], request: pytest.FixtureRequest
) -> Study:
    """A study with answers of two people and three models; with larger pictures where they are for the docs."""
    if os.environ.get("STEELYARD_SCREENSHOTS"):
        return request.getfixturevalue("gallery")  # type: ignore[no-any-return]
    study = make_study(ask={"random_share": 0.4, "start": "random", "budget": 2.0})
    for n, who in ((25, "kt"), (20, "mo"), (15, "kt")):
        teach(study, n, annotator=who)
    return study


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[SyntheticImages, Path]:
    """Larger pictures and their table, drawn once."""
    drawn = draw(180, size=256, seed=11, workers=1)
    return drawn, write(tmp_path_factory.mktemp("large"), drawn)


@pytest.fixture
def gallery(tmp_path: Path, large: tuple[SyntheticImages, Path]) -> Iterator[Study]:
    """As `trained`, as it would look in earnest: larger pictures, a noisy annotator, weaker features."""
    n, rng = 180, np.random.default_rng(3)
    drawn, every = large
    table = tmp_path / "labels.csv"
    shutil.copy(every, table)
    lines = table.read_text(encoding="utf-8").splitlines()
    lines[1::3] = [",".join([line.split(",")[0], "", *line.split(",")[2:]]) for line in lines[1::3]]
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    features = np.column_stack([drawn.severity + rng.normal(0, 0.5, n), rng.normal(size=(n, 12))])
    np.save(tmp_path / "features.npy", features.astype(np.float32))
    catalog = Catalog.from_features(tmp_path / "features.npy", table, root=every.parent)
    changes = {"page": {"grades": GRADES}, "ask": {"random_share": 0.3, "start": "random", "budget": 2.0}}
    with Study.create(
        tmp_path / "colon", catalog, preset="features", name="Colitis severity", **changes
    ) as study:
        start = time.time() - 5 * 3600
        for turn in range(8):
            who = ("Dr Okafor", "Dr Lindqvist")[turn % 2]
            for k, pair in enumerate(study.ask(25, annotator=who)):
                rows = catalog.index_of(pair.left), catalog.index_of(pair.right)
                gap = drawn.severity[rows[0]] - drawn.severity[rows[1]] + rng.logistic(0, 0.15)
                said = "equal" if abs(gap) < 0.1 else "left" if gap > 0 else "right"
                at = start + turn * 2000 + k * 5
                study.tell(pair, said, annotator=who, shown_at=at - float(rng.gamma(4, 0.8)), answered_at=at)
            study.fit()
        yield study


def settle(user: Window, name: str) -> None:
    """Wait until a page shows what it is about."""
    page = user.page
    if name == "compare":
        user.pair()
    elif name == "grade":
        page.wait_for_function(
            "() => document.querySelector('.stage img.now')?.naturalWidth"
            " && document.querySelector('.frames').ariaBusy === 'false'"
        )
    elif name == "ranking":
        page.wait_for_function(
            "() => { const n = [...document.querySelectorAll('.cell img')]; return n.length > 10 && n.every((i) => i.complete && i.naturalWidth) }"
        )
    elif name == "progress":
        page.wait_for_function("() => document.querySelectorAll('svg.chart').length === 4")
    elif name == "admin":
        page.wait_for_selector("#people tbody tr")
        page.wait_for_function(
            "() => !document.querySelector('#audit-more').hidden || document.querySelector('#audit tbody')"
        )


def serious(page: Any) -> list[str]:
    """What axe-core finds serious or critical."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        f"{rule['id']}: {rule['help']} – {[node['html'][:160] for node in rule['nodes'][:3]]}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("size", SIZES)
def test_every_page_at_every_size(trained: Study, serve: Serve, window: Open, size: str) -> None:
    server = serve(trained)
    user = window(server, size=SIZES[size], has_touch=size != "desktop")
    for name in PAGES:
        user.open(f"/{name}")
        settle(user, name)
        assert serious(user.page) == [], f"{name} at {size}"
        wide = user.page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{name} at {size} scrolls sideways"
        if name == "compare":
            if size == "desktop":
                user.shot("first-visit-desktop")
            user.page.keyboard.press("?")
            assert user.page.locator("#overlay").is_hidden()
        if name != "nothing-here":
            user.shot(f"{name}-{size}")
    user.errors[:] = [error for error in user.errors if "404" not in error]


def test_light_and_dark(trained: Study, serve: Serve, window: Open) -> None:
    user = window(serve(trained))
    page = user.compare()
    ground = "() => getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.keyboard.press("t")
    light = page.evaluate(ground)
    assert dark != light
    for colour in (dark, light):
        red, green, blue = (int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))
        assert red == green == blue, "the surround has no tint"
    for name in PAGES[:-1]:
        user.open(f"/{name}")
        settle(user, name)
        assert page.evaluate(ground) == light, "kept in this browser"
        assert serious(page) == [], f"{name} in light"
        if name == "compare":
            page.keyboard.press("?")
        if name in ("compare", "grade", "progress", "ranking"):
            user.shot(f"{name}-light")
    page.locator("summary").first.click()
    page.locator("[data-do=theme]").click()
    assert page.evaluate(ground) == dark


def test_dialogs_are_accessible(trained: Study, serve: Serve, window: Open) -> None:
    user = window(serve(trained))
    page = user.compare()
    page.keyboard.press("?")
    assert serious(page) == []
    page.keyboard.press("?")
    page.locator("summary").click()
    assert serious(page) == []
    page.get_by_text("Keys …").click()
    assert serious(page) == []
    page.keyboard.press("Escape")
    page.locator("#keys").wait_for(state="hidden")
    page.keyboard.press(" ")
    page.locator("#why").wait_for()
    assert serious(page) == []


def test_without_motion_nothing_moves(trained: Study, serve: Serve, window: Open) -> None:
    user = window(serve(trained), reduced_motion="reduce")
    page = user.compare()
    moving = page.evaluate(
        "() => [...document.querySelectorAll('*')].filter((n) => getComputedStyle(n).transitionDuration !== '0s').length"
    )
    assert moving == 0


def test_grading_by_keys(trained: Study, serve: Serve, window: Open) -> None:
    """The neighbours of an image appear with the grade of the next; one undo always works, and no more than that."""
    study = trained
    user = window(serve(study))
    page = user.open("/grade")
    given: list[tuple[str, int]] = []

    def counted() -> list[tuple[str, int | None]]:
        content = user.server.content
        assert {g.image for g in study.store.grades.log()} <= {content(image) for image, _ in given}
        names = {content(image): image for image, _ in given}
        return [(names[g.image], g.grade) for g in study.store.grades.log() if g.effective]

    for key in "0213":
        settle(user, "grade")
        image = page.locator(".stage img.now").get_attribute("data-image")
        assert image
        given.append((image, int(key)))
        assert page.locator("#review img.it").count() == 0 or len(given) > 2
        page.keyboard.press(key)
        page.wait_for_function(f"() => document.querySelector('.stage img.now').dataset.image !== '{image}'")
    user.saved()
    page.wait_for_function(f"() => document.querySelector('#review img.it')?.src.includes('{given[2][0]}')")
    assert counted() == given
    page.wait_for_function("() => [...document.querySelectorAll('.below img')].every((i) => i.complete)")
    user.shot("grade-review")
    page.keyboard.press("z")
    page.wait_for_function(
        f"() => document.querySelector('.stage img.now').dataset.image === '{given[-1][0]}'"
    )
    user.saved()
    assert counted() == given[:-1]
    assert page.locator("#review img").count() == 0
    page.keyboard.press("z")
    page.wait_for_function("() => document.querySelector('#review').textContent.includes('stands')")
    user.saved()
    assert counted() == given[:-1], "its neighbours were shown"
    assert user.page.locator("#saved").get_attribute("data-state") == "saved", "and nothing was refused"


def test_skipped_images_come_again(make_study: Callable[..., Study], serve: Serve, window: Open) -> None:
    """A handful is handed out; whoever skips all of it meets it again instead of an empty page."""
    study = make_study()
    user = window(serve(study))
    page = user.open("/grade")
    seen = []
    for _ in range(12):
        settle(user, "grade")
        seen.append(page.locator(".stage img.now").get_attribute("data-image"))
        page.keyboard.press(" ")
        page.wait_for_function(
            f"() => (document.querySelector('.stage img.now')?.dataset.image ?? '{seen[-1]}') !== '{seen[-1]}'"
        )
    assert len(set(seen)) <= 8
    assert len(study.store.grades.outstanding("you")) <= 8


@pytest.mark.parametrize("size", SIZES)
def test_examples_of_each_grade(
    make_study: Callable[..., Study], serve: Serve, window: Open, size: str
) -> None:
    """Thumbnails beside each definition, large ones by key or click; not of the image that is graded."""
    study = make_study()
    user = window(serve(study), size=SIZES[size], has_touch=size != "desktop")
    page = user.open("/grade")
    settle(user, "grade")
    known = study.known_grades()
    page.wait_for_function(
        "() => [...document.querySelectorAll('.examples img')].every((i) => i.complete && i.naturalWidth)"
    )
    for grade in range(4):
        ids = page.eval_on_selector_all(
            f'[data-examples="{grade}"] img', "n => n.map((i) => i.dataset.example)"
        )
        assert {known[study.catalog.index_of(user.server.content(id))] for id in ids} == {grade}
        button, examples = (
            page.locator(f'[data-{what}="{grade}"]').bounding_box() for what in ("grade", "examples")
        )
        assert button
        assert examples
        beside = size == "phone"
        start, length = ("x", "width") if beside else ("y", "height")
        assert button[start] + button[length] <= examples[start], "beside the definition, not on it"
    image = page.locator(".stage img.now").bounding_box()
    assert image
    assert image["height"] > 0.3 * SIZES[size][1], "the image keeps most of the room"
    page.locator('[data-examples="2"]').click()
    assert page.locator("#examples section").count() == 4
    assert page.locator("#examples img").count() == page.locator(".examples img").count() >= 8
    page.wait_for_function(
        "() => [...document.querySelectorAll('#examples img')].every((i) => i.complete && i.naturalWidth)"
    )
    assert serious(page) == []
    page.keyboard.press("Escape")
    page.keyboard.press("e")
    page.wait_for_selector("#examples[open]")
    image_before = page.locator(".stage img.now").get_attribute("data-image")
    page.keyboard.press("2")
    page.keyboard.press("Escape")
    page.locator("#examples").wait_for(state="hidden")
    user.saved()  # a grade would have been queued at once and be there now
    assert page.locator(".stage img.now").get_attribute("data-image") == image_before
    assert study.store.grades.log() == [], "keys mean nothing while examples are open"


def test_grading_without_examples(serve: Serve, window: Open, pictures: Path, tmp_path: Path) -> None:
    """Nothing is graded yet: no empty boxes; one grade has none: it says so."""
    catalog = Catalog.from_features(pictures / "features.npy", pictures / "labels.csv", root=pictures)
    shutil.copy(pictures / "labels.csv", tmp_path / "labels.csv")
    lines = [line.split(",") for line in (tmp_path / "labels.csv").read_text(encoding="utf-8").splitlines()]
    for line in lines[1:]:
        line[1] = ""
    (tmp_path / "labels.csv").write_text("\n".join(map(",".join, lines)) + "\n", encoding="utf-8")
    bare = Catalog.from_features(pictures / "features.npy", tmp_path / "labels.csv", root=pictures)
    with Study.create(tmp_path / "bare", bare, preset="features", page={"grades": GRADES}) as study:
        user = window(serve(study))
        page = user.open("/grade")
        settle(user, "grade")
        assert page.locator("[data-examples]:visible").count() == 0
        assert page.locator("#show-examples").is_hidden()
        page.keyboard.press("e")
        assert page.locator("#examples").is_hidden()
    five = (*GRADES, "Mayo 4: nobody has seen it")
    with Study.create(tmp_path / "five", catalog, preset="features", page={"grades": five}) as study:
        user = window(serve(study))
        page = user.open("/grade")
        settle(user, "grade")
        assert page.locator('[data-examples="4"]').inner_text() == "no example yet"
        assert page.locator('[data-examples="4"]').is_disabled()
        assert serious(page) == []


def test_no_grades_and_no_model_say_what_to_do(
    make_study: Callable[..., Study], serve: Serve, window: Open
) -> None:
    user = window(serve(make_study()))
    page = user.open("/ranking")
    page.wait_for_selector("#empty:not([hidden])")
    assert "Compare some pairs" in page.locator("#empty-text").inner_text()
    page = user.open("/progress")
    page.wait_for_selector("#people .empty")
    assert "Open Compare" in page.locator("#people .empty").inner_text()
    assert serious(page) == []


def test_the_ranking_moves_with_a_new_model(
    make_study: Callable[..., Study], serve: Serve, window: Open, teach: Callable[..., None]
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
    monkeypatch.setattr(placer, "place", lambda rgb: {"score": middle, "uncertainty": 0.5, "rank": 1.0})
    user = window(server)
    page = user.open("/ranking")
    settle(user, "ranking")
    page.locator("#place-file").set_input_files(pictures / "image-00003.png")
    page.wait_for_selector("#placed-text:has-text('It falls at rank')")
    rank = int((table["score"] > middle).sum()) + 1
    assert f"rank {rank} of {len(table)}" in page.locator("#placed-text").inner_text()
    page.wait_for_selector(".cell.near")
    assert serious(page) == []
    user.shot("ranking-placed")
    page.locator("#place-file").set_input_files(pictures / "labels.csv")
    page.wait_for_selector("#placed-text:has-text('not a picture')")
    user.errors[:] = [error for error in user.errors if "422" not in error]


def test_progress_has_the_numbers_behind_every_chart(trained: Study, serve: Serve, window: Open) -> None:
    user = window(serve(trained))
    page = user.open("/progress")
    settle(user, "progress")
    for name in ("accuracy", "spread", "unsure", "people"):
        card = page.locator(f"#{name}")
        card.locator("summary").click()
        assert card.locator("tbody tr").count() > 0
        assert len(card.locator(".sentence").inner_text()) > 20
        assert card.locator("svg title").first.text_content()
    assert "You can stop" in page.locator("#stop-text").inner_text()
    assert serious(page) == []
    before = page.locator("#state").inner_text()
    for pair in trained.ask(1, annotator="kt"):
        trained.tell(pair, "left", annotator="kt")
    page.wait_for_function(f"() => document.querySelector('#state').textContent !== '{before}'")


OVERLAPS = """() => {
  const box = (n) => ({ name: n.textContent, ...n.getBoundingClientRect().toJSON() });
  const found = [];
  for (const card of document.querySelectorAll('.card')) {
    const edge = card.getBoundingClientRect();
    const texts = [...card.querySelectorAll('.chart text, .legend span')].map(box).filter((b) => b.width);
    for (const a of texts) if (a.left < edge.left || a.right > edge.right) found.push(`${a.name} leaves its card`);
    texts.forEach((a, i) => texts.slice(i + 1).forEach((b) => {
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left), high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 1 && high > 3) found.push(`${a.name} / ${b.name}`);
    }));
  }
  return found;
}"""


@pytest.mark.parametrize("size", SIZES)
def test_no_label_lies_on_another(
    make_study: Callable[..., Study], teach: Callable[..., None], serve: Serve, window: Open, size: str
) -> None:
    """Eight people with long names who answered as much as each other, and grades with long names."""
    long = tuple(f"Endoscopic activity index {k}: how it looks" for k in range(4))
    study = make_study(ask={"random_share": 0.5, "start": "random", "budget": 4.0}, page={"grades": long})
    people = [f"Prof. Dr. Maximiliane-Theodora Wolkenstein-Habsburg, ward {k}" for k in range(8)]
    for name in people:
        teach(study, 12, annotator=name)
    user = window(serve(study), size=SIZES[size])
    page = user.open("/progress")
    settle(user, "progress")
    assert page.evaluate(OVERLAPS) == []
    assert page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0
    names = page.locator("#people .legend span")
    assert names.count() == 6
    assert set(names.all_inner_texts()) < set(people), "whole names: long ones differ at their ends"
    assert "2 others" in page.locator("#people .legend").inner_text()
    assert page.locator("#accuracy .legend span").all_inner_texts() == [
        "this study, with its 95 % interval",
        "had only its random pairs been asked, with a 95 % interval at the end",
    ]
    assert "coin" in (page.locator("#accuracy svg.chart").text_content() or "")
    page.locator("#accuracy summary").click()
    assert page.locator("#accuracy tbody tr:has-text('random pairs alone')").count() == 6
    assert serious(page) == []


def test_administration(make_study: Callable[..., Study], serve: Serve, window: Open) -> None:
    study = make_study()
    server = serve(study, {"ada": "admin"})
    user = window(server)
    user.page.goto(server.link("ada"))
    user.page.wait_for_url("**/compare")
    page = user.open("/admin")
    page.locator("#people-add [name=name]").fill("Kim")
    page.locator("#people-add button").click()
    page.wait_for_selector("#secret[open]")
    link = page.locator("#secret-value").input_value()
    assert "/login#link=" in link
    assert "works once and expires on" in page.locator("#secret-text").inner_text()
    assert serious(page) == []
    page.locator("#secret [data-do=close]").click()
    page.wait_for_selector("#people tr:has-text('Kim'):has-text('works once, until')")
    page.get_by_label("Set a password for ada").click()
    page.locator("#password-value").fill("password123")
    page.locator("#password button.primary").click()
    page.wait_for_selector("#password-note:has-text('too easy to guess')")
    assert serious(page) == []
    user.shot("admin-password")
    page.locator("#password-value").fill("a long password")
    page.locator("#password button.primary").click()
    page.wait_for_selector("#said:has-text('ada can sign in')")
    page.locator("#wording [name=question]").fill("Which is redder?")
    page.locator("#wording [name=raters]").fill("2")
    page.locator("#wording button").click()
    page.wait_for_selector("#said:has-text('Saved')")
    page.locator("#tokens-add [name=label]").fill("export script")
    page.locator("#tokens-add button").click()
    page.wait_for_selector("#secret[open]")
    page.keyboard.press("Escape")
    page.locator("#backup").click()
    page.wait_for_selector("#said:has-text('backups/')")
    with page.expect_download() as backup:
        page.locator("#backup-file").click()
    assert backup.value.suggested_filename.endswith(".steelyard.zip")
    page.reload()
    page.wait_for_selector("#audit tbody tr:has-text('backup made')")
    user.shot("admin-team")
    with page.expect_download() as download:
        page.get_by_text("CSV", exact=True).click()
    assert download.value.suggested_filename == "colon-answers.csv"
    kim = window(server)
    kim.page.goto(link)
    kim.page.wait_for_selector("#choose:has-text('Welcome, Kim')")
    assert serious(kim.page) == []
    kim.shot("login-choose")
    kim.page.locator("#choose-password [name=password]").fill("a long password")
    kim.page.locator("#choose-password button").click()
    kim.page.wait_for_url("**/compare")
    assert kim.page.locator("h1").inner_text() == "Which is redder?"
    kim.page.locator("summary").click()
    kim.page.get_by_text("Sign out").click()
    kim.page.wait_for_url("**/login")
    kim.page.locator("[name=name]").fill("Kim")
    kim.page.locator("#login [name=password]").fill("wrong password")
    kim.page.locator("#login button").click()
    kim.page.wait_for_selector("#login-note:has-text('wrong')")
    kim.shot("login-wrong")
    kim.page.locator("#login [name=password]").fill("a long password")
    kim.page.locator("#login button").click()
    kim.page.wait_for_url("**/compare")
    page.get_by_label("Deactivate Kim").click()
    page.wait_for_selector("#said:has-text('deactivated')")
    kim.page.goto(f"{server.url}/progress")
    kim.page.wait_for_url(re.compile(r"/login\?next="))
    kim.errors[:] = [error for error in kim.errors if "401" not in error]
    user.errors[:] = [error for error in user.errors if "422" not in error]  # the password that was refused


def test_the_whole_flow_on_postgresql(
    make_study: Callable[..., Study],
    serve: Serve,
    window: Open,
    teach: Callable[..., None],
    postgres_url: str,
) -> None:
    """Compare, grade, ranking, progress and admin in the browser on the other database."""
    study = make_study(store=postgres_url)
    teach(study, 25)
    user = window(serve(study))
    user.compare()
    user.press("ArrowLeft")
    user.press("z")
    user.press("ArrowDown")
    user.saved()
    assert study.store.answers.count() == 26
    for name in PAGES[1:5]:
        user.open(f"/{name}")
        settle(user, name)
