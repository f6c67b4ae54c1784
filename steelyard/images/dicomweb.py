"""Images of a DICOMweb server (the `dicomweb` extra): QIDO-RS lists instances, WADO-RS gives their files.

    dicomweb+https://pacs.example/dicom-web                                  everything it has
    dicomweb+https://pacs.example/dicom-web/studies/1.2.3                    one study
    dicomweb+https://pacs.example/dicom-web/studies/1.2.3/series/4.5.6       one series

The group of an image is its patient. What is kept of a PatientID is a slow hash: equal for equal patients, and of no use to
whoever reads it – though a list of all PatientIDs and enough time would find them, so it is a pseudonym and not anonymous.
"""

from __future__ import annotations

import functools
import hashlib
import ipaddress
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from steelyard.environment import read_secret
from steelyard.errors import MissingExtraError
from steelyard.images.search import Search
from steelyard.images.unreachable import Refused

if TYPE_CHECKING:
    import httpx

__all__ = ["TOKEN", "is_dicomweb", "list_instances", "read_instance"]

TOKEN = "STEELYARD_DICOMWEB_TOKEN"  # noqa: S105 - the name of a variable
TRIES = 3
PAGE = 500

_PREFIX = "dicomweb+"
_PATIENT, _STUDY, _SERIES, _INSTANCE = "00100020", "0020000D", "0020000E", "00080018"
_BELOW = re.compile(r"(?P<service>.*?)(?:/studies/(?P<study>[0-9.]+)(?:/series/(?P<series>[0-9.]+))?)?")
_DICOM = 'multipart/related; type="application/dicom"; transfer-syntax=*, multipart/related; type="application/dicom"'


def is_dicomweb(url: str) -> bool:
    """Whether a URL is one of a DICOMweb server."""
    return url.lower().startswith((f"{_PREFIX}http://", f"{_PREFIX}https://"))


def list_instances(url: str) -> Search:
    """The instances below a service, a study or a series, with the group of each.

    Raises:
        FileNotFoundError: there is no such study.
        Refused: the server wants other credentials, or does not understand.
        httpx.HTTPError: nobody answers.
        MissingExtraError: httpx is not installed.
    """
    found = _BELOW.fullmatch(url[len(_PREFIX) :])
    if found is None or "/studies" in found["service"]:
        raise Refused(
            "is no address of a service, a study (…/studies/UID) or a series (…/studies/UID/series/UID)"
        )
    service, only_study, only_series = found["service"], found["study"], found["series"]
    listed: dict[str, str] = {}
    for study in _query(
        f"{service}/studies", **({_STUDY: only_study} if only_study else {}), includefield=_PATIENT
    ):
        uid = _value(study, _STUDY)
        if not uid or (only_study and uid != only_study):  # servers may pass over what they cannot search by
            continue
        group = _pseudonym(service, patient) if (patient := _value(study, _PATIENT)) else uid
        rows = (
            [{_SERIES: {"Value": [only_series]}}]
            if only_series
            else _query(f"{service}/studies/{uid}/series")
        )
        for row in rows:
            series = f"studies/{uid}/series/{_value(row, _SERIES)}"
            for instance in _query(f"{service}/{series}/instances"):
                listed[f"{series}/instances/{_value(instance, _INSTANCE)}"] = group
    if not listed:
        raise FileNotFoundError(url)
    below = len(url) - len(_PREFIX) - len(service)
    order = sorted(listed)
    return Search([path[below:].lstrip("/") for path in order], groups=[listed[path] for path in order])


def read_instance(url: str) -> bytes:
    """The DICOM file of one instance, as the server stores it where it can.

    Raises:
        FileNotFoundError: the server does not have it.
        Refused: the server wants other credentials, or answers something else.
        httpx.HTTPError: nobody answers.
        MissingExtraError: httpx is not installed.
    """
    reply = _get(url[len(_PREFIX) :], accept=_DICOM)
    return _first_part(reply.headers.get("content-type", ""), reply.content)


