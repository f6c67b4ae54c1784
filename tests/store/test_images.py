from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from steelyard.store.errors import ConflictError, StoreError, UnknownRecordError
from steelyard.store.records import NewImage, NewPair
from steelyard.store.store import Store


def test_an_image_comes_back_as_it_was_registered(store: Store) -> None:
    new = NewImage(12, "ab" * 16, "Ordner/Bild ä.png", "patient 7", 3, 640, 480)
    assert store.images.add_all([new]) == 1
    image = store.images.get("ab" * 16)
    assert (image.row, image.path, image.group, image.grade) == (12, "Ordner/Bild ä.png", "patient 7", 3)
    assert (image.width, image.height, image.excluded) == (640, 480, False)
    assert len(store.images.all()) == 13


def test_images_come_in_pages(store: Store) -> None:
    rows = []
    page = store.images.all(limit=5)
    while page:
        rows += [image.row for image in page]
        page = store.images.all(after_row=rows[-1], limit=5)
    assert rows == list(range(12))


def test_registering_again_adds_only_what_is_new(store: Store) -> None:
    known = [NewImage(i.row, i.id, i.path) for i in store.images.all()]
    steps: list[tuple[int, int, str]] = []
    added = store.images.add_all([*known, NewImage(12, "new")], lambda *step: steps.append(step))
    assert added == 1
    assert steps[-1][:2] == (13, 13)


def test_rows_never_change(store: Store) -> None:
    known = store.images.all(limit=1)[0]
    with pytest.raises(ConflictError, match=f"image {known.id} is at row 0 of the store and at row 5"):
        store.images.add_all([NewImage(5, known.id)])
    with pytest.raises(ConflictError, match="row 0 of the store is image"):
        store.images.add_all([NewImage(0, "something else")])
    assert len(store.images.all()) == 12


def test_the_same_bytes_twice_are_refused_as_a_whole(url: str) -> None:
    with Store.open(url) as fresh:
        with pytest.raises(ConflictError):
            fresh.images.add_all([NewImage(0, "a"), NewImage(1, "b"), NewImage(2, "a")])
        assert len(fresh.images.all()) == 0


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (NewImage(-1, "x"), "an image's row"),
        (NewImage(2**63, "x"), "an image's row"),
        (NewImage(50, ""), "an image's id"),
        (NewImage(50, "x\x00"), "an image's id"),
        (NewImage(50, "x", "p\x00"), "a path"),
        (NewImage(50, "x", "p\ud800"), "a path"),
        (NewImage(50, "x", grade=-1), "a grade"),
        (NewImage(50, "x", width=2**40), "a width"),
    ],
)
def test_both_databases_refuse_the_same_fields(store: Store, image: NewImage, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        store.images.add_all([image])


@pytest.mark.parametrize("id", ["nobody", "", "\x00", "' OR 1=1 --", "é" * 500])
def test_unknown_ids_are_unknown(store: Store, id: str) -> None:
    with pytest.raises(StoreError):
        store.images.get(id)


def test_images_that_join_get_the_next_rows_once(store: Store) -> None:
    known = store.images.all(limit=1)[0]
    new = [NewImage(0, "a", "a.png", "p", 2), NewImage(0, known.id), NewImage(0, "b"), NewImage(7, "a")]
    assert store.images.append(new, by="ada", detail={"folder": "/x"}) == 2
    assert [(i.row, i.id, i.group, i.grade) for i in store.images.all(after_row=11)] == [
        (12, "a", "p", 2), (13, "b", None, None),
    ]  # fmt: skip
    assert store.images.get(known.id) == known
    assert store.images.append(new, by="ada", detail={}) == 0
    assert store.images.count() == 14
    entries = [entry for entry in store.audit.log() if entry.action == "add images"]
    assert [entry.detail for entry in entries] == [{"folder": "/x", "images": 2, "first_row": 12}]
    with pytest.raises(StoreError, match="a path"):
        store.images.append([NewImage(0, "c"), NewImage(0, "d", "p\x00")], by="ada", detail={})
    assert store.images.count() == 14


def test_many_join_at_once(url: str, store: Store) -> None:
    def join(part: int) -> int:
        with Store.open(url) as own:
            images = [NewImage(0, f"{part}-{k}") for k in range(20)] + [NewImage(0, "shared")]
            return own.images.append(images, by=f"p{part}", detail={})

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(join, range(4))) == 81
    assert [image.row for image in store.images.all()] == list(range(93))


def test_a_moved_folder_is_written_down(store: Store) -> None:
    first, second = store.images.all(limit=2)
    assert store.images.relocate({first.id: "moved/0.png", second.id: second.path}) == 1
    assert store.images.get(first.id).path == "moved/0.png"
    with pytest.raises(UnknownRecordError, match="gone"):
        store.images.relocate({first.id: "elsewhere", "gone": "x"})
    assert store.images.get(first.id).path == "moved/0.png"


def test_an_excluded_image_is_asked_no_more_until_it_is_back(store: Store, pair_ids: list[int]) -> None:
    image = store.images.all(after_row=0, limit=1)[0]  # in the pairs (0, 1) and (1, 2)
    store.images.exclude(image.id, "kt", "blurred", now=5.0)
    store.images.exclude(image.id, "kt", "again")
    assert {image.id for image in store.images.all() if image.excluded} == {image.id}
    assert store.images.excluded_rows().tolist() == [1]
    excluded = store.images.get(image.id)
    assert (excluded.excluded_at, excluded.excluded_by, excluded.excluded_reason) == (5.0, "kt", "blurred")
    assert [pair.id for pair in store.pairs.all(open=True)] == pair_ids[2:]
    assert store.pairs.add_all([NewPair(1, 9)])
    assert store.pairs.open_count() == 3

    store.images.include(image.id, "kt")
    assert store.pairs.open_count() == 6
    assert not store.images.get(image.id).excluded
    actions = [(entry.actor, entry.action, entry.detail) for entry in store.audit.log()]
    assert actions == [
        ("kt", "exclude image", {"image": image.id, "reason": "blurred"}),
        ("kt", "include image", {"image": image.id}),
    ]
    with pytest.raises(UnknownRecordError):
        store.images.exclude("nothing", "kt")
