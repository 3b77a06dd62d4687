"""Clients that leave at random moments cost those that stay nothing: no answer, not a byte of one.

Every operation is asked, over HTTP, WebSocket and gRPC. What a quiet server answers was asked
before, one question after the other. The long form is part of `make fault-test`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.operations import CALLS
from tests.api.chain_kit import ALICE, MARKET, ORDER, RESOURCE
from tests.api.departures_kit import (
    Answer,
    Clients,
    Doors,
    HttpQuestion,
    Question,
    RpcQuestion,
    SocketQuestion,
    StreamQuestion,
    clients,
)
from tests.api.rpc.rich_site import CAPTURED, SPEC, WITHDRAWAL, rich_site
from tests.api.server_kit import ServerProcess
from tests.api.site_kit import MARKETS, PARTIES, Site
from transforms.block_range import BlockRange

_AT_ONCE = 24
_MORE = [BlockRange(first, first + 9) for first in range(11, 71, 10)]
_PROVISIONS = 1500
# And those of the first segment that the others do not write again.
_MESSAGES = -(-(_PROVISIONS + 3) // 50)
_OF_PARTY = f"partyId={PARTIES[0]}"
_EXPORT = "/api/v2/networkhistory/export?fromBlock=1&toBlock=40&table=TABLE_ORDERS"
_PAGE = "pagination.first=7"

HTTP = {
    "oracle_data": ["/api/v2/oracle/data", f"/api/v2/oracle/data?oracleSpecId={SPEC}&{_PAGE}"],
    "node_signatures": [f"/api/v2/node/signatures?id={RESOURCE}"],
    "order_versions": [
        f"/api/v2/order/versions/{ORDER}",
        f"/api/v2/order/versions/{ORDER}?{_PAGE}",
    ],
    "withdrawals": ["/api/v2/withdrawals", f"/api/v2/withdrawals?partyId={ALICE}&pretty"],
    "liquidity_provisions": [
        f"/api/v2/liquidity/provisions?{_OF_PARTY}",
        f"/api/v2/liquidity/provisions?marketId={MARKETS[1]}&{_PAGE}",
        f"/api/v2/liquidity/provisions?marketId={MARKET}&live=true",
        "/api/v2/liquidity/provisions?marketId=zz",
    ],
    "withdrawal": [f"/api/v2/withdrawal/{WITHDRAWAL}", f"/api/v2/withdrawal/{'77' * 32}"],
    "spam_statistics": [f"/api/v2/statistics/spam/{CAPTURED}", f"/statistics/spam/{ALICE}"],
    "segments": ["/api/v2/networkhistory/segments", "/api/v2/networkhistory/segments?toBlock=15"],
    "history_status": ["/api/v2/networkhistory"],
    "bootstrap_peers": ["/api/v2/networkhistory/bootstrap"],
    "vega_time": ["/api/v2/vega/time"],
    "info": ["/api/v2/info"],
    "page": ["/", "/archive/", "/openapi.json", "/docs"],
    "state": ["/ready", "/health"],
    "export": [_EXPORT, _EXPORT.replace("ORDERS", "WITHDRAWALS"), _EXPORT.replace("=40", "=39")],
}

RPC = {
    "ListOracleData": {"oracle_spec_id": SPEC},
    "ListNodeSignatures": {"id": RESOURCE},
    "ListOrderVersions": {"order_id": ORDER},
    "ListWithdrawals": {"party_id": ALICE},
    "GetWithdrawal": {"id": WITHDRAWAL},
    "ListLiquidityProvisions": {"party_id": PARTIES[0]},
    "GetSpamStatistics": {"party_id": CAPTURED},
    "ListAllNetworkHistorySegments": {},
    "GetMostRecentNetworkHistorySegment": {},
    "GetNetworkHistoryStatus": {},
    "GetNetworkHistoryBootstrapPeers": {},
    "GetActiveNetworkHistoryPeerAddresses": {},
    "GetVegaTime": {},
    "Info": {},
    "Ping": {},
}


def test_every_operation_is_asked() -> None:
    assert {operation.name for operation in CALLS if operation.path} <= HTTP.keys()
    assert {operation.method.name for operation in CALLS} == RPC.keys()


def _questions(archive: Path) -> Iterator[Question]:
    for targets in HTTP.values():
        yield from map(HttpQuestion, targets)
    yield HttpQuestion("/api/v2/withdrawals", headers="Accept-Encoding: gzip\r\n")
    yield HttpQuestion(_EXPORT, headers="Range: bytes=1000-90000\r\n")
    yield HttpQuestion(_EXPORT, "HEAD")
    for path in sorted(archive.rglob("*orders*.zip")):
        yield HttpQuestion(f"/archive/{path.relative_to(archive)}")
    yield StreamQuestion("", _MESSAGES)
    yield StreamQuestion(_OF_PARTY, 7)
    yield SocketQuestion("", _MESSAGES)
    yield SocketQuestion(f"marketId={MARKETS[0]}", 15)
    for method, fields in RPC.items():
        yield RpcQuestion(method, tuple(fields.items()))
    blocks = (("from_block", 1), ("to_block", 40))
    yield RpcQuestion("ExportNetworkHistory", (*blocks, ("table", "TABLE_ORDERS")), None)
    yield RpcQuestion("ObserveLiquidityProvisions", (), _MESSAGES)
    yield RpcQuestion("ObserveLiquidityProvisions", (("party_id", PARTIES[0]),), 7)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Something of everything, and provisions and orders that take a while to read."""
    found = rich_site(tmp_path_factory.mktemp("departures"))
    for blocks in _MORE:
        found.add_segment(blocks, range(_PROVISIONS))
    found.load()
    found.publish(_MORE)
    return found