def _query(url: str, **wanted: str) -> Iterator[dict[str, Any]]:
    """All pages of a search; a page without anything new is the last, whatever a server makes of limit and offset."""
    seen: set[str] = set()
    while True:
        page = _get(
            url,
            accept="application/dicom+json",
            params={**wanted, "limit": str(PAGE), "offset": str(len(seen))},
        )
        try:
            rows = page.json() if page.status_code != 204 and page.content else []
        except ValueError:  # a page for people, of another server or to sign in
            rows = None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            kind = page.headers.get("content-type", "no type")
            raise Refused(
                f"does not answer as a DICOMweb server does, with DICOM JSON, but with {kind}; name the address of its service, "
                "as in dicomweb+https://pacs.example/dicom-web"
            )
        keys = [f"{_value(row, _STUDY)}/{_value(row, _SERIES)}/{_value(row, _INSTANCE)}" for row in rows]
        new = [row for key, row in zip(keys, rows, strict=True) if key not in seen]
        if not new:
            return
        seen.update(keys)
        yield from new


def _get(url: str, *, accept: str, params: dict[str, str] | None = None) -> httpx.Response:
    client, headers = _client(), {"Accept": accept}
    if token := read_secret(TOKEN):
        if not _is_private(url):
            raise Refused(f"is asked without TLS, so the token in {TOKEN} is not sent: use dicomweb+https://")
        headers["Authorization"] = f"Bearer {token}"
    for turn in range(1, TRIES + 1):
        try:
            reply = client.get(url, headers=headers, params=params)
            if reply.status_code < 500 or turn == TRIES:
                break
        except Exception:  # a connection that is refused or breaks
            if turn == TRIES:
                raise
        time.sleep(0.1 * 3**turn)
    if reply.status_code in (401, 403):
        how = "the one that is set is not accepted" if token else "none is set"
        raise Refused(f"wants credentials ({reply.status_code}): put a token into {TOKEN}; {how}")
    if reply.status_code == 404:
        raise FileNotFoundError(url)
    if 300 <= reply.status_code < 500:
        raise Refused(f"is refused by the server ({reply.status_code} {reply.reason_phrase})")
    reply.raise_for_status()
    return reply


@functools.cache
def _client() -> httpx.Client:
    try:
        import httpx
    except ImportError as error:
        raise MissingExtraError("DICOMweb", "dicomweb") from error
    return httpx.Client(timeout=httpx.Timeout(30, connect=10))


def _is_private(url: str) -> bool:
    """Whether nobody on the way can read along."""
    parts = urlsplit(url)
    if parts.scheme.lower() == "https" or parts.hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def _first_part(content_type: str, body: bytes) -> bytes:
    """The first part of a multipart answer; some servers send a single file as it is."""
    kind = content_type.lower()
    if kind.startswith("application/dicom"):
        return body
    boundary = re.search(r'boundary="?([^";]+)"?', content_type, re.IGNORECASE)
    if not kind.startswith("multipart/related") or boundary is None:
        raise Refused(f"is answered with {content_type or 'no type'}, not with a DICOM file")
    line = b"--" + boundary[1].strip().encode()
    head = body.find(line)
    start = body.find(b"\r\n\r\n", head)
    end = body.find(b"\r\n" + line, start)
    if head < 0 or start < 0 or end < 0:
        raise ConnectionError("the answer was cut short")
    return body[start + 4 : end]


@functools.lru_cache(maxsize=100_000)
def _pseudonym(service: str, patient: str) -> str:
    return hashlib.scrypt(patient.encode(), salt=service.encode(), n=2**13, r=8, p=1, dklen=8).hex()


def _value(row: dict[str, Any], tag: str) -> str:
    values = (row.get(tag) or {}).get("Value") or [None]
    # Empty is null in DICOM JSON; as a word it would make one patient of all who have no PatientID.
    return "" if values[0] is None else str(values[0]).strip()
