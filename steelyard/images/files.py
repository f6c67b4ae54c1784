"""Files below a folder or a URL: found, hashed, looked at – many at a time."""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypedDict, TypeVar

from steelyard.errors import CatalogError, ImageError
from steelyard.images import dicom
from steelyard.images.decode import OnError, decode, quiet, workers_for
from steelyard.images.formats import HEAD_BYTES, describe, mislabelled, sniff
from steelyard.images.hashing import content_id, frame_id
from steelyard.images.originals import Originals
from steelyard.images.remote import list_urls, place_of, read_url
from steelyard.images.report import Noticed
from steelyard.images.search import Search, Signature, is_hidden_folder
from steelyard.images.unreachable import UnreachableError
from steelyard.progress import Progress

__all__ = [
    "Found",
    "Looking",
    "check_regular",
    "content_id",
    "find_images",
    "in_threads",
    "look_at",
    "look_at_all",
    "signatures_of",
]

_CHUNK = 1 << 20
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Looking(TypedDict, total=False):
    """How files are looked at when a catalog is made.

    Attributes:
        check: decode every image once, so that damaged ones are found now and not when they are needed.
        on_error: `skip` a bad file with a line in the report, or `fail` with the first. Default: skip.
        max_megapixels: a larger picture is taken for a decompression bomb. Default: 100.
        known: ids of images that were decoded before; `check` need not decode them again.
        only: of all that is found, these paths alone; None takes all.
        originals: where files that lie elsewhere are kept for a while; None keeps none.
        workers: threads; 0 takes one per core.
        progress: called after every file.
    """

    check: bool
    known: Collection[str]
    only: Collection[str] | None
    originals: Originals | None
    on_error: OnError
    max_megapixels: float
    workers: int
    progress: Progress | None


@dataclass(frozen=True)
class Found:
    """An image file that was looked at.

    Attributes:
        path: relative to the folder.
        ids: one id – or one for each frame of a multi-frame DICOM file.
        odd: in what way its name is misleading; empty when it is not.
    """

    path: str
    ids: tuple[str, ...]
    odd: str = ""


def check_regular(file: Path, path: str) -> None:
    """Refuse what is no file: opening a pipe waits for whoever writes into it.

    Raises:
        ImageError: it is a folder, or a pipe, socket or device.
        OSError: it cannot be looked at.
    """
    mode = file.stat().st_mode
    if stat.S_ISDIR(mode):
        raise ImageError(path, "is a folder, not an image")
    if not stat.S_ISREG(mode):
        raise ImageError(path, "is a pipe, socket or device, not a file")


def find_images(root: Path | str) -> Search:
    """All image files below a folder or a URL, hidden ones left out, links followed but no circles.

    A folder in it that cannot be read is among `bad`; others have what lies beside it.

    Raises:
        CatalogError: there is no such folder, it cannot be read, or there is nothing at the URL.
        UnreachableError: nobody answers there.
    """
    if isinstance(root, str):
        return list_urls(root)
    try:
        if not root.is_dir():
            raise CatalogError(f"there is no folder {root}" + (" (it is a file)" if root.exists() else ""))
    except OSError as error:
        raise _closed(root, error) from error
    search = Search()
    for path in _walk(root, search):
        search.take(path, lambda path=path: _starts_like_an_image(root / path))  # type: ignore[misc]
    search.paths.sort()
    return search


