from __future__ import annotations

import re
from pathlib import Path

import pytest

from steelyard.store.store import Store

DOCS = Path(__file__).parents[2] / "docs" / "store.md"
FACETS = (
    "images", "pairs", "known", "answers", "decisions", "grades", "models", "models.trainer", "people", "people.sessions", "people.tokens",
    "people.handshakes", "people.tries", "audit", "settings",
)  # fmt: skip


@pytest.mark.parametrize("facet", FACETS)
def test_the_docs_list_every_method_of_a_facet(store: Store, facet: str) -> None:
    found: object = store
    for name in facet.split("."):
        found = getattr(found, name)
    methods = {
        name for name, value in vars(type(found)).items() if callable(value) and not name.startswith("_")
    }
    [row] = re.findall(rf"^\| `store\.{re.escape(facet)}` \|(.*)$", DOCS.read_text(), re.MULTILINE)
    explained = re.sub(r"\([^)]*\)", "", row)
    assert set(re.findall(r"`(\w+)`", explained)) == methods


def test_facets_share_one_transaction(store: Store) -> None:
    def half_way() -> None:
        with store.change("c1", "kt", "many things"):
            store.people.add("mo")
            store.settings.keep("question", "Which?")
            store.audit.add("kt", "look")
            raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        half_way()
    assert (store.people.all(), store.settings.get("question"), store.audit.log()) == ([], None, [])
    assert store.change_made("c1", "kt", "many things") is None
