"""What the browser keeps, and what the store has counted."""

from __future__ import annotations

from collections import Counter

from steelyard.study import Study
from steelyard.web.ids import ImageIds
from tests.web.actors import Window


def counted(study: Study) -> list[tuple[str, str, str]]:
    """The answers that count: left, right, answer, as the page names them; every pair at most once."""
    name = ImageIds(study).public
    rows = [c for c in study.store.answers.log() if c.effective]
    assert max(Counter(c.pair for c in rows).values(), default=1) == 1
    return [(name(c.left), name(c.right), c.answer.value) for c in rows if c.answer]


def entries(user: Window, prefix: str = "steelyard.queue") -> list[str]:
    """What the browser keeps, oldest first."""
    found: list[str] = user.page.evaluate(
        "(prefix) => Object.keys(localStorage).filter((k) => k.startsWith(prefix)).sort().map((k) => localStorage[k])",
        prefix,
    )
    return found


def state(user: Window, wanted: str) -> None:
    user.page.wait_for_function(f"() => document.querySelector('#saved').dataset.state === '{wanted}'")


def forgive(user: Window) -> None:
    """Browsers complain on the console about every response from 400 up; these tests are about such responses."""
    user.errors[:] = [e for e in user.errors if "status of" not in e and "ERR_" not in e]
