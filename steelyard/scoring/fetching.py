"""Bytes of the images of a part, in order, a few files ahead.

What cannot be fetched is an error of that image. A host that is away is no fault of its images: it is waited for, and if it stays
away the part is left to the next run, because a row that says so would stay when the host is back. Whether it is away, or has
an image that it never gives, is told by another image that it gave before.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from steelyard.errors import CatalogError, ImageError
from steelyard.images.listing import address, read_bytes
from steelyard.images.remote import REST_SECONDS
from steelyard.images.unreachable import UnreachableError

__all__ = ["TOGETHER", "fetched"]

TOGETHER = 16  # pictures whose bytes are at hand at a time, and as many that are being fetched
_READERS = 4  # threads that fetch them: waiting for a disk or a network takes no core
_WAITS = 3  # so often a host that does not answer is asked, with a rest between
_TURNS = 12  # and so often at most, where it was not asked because it did not answer for another image


def fetched(root: str, listed: Iterable[tuple[str, str]]) -> Iterator[tuple[str, bytes | ImageError]]:
    """Each path with its bytes, or with what is the matter.

    Args:
        root: what paths are relative to.
        listed: paths, each with the reason why it cannot even be tried, or "".

    Raises:
        CatalogError: a host is away.
    """
    hosts = _Hosts()

    def fetch(path: str, unusable: str) -> bytes | ImageError:
        return ImageError(path, unusable) if unusable else hosts.fetch(address(root, path))

    with ThreadPoolExecutor(_READERS, thread_name_prefix="fetch") as pool:
        try:
            ahead: deque[tuple[str, Future[bytes | ImageError]]] = deque()
            for path, unusable in listed:
                ahead.append((path, pool.submit(fetch, path, unusable)))
                if len(ahead) > TOGETHER:
                    first, future = ahead.popleft()
                    yield first, future.result()
            for rest, future in ahead:
                yield rest, future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # nobody waits for the others
            raise


class _Hosts:
    """What the hosts of a part have answered so far."""

    def __init__(self) -> None:
        self._gave: dict[str, str] = {}  # of each host an image that it gave
        self._away: dict[str, CatalogError] = {}

    def fetch(self, place: str) -> bytes | ImageError:
        host, answer = _host(place), self._ask(place)
        if isinstance(answer, bytes):
            self._gave.setdefault(host, place)
        if not isinstance(answer, UnreachableError):
            return answer
        other = self._gave.get(host)
        if other is not None and not isinstance(self._ask(other), UnreachableError):
            return ImageError(place, f"cannot be fetched, while {host} gives others ({answer.said})")
        self._away[host] = CatalogError(
            f"{host} does not answer for {place} ({answer.said}). Nothing of its part was written; run the same again when it is back. "
            "If it is gone for good, score a list without its images, into another folder"
        )
        raise self._away[host]

    def _ask(self, place: str) -> bytes | ImageError:
        """What is there, or the last error of several turns."""
        host, asked = _host(place), 0
        error: ImageError = ImageError(place, "was not asked for")
        for turn in range(_TURNS):
            if turn:
                time.sleep(REST_SECONDS)
            if host in self._away:
                raise self._away[host]
            try:
                return read_bytes(place)
            except UnreachableError as unreachable:
                error = unreachable
                # Without a cause nobody asked for this one: the host had no answer for another image a moment ago.
                asked += unreachable.__cause__ is not None
                if asked == _WAITS:
                    break
            except ImageError as plain:
                return plain
        return error


def _host(place: str) -> str:
    """Scheme and host, of an address that need not be one."""
    scheme, _, rest = place.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if rest else ""
