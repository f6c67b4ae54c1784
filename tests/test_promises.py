"""What the documents promise has a test: every one that they name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAMED = re.compile(r"`(?:tests/)?((?:\w+/)*test_\w+\.py)(?:::(test_\w+))?`")


@pytest.mark.parametrize("page", ["security.md", "reliability.md"])
def test_every_test_that_a_page_names_exists(page: str) -> None:
    named = NAMED.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))
    assert named
    for file, name in named:
        place = ROOT / "tests" / file
        assert place.is_file(), f"{page} names tests/{file}, and there is none"
        assert not name or f"def {name}(" in place.read_text(encoding="utf-8"), f"{page}: no {name} in {file}"
