"""Each of these is an attack, and each has to fail."""

from __future__ import annotations

import asyncio
import string
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote

import httpx
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from steelyard.study import Study
from steelyard.web.app import create_app
from tests.web.actors import Client, Team
from tests.web.raw import raw

PATHS = [
    "/static/../app.py",
    "/static/%2e%2e/%2e%2e/config.py",
    "/api/v1/images/..%2f..%2fstudy.toml/pixels",
    "/api/v1/images/%2fetc%2fpasswd/pixels",
    "/api/v1/images/....//....//study.db/pixels",
    "/../../../../etc/passwd",
    "/static/",
    "/study.toml",
    "/cache/",
]


def test_no_path_leads_to_a_file_that_is_not_meant(local: Client) -> None:
    version = local.get("/compare").text.split("/static/")[1].split("/")[0]
    cookie = "; ".join(f"{name}={value}" for name, value in local.cookies.items())
    for address in (*PATHS, *(path.replace("/static/", f"/static/{version}/") for path in PATHS)):
        reply = raw(
            local.server,
            f"GET {address} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n".encode(),
        )
        assert reply.split(b" ")[1] in (b"404", b"422", b"400", b"405"), (address, reply[:300])
        assert b"root:" not in reply
        assert b"import" not in reply
        assert b"[ranker]" not in reply


def test_an_image_of_another_study_is_not_served(
    local: Client, pictures: Path, tmp_path: Path, study: Study
) -> None:
    from steelyard.images.catalog import Catalog

    Image.fromarray(np.full((40, 40, 3), 7, np.uint8)).save(tmp_path / "other.png")
    foreign = Catalog.from_folder(tmp_path).ids[0]
    assert foreign not in study.catalog.ids.tolist()
    for path in (f"/api/v1/images/{foreign}/pixels", f"/api/v1/images/{foreign}"):
        assert local.get(path).status_code == 404
    assert local.get(f"/api/v1/images/{local.server.public(0)}/pixels").status_code == 200


def test_pictures_need_a_login(team: Team, study: Study) -> None:
    kt = team("kt")
    [pair] = kt.lease()
    path = f"/api/v1/images/{pair['left']}/pixels"
    assert team("").get(path).status_code == 401
    assert kt.get(path).status_code == 200


def test_a_forged_or_missing_csrf_token_changes_nothing(team: Team, study: Study) -> None:
    kt, mo = team("kt"), team("mo")
    before = study.store.pairs.open_count(), study.store.answers.last_seq()
    for token in (None, "", "guess", mo.headers["x-csrf-token"], "ü"):
        headers = {} if token is None else {"X-CSRF-Token": token.encode()}
        forged = httpx.post(
            f"{kt.server.url}/api/v1/pairs/lease",
            json={"count": 1},
            headers=headers,
            cookies={kt.cookie: kt.cookies[kt.cookie]},
        )
        assert (forged.status_code, forged.json()["code"]) == (403, "csrf")
    assert (study.store.pairs.open_count(), study.store.answers.last_seq()) == before


