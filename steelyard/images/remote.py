"""Images at an address instead of in a folder: listed and read through fsspec, or from a DICOMweb server.

    is_url("s3://bucket/folder")    True; a folder is none, also written as file:///data/images (`as_place`)
    list_urls(url)                  the images below it
    read_url(url)                   the bytes of one

Who may read a bucket is decided where its own tools look (environment, ~/.aws, application default credentials); an address
that carries a secret is refused, because catalogs, logs and backups would carry it on.
"""

from __future__ import annotations

import errno
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit
from urllib.request import url2pathname

from steelyard.errors import CatalogError, ImageError, MissingExtraError
from steelyard.images import dicomweb
from steelyard.images.formats import HEAD_BYTES, sniff
from steelyard.images.report import Noticed
from steelyard.images.search import Search, Signature, is_hidden_folder
from steelyard.images.unreachable import Refused, UnreachableError

__all__ = [
    "REST_SECONDS",
    "as_place",
    "check_url",
    "is_there",
    "is_url",
    "join",
    "list_urls",
    "place_of",
    "read_url",
    "whole_place",
]

TRIES = 3
REST_SECONDS = (
    5.0  # a host that did not answer is left alone for so long: thousands of images would wait one by one
)
REMEMBERED_SECONDS = 60.0  # so long it is believed that an object is there, or is not

_URL = re.compile(r"([a-z][a-z0-9.:+-]*)://", re.IGNORECASE)
_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}
_SECRETS = re.compile(
    r"sig(nature)?|.*[-_]signature|.*token|.*credential|.*secret.*|.*access_?key.*|api_?key|password", re.I
)
_Answer = TypeVar("_Answer")

_away: dict[str, tuple[float, str]] = {}
_there: dict[str, tuple[float, bool]] = {}
_lock = threading.Lock()


def is_url(text: object) -> bool:
    """Whether this is an address and not a path; file:// is a path.

    >>> is_url("s3://bucket/a.png"), is_url("images/a.png"), is_url("C:/images"), is_url("file:///images")
    (True, False, False, False)
    """
    found = _URL.match(text) if isinstance(text, str) else None
    # One letter is a drive of Windows.
    return found is not None and len(found[1]) > 1 and found[1].lower() != "file"


def as_place(source: str | Path) -> Path | str:
    """A source as somebody wrote it: a checked URL without a slash at its end, or a path.

    Raises:
        CatalogError: a URL that carries a secret or cannot be used.
    """
    text = str(source)
    if isinstance(source, str) and is_url(text):
        return check_url(text)
    if isinstance(source, str) and text.lower().startswith("file://"):
        # Of a file's name # and ? are letters like others.
        return Path(url2pathname(_parts(text.replace("#", "%23").replace("?", "%3F")).path))
    return Path(source)


def whole_place(source: str | Path) -> str:
    """A source as it is kept in a configuration: the URL, or the absolute path."""
    place = as_place(source)
    return place if isinstance(place, str) else str(place.resolve())


