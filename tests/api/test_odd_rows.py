"""Rows that no network writes, in a real warehouse behind a real server: every list still answers.

REST and gRPC say the same of them, and the rows beside them are as ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from tests.api.answers_kit import Json
from tests.api.chain_kit import ALICE, MARKET, ORDER, RESOURCE
from tests.api.odd_site import ODD_JSON, odd_site
from tests.api.rpc.kit import Client, as_json, client_of
from tests.api.server_kit import Served, serving, settings
from tests.cases import each_of

_PROVISIONS = "/api/v2/liquidity/provisions"
_LISTS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "withdrawals": ("/api/v2/withdrawals?", "ListWithdrawals", {}),
    "withdrawals of a party": (
        f"/api/v2/withdrawals?partyId={ALICE}&",
        "ListWithdrawals",
        {"party_id": ALICE},
    ),
    "oracle data": ("/api/v2/oracle/data?", "ListOracleData", {}),
    "provisions": (
        f"{_PROVISIONS}?marketId={MARKET}&",
        "ListLiquidityProvisions",
        {"market_id": MARKET},
    ),
    "live provisions": (
        f"{_PROVISIONS}?marketId={MARKET}&live=true&",
        "ListLiquidityProvisions",
        {"market_id": MARKET, "live": True},
    ),
    "order versions": (
        f"/api/v2/order/versions/{ORDER}?",
        "ListOrderVersions",
        {"order_id": ORDER},
    ),
    "signatures": (
        f"/api/v2/node/signatures?id={RESOURCE}&",
        "ListNodeSignatures",
        {"id": RESOURCE},
    ),
}
"""What REST and gRPC are asked."""

_UNREADABLE = ("a number of 5,000 digits", "3,000 levels", "no JSON", "nothing", "NULL")


@pytest.fixture(scope="module", params=["loaded", "compacted"])
def odd(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    site = odd_site(tmp_path_factory.mktemp("odd"))
    if request.param == "compacted":
        site.warehouse.compact(most_partial=1)
    with serving(settings(site.locations, grpc=True)) as found:
        yield found


@pytest.fixture(scope="module")
def rest(odd: Served) -> Iterator[httpx2.Client]:
    with odd.client() as found:
        yield found


@pytest.fixture(scope="module")
def rpc(odd: Served) -> Iterator[Client]:
    with client_of(odd) as found:
        yield found


def _page(rest: httpx2.Client, name: str, query: str) -> Json:
    answer = rest.get(_LISTS[name][0] + query)
    assert answer.status_code == 200, answer.text
    (found,) = answer.json().values()
    return found


@each_of("name", _LISTS)
@each_of("newest", [True, False])
def test_a_list_with_odd_rows_says_the_same_to_rest_and_grpc(
    rest: httpx2.Client, rpc: Client, name: str, newest: bool
) -> None:
    found = _page(rest, name, f"pagination.newestFirst={str(newest).lower()}")
    assert len(found["edges"]) > 10
    _, method, fields = _LISTS[name]
    message = rpc.ask(method, **fields, pagination={"newest_first": newest}).message
    (same,) = as_json(message).values()
    assert same["edges"] == found["edges"]
    assert same["pageInfo"] == found["pageInfo"]


@each_of("name", _LISTS)
def test_single_rows_are_answered_too(rest: httpx2.Client, name: str) -> None:
    edges = _page(rest, name, "pagination.first=300")["edges"]
    for edge in (*edges[:20], *edges[-20:]):
        after = f"pagination.first=1&pagination.after={quote(edge['cursor'])}"
        answer = rest.get(_LISTS[name][0] + after)
        assert answer.status_code in (200, 400), answer.text


@each_of("cell", _UNREADABLE)
def test_json_that_cannot_be_read_is_shown_as_null_is(rest: httpx2.Client, cell: str) -> None:
    shown = [*ODD_JSON].index(cell)
    withdrawals = _page(rest, "withdrawals of a party", "pagination.newestFirst=false")["edges"]
    (node,) = [e["node"] for e in withdrawals if e["node"]["id"] == f"{1000 + shown:064x}"]
    assert node["ext"] == {}
    provisions = _page(rest, "provisions", "pagination.newestFirst=false")["edges"]
    (node,) = [e["node"] for e in provisions if e["node"]["id"] == f"{1000 + shown:064x}"]
    assert (node["sells"], node["status"]) == ([], "STATUS_ACTIVE")
    data = _page(rest, "oracle data", "pagination.newestFirst=false")["edges"]
    shown_data = [edge["node"]["externalData"]["data"] for edge in data]
    empty = [one for one in shown_data if (one["data"], one["matchedSpecIds"]) == ([], [])]
    assert len(empty) >= len(_UNREADABLE)


def test_a_withdrawal_is_found_by_its_id_whatever_its_row_holds(
    rest: httpx2.Client, rpc: Client
) -> None:
    edges = _page(rest, "withdrawals", "")["edges"]
    ids = {edge["node"]["id"] for edge in edges if len(edge["node"]["id"]) == 64}
    assert len(ids) > len(ODD_JSON)
    for id_ in ids:
        answer = rest.get(f"/api/v2/withdrawal/{id_}")
        assert answer.status_code == 200, answer.text
        assert as_json(rpc.ask("GetWithdrawal", id=id_).message) == answer.json()


def test_rows_beside_odd_ones_are_as_ever(rest: httpx2.Client) -> None:
    for name in ("withdrawals of a party", "provisions"):
        edges = _page(rest, name, "pagination.newestFirst=false")["edges"]
        assert {f"{number:064x}" for number in range(3)} <= {edge["node"]["id"] for edge in edges}