def signatures_of(root: Path | str, search: Search) -> dict[str, Signature]:
    """What a look at each file tells: it changes as long as somebody writes to it."""
    if isinstance(root, str):
        return {path: search.signatures.get(path, ()) for path in search.paths}
    found: dict[str, Signature] = {}
    for path in search.paths:
        try:
            seen = (root / path).stat()
        except FileNotFoundError:  # gone again
            continue
        except OSError:  # reading it tells why
            found[path] = ()
            continue
        found[path] = (seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
    return found


def look_at(
    root: Path | str,
    path: str,
    *,
    check: bool = False,
    known: Collection[str] = (),
    max_megapixels: float = 100.0,
    originals: Originals | None = None,
) -> Found:
    """Hash one file and see what it is; with `check` also decode it.

    Raises:
        ImageError: missing, empty, not an image – with `check` also anything else that keeps it from being decoded.
        UnreachableError: it lies elsewhere, and nobody answers there now.
        MissingExtraError: DICOM without the `dicom` extra.
    """
    place = place_of(root, path)
    try:
        source: Path | bytes = place if isinstance(place, Path) else read_url(place)
    except UnreachableError:
        raise
    except ImageError as error:
        raise ImageError(path, error.reason) from error
    digest = hashlib.blake2b()
    try:
        if isinstance(source, Path):
            check_regular(source, path)
        with _open(source) as file:
            head = file.read(HEAD_BYTES)
            digest.update(head)
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
            kind = sniff(head)
            if not head:
                raise ImageError(path, "is empty (0 bytes)")
            if kind is None:
                raise ImageError(path, f"is not an image: it is {describe(head)}")
            frames = 1
            if kind == "DICOM":
                file.seek(0)
                with quiet():
                    frames = dicom.count_frames(file, path)
    except FileNotFoundError:
        raise ImageError(path, f"is missing: there is no such file below {root}") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise ImageError(path, f"cannot be read: {reason}") from error
    if frames == 1:
        ids: tuple[str, ...] = (digest.hexdigest()[:32],)
    else:
        ids = tuple(frame_id(digest, frame) for frame in range(1, frames + 1))
    for frame, id in enumerate(ids if check else (), 1):
        if id not in known:
            try:
                # As small as it gets: a JPEG is read to its end all the same, and that is what shows damage.
                decode(source, max_megapixels=max_megapixels, frame=frame, least=1)
            except ImageError as error:
                raise ImageError(path, error.reason) from error
    if originals is not None and isinstance(place, str) and isinstance(source, bytes):
        originals.keep(place, source)  # whoever makes a catalog looks at the pictures next
    return Found(path, ids, mislabelled(path, kind))


def look_at_all(
    root: Path | str,
    paths: Sequence[str],
    *,
    check: bool = False,
    known: Collection[str] = (),
    on_error: OnError = "skip",
    max_megapixels: float = 100.0,
    originals: Originals | None = None,
    workers: int = 0,
    progress: Progress | None = None,
) -> list[Found | ImageError]:
    """`look_at` in threads: for each path what was found, or why nothing was.

    Raises:
        ImageError: the first bad file, when `on_error` is `fail`.
        UnreachableError: files lie elsewhere, and nobody answers there now: none of them is bad.
        MissingExtraError: DICOM without the `dicom` extra.
    """

    def one(path: str) -> Found | ImageError:
        try:
            return look_at(
                root, path, check=check, known=known, max_megapixels=max_megapixels, originals=originals
            )
        except UnreachableError:
            raise
        except ImageError as error:
            if on_error == "fail":
                raise
            return error

    return in_threads(one, paths, workers, progress, "files read")


def in_threads(
    job: Callable[[_Item], _Result],
    items: Sequence[_Item],
    workers: int,
    progress: Progress | None,
    text: str,
) -> list[_Result]:
    """The results in order; the first error ends it without beginning anything else."""
    results: list[_Result] = []
    with ThreadPoolExecutor(workers_for(workers), thread_name_prefix="files") as pool:
        try:
            # In blocks: a million futures at once would cost more memory than the hashes.
            for start in range(0, len(items), 1024):
                for result in pool.map(job, items[start : start + 1024]):
                    results.append(result)
                    if progress is not None:
                        progress(len(results), len(items), text)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results


def _open(source: Path | bytes) -> IO[bytes]:
    return io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")


def _walk(root: Path, search: Search) -> Iterator[str]:
    """Files below the root ("a/b/1.png"), each real folder once; what cannot be looked into is noted."""
    seen: set[tuple[int, int]] = set()
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            status = (root / folder).stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            # To its end before anything is taken: a file server may go away in the middle.
            folders, names = _look_into(root, folder, search)
        except FileNotFoundError:
            if not folder:
                raise CatalogError(f"there is no folder {root}") from None
            continue  # gone since it was listed
        except OSError as error:
            if not folder:
                raise _closed(root, error) from error
            search.bad.append(_unseen(folder.rstrip("/"), "is a folder that cannot be read", error))
            continue
        waiting += [f"{folder}{name}/" for name in sorted(folders, reverse=True)]
        yield from (f"{folder}{name}" for name in names)


def _look_into(root: Path, folder: str, search: Search) -> tuple[list[str], list[str]]:
    """Names of the folders and of the files in a folder, hidden ones left out."""
    folders, names = [], []
    with os.scandir(root / folder) as entries:
        for entry in entries:
            if is_hidden_folder(entry.name):
                continue
            try:
                if entry.is_dir():
                    folders.append(entry.name)
                elif entry.is_file() or not Path(entry).exists():  # a broken link is told of when read
                    names.append(entry.name)
                else:  # to open a pipe is to wait for whoever writes into it
                    search.passed_over["pipes, sockets and devices"] += 1
            except OSError as error:  # a link, or a folder of a server that is away
                search.bad.append(_unseen(f"{folder}{entry.name}", "cannot be looked at", error))
    return folders, names


def _unseen(path: str, what: str, error: OSError) -> Noticed:
    shown = os.fsencode(path).decode("utf-8", "replace")
    return Noticed(shown, f"{what} ({error.strerror or error}): make it readable, or move it elsewhere")


def _closed(root: Path, error: OSError) -> CatalogError:
    return CatalogError(
        f"the folder {root} cannot be read ({error.strerror or error}); make it readable, or name another one"
    )


def _starts_like_an_image(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return sniff(file.read(HEAD_BYTES)) is not None
    except OSError:
        return False
