from __future__ import annotations

import pytest

from steelyard.store.errors import StoreError
from steelyard.store.store import Store


def test_settings(store: Store) -> None:
    assert store.settings.get("question") is None
    assert store.settings.get("question", "Which?") == "Which?"
    store.settings.keep("question", {"en": "Which is more severe?", "n": [1, 2.5, None]})
    assert store.settings.get("question") == {"en": "Which is more severe?", "n": [1, 2.5, None]}
    assert store.settings.keep("raters", None) is None
    assert store.settings.keep("raters", 2) is None, "what is there stays"
    assert store.settings.get("raters", "default") is None
    with pytest.raises(StoreError, match="setting 'x'"):
        store.settings.keep("x", float("nan"))