class _Campaign:
    """Questions asked at the same time, of which a third is not waited for."""

    def __init__(self, asking: Clients, expected: dict[Question, tuple[float, Answer]]) -> None:
        self._asking = asking
        self._expected = expected
        self._dice = random.Random(20261122)
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []

    async def run(self, requests: int) -> None:
        """Ask so many questions, `_AT_ONCE` at a time."""
        questions = [*self._expected]
        waiting = iter(enumerate(self._dice.choices(questions, k=requests)))

        async def one_after_the_other() -> None:
            for number, question in waiting:
                await self._ask(question, number)

        await asyncio.gather(*(one_after_the_other() for _ in range(_AT_ONCE)))

    async def _ask(self, question: Question, number: int) -> None:
        seconds, expected = self._expected[question]
        if self._dice.random() < 1 / 3:
            # Where everybody waits for many others, the end is later than that of a quiet server.
            moment = self._dice.uniform(0, seconds * self._dice.choice([1, 4, _AT_ONCE]))
            left = await self._asking.leave(question, moment, number)
            self.counts["left" if left else "too late to leave"] += 1
            return
        try:
            found = await self._asking.ask(question, number)
        except (OSError, asyncio.IncompleteReadError) as error:
            found = (repr(error),)
        self.counts["compared"] += 1
        if found != expected:
            self.wrong.append(f"{question}: {found!r:.300}")


async def _asked_of_a_quiet_server(
    asking: Clients, questions: list[Question]
) -> dict[Question, tuple[float, Answer]]:
    """The answers, and how long each took."""
    found = {}
    for question in questions:
        await asking.ask(question)
        started = time.monotonic()
        answer = await asking.ask(question)
        found[question] = time.monotonic() - started, answer
    return found


def test_those_who_stay_get_the_answers_of_a_quiet_server_while_others_leave(
    site: Site, requests: int
) -> None:
    async def run(doors: Doors) -> _Campaign:
        async with clients(doors) as asking:
            questions = [*_questions(Path(site.locations.archive))]
            campaign = _Campaign(asking, await _asked_of_a_quiet_server(asking, questions))
            await campaign.run(requests)
            return campaign

    with ServerProcess(site.locations, QUEUE="1000", THREADS="4") as process:
        campaign = asyncio.run(run(Doors(process.port, process.grpc_port)))
        process.terminate()
        code, logged = process.finish()
    print(dict(campaign.counts))
    assert campaign.wrong == []
    assert campaign.counts["left"] > requests / 10
    assert (code, "Traceback" in logged, '"status": 5' in logged) == (0, False, False)
