"""Every method called through stubs that are not ours: those of a published client of the network.

They are of a later release than the contract; what it added must simply be unset. `make setup`
installs them beside the packages, in a folder that only this test looks into (stubs.txt).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import grpc
import httpx2
import pytest

from api.core.descriptors import CORE, TRADING_DATA, service
from tests.api.chain_kit import ALICE, MARKET, ORDER, RESOURCE
from tests.api.rpc.kit import (
    SECONDS,
    Client,
    FailedCallError,
    Json,
    as_json,
    failed,
    messages,
    outcome,
)
from tests.api.rpc.rich_site import CAPTURED, LAST, SPEC, UNSEEN, WITHDRAWAL
from tests.api.server_kit import Served
from tests.cases import each_of

_FOLDER = Path(sys.prefix) / "stubs"
_TRADING = "vega_sim.proto.data_node.api.v2.trading_data"
_SPAM = "vega_sim.proto.vega.api.v1.core"
_METHODS = [*service(TRADING_DATA).methods_by_name, *service(CORE).methods_by_name]
_UNSET: tuple[Json, ...] = (None, "", "0", 0, False, [])


class Foreign:
    """The foreign client: `ask` by the name of a method and the fields of its request."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.pagination = self._module(_TRADING).Pagination
        self.dates = self._module(_TRADING).DateRange
        trading = import_module(f"{_TRADING}_pb2_grpc").TradingDataServiceStub(channel)
        core = import_module(f"{_SPAM}_pb2_grpc").CoreServiceStub(channel)
        self._stubs = {_TRADING: trading, _SPAM: core}

    def ask(self, method: str, **fields: object) -> Any:
        module = _SPAM if method == "GetSpamStatistics" else _TRADING
        request = getattr(self._module(module), f"{method}Request")(**fields)
        return getattr(self._stubs[module], method)(request, timeout=SECONDS)

    @staticmethod
    def _module(name: str) -> Any:
        return import_module(f"{name}_pb2")


@pytest.fixture(scope="module")
def foreign(rich: Served) -> Iterator[Foreign]:
    assert (_FOLDER / "vega_sim").is_dir(), f"no stubs in {_FOLDER}: run `make setup`"
    sys.path.append(str(_FOLDER))
    try:
        with grpc.insecure_channel(f"127.0.0.1:{rich.grpc_port}") as channel:
            yield Foreign(channel)
    finally:
        sys.path.remove(str(_FOLDER))


