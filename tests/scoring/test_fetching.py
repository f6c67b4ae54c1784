"""A host that is away is no fault of its images: a part waits for it, and is left for the next run if it stays away."""

from __future__ import annotations

import http.server
import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest

from steelyard.errors import CatalogError, ImageError
from steelyard.images import remote
from steelyard.images.unreachable import UnreachableError
from steelyard.scoring import fetching


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "REST_SECONDS", 0.0)


def fetch(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[str], bytes], *paths: str
) -> dict[str, bytes | ImageError]:
    monkeypatch.setattr(fetching, "read_bytes", read)
    return dict(fetching.fetched("s3://bucket", [(path, "") for path in paths]))


def refuse(place: str) -> bytes:
    """The host was asked, and had no answer."""
    raise UnreachableError(place, "nobody answers") from ConnectionError("nobody answers")


def test_a_host_that_comes_back_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def read(place: str) -> bytes:
        asked.append(place)
        return refuse(place) if len(asked) == 1 else b"bytes"

    assert fetch(monkeypatch, read, "a.png") == {"a.png": b"bytes"}
    assert asked == ["s3://bucket/a.png"] * 2


def test_a_host_that_stays_away_ends_the_part_and_a_missing_image_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(place: str) -> bytes:
        if "gone" in place:
            raise ImageError(place, "is missing")
        return refuse(place)

    found = fetch(monkeypatch, read, "gone.png")
    assert isinstance(found["gone.png"], ImageError)
    with pytest.raises(
        CatalogError,
        match=r"^s3://bucket does not answer .* Nothing of its part was written; run the same again",
    ) as raised:
        fetch(monkeypatch, read, "a.png", "https://x.org/gone.png")
    assert "without its images, into another folder" in str(raised.value)


def test_a_host_that_is_away_is_not_asked_for_all_that_is_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()

    def read(place: str) -> bytes:
        asked[place] += 1
        return refuse(place)

    with pytest.raises(CatalogError, match="does not answer"):
        fetch(monkeypatch, read, *(f"{k}.png" for k in range(1_000)))
    assert len(asked) < 100
    assert asked.total() < 100


def test_an_image_that_its_host_never_gives_is_a_row_where_it_gives_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    away: list[str] = []

    def read(place: str) -> bytes:
        """One image always fails; others are not even asked for twice after that, as `images.remote` rests."""
        if "broken" in place:
            away[:] = ["once", "twice"]
            return refuse(place)
        if away:
            away.pop()
            raise UnreachableError(place, "nobody answers")
        return b"bytes"

    monkeypatch.setattr(fetching, "_READERS", 1)
    names = ["a.png", "broken.png", "b.png", "c.png"]
    found = fetch(monkeypatch, read, *names)
    assert list(found) == names
    broken = found.pop("broken.png")
    assert isinstance(broken, ImageError)
    assert broken.reason == "cannot be fetched, while s3://bucket gives others (nobody answers)"
    assert set(found.values()) == {b"bytes"}


def test_a_server_that_fails_on_one_image_gives_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with a real server, and with what `images.remote` says of it."""

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(500 if "broken" in self.path else 200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"bytes")

        def log_message(self, *_: object) -> None: ...

    sleep = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: sleep(seconds / 20))
    monkeypatch.setattr(remote, "REST_SECONDS", 0.2)
    monkeypatch.setattr(fetching, "REST_SECONDS", 5.0)  # of which a twentieth is slept
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        listed = [(f"{name}.png", "") for name in ("a", "broken", "b", "c", "d")]
        try:
            found = dict(fetching.fetched(f"http://127.0.0.1:{server.server_port}", listed))
        finally:
            server.shutdown()
            thread.join()
    broken = found.pop("broken.png")
    assert isinstance(broken, ImageError)
    assert "gives others (500" in broken.reason
    assert list(found.values()) == [b"bytes"] * 4


def test_what_cannot_be_used_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "read_bytes", lambda place: place.encode())
    [(_, first), (_, second)] = fetching.fetched("s3://bucket", [("a.png", "has no name"), ("b.png", "")])
    assert isinstance(first, ImageError)
    assert (first.reason, second) == ("has no name", b"s3://bucket/b.png")
