"""DICOMweb against a real server: listed by QIDO-RS, read by WADO-RS, grouped by patient without naming one."""

from __future__ import annotations

import http.server
import io
import json
import re
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pydicom
import pytest
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage

from steelyard.errors import CatalogError, ImageError, MissingExtraError
from steelyard.images import dicomweb, remote
from steelyard.images.catalog import Catalog
from steelyard.images.unreachable import UnreachableError

BASE = "/dicom-web"


def instance(patient: str, study: str, series: str, uid: str, k: int, frames: int = 1) -> bytes:
    """A small grey picture as a DICOM file."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = SecondaryCaptureImageStorage, uid
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    data.SOPClassUID, data.SOPInstanceUID = SecondaryCaptureImageStorage, uid
    data.PatientID, data.PatientName = patient, "Doe^Jane"
    data.StudyInstanceUID, data.SeriesInstanceUID = study, series
    data.Rows = data.Columns = 16
    data.SamplesPerPixel, data.PhotometricInterpretation = 1, "MONOCHROME2"
    data.BitsAllocated = data.BitsStored = 8
    data.HighBit, data.PixelRepresentation = 7, 0
    if frames > 1:
        data.NumberOfFrames = frames
    # Bytes that look like the end of a part must not end it.
    data.PixelData = (
        np.random.default_rng(k).integers(0, 255, frames * 256, dtype=np.uint8).tobytes()[:-8]
        + b"\r\n--\r\n\r\n"
    )
    out = io.BytesIO()
    pydicom.dcmwrite(out, data, enforce_file_format=True)
    return out.getvalue()


class Pacs:
    """A DICOMweb server with three studies of two patients.

    Attributes:
        files: by (study, series, instance).
        token: what requests have to carry; empty for nothing.
        page: rows it gives at once, whatever is asked for.
        broken: answers so many requests with 503.
        cut: cuts files short.
    """

    def __init__(self) -> None:
        self.files = {
            ("1.1", "1.1.1", "1.1.1.1"): instance("4711", "1.1", "1.1.1", "1.1.1.1", 1),
            ("1.1", "1.1.1", "1.1.1.2"): instance("4711", "1.1", "1.1.1", "1.1.1.2", 2, frames=2),
            ("1.2", "1.2.1", "1.2.1.1"): instance("4711", "1.2", "1.2.1", "1.2.1.1", 3),
            ("1.3", "1.3.1", "1.3.1.1"): instance("0815", "1.3", "1.3.1", "1.3.1.1", 4),
            ("1.3", "1.3.2", "1.3.2.1"): instance("0815", "1.3", "1.3.2", "1.3.2.1", 5),
        }
        self.patients = {"1.1": "4711", "1.2": "4711", "1.3": "0815"}
        self.token, self.page, self.broken, self.cut = "", 1, 0, False
        self.heard: list[tuple[str, str]] = []
        pacs = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                status, kind, body = pacs.answer(self.path, self.headers)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"dicomweb+http://127.0.0.1:{self.server.server_port}{BASE}"
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()

    def answer(self, path: str, headers: Any) -> tuple[int, str, bytes]:
        """Status, type and body."""
        parts = urlsplit(path)
        self.heard.append((parts.path, headers.get("Authorization", "")))
        if self.broken:
            self.broken -= 1
            return 503, "text/plain", b"busy"
        if self.token and headers.get("Authorization") != f"Bearer {self.token}":
            return 401, "text/plain", b"who are you?"
        at = parts.path.removeprefix(BASE)
        if found := re.fullmatch(r"/studies/([\d.]+)/series/([\d.]+)/instances/([\d.]+)", at):
            content = self.files.get((found[1], found[2], found[3]))
            assert "application/dicom" in headers["Accept"]
            return (404, "text/plain", b"") if content is None else (200, *self._multipart(content))
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        rows = self._rows(at, query)
        start = int(query["offset"])
        page = rows[start : start + min(self.page, int(query["limit"]))]
        return (
            (200, "application/dicom+json", json.dumps(page).encode()) if page else (204, "text/plain", b"")
        )

    def _multipart(self, content: bytes) -> tuple[str, bytes]:
        head = b"--xyz\r\nContent-Type: application/dicom\r\n\r\n"
        body = head + (content[:-20] if self.cut else content + b"\r\n--xyz--\r\n")
        return 'multipart/related; type="application/dicom"; boundary=xyz', body

    def _rows(self, at: str, query: dict[str, str]) -> list[dict[str, Any]]:
        def row(**tags: str) -> dict[str, Any]:
            return {
                tag.removeprefix("t"): {"vr": "LO", "Value": [value]} for tag, value in tags.items() if value
            }

        if at == "/studies":
            wanted = query.get("0020000D")
            return [row(t0020000D=s, t00100020=p) for s, p in self.patients.items() if wanted in (None, s)]
        if found := re.fullmatch(r"/studies/([\d.]+)/series", at):
            return [row(t0020000E=e) for e in dict.fromkeys(e for s, e, _ in self.files if s == found[1])]
        found = re.fullmatch(r"/studies/([\d.]+)/series/([\d.]+)/instances", at)
        assert found, at
        return [row(t00080018=i) for s, e, i in self.files if (s, e) == (found[1], found[2])]


@pytest.fixture
def pacs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pacs]:
    monkeypatch.setattr(remote, "REST_SECONDS", 0.0)
    monkeypatch.setattr(dicomweb.time, "sleep", lambda _: None)
    monkeypatch.delenv(dicomweb.TOKEN, raising=False)
    server = Pacs()
    yield server
    server.server.shutdown()
    server.server.server_close()


def test_everything_a_server_has_is_listed_read_and_grouped_by_patient(pacs: Pacs) -> None:
    catalog = Catalog.from_folder(pacs.url, check=True)
    assert len(catalog) == 6  # one file has two frames
    assert catalog.paths[1] == f"{pacs.url}/studies/1.1/series/1.1.1/instances/1.1.1.2#1"
    assert catalog.read(2).shape == (16, 16, 3)
    assert (catalog.read(1) != catalog.read(2)).any()
    assert catalog.verify() == ()
    groups = catalog.groups.tolist()
    assert groups[:4] == [groups[0]] * 4  # two studies of one patient
    assert len(set(groups)) == 2
    said = f"{catalog!r} {catalog.report} {groups} {catalog.paths.tolist()}"
    for secret in ("4711", "0815", "Doe"):
        assert secret not in said


def test_one_study_or_one_series(pacs: Pacs) -> None:
    assert Catalog.from_folder(f"{pacs.url}/studies/1.3").paths.tolist() == [
        f"{pacs.url}/studies/1.3/series/1.3.1/instances/1.3.1.1",
        f"{pacs.url}/studies/1.3/series/1.3.2/instances/1.3.2.1",
    ]
    one = Catalog.from_folder(f"{pacs.url}/studies/1.3/series/1.3.2/")
    assert one.paths.tolist() == [f"{pacs.url}/studies/1.3/series/1.3.2/instances/1.3.2.1"]
    assert one.groups.tolist() == Catalog.from_folder(f"{pacs.url}/studies/1.3").groups.tolist()[:1]
    for nothing in ("/studies/9.9", "/studies/1.3/series/9.9"):
        with pytest.raises(CatalogError, match="there is nothing at this address"):
            Catalog.from_folder(pacs.url + nothing)
    with pytest.raises(CatalogError, match="is no address of a service, a study"):
        Catalog.from_folder(f"{pacs.url}/studies/1.3/instances")


@pytest.mark.parametrize("nobody", [[], [""], [None]])
def test_without_a_patient_the_study_is_the_group(pacs: Pacs, nobody: list[str | None]) -> None:
    rows = pacs._rows

    def anonymous(at: str, query: dict[str, str]) -> list[dict[str, Any]]:
        return [{**row, "00100020": {"vr": "LO", "Value": nobody}} for row in rows(at, query)]

    pacs._rows = anonymous  # type: ignore[method-assign]
    assert set(Catalog.from_folder(pacs.url).groups) == {"1.1", "1.2", "1.3"}


def test_a_page_for_people_is_no_dicomweb_server_and_no_outage(pacs: Pacs) -> None:
    pacs.answer = lambda path, headers: (200, "text/html", b"<html>Sign in</html>")  # type: ignore[method-assign]
    with pytest.raises(
        CatalogError, match=r"does not answer as a DICOMweb server does.*text/html; name the address"
    ):
        Catalog.from_folder(pacs.url)


def test_a_server_that_ignores_pages_is_read_once(pacs: Pacs) -> None:
    pacs.page = 500
    pages = pacs._rows
    pacs._rows = lambda at, query: pages(at, query.update(offset="0") or query)  # type: ignore[method-assign]
    assert len(Catalog.from_folder(pacs.url)) == 6


def test_credentials_come_from_the_environment(pacs: Pacs, monkeypatch: pytest.MonkeyPatch) -> None:
    pacs.token = "sesame"
    with pytest.raises(CatalogError, match=f"wants credentials .401.*{dicomweb.TOKEN}; none is set"):
        Catalog.from_folder(pacs.url)
    monkeypatch.setenv(dicomweb.TOKEN, "wrong")
    with pytest.raises(CatalogError, match="not accepted") as caught:
        Catalog.from_folder(pacs.url)
    assert "wrong" not in str(caught.value)
    monkeypatch.setenv(dicomweb.TOKEN, "sesame")
    catalog = Catalog.from_folder(pacs.url)
    monkeypatch.delenv(dicomweb.TOKEN)
    with pytest.raises(ImageError, match=dicomweb.TOKEN):
        catalog.read(0)


def test_a_token_is_not_sent_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(dicomweb.TOKEN, "sesame")
    with pytest.raises(CatalogError, match="without TLS"):
        Catalog.from_folder("dicomweb+http://pacs.invalid/dicom-web")


def test_hiccups_are_tried_again_and_an_outage_is_for_now(pacs: Pacs) -> None:
    pacs.broken = 2
    catalog = Catalog.from_folder(pacs.url)
    pacs.broken = 3
    with pytest.raises(UnreachableError, match="503"):
        catalog.read(0)
    pacs.broken = 0
    pacs.cut = True
    with pytest.raises(UnreachableError, match="cut short"):
        catalog.read(0)
    pacs.cut = False
    assert catalog.read(0).shape == (16, 16, 3)
    del pacs.files["1.1", "1.1.1", "1.1.1.1"]
    with pytest.raises(ImageError, match="is missing"):
        catalog.read(0)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    dicomweb._client.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "httpx", None)
    with pytest.raises(MissingExtraError, match=r"steelyard\[dicomweb\]"):
        Catalog.from_folder("dicomweb+https://pacs.invalid/dicom-web")
