"""The API keeps what its OpenAPI document promises, whatever it is sent."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings

from steelyard.study import Study

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

if TYPE_CHECKING:
    from conftest import Client

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.mark.filterwarnings("ignore")
def test_nothing_breaks_and_nothing_deviates(local: Client, study: Study, teach: Callable[..., None]) -> None:
    """Every operation, with valid and with twisted input: no 5xx, no undocumented status, type or shape."""
    teach(study, 25)
    for _ in range(40):  # revoking is fuzzed too: let it hit others
        token = local.post("/api/v1/tokens", json={"label": "fuzz"}).json()["token"]
    document = local.get("/api/v1/openapi.json").json()
    schema = schemathesis.openapi.from_dict(document)
    tried = 0
    for result in schema.get_all_operations():
        operation = result.ok()

        @given(case=operation.as_strategy())
        @settings(
            max_examples=12,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        def check(case: Any) -> None:
            headers = {"Authorization": f"Bearer {token}"}
            # Real ids now and then, or most requests would end at "there is no such image".
            if (
                "id" in case.path_parameters
                and "images" in case.path
                and len(case.path_parameters["id"]) == 32
            ):
                case.path_parameters["id"] = local.server.public(len(str(case.body)) % 60)
            response = case.call(base_url=local.server.url, headers=headers)
            assert response.status_code != 401 or case.path.endswith("/session"), (
                "the fuzzing locked itself out"
            )
            case.validate_response(response, checks=CHECKS)

        check()
        tried += 1
    assert tried == sum(len(methods) for methods in document["paths"].values()) >= 30


def test_every_operation_is_described(local: Client) -> None:
    document = local.get("/api/v1/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert len(operation.get("description", "")) > 10, (method, path)
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    assert list(response["content"]) == ["application/problem+json"], (method, path, status)