def _agree(theirs: Json, ours: Json) -> bool:
    """Whether a message says what REST's JSON says, and nothing besides."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return all(
            _agree(theirs[name], ours[name])
            if name in ours and name in theirs
            else (ours if name in ours else theirs)[name] in _UNSET
            for name in {*ours, *theirs}
        )
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(_agree, theirs, ours))
    return bool(theirs == ours)


_SMALL = "pagination.first=2&pagination.newestFirst=false"
_CASES: list[tuple[str, str, Callable[[Foreign], dict[str, object]]]] = [
    ("ListOrderVersions", f"/api/v2/order/versions/{ORDER}", lambda _: {"order_id": ORDER}),
    (
        "ListOrderVersions",
        f"/api/v2/order/versions/{ORDER}?{_SMALL}",
        lambda f: {"order_id": ORDER, "pagination": f.pagination(first=2, newest_first=False)},
    ),
    ("ListWithdrawals", "/api/v2/withdrawals", lambda _: {}),
    (
        "ListWithdrawals",
        f"/api/v2/withdrawals?partyId={ALICE}&dateRange.startTimestamp=1",
        lambda f: {"party_id": ALICE, "date_range": f.dates(start_timestamp=1)},
    ),
    ("GetWithdrawal", f"/api/v2/withdrawal/{WITHDRAWAL}", lambda _: {"id": WITHDRAWAL}),
    ("ListOracleData", "/api/v2/oracle/data", lambda _: {}),
    (
        "ListOracleData",
        f"/api/v2/oracle/data?oracleSpecId={SPEC}&pagination.last=1",
        lambda f: {"oracle_spec_id": SPEC, "pagination": f.pagination(last=1)},
    ),
    ("ListNodeSignatures", f"/api/v2/node/signatures?id={RESOURCE}", lambda _: {"id": RESOURCE}),
    (
        "ListLiquidityProvisions",
        f"/api/v2/liquidity/provisions?marketId={MARKET}",
        lambda _: {"market_id": MARKET},
    ),
    ("ListAllNetworkHistorySegments", "/api/v2/networkhistory/segments", lambda _: {}),
    ("GetNetworkHistoryStatus", "/api/v2/networkhistory", lambda _: {}),
    ("GetNetworkHistoryBootstrapPeers", "/api/v2/networkhistory/bootstrap", lambda _: {}),
    ("GetVegaTime", "/api/v2/vega/time", lambda _: {}),
    ("Info", "/api/v2/info", lambda _: {}),
    ("GetSpamStatistics", f"/statistics/spam/{CAPTURED}", lambda _: {"party_id": CAPTURED}),
    ("GetSpamStatistics", f"/statistics/spam/{UNSEEN}", lambda _: {"party_id": UNSEEN}),
]


@each_of(("method", "path", "fields"), _CASES)
def test_a_foreign_client_reads_what_rest_says(
    foreign: Foreign,
    rest: httpx2.Client,
    method: str,
    path: str,
    fields: Callable[[Foreign], dict[str, object]],
) -> None:
    answer = rest.get(path)
    assert answer.status_code == 200
    content = next(iter(answer.json().values()))
    assert "edges" not in content or content["edges"]
    found = as_json(foreign.ask(method, **fields(foreign)))
    assert _agree(found, answer.json()), (found, answer.json())


def test_a_foreign_client_walks_all_pages(foreign: Foreign, rest: httpx2.Client) -> None:
    whole = rest.get(f"/api/v2/order/versions/{ORDER}").json()["orders"]["edges"]
    seen: list[str] = []
    after: dict[str, str] = {}
    while True:
        pagination = foreign.pagination(first=7, **after)
        page = foreign.ask("ListOrderVersions", order_id=ORDER, pagination=pagination).orders
        seen += [edge.cursor for edge in page.edges]
        if not page.page_info.has_next_page:
            break
        after = {"after": page.page_info.end_cursor}
    assert seen == [edge["cursor"] for edge in whole]


def test_a_foreign_client_asks_about_the_history_as_a_whole(foreign: Foreign) -> None:
    newest = foreign.ask("GetMostRecentNetworkHistorySegment")
    assert (newest.segment.from_height, newest.segment.to_height) == (1, LAST)
    assert newest.swarm_key_seed == "kit-chain"
    assert foreign.ask("GetNetworkHistoryStatus").swarm_key_seed == "kit-chain"
    assert [*foreign.ask("GetNetworkHistoryBootstrapPeers").bootstrap_peers] == []
    assert [*foreign.ask("GetActiveNetworkHistoryPeerAddresses").ip_addresses] == []
    assert not foreign.ask("Ping").ListFields()


def test_a_foreign_client_downloads_the_bytes_of_rest(
    foreign: Foreign, rest: httpx2.Client
) -> None:
    path = f"/api/v2/networkhistory/export?fromBlock=1&toBlock={LAST}&table=TABLE_ORDERS"
    whole = rest.get(path)
    call = foreign.ask("ExportNetworkHistory", from_block=1, to_block=LAST, table="TABLE_ORDERS")
    parts = [*call]
    assert b"".join(part.data for part in parts) == whole.content
    assert {part.content_type for part in parts} == {"application/zip"}
    named = dict(call.initial_metadata())["content-disposition"]
    assert named == whole.headers["content-disposition"]


def test_a_foreign_client_follows_the_provisions(foreign: Foreign, rest: httpx2.Client) -> None:
    with rest.stream("GET", "/api/v2/stream/liquidity-provisions") as stream:
        line = httpx2.Response(200, text=next(stream.iter_lines())).json()
    call = foreign.ask("ObserveLiquidityProvisions")
    assert _agree(as_json(next(call)), line["result"])
    call.cancel()


def test_a_foreign_client_reads_an_error(foreign: Foreign, rest: httpx2.Client) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        foreign.ask("ListWithdrawals", party_id="zz")
    assert failed(caught.value).body == rest.get("/api/v2/withdrawals?partyId=zz").json()


@each_of("method", _METHODS)
def test_every_method_answers_a_foreign_client_as_it_does_ours(
    foreign: Foreign, rpc: Client, method: str
) -> None:
    streaming = method in ("ExportNetworkHistory", "ObserveLiquidityProvisions")
    ours = outcome(
        lambda: next(messages(rpc.stream(method))) if streaming else rpc.ask(method).message
    )
    if isinstance(ours, FailedCallError):
        with pytest.raises(grpc.RpcError) as caught:
            next(foreign.ask(method)) if streaming else foreign.ask(method)
        assert failed(caught.value).body == ours.body
    else:
        theirs = next(foreign.ask(method)) if streaming else foreign.ask(method)
        assert _agree(as_json(theirs), as_json(ours))
