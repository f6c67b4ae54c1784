"""The grade page in a real browser."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from steelyard.images.catalog import Catalog
from steelyard.study import Study
from tests.web.actors import GRADES, MakeStudy, Open, Serve
from tests.web.looking import SIZES, serious, settle

pytestmark = pytest.mark.browser


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
    page.wait_for_function("() => document.querySelector('#review').textContent.includes('is final')")
    user.saved()
    assert counted() == given[:-1], "its neighbours were shown"
    assert user.page.locator("#saved").get_attribute("data-state") == "saved", "and nothing was refused"


def test_skipped_images_come_again(make_study: MakeStudy, serve: Serve, window: Open) -> None:
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
def test_examples_of_each_grade(make_study: MakeStudy, serve: Serve, window: Open, size: str) -> None:
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
