"""A small provider of sign-ons that speaks real OpenID Connect on loopback: discovery, keys, codes with PKCE."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

CLIENT, SECRET = "steelyard-here", "client secret"


class Provider:
    """Running until `close`. A test changes what it does wrong by changing attributes and claims."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.signing_key: Any = self.key
        self.algorithm, self.kid = "ES256", "one"
        self.codes: dict[str, dict[str, Any]] = {}
        self.exchanged: list[dict[str, str]] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/.well-known/openid-configuration":
                    self.tell(200, provider.document())
                elif self.path == "/keys":
                    self.tell(200, {"keys": [provider.public()]})
                else:
                    self.tell(404, {})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                given = {name: values[0] for name, values in parse_qs(body).items()}
                self.tell(*provider.exchange(given, self.headers.get("Authorization", "")))

            def tell(self, status: int, body: dict[str, Any]) -> None:
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=10)

    def document(self) -> dict[str, Any]:
        return {"issuer": self.url, "authorization_endpoint": f"{self.url}/authorize", "jwks_uri": f"{self.url}/keys",
                "token_endpoint": f"{self.url}/token"}  # fmt: skip

    def public(self) -> dict[str, Any]:
        told = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key()))
        return {**told, "kid": self.kid, "use": "sig", "alg": "ES256"}

    def sign_on(self, address: str, **claims: Any) -> tuple[str, str]:
        """Somebody signs on at the address that the browser was sent to; the code and state it goes back with."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        now = int(time.time())
        token = {"iss": self.url, "sub": "1", "aud": CLIENT, "exp": now + 300, "iat": now, "nonce": asked["nonce"],
                 "preferred_username": "kt", **claims}  # fmt: skip
        code = uuid.uuid4().hex
        self.codes[code] = {"asked": asked, "token": {k: v for k, v in token.items() if v is not None}}
        return code, asked["state"]

    def exchange(self, given: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        self.exchanged.append(given)
        kept = self.codes.pop(given.get("code", ""), None)
        client = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        digest = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            kept is None
            or authorization != f"Basic {client}"
            or challenge != kept["asked"]["code_challenge"]
            or given["redirect_uri"] != kept["asked"]["redirect_uri"]
        ):
            return 400, {"error": "invalid_grant"}
        signed = jwt.encode(kept["token"], self.signing_key, self.algorithm, headers={"kid": self.kid})
        return 200, {"id_token": signed, "access_token": "x", "token_type": "Bearer"}
