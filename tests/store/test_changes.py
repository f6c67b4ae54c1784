from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from steelyard.store.errors import ConflictError
from steelyard.store.store import Store
from tests.store.conftest import image_id


def test_a_change_is_made_once(store: Store) -> None:
    """The reply was lost, a colleague decided otherwise, the browser sends the change again."""
    store.exclude_image(image_id(1), "lea", "blurred", change="c1")
    store.include_image(image_id(1), "ada", change="c2")
    store.exclude_image(image_id(1), "lea", "blurred", change="c1")
    assert store.excluded_ids() == set()
    assert [entry.action for entry in store.audit_log()] == ["exclude image", "include image"]
    store.exclude_image(image_id(1), "lea", "blurred", change="c3")
    assert store.excluded_ids() == {image_id(1)}


def test_an_id_belongs_to_one_change_of_one_person(store: Store) -> None:
    store.exclude_image(image_id(1), "lea", change="c1")
    for attempt in (
        lambda: store.exclude_image(image_id(2), "lea", change="c1"),
        lambda: store.include_image(image_id(1), "lea", change="c1"),
        lambda: store.exclude_image(image_id(1), "ada", change="c1"),
    ):
        with pytest.raises(ConflictError, match="used for another change"):
            attempt()
    assert store.excluded_ids() == {image_id(1)}


def test_a_change_that_fails_can_be_sent_again(store: Store) -> None:
    from steelyard.store.errors import UnknownRecordError

    with pytest.raises(UnknownRecordError):
        store.exclude_image("unknown", "lea", change="c1")
    assert not store.changed("c1", "lea", "exclude image unknown")


def test_many_at_once_make_it_once(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        for round in range(5):
            list(
                pool.map(
                    lambda _, change=f"c{round}": store.exclude_image(image_id(3), "lea", change=change),
                    range(8),
                )
            )
            store.include_image(image_id(3), "lea")
    assert len(store.audit_log()) == 10


def test_a_setting_that_many_make_at_once_is_one(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        seen = set(pool.map(lambda k: store.kept_setting("image key", f"secret {k}"), range(16)))
    assert len(seen) == 1
    assert store.setting("image key") in seen