def test_another_sites_page_can_change_nothing(local: Client, study: Study) -> None:
    for headers in (
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        assert local.post("/api/v1/pairs/lease", json={}, headers=headers).status_code == 403
        assert local.post("/api/v1/session", json={"link": "x"}, headers=headers).status_code == 403
    form = local.post(
        "/api/v1/pairs/lease",
        content='{"count": 1}',
        headers={"Content-Type": "text/plain", "X-CSRF-Token": ""},
    )
    assert form.status_code == 403
    assert study.store.pairs.free_count("you") == study.store.pairs.open_count()


def test_a_planted_session_is_not_taken_over(team: Team) -> None:
    """Session fixation: the attacker's cookie is replaced by a new one when the victim signs in."""
    attacker, victim = team("mo"), team("")
    name = attacker.cookie
    planted = attacker.cookies[name]
    victim.cookies.set(name, planted)
    victim.cookies.set(name, "chosen-by-the-attacker", domain="127.0.0.1", path="/api")
    reply = victim.post("/api/v1/session", json={"link": victim.server.secrets["kt"]})
    issued = reply.headers["set-cookie"]
    assert planted not in issued
    assert "chosen-by-the-attacker" not in issued
    assert "HttpOnly" in issued
    assert "SameSite=lax" in issued
    for stolen in (planted, "chosen-by-the-attacker"):
        me = httpx.get(f"{victim.server.url}/api/v1/me", cookies={name: stolen})
        assert me.status_code == 401 or me.json()["name"] == "mo"


def test_signing_out_ends_the_session_on_the_server(team: Team) -> None:
    kt = team("kt")
    cookie = kt.cookies[kt.cookie]
    assert kt.delete("/api/v1/session").status_code == 204
    assert httpx.get(f"{kt.server.url}/api/v1/me", cookies={kt.cookie: cookie}).status_code == 401


def test_the_store_keeps_no_secret(team: Team, study: Study) -> None:
    ada = team("ada")
    token = ada.post("/api/v1/tokens", json={"label": "t"}).json()["token"]
    ada.post("/api/v1/annotators/mo/password", json={"password": "correct horse battery"})
    kept = (
        repr([vars_of(a) for a in study.store.people.all()])
        + repr(study.store.people.tokens.all())
        + repr(study.store.audit.log())
    )
    for secret in (token, ada.cookies[ada.cookie], ada.server.secrets["ada"], "correct horse"):
        assert secret not in kept
    mo = next(a for a in study.store.people.all() if a.name == "mo")
    assert mo.password_hash is not None
    assert mo.password_hash.startswith("$argon2id$")


def vars_of(record: object) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__slots__}  # type: ignore[attr-defined]


def test_guessing_passwords_is_slowed_down(team: Team) -> None:
    anon = team("")
    codes = [
        anon.post("/api/v1/session", json={"name": "ada", "password": f"guess {k}"}).status_code
        for k in range(12)
    ]
    assert codes[:10] == [401] * 10
    assert codes[10:] == [429, 429]
    late = anon.post("/api/v1/session", json={"name": "ada", "password": "guess"})
    assert int(late.headers["retry-after"]) > 0


def test_nobody_signs_in_with_an_empty_secret(team: Team) -> None:
    anon = team("")
    for body in (
        {},
        {"link": ""},
        {"name": "kt"},
        {"name": "kt", "password": ""},
        {"name": "", "password": "x"},
    ):
        assert anon.post("/api/v1/session", json=body).status_code in (401, 422)
    assert anon.post("/api/v1/session", json={"name": "kt", "password": "None"}).status_code == 401


def test_roles_hold_on_every_route(team: Team) -> None:
    """Nothing below /api answers to nobody, and an annotator changes nothing but answers."""
    anon, kt = team(""), team("kt")
    document = kt.get("/api/v1/openapi.json").json()
    for path, methods in document["paths"].items():
        filled = path.replace("{id}", "0" * 32).replace("{name}", "mo")
        for method in methods:
            if (method, path) == ("post", "/api/v1/session"):
                continue
            assert anon.request(method, filled, json={}).status_code == 401, (method, path)
    body = {"role": "admin"}
    assert kt.patch("/api/v1/annotators/kt", json=body).status_code == 403
    assert kt.patch("/api/v1/study", json={"question": "?"}).status_code == 403
    assert kt.post("/api/v1/backup").status_code == 403
    assert kt.get("/api/v1/backups/study-20260101T000000Z.steelyard.zip").status_code == 403
    for page in ("/ranking", "/model", "/admin"):
        assert kt.get(page).status_code == 403
    assert anon.get("/compare").status_code == 303


ELSEWHERE = st.sampled_from(["evil.example", "@evil.example", "evil.example/compare", "x:y@evil.example", ""])
STARTS = st.text(st.sampled_from("/\\\t\n\r\x00 .%09fF2:@aA#?;\u2028\u00a0ⁿ⁄／＼"), min_size=0, max_size=6)


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.builds("".join, st.tuples(STARTS, ELSEWHERE, STARTS)), st.text(max_size=40)))
@example("/\t/evil.example")
@example("/\\evil.example")
@example("//evil.example")
@example("/%09/evil.example")
@example("/%5cevil.example")
@example("/compare/../../evil.example")
@example("/compare\n")
@example("/compare?x=//evil.example")
def test_after_login_comes_a_page_of_ours_or_nothing(given: str) -> None:
    """Browsers take tabs, backslashes and much else for slashes: only pages that exist pass, letter by letter."""
    from steelyard.web.pages import PAGES, own_path

    once = unquote(given)
    for address in (given, once, unquote(once)):
        safe = own_path(address)
        path, _, query = safe.partition("?")
        assert path in {"", "/api", *(page for _, page, _ in PAGES)}
        assert set(query) <= set(string.ascii_letters + string.digits + "_.=&-")


