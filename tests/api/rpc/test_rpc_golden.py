"""The recorded requests of a real data node, translated: gRPC answers what REST answers.

What REST answers is held against the recordings elsewhere. Left out is what says something about
HTTP only, and what no message can say: REST refuses it as malformed, without a detail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.api.rpc.kit import Client, FailedCallError, as_json, client_of, messages, outcome
from tests.api.rpc.translation import UntranslatableError, method_of, translate
from tests.api.server_kit import serving, settings
from tests.api.test_golden import _recorded, _shared, golden_site

COUNTS = {
    "golden/api": {"answered": 325, "refused": 45, "malformed": 30, "HTTP only": 1},
    "golden/real": {"answered": 124, "refused": 2, "HTTP only": 1},
}


@pytest.fixture(scope="module", params=["golden/api", "golden/real"])
def replay(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, httpx2.Client, Client, list[str]]]:
    """A server that has loaded a set's segments, its two clients, and the set's requests."""
    (path,) = (_shared() / request.param).glob("*.jsonl")
    site = golden_site(request.param, tmp_path_factory.mktemp("replayed"))
    asked = [recorded.request for recorded in _recorded(path)]
    with (
        serving(settings(site.locations, grpc=True)) as served,
        served.client() as http,
        client_of(served) as rpc,
    ):
        yield request.param, http, rpc, asked


def test_every_recorded_request_has_the_same_answer_over_grpc(
    replay: tuple[str, httpx2.Client, Client, list[str]],
) -> None:
    name, http, rpc, asked = replay
    outcomes = Counter(_compare(http, rpc, request) for request in asked)
    assert outcomes == COUNTS[name]


def _compare(http: httpx2.Client, rpc: Client, request: str) -> str:
    """Hold the two answers to a request against each other; says what they were."""
    method = method_of(request)
    if method is None:
        return "HTTP only"
    rest = http.get(request)
    export = method == "ExportNetworkHistory"
    whole = export and rest.status_code == 200
    body: Any = {} if whole else rest.json()
    try:
        message = translate(request)
    except UntranslatableError:
        assert (rest.status_code, body["code"], body["details"]) == (400, 3, []), request
        return "malformed"
    assert body.get("details") != [], request
    if export:
        found = outcome(
            lambda: b"".join(part.data for part in messages(rpc.stream(method, message)))
        )
        if isinstance(found, bytes):
            assert (rest.status_code, found) == (200, rest.content), request
            return "answered"
        assert found.body == body["error"], request
        return "refused"
    answer = outcome(lambda: rpc.ask(method, message))
    for name in ("x-block-height", "x-block-timestamp"):
        assert answer.headers[name] == rest.headers[name]
    if isinstance(answer, FailedCallError):
        assert answer.body == body, request
        return "refused"
    assert (rest.status_code, as_json(answer.message)) == (200, body), request
    return "answered"
