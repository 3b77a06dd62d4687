"""The requests of the operations, as both shells make them: values of the right types, unchecked.

REST reads them from query and path parameters, gRPC from its messages. What cannot be right is
refused by the operation that gets it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from api.queries.pagination import Pagination

TABLES = (
    "unspecified",
    "balances",
    "checkpoints",
    "delegations",
    "ledger",
    "orders",
    "trades",
    "market_data",
    "margin_levels",
    "positions",
    "liquidity_provisions",
    "markets",
    "deposits",
    "withdrawals",
    "blocks",
    "rewards",
)
"""The tables by the network's own numbers (spec 4.1)."""


@dataclass(frozen=True, slots=True)
class NoParameters:
    """The request of an operation that takes none."""


@dataclass(frozen=True, slots=True)
class ListOrderVersions:
    """The versions of one order (spec 4.5)."""

    order_id: str = ""
    pagination: Pagination = field(default_factory=Pagination)


@dataclass(frozen=True, slots=True)
class DateRange:
    """From a time on, before another one, in Unix nanoseconds."""

    start_timestamp: int | None = None
    end_timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class ListWithdrawals:
    """Withdrawals (spec 4.7); an empty party is all parties."""

    party_id: str = ""
    date_range: DateRange = DateRange()
    pagination: Pagination = field(default_factory=Pagination)


@dataclass(frozen=True, slots=True)
class GetWithdrawal:
    """One withdrawal (decision 11)."""

    id: str = ""


@dataclass(frozen=True, slots=True)
class ListOracleData:
    """Oracle data (spec 4.2); an empty spec id is none."""

    oracle_spec_id: str = ""
    pagination: Pagination = field(default_factory=Pagination)


@dataclass(frozen=True, slots=True)
class ListNodeSignatures:
    """The signatures of a resource (spec 4.3)."""

    id: str = ""
    pagination: Pagination = field(default_factory=Pagination)


@dataclass(frozen=True, slots=True)
class ListLiquidityProvisions:
    """Liquidity provisions of a market or a party (decision 11); empty texts are not given."""

    market_id: str = ""
    party_id: str = ""
    reference: str = ""
    live: bool = False
    pagination: Pagination = field(default_factory=Pagination)


@dataclass(frozen=True, slots=True)
class ObserveLiquidityProvisions:
    """The stream of liquidity provisions (spec 4.4); None: not given, which is any."""

    market_id: str | None = None
    party_id: str | None = None
    snapshot: bool = True


@dataclass(frozen=True, slots=True)
class GetSpamStatistics:
    """One party's spam statistics (spec 4.6)."""

    party_id: str = ""


@dataclass(frozen=True, slots=True)
class ListSegments:
    """The segments (decision 10), of these only those that end at `to_block` or before."""

    to_block: int | None = None


@dataclass(frozen=True, slots=True)
class ExportNetworkHistory:
    """One table over a range of blocks; table 0 is none.

    Instead of the blocks, `start` and `end` may say the range as people write it, with dates or
    times: it snaps outwards to segments.
    """

    first: int = 0
    last: int = 0
    table: int = 0
    start: str = ""
    end: str = ""