def test_login_leads_nowhere_else(team: Team) -> None:
    anon = team("")
    evil = (
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "/\t/evil.example",
        "/\n/evil.example",
    )
    for address in (*evil, "/compare@evil.example", "javascript:alert(1)"):
        page = anon.get("/login", params={"next": address}).text
        assert "evil" not in page
        assert "javascript" not in page
    script = anon.get("/login", params={"next": "/x</script><script>alert(1)</script>"}).text
    assert "<script>alert" not in script
    assert '"next": "/ranking?image=0a1b"' in anon.get("/login", params={"next": "/ranking?image=0a1b"}).text
    assert anon.get("/ranking?image=0a1b").headers["location"] == "/login?next=/ranking%3Fimage%3D0a1b"


def test_a_stolen_lease_is_refused(team: Team, study: Study) -> None:
    kt, mo = team("kt"), team("mo")
    [pair] = kt.lease()
    stolen = mo.answer(pair)
    assert stolen.status_code == 403
    assert study.store.answers.count() == 0
    assert kt.answer(pair).status_code == 201


def test_answers_about_other_images_or_sides_are_refused(local: Client, study: Study) -> None:
    first, second = local.lease(2)
    assert local.answer({**first, "left": second["left"]}).status_code in (403, 409, 422)
    assert local.answer({**first, "left": first["left"], "right": first["left"]}).status_code in (
        403,
        409,
        422,
    )
    assert local.answer(first, exclude=[second["left"]]).status_code == 422
    assert study.store.answers.count() == 0
    assert {image.id for image in study.store.images.all() if image.excluded} == set()


def test_other_peoples_answers_cannot_be_undone_or_replaced(team: Team, study: Study) -> None:
    kt, mo = team("kt"), team("mo")
    [pair] = kt.lease()
    name = str(uuid.uuid4())
    kt.answer(pair, id=name)
    undo = mo.post(f"/api/v1/comparisons/{name}/undo", json={"id": str(uuid.uuid4())})
    assert undo.status_code in (403, 404, 409, 422)
    [other] = mo.lease()
    assert mo.answer(other, supersedes=name).status_code in (403, 404, 409, 422)
    assert mo.answer(other, id=name).status_code == 409
    assert study.store.answers.count() == 1


def test_dns_rebinding_is_refused(local: Client) -> None:
    for host in ("evil.example", "evil.example:8765", "127.0.0.1.evil.example", "127.evil.example", ""):
        reply = raw(
            local.server, f"GET /api/v1/me HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
        )
        assert reply.split(b" ")[1] == b"421", host
        assert b'csrf":"' not in reply


def test_without_login_a_proxy_is_refused(local: Client) -> None:
    assert local.get("/api/v1/me", headers={"X-Forwarded-For": "10.0.0.9"}).status_code == 403
    for name in ("127.0.0.1", "localhost", "[::1]", "127.0.0.1:99"):
        assert local.get("/api/v1/me", headers={"Host": name}).status_code == 200


def test_serving_others_without_login_is_refused(study: Study) -> None:
    from steelyard.errors import StudyError
    from steelyard.web.app import serve

    with pytest.raises(StudyError, match="must sign in"):
        serve(study.folder, host="0.0.0.0", login=False)


def test_the_page_never_loads_torch() -> None:
    import subprocess
    import sys

    code = "import steelyard.web.app, steelyard.web.trainer, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_environment_makes_the_page_report_to_anybody(
    study: Study, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """FastAPI would send every request's path to a collector that the environment names."""
    monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    told = iter(["lifespan.startup", "lifespan.shutdown"])
    heard: list[str] = []

    async def receive() -> dict[str, str]:
        return {"type": next(told)}

    async def send(message: dict[str, str]) -> None:
        heard.append(message["type"])

    life = create_app(study)({"type": "lifespan", "state": {}}, receive, send)  # type: ignore[arg-type]
    with ThreadPoolExecutor(1) as pool:  # in this thread a browser test may have left a loop
        pool.submit(asyncio.run, life).result()
    assert heard == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    # Reporting needs a package that is not installed: an attempt is told in the log.
    assert "telemetry" not in caplog.text
