"""What goes wrong is told in the right class, to the right person, and logged once."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from steelyard.errors import CatalogError, ConfigError, ImageError, RankerError, SteelyardError, StudyError
from steelyard.store.errors import (
    BusyError,
    ConflictError,
    DamagedError,
    NotHandedOutError,
    StoreError,
    UnavailableError,
    UnknownRecordError,
)
from steelyard.web import logs
from tests.web.actors import Enter, MakeStudy, Serve, Team

PLACE = "postgresql+psycopg://dbuser:***@db.hospital.example/study"
SECRETS = ("dbuser", "hospital", "postgresql", "/srv", "sqlite", "Doe", ".png", "/var/run")


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What the server logs, as JSON lines."""
    stream = io.StringIO()
    loggers = [logging.getLogger(name) for name in ("steelyard", "uvicorn")]
    before = [(one.handlers, one.propagate, one.level) for one in loggers]
    logs.set_up("json", stream)
    yield stream
    for one, (handlers, propagate, level) in zip(loggers, before, strict=True):
        one.handlers, one.propagate = handlers, propagate
        one.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.fixture
def people(make_study: MakeStudy, serve: Serve, enter: Enter) -> Team:
    """On SQLite: ada is admin, lea is lead, kt compares."""
    server = serve(make_study(), {"ada": "admin", "lea": "lead", "kt": "annotator"})
    return lambda name: enter(server, name)


def full_disk() -> OSError:
    return OSError(28, "No space left on device", "/srv/study/Doe, Jane.png")


def behind(error: SteelyardError, cause: Exception) -> SteelyardError:
    error.__cause__ = cause
    return error


ERRORS: list[tuple[Exception, int]] = [
    (StoreError("a note has 9 characters", place=PLACE, said="/var/run/s.5432"), 422),
    (UnknownRecordError("no such pair", place=PLACE), 404),
    (ConflictError("contradicts what is stored", place=PLACE, said="dbuser"), 409),
    (NotHandedOutError("not yours", place=PLACE), 403),
    (UnavailableError("cannot be reached", place=PLACE, said="connection to dbuser failed"), 503),
    (BusyError("locked", place=PLACE), 503),
    (DamagedError("damaged", place="sqlite:////srv/study.db", said="malformed"), 500),
    (ImageError("/srv/pictures/Doe, Jane.png", "is truncated"), 422),
    (CatalogError("/srv/catalog.arrow is damaged"), 404),
    (ConfigError("/srv/study.toml is not valid TOML"), 422),
    (StudyError("the model in /srv/models cannot be read"), 409),
    (RankerError("/srv/models/x is damaged"), 500),
    (behind(StudyError("/srv/answers.csv cannot be written"), full_disk()), 503),
    (behind(ConfigError("cannot write the cache /srv/cache"), full_disk()), 503),
    (full_disk(), 503),
    (RuntimeError("dbuser at /srv/study"), 500),
]


@pytest.mark.parametrize(("error", "status"), ERRORS, ids=lambda value: type(value).__name__)
def test_nobody_but_an_admin_is_told_where_things_are(
    people: Team, monkeypatch: pytest.MonkeyPatch, written: io.StringIO, error: Exception, status: int
) -> None:  # fmt: skip
    kt, lea, ada = people("kt"), people("lea"), people("ada")
    web = kt.server.app.state.web

    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(web.store.pairs, "lease", fails)
    for who in (kt, lea):
        reply = who.post("/api/v1/pairs/lease", json={"count": 1})
        assert reply.status_code == status
        for secret in SECRETS:
            assert secret not in reply.text + repr(reply.headers)
        assert ("retry-after" in reply.headers) == (status == 503)
        if status >= 500:
            assert reply.json()["request_id"] == reply.headers["x-request-id"]
    told = ada.post("/api/v1/pairs/lease", json={"count": 1})
    assert told.status_code == status
    if isinstance(error, SteelyardError):
        assert told.json()["detail"] == str(error), "an admin is told everything"

    failed = [line for line in lines(written) if line["level"] == "error"]
    assert len(failed) == (3 if status >= 500 else 0), "once each"
    for line in failed:
        assert line["request_id"]
        if isinstance(error, UnavailableError):
            assert "trace" not in line, "an outage fails hundreds of requests, all in the same way"
        else:
            assert any("test_problems.py" in step for step in line["trace"])
    assert "Jane" not in written.getvalue()


