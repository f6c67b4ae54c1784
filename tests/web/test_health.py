"""What machines that watch over the server are told, and what strangers are not."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from prometheus_client.parser import text_string_to_metric_families

from steelyard.store import database
from steelyard.store.errors import StoreError, UnavailableError
from steelyard.study import Study
from tests.waiting import until
from tests.web.actors import Enter, MakeStudy, Serve, Team

AWAY = UnavailableError("cannot be reached", place="postgresql://dbuser@db.hospital.example/study")


@pytest.fixture
def people(make_study: MakeStudy, serve: Serve, enter: Enter) -> Team:
    """On SQLite: ada is admin, kt compares; a token lets a scraper in."""
    server = serve(make_study(), {"ada": "admin", "kt": "annotator"}, metrics_token="scrape-me")
    return lambda name: enter(server, name)


def away(*_: object, **__: object) -> None:
    raise AWAY


def test_alive_is_alive_whoever_asks_and_whatever_is_broken(
    people: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = people("")
    web = stranger.server.app.state.web
    store = web.store
    for whose, name in (
        (store, "probe"),
        (store.people.sessions, "find"),
        (store.answers, "count"),
        (store.models.trainer, "state"),
    ):
        monkeypatch.setattr(whose, name, away)
    for headers in ({}, {"Host": "10.1.2.3"}, {"X-Forwarded-For": "10.9.9.9"}, {"Authorization": "Bearer x"}):
        reply = stranger.get("/healthz", headers=headers)
        assert (reply.status_code, reply.text) == (200, "ok\n")
        assert reply.headers["cache-control"] == "no-store"


def test_ready_means_that_the_store_answers(people: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger, kt, ada = people(""), people("kt"), people("ada")
    web = stranger.server.app.state.web
    assert (stranger.get("/readyz").status_code, stranger.get("/readyz").json()) == (200, {"ready": True})
    told = ada.get("/readyz").json()
    assert told["store"] == "ok"
    assert told["trainer"]["busy"] is False
    monkeypatch.setattr(web.store, "probe", away)
    until(lambda: stranger.get("/readyz").status_code == 503, "another look at the store")
    for who in (stranger, kt):
        reply = who.get("/readyz")
        assert (reply.status_code, reply.json()) == (503, {"ready": False})
        assert "hospital" not in reply.text + repr(reply.headers)
    assert "hospital" in ada.get("/readyz").json()["store"]
    monkeypatch.undo()
    until(lambda: stranger.get("/readyz").status_code == 200, "another look at the store")


def test_many_probes_are_one_question(people: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = people("")
    asked: list[int] = []
    monkeypatch.setattr(stranger.server.app.state.web.store, "probe", lambda: asked.append(1))
    begun = time.monotonic()
    for _ in range(40):
        stranger.get("/readyz")
    assert len(asked) <= 2 + int(time.monotonic() - begun)


def test_a_store_that_cannot_be_written_is_not_ready(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    study.store.probe()
    if not study.store.database.sqlite:
        return
    monkeypatch.setattr(database, "LEAST_FREE", 1 << 60)
    with pytest.raises(UnavailableError, match="full"):
        study.store.probe()
    monkeypatch.undo()

    def frozen(connection: Any) -> None:
        raise sa.exc.OperationalError("BEGIN", {}, __import__("sqlite3").OperationalError("attempt to write a readonly database"))  # fmt: skip

    sa.event.listen(study.store.database.engine, "begin", frozen)
    with pytest.raises(StoreError, match="read-only"):
        study.store.probe()
    sa.event.remove(study.store.database.engine, "begin", frozen)
    study.store.probe()


def numbers(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_count_requests_by_template_and_tell_how_the_study_stands(
    people: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    kt, stranger = people("kt"), people("")
    [pair] = kt.lease()
    assert kt.answer(pair).status_code == 201
    picture = f"/api/v1/images/{pair['left']}/pixels"
    kt.get(picture)
    kt.get("/Doe,%20Jane.png")
    stranger.request("JANE", "/healthz")
    reply = stranger.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain")
    found = numbers(reply.text)

    def requests(route: str, method: str, status: str) -> float:
        labels = tuple(sorted({"route": route, "method": method, "status": status}.items()))
        return found.get(("steelyard_requests_total", labels), 0.0)

    assert requests("/api/v1/comparisons", "POST", "201") == 1
    assert requests("/api/v1/images/{id}/pixels", "GET", "200") == 1
    assert requests("(none)", "GET", "404") == 1
    assert found[("steelyard_answers", ())] == 1
    assert found[("steelyard_store_up", ())] == 1
    assert found[("steelyard_open_pairs", ())] > 0
    assert found[("steelyard_answers_since_model", ())] == 1
    assert found[("steelyard_server_errors_total", ())] == 0
    assert found[("steelyard_request_seconds_count", (("route", "/api/v1/comparisons"),))] == 1
    for secret in ("Jane", "JANE", "kt", pair["left"], "colon"):
        assert secret not in reply.text

    web = kt.server.app.state.web
    monkeypatch.setattr(web.store.answers, "count", away)
    assert kt.get("/api/v1/study").status_code == 503
    broken = numbers(stranger.get("/metrics").text)
    assert broken[("steelyard_store_up", ())] == 0
    assert broken[("steelyard_server_errors_total", ())] == 1


def test_a_lease_that_is_not_renewed_grows_old(people: Team) -> None:
    stranger = people("")
    store = stranger.server.app.state.web.store
    assert store.models.trainer.claim("host:1:abc", 60, now=time.time() - 20)
    found = numbers(stranger.get("/metrics").text)
    assert found[("steelyard_trainer_busy", ())] == 1
    assert 19 < found[("steelyard_trainer_lease_age_seconds", ())] < 60
    assert "host" not in stranger.get("/metrics").text


def test_metrics_are_not_for_everybody(people: Team) -> None:
    stranger, kt, ada = people(""), people("kt"), people("ada")
    url = f"{stranger.server.url}/metrics"
    behind = {"X-Forwarded-For": "10.9.9.9"}
    assert httpx.get(url).status_code == 200, "from this machine"
    assert httpx.get(url, headers=behind).status_code == 403
    assert httpx.get(url, headers={"Forwarded": "for=10.9.9.9"}).status_code == 403
    assert kt.get("/metrics", headers=behind).status_code == 403
    assert ada.get("/metrics", headers=behind).status_code == 200
    token = ada.post("/api/v1/tokens", json={"label": "watch"}).json()["token"]
    for given, status in ((token, 200), ("scrape-me", 200), ("scrape-m", 401), ("ü", 401)):
        reply = httpx.get(url, headers=behind | {"Authorization": f"Bearer {given}".encode()})
        assert reply.status_code == status, given
