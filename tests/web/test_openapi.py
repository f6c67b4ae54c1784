"""The API keeps what its OpenAPI document promises, whatever it is sent."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from steelyard.study import Study
from tests.web.actors import Client, Enter, MakeStudy, Serve, Teach

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_headers_conformance,
        response_schema_conformance,
        status_code_conformance,
    )


CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


def fuzz(client: Client, token: str, examples: int) -> int:
    """Every operation, with valid and with twisted input; gives how many there are."""
    document = client.get("/api/v1/openapi.json").json()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    tried = 0
    for result in schemathesis.openapi.from_dict(document).get_all_operations():
        operation = result.ok()

        @given(case=operation.as_strategy())
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        def check(case: Any) -> None:
            # Real ids now and then, or most requests would end at "there is no such image".
            if (
                "id" in case.path_parameters
                and "images" in case.path
                and len(case.path_parameters["id"]) == 32
            ):
                case.path_parameters["id"] = client.server.public(len(str(case.body)) % 60)
            response = case.call(base_url=client.server.url, headers=headers)
            assert not token or response.status_code != 401 or case.path.endswith("/session"), (
                "the fuzzing locked itself out"
            )
            case.validate_response(response, checks=CHECKS)

        check()
        tried += 1
    assert tried == sum(len(methods) for methods in document["paths"].values())
    return tried


def tokens(client: Client) -> str:
    """A token of somebody, made after many others: revoking is fuzzed too, and should hit those."""
    for _ in range(40):
        token = client.post("/api/v1/tokens", json={"label": "fuzz"}).json()["token"]
    return str(token)


@pytest.mark.filterwarnings("ignore")
def test_nothing_breaks_and_nothing_deviates(
    local: Client, study: Study, teach: Teach, caplog: pytest.LogCaptureFixture
) -> None:
    """No 5xx, no undocumented status, type or shape, and no error in the log."""
    teach(study, 25)
    # The routes are the same on both databases; on the second one only what they ask of it is new.
    examples = 12 if study.store.url.startswith("sqlite") else 4
    assert fuzz(local, tokens(local), examples) >= 30
    assert told(caplog) == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["lea", "mo", ""])
def test_nothing_breaks_for_a_lead_an_annotator_or_nobody(
    name: str,
    make_study: MakeStudy,
    teach: Teach,
    serve: Serve,
    enter: Enter,
    caplog: pytest.LogCaptureFixture,
) -> None:
    study = make_study()
    teach(study, 25)
    client = enter(serve(study, {"ada": "admin", "lea": "lead", "mo": "annotator"}), name)
    fuzz(client, tokens(client) if name else "", 5)
    assert told(caplog) == []


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Errors and tracebacks in the server's log."""
    return [
        record.getMessage() for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR
    ]


def test_every_operation_is_described(local: Client) -> None:
    document = local.get("/api/v1/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert len(operation.get("description", "")) > 10, (method, path)
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    assert list(response["content"]) == ["application/problem+json"], (method, path, status)