def test_a_page_that_fails_says_so_and_gives_the_number(
    people: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    kt = people("kt")

    def fails(*_: object, **__: object) -> None:
        raise UnavailableError("cannot be reached", place=PLACE)

    monkeypatch.setattr(kt.server.app.state.web.store.answers, "count", fails)
    reply = kt.get("/compare")
    assert reply.status_code == 503
    assert "retry-after" in reply.headers
    assert reply.headers["x-request-id"] in reply.text
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert "hospital" not in reply.text


def test_even_an_unforeseen_error_carries_every_header(people: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    kt = people("kt")

    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(kt.server.app.state.web.store.answers, "count", fails)
    for path in ("/compare", "/api/v1/study"):
        reply = kt.get(path)
        assert reply.status_code == 500
        assert reply.headers["x-request-id"]
        assert "default-src 'none'" in reply.headers["content-security-policy"]


def test_a_lookup_that_fails_does_not_sign_anybody_out(people: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """401 would send the browser to the login page while the database is away for a moment."""
    kt = people("kt")
    web = kt.server.app.state.web

    def fails(*_: object, **__: object) -> None:
        raise UnavailableError("cannot be reached", place=PLACE)

    web.accounts.forget()
    monkeypatch.setattr(web.store.people.sessions, "find", fails)
    assert kt.get("/api/v1/me").status_code == 503
    assert kt.post("/api/v1/pairs/lease", json={}).status_code == 503


def test_a_picture_that_cannot_be_read_is_not_named(people: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    kt = people("kt")
    web = kt.server.app.state.web

    def fails(*_: object, **__: object) -> None:
        raise ImageError("/srv/Doe.png", "is missing: there is no such file below /srv/pictures")

    monkeypatch.setattr(web.pictures, "get", fails)
    reply = kt.get(f"/api/v1/images/{kt.server.public(0)}/pixels")
    assert reply.status_code == 404
    assert "/srv" not in reply.text


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("proxy-12345678", True),
        ("short", False),
        ("x" * 65, False),
        ("two words and more", False),
        ('evil"},{"level":"info', False),
        ("<script>alert(1)</script>", False),
    ],
)
def test_the_id_of_a_proxy_is_taken_when_it_is_sane(
    people: Team, written: io.StringIO, given: str, taken: bool
) -> None:
    kt = people("kt")
    reply = kt.get("/api/v1/me", headers={"X-Request-ID": given})
    assert (reply.headers["x-request-id"] == given) == taken
    line = lines(written)[-1]
    assert line["request_id"] == reply.headers["x-request-id"]


def test_a_line_of_the_log_says_what_and_how_long_but_not_who_or_which_picture(
    people: Team, written: io.StringIO
) -> None:
    kt = people("kt")
    id = kt.lease()[0]["left"]
    written.truncate(0)
    written.seek(0)
    kt.get(f"/api/v1/images/{id}/pixels")
    kt.get("/Doe,%20Jane.png")
    kt.get("/api/v1/comparisons", params={"cursor": "Doe"})
    first, second, third = lines(written)
    assert first["route"] == "/api/v1/images/{id}/pixels"
    assert (first["method"], first["status"], first["role"]) == ("GET", 200, "annotator")
    assert first["ms"] > 0
    assert (second["route"], second["status"]) == ("(none)", 404)
    assert (third["route"], third["status"]) == ("/api/v1/comparisons", 422)
    for secret in (id, "Doe", "kt"):
        assert secret not in written.getvalue()


@pytest.mark.parametrize(
    "error",
    [
        ImageError("Doe, Jane.png", "is truncated"),
        OSError(5, "Input/output error", "Doe, Jane.dcm"),
        KeyError("Doe, Jane.tiff"),
        ValueError("cannot place Doe, Jane.JPG"),
        RuntimeError("choosing failed: Doe, Jane.png#3 is empty"),
    ],
)
@pytest.mark.parametrize("form", ["json", "text"])
def test_no_name_of_a_picture_gets_into_the_log(written: io.StringIO, form: str, error: Exception) -> None:
    logs.set_up(form, written)
    log = logging.getLogger("steelyard.trainer")
    try:
        raise error
    except Exception as caught:
        log.exception("training failed: %s", caught)
        log.warning("a heartbeat failed: %s", caught)
        log.warning(f"a heartbeat failed: {caught}" if isinstance(error, RuntimeError | KeyError) else "-")
    assert "Jane" not in written.getvalue()
    assert "training failed" in written.getvalue()
    assert "test_problems.py" in written.getvalue()


def test_an_unknown_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert logs.chosen_format() == "quiet"
    monkeypatch.setenv("STEELYARD_LOG", "json")
    assert logs.chosen_format() == "json"
    assert logs.chosen_format("text") == "text"
    with pytest.raises(ConfigError, match="quiet, text, json; not 'xml'"):
        logs.chosen_format("xml")
