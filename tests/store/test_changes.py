from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from steelyard.store.errors import ConflictError
from steelyard.store.store import Store
from tests.store.conftest import image_id


def exclude(store: Store, row: int, by: str, change: str, excluded: bool = True) -> None:
    """As the API does it."""
    what = f"{'exclude' if excluded else 'include'} image {row}"
    with store.change(change, by, what) as made:
        if not made.first:
            return
        if excluded:
            store.images.exclude(image_id(row), by, "blurred")
        else:
            store.images.include(image_id(row), by)


def test_a_change_is_made_once(store: Store) -> None:
    """The reply was lost, a colleague decided otherwise, the browser sends the change again."""
    exclude(store, 1, "lea", "c1")
    exclude(store, 1, "ada", "c2", excluded=False)
    exclude(store, 1, "lea", "c1")
    assert {image.id for image in store.images.all() if image.excluded} == set()
    assert [entry.action for entry in store.audit.log()] == ["exclude image", "include image"]
    exclude(store, 1, "lea", "c3")
    assert {image.id for image in store.images.all() if image.excluded} == {image_id(1)}


def test_an_id_belongs_to_one_change_of_one_person(store: Store) -> None:
    exclude(store, 1, "lea", "c1")
    for row, by, excluded in ((2, "lea", True), (1, "lea", False), (1, "ada", True)):
        with pytest.raises(ConflictError, match="used for another change"):
            exclude(store, row, by, "c1", excluded)
    assert {image.id for image in store.images.all() if image.excluded} == {image_id(1)}
    assert store.change_made("c1", "lea", "exclude image 1") is not None
    assert store.change_made("c2", "lea", "exclude image 1") is None


def test_a_change_that_fails_can_be_sent_again(store: Store) -> None:
    from steelyard.store.errors import UnknownRecordError

    with pytest.raises(UnknownRecordError):
        exclude(store, 99, "lea", "c1")
    assert store.change_made("c1", "lea", "exclude image 99") is None


def test_many_at_once_make_it_once(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        for turn in range(5):
            list(pool.map(lambda _, change=f"c{turn}": exclude(store, 3, "lea", change), range(8)))
            store.images.include(image_id(3), "lea")
    assert len(store.audit.log()) == 10


def test_a_setting_that_many_make_at_once_is_one(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        seen = set(pool.map(lambda k: store.settings.keep("image key", f"secret {k}"), range(16)))
    assert len(seen) == 1
    assert store.settings.get("image key") in seen


def test_calls_inside_a_change_are_kept_together_or_not_at_all(store: Store) -> None:
    def add_twice() -> None:
        with store.change("c1", "ada", "add mo"):
            store.people.add("mo")
            assert store.people.get("mo").role == "annotator", "seen inside"
            store.audit.add("ada", "annotator added", {"name": "mo"})
            store.people.add("mo")

    with pytest.raises(ConflictError):
        add_twice()
    assert store.audit.log() == []
    assert [person.name for person in store.people.all()] == []
    times = []
    for first in (True, False):
        with store.change("c1", "ada", "add mo") as change:
            times.append(change.at)
            assert change.first == first
            if change.first:
                store.people.add("mo")
    assert times[0] == times[1]
    with ThreadPoolExecutor(1) as pool, store.change("c2", "ada", "look"):
        assert pool.submit(store.audit.log).result() == [], "another thread is not part of it"
