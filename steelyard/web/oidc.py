"""Signing on with OpenID Connect: authorization code with PKCE; the extra `oidc`.

The browser goes to the provider with a state, a nonce and the hash of a verifier, and comes back with a code. State,
nonce and verifier are kept in the store, good for ten minutes, for once, and for the browser that began. What counts is
the id token: signed by a key of the provider, issued by it, for this client, not over, with our nonce.
"""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from steelyard.environment import read_secret
from steelyard.errors import ConfigError, MissingExtraError
from steelyard.store.records import Role
from steelyard.web.problems import Problem

if TYPE_CHECKING:
    import jwt

__all__ = ["Provider", "ProviderSettings", "read_provider"]

# Signatures only: “none” and shared secrets would let whoever knows the client sign for the provider.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
LEEWAY = 60  # seconds that two clocks may differ
TIMEOUT = 10.0
_ROLES: tuple[Role, ...] = ("annotator", "lead", "admin")


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """Who signs people on.

    Attributes:
        issuer: address of the provider.
        client: our id there.
        secret: our secret there; empty for a public client.
        label: what the button says.
        name: claim that becomes the annotator's name.
        role_claim: claim that holds groups or roles; empty leaves roles to the Admin page.
        roles: value of that claim → role here.
        redirect: address that the provider sends people back to; empty takes that of the request.
    """

    issuer: str
    client: str
    secret: str = field(default="", repr=False)
    label: str = "your institution"
    name: str = "preferred_username"
    role_claim: str = ""
    roles: Mapping[str, Role] = field(default_factory=dict)
    redirect: str = ""


def read_provider(environment: Mapping[str, str]) -> ProviderSettings | None:
    """The provider that STEELYARD_OIDC_ISSUER, …_CLIENT_ID, …_CLIENT_SECRET name; None without an issuer.

    Raises:
        ConfigError: something is missing or cannot be meant.
        MissingExtraError: the extra `oidc` is not installed.
    """
    given = {key.removeprefix("STEELYARD_OIDC_"): value for key, value in environment.items() if value}
    issuer = given.get("ISSUER", "").rstrip("/")
    if not issuer:
        return None
    parts = urlsplit(issuer)
    if parts.scheme != "https" and not (
        parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost")
    ):
        raise ConfigError(f"STEELYARD_OIDC_ISSUER is an https:// address, not {issuer!r}")
    if "CLIENT_ID" not in given:
        raise ConfigError(
            "STEELYARD_OIDC_CLIENT_ID is missing: the id that the provider knows this server by"
        )
    try:
        import httpx  # noqa: F401
        import jwt  # noqa: F401
    except ModuleNotFoundError:
        raise MissingExtraError("signing on with OpenID Connect", "oidc") from None
    claim, _, pairs = given.get("ROLES", "").partition(":")
    roles: dict[str, Role] = {}
    for pair in filter(None, pairs.split(",")):
        value, _, named = pair.rpartition("=")
        role = next((known for known in _ROLES if known == named), None)
        if role is None or not value:
            raise ConfigError(
                f"STEELYARD_OIDC_ROLES is CLAIM:VALUE=ROLE,… as in groups:steelyard-admins=admin; not {pair!r}"
            )
        roles[value] = role
    return ProviderSettings(
        issuer, given["CLIENT_ID"], read_secret("STEELYARD_OIDC_CLIENT_SECRET", environment), given.get("LABEL", "your institution"),
        given.get("NAME", "preferred_username"), claim if roles else "", roles, given.get("REDIRECT", ""),
    )  # fmt: skip


class Provider:
    """Talks to the provider.

    Args:
        settings: who it is.
    """

    def __init__(self, settings: ProviderSettings) -> None:
        self.settings = settings
        self._about: dict[str, Any] = {}
        self._keys: dict[str, Any] = {}
        self._lock = threading.Lock()

    def address(self, *, state: str, nonce: str, verifier: str, redirect: str) -> str:
        """Where the browser goes to sign on."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code", "client_id": self.settings.client, "redirect_uri": redirect,
            "scope": "openid profile email", "state": state, "nonce": nonce, "code_challenge": challenge,
            "code_challenge_method": "S256",
        }  # fmt: skip
        there = str(self._document()["authorization_endpoint"])
        return f"{there}{'&' if '?' in there else '?'}{urlencode(query)}"

    def claims(self, *, code: str, nonce: str, verifier: str, redirect: str) -> dict[str, Any]:
        """Who signed on, from the code that the browser brought back.

        Raises:
            Problem: 403 for a token that does not hold, 503 where the provider does not answer.
        """
        body = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect, "code_verifier": verifier,
                "client_id": self.settings.client}  # fmt: skip
        auth = (self.settings.client, self.settings.secret) if self.settings.secret else None
        reply = self._ask("POST", self._document()["token_endpoint"], data=body, auth=auth)
        token = reply.get("id_token")
        if not isinstance(token, str):
            raise _refused("the provider did not take the code")
        return self._verified(token, nonce)

    def _verified(self, token: str, nonce: str) -> dict[str, Any]:
        import jwt

        try:
            claims: dict[str, Any] = jwt.decode(
                token, self._key(token), algorithms=list(ALGORITHMS), audience=self.settings.client,
                issuer=self._document()["issuer"], leeway=LEEWAY,
                options={"require": ["iss", "sub", "aud", "exp", "iat"]},
            )  # fmt: skip
        except jwt.PyJWTError as error:
            raise _refused(f"the id token does not hold: {error}") from None
        if claims.get("nonce") != nonce:
            raise _refused("the id token belongs to another sign-on")
        if claims.get("azp", self.settings.client) != self.settings.client:
            raise _refused("the id token was made for another program")
        return claims

    def _key(self, token: str) -> jwt.PyJWK:
        """The provider's key with which a token says it was signed; asked for again when it is a new one."""
        import jwt

        id = str(jwt.get_unverified_header(token).get("kid", ""))
        with self._lock:
            if id not in self._keys:
                found = jwt.PyJWKSet.from_dict(self._ask("GET", self._document()["jwks_uri"]))
                self._keys = {str(key.key_id or ""): key for key in found.keys}
            if id not in self._keys:
                raise jwt.InvalidKeyError("its key is none of the provider's")
            key: jwt.PyJWK = self._keys[id]
            return key

    def _document(self) -> dict[str, Any]:
        if not self._about:
            told = self._ask("GET", f"{self.settings.issuer}/.well-known/openid-configuration")
            if str(told.get("issuer", "")).rstrip("/") != self.settings.issuer:
                raise _away("the provider says it is somebody else")
            self._about = told
        return self._about

    def _ask(self, method: str, address: str, **more: Any) -> dict[str, Any]:
        import httpx

        try:
            reply = httpx.request(
                method, address, timeout=TIMEOUT, headers={"Accept": "application/json"}, **more
            )
            told = reply.json()
        except (httpx.HTTPError, ValueError):
            raise _away("the provider does not answer") from None
        if reply.status_code >= 500 or not isinstance(told, dict):
            raise _away("the provider does not answer")
        return told


def _refused(why: str) -> Problem:
    return Problem(403, f"Signing on failed: {why}. Try again from the login page.", code="sign-on")


def _away(why: str) -> Problem:
    return Problem(503, f"Signing on failed: {why}. Try again in a moment.", headers={"Retry-After": "5"})
