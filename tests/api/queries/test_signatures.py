"""Node signatures over generated segments (spec 4.3; decision 22)."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest

from api.core.open_snapshots import Reading
from tests.api.answers_kit import ask, page
from tests.api.chain_kit import RESOURCE, small_chain
from tests.cases import each_of

_PATH = f"/api/v2/node/signatures?id={RESOURCE}"
_ASCENDING = ["00ff", "01", "0102", "ff"]


@pytest.fixture
def chain() -> Reading:
    return small_chain()


def _signatures(chain: Reading, query: str) -> list[str]:
    edges, _ = page(chain, query)
    return [base64.b64decode(edge["node"]["sig"]).hex() for edge in edges]


def test_they_are_sorted_by_their_bytes_descending_unless_asked_otherwise(chain: Reading) -> None:
    assert _signatures(chain, _PATH) == _ASCENDING[::-1]
    assert _signatures(chain, f"{_PATH}&pagination.newestFirst=false") == _ASCENDING


@each_of("size", [1, 2, 3, 4])
def test_walking_visits_every_signature_once(chain: Reading, size: int) -> None:
    seen: list[str] = []
    at = ""
    while True:
        edges, info = page(chain, f"{_PATH}&pagination.first={size}{at}")
        seen += [base64.b64decode(edge["node"]["sig"]).hex() for edge in edges]
        if not info["hasNextPage"]:
            break
        at = f"&pagination.after={quote(info['endCursor'])}"
    assert seen == _ASCENDING[::-1]


def test_a_resource_has_its_own_under_a_name_as_well(chain: Reading) -> None:
    edges, _ = page(chain, "/api/v2/node/signatures?id=network")
    assert [edge["node"]["id"] for edge in edges] == ["network"]
    assert page(chain, "/api/v2/node/signatures?id=03")[0] == edges
    assert _signatures(chain, "/api/v2/node/signatures?id=abcd") == []


def test_a_cursor_of_another_resource_is_refused(chain: Reading) -> None:
    _, info = page(chain, "/api/v2/node/signatures?id=network")
    status, body = ask(chain, f"{_PATH}&pagination.after={quote(info['endCursor'])}")
    assert (status, body["code"], body["details"][0]["code"]) == (400, 3, 10028)


@pytest.mark.parametrize(
    ("id_", "code", "inner"),
    [("", 10025, ""), ("zz", 180001, "resourceID: zz: decoding 'zz': not a valid hex id")],
)
def test_an_id_that_can_be_none_is_refused(chain: Reading, id_: str, code: int, inner: str) -> None:
    status, body = ask(chain, f"/api/v2/node/signatures?id={id_}")
    (detail,) = body["details"]
    assert (status, detail["code"]) == (400, code)
    assert detail["inner"].startswith(inner)
