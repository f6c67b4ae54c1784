"""Signing on with OpenID Connect, against a real provider on loopback – and what must not sign anybody on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from steelyard.errors import ConfigError
from steelyard.web.access import Access, read_access
from steelyard.web.oidc import ProviderSettings, read_provider
from tests.web.actors import MakeStudy, Serve, Server
from tests.web.provider import CLIENT, SECRET, Provider


@pytest.fixture
def provider() -> Iterator[Provider]:
    running = Provider()
    yield running
    running.close()


@pytest.fixture
def settings(provider: Provider) -> ProviderSettings:
    return ProviderSettings(provider.url, CLIENT, SECRET, "the hospital")


@pytest.fixture
def clinic(make_study: MakeStudy, serve: Serve, settings: ProviderSettings) -> Server:
    """A server whose people sign on elsewhere: kt (annotator) was added, ada is admin with a password."""
    study = make_study()
    study.store.people.add("kt")
    study.store.people.add("ada", role="admin", password_hash="x")
    study.store.people.add("admin", role="admin")
    return serve(study, access=Access(login=True, provider=settings))


def sign_on(
    server: Server, provider: Provider, browser: httpx.Client | None = None, **claims: Any
) -> httpx.Response:
    """The whole way, as a browser goes it; the reply of coming back."""
    client = browser or httpx.Client(timeout=60)
    there = client.get(f"{server.url}/login/oidc", params={"next": "/progress"}).headers["location"]
    code, state = provider.sign_on(there, **claims)
    reply = client.get(f"{server.url}/login/oidc/callback", params={"code": code, "state": state})
    if browser is None:
        client.close()
    return reply


def test_somebody_signs_on(clinic: Server, provider: Provider) -> None:
    assert "Sign in with the hospital" in httpx.get(f"{clinic.url}/login").text
    with httpx.Client() as browser:
        reply = sign_on(clinic, provider, browser)
        assert (reply.status_code, reply.headers["location"]) == (303, "/progress")
        me = browser.get(f"{clinic.url}/api/v1/me").json()
        assert (me["name"], me["role"], me["via"]) == ("kt", "annotator", "session")
    assert provider.exchanged[0]["code_verifier"]
    assert clinic.study.store.people.get("kt").subject == f"{provider.url}|1"
    assert SECRET not in repr(clinic.app.state.web.accounts.access)


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "another program"},
        {"aud": [CLIENT, "another program"], "azp": "another program"},
        {"iss": "https://evil.example"},
        {"exp": -3600},
        {"exp": None},
        {"nonce": "of another sign-on"},
        {"nonce": None},
        {"sub": None},
        {"iat": 3600},
    ],
    ids=["aud", "azp", "iss", "expired", "no exp", "nonce", "no nonce", "no sub", "from the future"],
)
def test_a_token_that_does_not_hold_signs_nobody_on(
    clinic: Server, provider: Provider, claims: dict[str, Any]
) -> None:
    # Seconds from now, which is long after the tests were collected.
    claims = {name: int(time.time()) + of if isinstance(of, int) else of for name, of in claims.items()}
    reply = sign_on(clinic, provider, **claims)
    assert reply.status_code == 403
    assert "steelyard_session" not in reply.headers.get("set-cookie", "")


def test_forged_signatures_sign_nobody_on(clinic: Server, provider: Provider) -> None:
    provider.signing_key = ec.generate_private_key(ec.SECP256R1())
    assert sign_on(clinic, provider).status_code == 403
    provider.signing_key, provider.algorithm = None, "none"
    assert sign_on(clinic, provider).status_code == 403
    # Signed with what everybody can read, as if it were a shared secret.
    provider.signing_key, provider.algorithm = str(provider.public()) * 2, "HS256"
    assert sign_on(clinic, provider).status_code == 403
    provider.signing_key, provider.algorithm, provider.kid = provider.key, "ES256", "two"
    assert sign_on(clinic, provider).status_code == 303, "a new key of the provider is fetched"


def test_a_state_is_good_once_and_in_one_browser(clinic: Server, provider: Provider) -> None:
    back = f"{clinic.url}/login/oidc/callback"
    with httpx.Client() as browser, httpx.Client() as thief:
        there = browser.get(f"{clinic.url}/login/oidc").headers["location"]
        code, state = provider.sign_on(there)
        [(name, cookie)] = [(k, v) for k, v in browser.cookies.items() if k.startswith("steelyard_oidc_")]
        answer = {"code": code, "state": state}
        assert thief.get(back, params=answer).status_code == 403, "no cookie"
        thief.get(f"{clinic.url}/login/oidc")
        assert thief.get(back, params=answer).status_code == 403, "the cookie of another sign-on"
        assert browser.get(back, params={"code": code, "state": "guess"}).status_code == 403
        assert browser.get(back, params=answer).status_code == 303
        again, _ = provider.sign_on(there)
        replayed = httpx.get(
            back, params={"code": again, "state": state}, headers={"Cookie": f"{name}={cookie}"}
        )
        assert replayed.status_code == 403
        refused = browser.get(f"{clinic.url}/login/oidc").headers["location"]
        _, state = provider.sign_on(refused)
        assert browser.get(back, params={"error": "access_denied", "state": state}).status_code == 403


def test_a_name_alone_takes_over_no_account(clinic: Server, provider: Provider) -> None:
    """At some providers people choose their names: the subject decides, and admins are never met by name."""
    assert sign_on(clinic, provider, sub="1").status_code == 303
    assert sign_on(clinic, provider, sub="2").status_code == 403, "kt is somebody else"
    for name in ("ada", "admin", "you", "nobody", "", "a\tb", None, 7):
        assert sign_on(clinic, provider, sub="3", preferred_username=name).status_code == 403, name
    renamed = sign_on(clinic, provider, sub="1", preferred_username="kim")
    assert renamed.status_code == 303
    assert {a.name for a in clinic.study.store.people.all()} == {"kt", "ada", "admin"}
    clinic.study.store.people.update("kt", active=False)
    assert sign_on(clinic, provider, sub="1").status_code == 403


def test_people_and_roles_come_from_the_provider_by_choice(
    make_study: MakeStudy, serve: Serve, provider: Provider, settings: ProviderSettings
) -> None:
    study = make_study()
    chosen = replace(settings, role_claim="groups", roles={"physicians": "lead", "it": "admin"})
    server = serve(study, access=Access(login=True, provider=chosen, create=True))
    for groups, role in (
        (["x", "physicians"], "lead"),
        (["it", "physicians"], "admin"),
        ([], "annotator"),
        ("it", "admin"),
    ):
        assert sign_on(server, provider, preferred_username="new", groups=groups).status_code == 303
        assert study.store.people.get("new").role == role


def test_an_email_counts_when_it_was_verified(
    make_study: MakeStudy, serve: Serve, provider: Provider, settings: ProviderSettings
) -> None:
    server = serve(
        make_study(), access=Access(login=True, provider=replace(settings, name="email"), create=True)
    )
    assert sign_on(server, provider, email="kt@example.org").status_code == 403
    assert sign_on(server, provider, email="kt@example.org", email_verified=True).status_code == 303


def test_after_signing_on_comes_a_page_of_ours(clinic: Server, provider: Provider) -> None:
    with httpx.Client() as browser:
        there = browser.get(f"{clinic.url}/login/oidc", params={"next": "/\t/evil.example"}).headers[
            "location"
        ]
        code, state = provider.sign_on(there)
        back = browser.get(f"{clinic.url}/login/oidc/callback", params={"code": code, "state": state})
        assert back.headers["location"] == "/compare"


def test_a_provider_that_is_away_says_so(clinic: Server, provider: Provider) -> None:
    provider.close()
    reply = httpx.get(f"{clinic.url}/login/oidc")
    assert reply.status_code == 503
    assert provider.url not in reply.text


def test_settings_come_from_the_environment() -> None:
    env = {"STEELYARD_OIDC_ISSUER": "https://id.example/", "STEELYARD_OIDC_CLIENT_ID": "c",
           "STEELYARD_OIDC_CLIENT_SECRET": "s", "STEELYARD_OIDC_ROLES": "groups:a=b=admin,leads=lead"}  # fmt: skip
    found = read_provider(env)
    assert found is not None
    assert (found.issuer, found.role_claim, found.roles) == (
        "https://id.example", "groups", {"a=b": "admin", "leads": "lead"},
    )  # fmt: skip
    assert read_access(login=None, local=True, environment=env).login
    for change, message in (
        ({"STEELYARD_OIDC_ISSUER": "http://id.example"}, "https"),
        ({"STEELYARD_OIDC_CLIENT_ID": ""}, "CLIENT_ID"),
        ({"STEELYARD_OIDC_ROLES": "groups:a=king"}, "a=king"),
    ):
        with pytest.raises(ConfigError, match=message):
            read_provider({**env, **change})
