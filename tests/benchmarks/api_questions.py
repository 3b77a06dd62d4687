"""What the API's benchmark asks: paths, aims, and the SQL that gives plain DuckDB the same rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.benchmarks import clones
from tests.benchmarks.market import (
    HEAVY,
    LIGHT,
    MARKETS,
    ORDERS,
    PARTIES,
    RESOURCES,
    SPECS,
    WITHDRAWALS,
    hex_id,
    party_counts,
)

_IDS = 20_000
_SEED = 11
_SMALL = "pagination.first=20"


@dataclass(frozen=True, slots=True)
class Size:
    """How much a history has of what is asked for by id; `order` is the number of its n-th one."""

    orders: int
    withdrawals: int
    order: Callable[[int], int]

    @classmethod
    def loaded(cls, segments: int) -> Size:
        """That of so many segments of the market."""
        return cls(segments * ORDERS, segments * WITHDRAWALS, lambda n: n)

    @classmethod
    def cloned(cls, segments: int) -> Size:
        """That of so many cloned segments."""
        orders = segments * clones.ORDERS_KEPT
        return cls(orders, segments * clones.WITHDRAWALS, clones.order_number)


@dataclass(frozen=True, slots=True)
class Question:
    """One kind of request: its path, for each of some ids, and the SQL for the same rows.

    Aims are p50 in ms with one client, and answers a second with 16; `anyhow` is that p50 however
    large and uncompacted the history is. 0: none.
    """

    operation: str
    page: str
    path: str
    ids: Sequence[str] = ("",)
    sql: str = ""
    aim_ms: float = 0.0
    aim_rate: int = 0
    anyhow_ms: float = 0.0

    def aims(self, *, compacted: bool) -> tuple[str, str]:
        """The aims as they are printed, for one client and for many."""
        wanted = (self.aim_ms or self.anyhow_ms) if compacted else self.anyhow_ms
        rate = self.aim_rate if compacted else 0
        return f"{wanted:g}" if wanted else "", f"{rate:,}" if rate else ""

    @property
    def paths(self) -> list[str]:
        """What to ask for, in turn."""
        return [self.path.format(id_) for id_ in self.ids]


def questions(size: Size) -> list[Question]:
    """All questions to a history."""
    chance = random.Random(_SEED)

    def some(kind: str, count: int, number: Callable[[int], int] = lambda n: n) -> list[str]:
        return [hex_id(kind, number(chance.randrange(count))) for _ in range(_IDS)]

    parties = party_counts(size.withdrawals)
    orders = some("order", size.orders, size.order)
    light, heavy = (some(kind, parties[kind]) for kind in ("light", "heavy"))
    withdrawals = some("withdrawal", size.withdrawals)
    return [
        *_wanted(orders, light, heavy, withdrawals),
        *_oracle_data(some("spec", SPECS)),
        *_provisions(some("market", MARKETS)),
        Question(
            "node signatures",
            "all",
            "/api/v2/node/signatures?id={}",
            some("resource", RESOURCES),
            "select * from node_signatures where resource_id = $1",
        ),
        Question("spam statistics", "1", "/statistics/spam/{}", some("party", PARTIES)),
        Question("segments", "all", "/api/v2/networkhistory/segments"),
        Question("vega time", "1", "/api/v2/vega/time"),
        Question("health", "1", "/health"),
    ]


def _wanted(
    orders: list[str], light: list[str], heavy: list[str], withdrawals: list[str]
) -> list[Question]:
    """The questions that have aims."""
    path = "/api/v2/withdrawals"
    of_party = f"{path}?{_SMALL}&partyId={{}}"
    newest = "select * from withdrawals {}order by vega_time desc limit {}".format
    few = newest("where party_id = $1 ", 20)
    a_party = f"withdrawals of a party with {LIGHT}", f"withdrawals of a party with {HEAVY:,}"
    by_id = "select * from orders where id = $1", "select * from withdrawals where id = $1"
    return [
        Question("order versions", "all", "/api/v2/order/versions/{}", orders, by_id[0], 1, 1700),
        Question(a_party[0], "20", of_party, light, few, 1.4, 1200, 20),
        Question(a_party[1], "20", of_party, heavy, few, 2, 1000, 20),
        Question("withdrawals", "20", f"{path}?{_SMALL}", ("",), newest("", 20), 2, 1000),
        Question("withdrawals", "1,000", path, ("",), newest("", 1000), 12, 150),
        Question("withdrawal", "1", "/api/v2/withdrawal/{}", withdrawals, by_id[1], anyhow_ms=20),
    ]


def _oracle_data(specs: list[str]) -> list[Question]:
    path = "/api/v2/oracle/data"
    newest = "select * from oracle_data {}order by vega_time desc limit {}".format
    mine = newest("where contains(matched_spec_ids, $1) ", 20)
    return [
        Question("oracle data", "20", f"{path}?{_SMALL}", ("",), newest("", 20)),
        Question("oracle data", "1,000", path, ("",), newest("", 1000)),
        Question("oracle data of a spec", "20", f"{path}?{_SMALL}&oracleSpecId={{}}", specs, mine),
    ]


def _provisions(markets: list[str]) -> list[Question]:
    path, what = "/api/v2/liquidity/provisions", "provisions of a market"
    sql = "select * from liquidity_provisions where market_id = $1 order by vega_time desc limit {}"
    return [
        Question(what, "20", f"{path}?{_SMALL}&marketId={{}}", markets, sql.format(20)),
        Question(what, "1,000", f"{path}?marketId={{}}", markets, sql.format(1000)),
    ]
