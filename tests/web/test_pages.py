"""The other pages in a real browser, at three sizes and in two themes; axe-core finds nothing serious on any."""

from __future__ import annotations

import re

import pytest

from steelyard.study import Study
from tests.web.actors import MakeStudy, Open, Serve, Teach
from tests.web.looking import SIZES, serious, settle

pytestmark = pytest.mark.browser
PAGES = (
    "compare",
    "grade",
    "ranking",
    "progress",
    "agreement",
    "model",
    "admin",
    "login",
    "api",
    "nothing-here",
)


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
            user.page.keyboard.press("Escape")
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
            page.keyboard.press("Escape")
        if name in ("compare", "grade", "progress", "ranking"):
            user.shot(f"{name}-light")
    page.locator("summary").first.click()
    page.locator("[data-do=theme]").click()
    assert page.evaluate(ground) == dark


def test_dialogs_are_accessible(trained: Study, serve: Serve, window: Open) -> None:
    user = window(serve(trained))
    page = user.compare()
    page.keyboard.press("?")
    page.locator("#keys").wait_for()
    assert serious(page) == []
    page.keyboard.press("?")
    page.locator("#keys").wait_for(state="hidden")
    page.locator("summary").click()
    assert serious(page) == []
    page.get_by_text("Help and keys …").click()
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


def test_no_grades_and_no_model_say_what_to_do(make_study: MakeStudy, serve: Serve, window: Open) -> None:
    user = window(serve(make_study()))
    page = user.open("/ranking")
    page.wait_for_selector("#empty:not([hidden])")
    assert "Compare some pairs" in page.locator("#empty-text").inner_text()
    page = user.open("/progress")
    page.wait_for_selector("#people .empty")
    assert "Open Compare" in page.locator("#people .empty").inner_text()
    assert serious(page) == []


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
    assert "Enough is when the rest of the plan would bring less" in page.locator("#stop-text").inner_text()
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


def test_no_label_lies_on_another(make_study: MakeStudy, teach: Teach, serve: Serve, window: Open) -> None:
    """Eight people with long names who answered as much as each other, and grades with long names, at every size."""
    long = tuple(f"Endoscopic activity index {k}: how it looks" for k in range(4))
    study = make_study(ask={"random_share": 0.5, "start": "random", "budget": "400%"}, page={"grades": long})
    people = [f"Prof. Dr. Maximiliane-Theodora Wolkenstein-Habsburg, ward {k}" for k in range(8)]
    for name in people:
        teach(study, 12, annotator=name)
    server = serve(study)
    for size in SIZES:
        user = window(server, size=SIZES[size])
        page = user.open("/progress")
        settle(user, "progress")
        assert page.evaluate(OVERLAPS) == [], size
        assert page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0, size
        names = page.locator("#people .legend span")
        assert names.count() == 6
        assert set(names.all_inner_texts()) < set(people), "whole names: long ones differ at their ends"
        assert "2 others" in page.locator("#people .legend").inner_text()
        assert page.locator("#accuracy .legend span").all_inner_texts() == [
            "this study, with its 95 % interval",
            "forecast, with its 95 % interval",
            "had only its random pairs been asked, with a 95 % interval at the end",
        ]
        assert "coin" in (page.locator("#accuracy svg.chart").text_content() or "")
        page.locator("#accuracy summary").click()
        assert page.locator("#accuracy tbody tr:has-text('random pairs alone')").count() == 6
        assert serious(page) == [], size


def test_administration(make_study: MakeStudy, serve: Serve, window: Open) -> None:
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
    page.locator("#wording button.primary").click()
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
    make_study: MakeStudy,
    serve: Serve,
    window: Open,
    teach: Teach,
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