def check_url(url: str) -> str:
    """The URL without slashes at its end.

    Raises:
        CatalogError: it is no address, carries a name and password or a signature, or chains file systems.
    """
    if "::" in re.sub(r"\[[^]]*\]", "", url):  # within brackets it belongs to a host's number
        raise CatalogError("an address has no '::': name the place itself, as in s3://bucket/folder")
    parts = _parts(url)
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    if parts.password is not None or (parts.username and parts.scheme not in ("sftp", "ssh")):
        raise CatalogError(
            f"{shown} was given with a name or password in it, which would be kept in the study and in its backups; leave it out, "
            "and put credentials where the tools of that service look for them (environment, ~/.aws, gcloud …)"
        )
    if any(_SECRETS.fullmatch(name) for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        raise CatalogError(
            f"{shown} was given with a signature or token in it, which would be kept in the study and in its backups, and runs out; "
            "give the address alone, and credentials by the environment"
        )
    return url.rstrip("/")


def join(root: str, path: str) -> str:
    """The address of something below a URL."""
    return f"{root.rstrip('/')}/{path}"


def place_of(root: Path | str | None, path: str) -> Path | str:
    """Where an image is: paths are relative to their root, unless they are whole by themselves."""
    if is_url(path):
        return path
    return join(root, path) if isinstance(root, str) else (root or Path()) / path


def list_urls(url: str) -> Search:
    """All images below a URL, by the rules for folders; paths are relative to it.

    Raises:
        CatalogError: there is nothing, it may not be listed, or the address is of no known kind.
        UnreachableError: nobody answers.
        MissingExtraError: the package for this kind of address is not installed.
    """
    root = check_url(url)
    if dicomweb.is_dicomweb(root):
        return _try(
            root, lambda: dicomweb.list_instances(root), tries=1
        )  # each request is tried again by itself
    fs = _filesystem(root)
    base = fs._strip_protocol(root).rstrip("/")
    search = Search()
    for entry in _try(root, lambda: list(_entries(fs, root, base))):
        path = str(entry["name"])[len(base) :].removeprefix("/")
        *folders, name = path.split("/")
        if not name or any(is_hidden_folder(folder) for folder in folders):
            continue
        if path.startswith("/"):  # below its folder it would be an absolute path
            search.bad.append(Noticed(path, f"has a folder without a name below {root} (//): rename it"))
        elif re.fullmatch(r".+#\d+", name):
            search.bad.append(Noticed(path, "has a name that ends like the frame of a DICOM file: rename it"))
        elif search.take(path, lambda path=path, entry=entry: _starts_like_an_image(join(root, path), entry)):  # type: ignore[misc]
            search.signatures[path] = _signature(entry)
    search.paths.sort()
    return search


def read_url(url: str) -> bytes:
    """The bytes of one image.

    Raises:
        ImageError: there is no such object, or it may not be read.
        UnreachableError: nobody answers now.
        MissingExtraError: the package for this kind of address is not installed.
    """
    if dicomweb.is_dicomweb(url):
        return _try(url, lambda: dicomweb.read_instance(url), missing=ImageError, tries=1)
    fs = _filesystem(url)
    content = _try(url, lambda: bytes(fs.cat_file(fs._strip_protocol(url))), missing=ImageError)
    _remember(url, True)
    return content


def is_there(url: str, *, ask: bool = True) -> bool:
    """Whether an object is there, as it was a minute ago at most.

    Args:
        url: the object.
        ask: ask whoever has it; False goes by what was heard lately, and believes that it is there without any news.
    """
    now = time.monotonic()
    try:
        host = _host(url, ImageError)
    except ImageError:
        return False
    with _lock:
        if _away.get(host, (0.0, ""))[0] > now:
            return False
        when, there = _there.get(url, (0.0, True))
    if not ask or (when and now - when < REMEMBERED_SECONDS) or dicomweb.is_dicomweb(url):
        return there
    try:
        fs = _filesystem(url)
        there = bool(_try(url, lambda: fs.info(fs._strip_protocol(url)), missing=ImageError))
    except (ImageError, CatalogError, MissingExtraError):
        there = False
    _remember(url, there)
    return there


def _remember(url: str, there: bool) -> None:
    with _lock:
        if len(_there) > 200_000:
            _there.clear()
        _there[url] = (time.monotonic(), there)


def _filesystem(url: str) -> Any:
    import fsspec

    scheme = url.partition("://")[0].lower()
    options: dict[str, Any] = {"use_listings_cache": False}
    if scheme in ("http", "https"):
        import aiohttp

        options["client_kwargs"] = {
            "timeout": aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=30)
        }
    elif _EXTRAS.get(scheme) == "s3":
        options["config_kwargs"] = {"connect_timeout": 10, "read_timeout": 30, "retries": {"max_attempts": 1}}
        options["max_concurrency"] = 1  # of one object: with more, each costs a request for its size first
    try:
        return fsspec.filesystem(scheme, **options)
    except ImportError as error:
        if extra := _EXTRAS.get(scheme):
            raise MissingExtraError(f"reading images at {scheme}://", extra) from error
        raise CatalogError(f"{url}: {error}") from error
    except ValueError as error:
        raise CatalogError(
            f"{url}: images are read from folders, s3://, gs://, https:// and the like, not {scheme}://"
        ) from error


def _entries(fs: Any, root: str, base: str) -> Iterator[dict[str, Any]]:
    """Everything below a place that is no folder."""
    fs.invalidate_cache()
    if not root.lower().startswith("http"):
        found = fs.find(base, detail=True)
        if not found:
            fs.info(base)  # an empty folder, or nothing at all
        yield from found.values()
        return
    # A web server has pages with links in place of folders. fsspec's own walk passes over pages that cannot be had.
    pages, seen = [f"{base}/"], set()
    while pages:
        page = pages.pop()
        seen.add(page)
        for entry in fs.ls(page, detail=True):
            name = entry["name"] = str(entry["name"]).replace("/./", "/")
            if not name.startswith(base) or "/../" in name or "?" in name:
                continue
            if name.endswith("/"):
                hidden = is_hidden_folder(unquote(name.rstrip("/").rpartition("/")[2]))
                pages += [name] if name not in seen and not hidden else []
            elif name not in seen:
                seen.add(name)
                yield entry


