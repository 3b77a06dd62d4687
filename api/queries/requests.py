"""The requests of the operations, as both shells make them: values of the right types, unchecked.

REST reads them from query and path parameters, gRPC from its messages. What cannot be right is
refused by the operation that gets it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from api.queries.pagination import Pagination
from api.queries.parameters import Kind, parameter

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

_MARKET = "Only provisions for this market."
_PARTY = "Only provisions of this party."


@dataclass(frozen=True, slots=True)
class NoParameters:
    """The request of an operation that takes none."""


@dataclass(frozen=True, slots=True)
class ListOrderVersions:
    """The versions of one order (spec 4.5)."""

    order_id: str = parameter(Kind.HEX64, "The order.", "", in_path=True)
    pagination: Pagination = field(default_factory=Pagination)


@dataclass(frozen=True, slots=True)
class DateRange:
    """From a time on, before another one, in Unix nanoseconds."""

    start_timestamp: int | None = parameter(Kind.INT64, "Updated at or after, Unix nanoseconds.")
    end_timestamp: int | None = parameter(Kind.INT64, "Updated before, Unix nanoseconds.")


@dataclass(frozen=True, slots=True)
class ListWithdrawals:
    """Withdrawals (spec 4.7); an empty party is all parties."""

    party_id: str = parameter(Kind.PARTY, "Only this party's.", "")
    date_range: DateRange = field(default_factory=DateRange)
    pagination: Pagination = field(default_factory=Pagination)


@dataclass(frozen=True, slots=True)
class GetWithdrawal:
    """One withdrawal (decision 11)."""

    id: str = parameter(Kind.HEX64, "The withdrawal.", "", in_path=True)


@dataclass(frozen=True, slots=True)
class ListOracleData:
    """Oracle data (spec 4.2); an empty spec id is none."""

    oracle_spec_id: str = parameter(Kind.HEX, "Only data that matched this oracle spec.", "")
    pagination: Pagination = field(default_factory=Pagination)


@dataclass(frozen=True, slots=True)
class ListNodeSignatures:
    """The signatures of a resource (spec 4.3)."""

    id: str = parameter(Kind.HEX, "The resource that was signed.", "", required=True)
    pagination: Pagination = field(default_factory=Pagination)


@dataclass(frozen=True, slots=True)
class ListLiquidityProvisions:
    """Liquidity provisions of a market or a party (decision 11); empty texts are not given."""

    market_id: str = parameter(Kind.HEX, _MARKET, "")
    party_id: str = parameter(Kind.HEX, _PARTY, "")
    reference: str = parameter(Kind.TEXT, "Only provisions with this reference.", "")
    live: bool = parameter(Kind.TRUTH, "Only provisions that are live now.", default=False)
    pagination: Pagination = field(default_factory=Pagination)


@dataclass(frozen=True, slots=True)
class ObserveLiquidityProvisions:
    """The stream of liquidity provisions (spec 4.4); None: not given, which is any."""

    market_id: str | None = parameter(Kind.HEX, _MARKET)
    party_id: str | None = parameter(Kind.HEX, _PARTY)
    snapshot: bool = parameter(
        Kind.TRUTH, "Present ones first.", default=True, metadata="x-snapshot"
    )


@dataclass(frozen=True, slots=True)
class GetSpamStatistics:
    """One party's spam statistics (spec 4.6)."""

    party_id: str = parameter(Kind.HEX, "The party.", "", in_path=True)


@dataclass(frozen=True, slots=True)
class ListSegments:
    """The segments (decision 10), of these only those that end at `to_block` or before."""

    to_block: int | None = parameter(
        Kind.INT64, "Only segments that end at this block or before.", metadata="x-to-block"
    )


@dataclass(frozen=True, slots=True)
class ExportNetworkHistory:
    """One table over a range of blocks; table 0 is none.

    Instead of the blocks, `from_` and `to` may say the range as people write it, with dates or
    times: it snaps outwards to segments.
    """

    from_block: int = parameter(Kind.INT64, "First block of a segment.", 0)
    to_block: int = parameter(Kind.INT64, "Last block of a segment, inclusive.", 0)
    from_: str = parameter(
        Kind.TEXT, "Instead of fromBlock: a date, a time or a block in a segment.", ""
    )
    to: str = parameter(
        Kind.TEXT, "Instead of toBlock, inclusive: the range snaps to whole segments.", ""
    )
    table: int = parameter(Kind.TABLE, "What to export.", 0, required=True)
