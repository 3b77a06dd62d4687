"""The API's description is true: valid by its own standard, and held against the server."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import HealthCheck, given, settings
from openapi_spec_validator import validate

from api.http.openapi import document
from api.operations import CALLS
from tests.api.server_kit import Served
from tests.cases import each_of

_DOCUMENT: dict[str, Any] = json.loads(document())
# Ends when the reader leaves; its tests read it.
_STREAM = "/api/v2/stream/liquidity-provisions"
# Asks for a market or a party, and answers 500 without, as the network's data node does.
_PROVISIONS = "/api/v2/liquidity/provisions"
_PATHS = sorted(path for path in _DOCUMENT["paths"] if path != _STREAM)


def _checks(*names: str) -> list[Any]:
    from schemathesis.checks import CHECKS, load_all_checks

    load_all_checks()
    return [*CHECKS.get_by_names(names)]


_CONFORMANCE = (
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)


def test_the_description_is_valid_openapi() -> None:
    validate(_DOCUMENT)


def test_every_call_is_described() -> None:
    assert {operation.path for operation in CALLS if operation.path} <= _DOCUMENT["paths"].keys()


def test_the_server_gives_the_description_that_was_checked(served: Served) -> None:
    with served.client() as client:
        assert client.get("/openapi.json").json() == _DOCUMENT


@each_of(
    ("path", "name", "texts"),
    [
        ("/api/v2/withdrawals", "partyId", ("network", "", "AB" * 32)),
        ("/api/v2/oracle/data", "oracleSpecId", ("VOTE", "", "f1")),
        ("/api/v2/node/signatures", "id", ("fDAI", "F1")),
        ("/api/v2/liquidity/provisions", "marketId", ("XYZbeta", "f1")),
        ("/api/v2/statistics/spam/{partyId}", "partyId", ("network", "ab" * 32, "ab")),
        ("/statistics/spam/{partyId}", "partyId", ("VOTE",)),
    ],
)
def test_the_pattern_of_an_id_has_all_that_is_answered_and_nothing_else(
    served: Served, path: str, name: str, texts: tuple[str, ...]
) -> None:
    parameters = {one["name"]: one for one in _DOCUMENT["paths"][path]["get"]["parameters"]}
    pattern = parameters[name]["schema"]["pattern"]
    assert all(re.search(pattern, text) for text in texts)
    assert not any(re.search(pattern, text) for text in ("nobody", "f", "0g"))
    with served.client() as client:
        for text in (*texts, "nobody"):
            is_in_path = parameters[name]["in"] == "path"
            asked = {} if is_in_path else {name: text}
            answer = client.get(path.replace("{partyId}", text), params=asked)
            assert answer.status_code == (400 if text == "nobody" else 200), text


@each_of("path", _PATHS)
def test_whatever_is_asked_is_answered_as_the_description_says(served: Served, path: str) -> None:
    import schemathesis  # takes a second, which those who run other files need not pay

    operation = schemathesis.openapi.from_dict(_DOCUMENT)[path]["GET"]
    sound = () if path == _PROVISIONS else ("not_a_server_error",)
    checks = _checks(*_CONFORMANCE, *sound)

    @settings(max_examples=25, deadline=None, suppress_health_check=[*HealthCheck])
    @given(case=operation.as_strategy())
    def check(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(base_url=served.url, checks=checks)

    check()