def _starts_like_an_image(url: str, entry: dict[str, Any]) -> bool:
    """Whether an object without a suffix is an image; one that is refused is none, as in a folder, and ends no listing."""
    if entry.get("size") == 0:  # markers such as _SUCCESS; of nothing S3 gives no first bytes but an error
        return False
    fs = _filesystem(url)
    try:
        head = _try(
            url,
            lambda: bytes(fs.cat_file(fs._strip_protocol(url), start=0, end=HEAD_BYTES)),
            missing=ImageError,
        )
    except UnreachableError:
        raise
    except ImageError:
        return False
    return sniff(head[:HEAD_BYTES]) is not None


def _signature(entry: dict[str, Any]) -> Signature:
    told = (entry.get(key) for key in ("size", "ETag", "etag", "LastModified", "mtime", "updated", "created"))
    return tuple(str(value) for value in told if value is not None)


def _try(
    url: str,
    job: Callable[[], _Answer],
    *,
    missing: type[CatalogError] | type[ImageError] = CatalogError,
    tries: int = TRIES,
) -> _Answer:
    """Do something that needs the network: some times, unless the answer is plain or the host was away a moment ago."""
    host = _host(url, missing)
    with _lock:
        until, reason = _away.get(host, (0.0, ""))
    if time.monotonic() < until:
        raise UnreachableError(url, reason)
    for turn in range(1, tries + 1):
        try:
            answer = job()
        except (CatalogError, ImageError, MissingExtraError):
            raise
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise _plainly(url, "is missing: there is nothing at this address", missing) from None
        except Exception as error:  # every backend has a family of its own
            if refusal := _refusal(error):
                raise _plainly(url, refusal, missing) from error
            if turn < tries:
                time.sleep(0.1 * 3**turn)
                continue
            # Names of objects are patients' names as often as not, and this is said of other images of the host too.
            said = re.sub(r"""(\w+://[^/\s"']+)[^\s"']*""", r"\1/…", " ".join(str(error).split()))
            said = said or type(error).__name__
            with _lock:
                _away[host] = (time.monotonic() + REST_SECONDS, said)
            raise UnreachableError(url, said) from error
        with _lock:
            _away.pop(host, None)
        return answer
    raise AssertionError("unreachable: the last turn returns or raises")


def _refusal(error: Exception) -> str:
    """Why asking again is of no use; empty where it may be."""
    if isinstance(error, Refused):
        return error.reason
    status = getattr(error, "status", None) or getattr(error, "code", None)
    if (
        isinstance(error, PermissionError)
        or status in (401, 403)
        or type(error).__name__ == "NoCredentialsError"
    ):
        return (
            f"may not be read with the credentials of this process ({error}); give them as the tools of that service take them "
            "(environment, ~/.aws, gcloud …)"
        )
    if isinstance(status, int) and 400 <= status < 500 and status not in (408, 429):
        return f"is refused by the server ({error})"
    if isinstance(error, OSError) and error.errno == errno.EINVAL:  # what s3fs makes of 400 and 416
        return f"is refused by the server ({error.strerror or error})"
    return ""


def _plainly(url: str, reason: str, kind: type[CatalogError] | type[ImageError]) -> CatalogError | ImageError:
    return ImageError(url, reason) if issubclass(kind, ImageError) else CatalogError(f"{url} {reason}")


def _host(url: str, kind: type[CatalogError] | type[ImageError]) -> str:
    return "://".join(_parts(url, kind)[:2])


def _parts(url: str, kind: type[CatalogError] | type[ImageError] = CatalogError) -> SplitResult:
    """The parts of an address.

    Raises:
        CatalogError, or ImageError where that is asked for: it is none.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        # Whatever stands before an @ may be a password.
        scheme, _, rest = url.partition("://")
        reason = f"is no address ({error}): write it as in https://host/folder or s3://bucket/folder"
        raise _plainly(f"{scheme}://{rest.rpartition('@')[2]}", reason, kind) from None
    return parts
