"""A host that is away is no fault of its images: a part waits for it, and is left for the next run if it stays away."""

from __future__ import annotations

import pytest

from steelyard.errors import CatalogError, ImageError
from steelyard.images.unreachable import UnreachableError
from steelyard.scoring import part


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "REST_SECONDS", 0.0)


def test_a_host_that_comes_back_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def read(place: str) -> bytes:
        asked.append(place)
        if len(asked) == 1:
            raise UnreachableError(place, "nobody answers")
        return b"bytes"

    monkeypatch.setattr(part, "read_bytes", read)
    assert list(part._fetched("s3://bucket", ["a.png"])) == [("a.png", b"bytes")]
    assert asked == ["s3://bucket/a.png"] * 2


def test_a_host_that_stays_away_ends_the_part_and_a_missing_image_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(place: str) -> bytes:
        if "gone" in place:
            raise ImageError(place, "is missing")
        raise UnreachableError(place, "nobody answers")

    monkeypatch.setattr(part, "read_bytes", read)
    [(path, found)] = part._fetched("s3://bucket", ["gone.png"])
    assert path == "gone.png"
    assert isinstance(found, ImageError)
    with pytest.raises(CatalogError, match="Nothing of its part was written; run the same again"):
        list(part._fetched("s3://bucket", ["a.png"]))
