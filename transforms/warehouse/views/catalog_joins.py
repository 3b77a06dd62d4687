"""The catalog's own macros and views for the joins that everybody needs.

Times to blocks, accounts to assets and markets, whole numbers to amounts. A view is made where the
tables that it names are there, with the columns that it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from transforms.duck import quote_text


@dataclass(frozen=True, slots=True)
class _Join:
    """A macro or view: what makes it, which columns it needs, and its comment."""

    kind: str
    name: str
    body: str
    comment: str
    needs: Mapping[str, Set[str]]

    def statements(self) -> Iterator[str]:
        """What makes it."""
        name = f"strata.{self.name}"
        yield f"create {self.kind} {name} as {self.body}"
        bare = name.partition("(")[0]
        kind = "macro" if self.kind == "macro" else "view"
        yield f"comment on {kind} {bare} is {quote_text(self.comment)}"


_BLOCKS = {"blocks": {"height", "vega_time"}}
_ASSETS = {"assets": {"id", "symbol", "name", "decimals", "vega_time"}}
_MARKETS = {
    "markets_current": {
        *("id", "tradable_instrument", "decimal_places", "position_decimal_places"),
        *("state", "trading_mode"),
    }
}
_ACCOUNTS = {"accounts": {"id", "party_id", "asset_id", "market_id", "type"}}

_INSTRUMENT = "tradable_instrument ->> '$.instrument"
_SETTLEMENT_ASSET = (
    f"coalesce({_INSTRUMENT}.future.settlementAsset', "
    f"{_INSTRUMENT}.perpetual.settlementAsset', {_INSTRUMENT}.spot.quoteAsset')"
)

_ALL = (
    _Join(
        "macro",
        "moment(value)",
        # A cast would take text without an offset for the session's time zone.
        "(case when regexp_matches(value::varchar, ':.*[+A-Za-z-]') "
        "then (value::varchar)::timestamptz "
        "else (value::varchar)::timestamp at time zone 'UTC' end)",
        "A time; text without an offset or zone is UTC, whatever the time zone of the session.",
        {},
    ),
    _Join(
        "macro",
        "amount(value, decimals)",
        # A quotient of decimals would be a float. Of a product the scales add up.
        "(case when decimals > 18 and value is not null "
        "then error('strata.amount: more than 18 decimals') "
        "else value * ('1e' || (-decimals))::decimal(38,18) end)",
        "A whole number of smallest units as an exact decimal: value / 10^decimals, 18 places.",
        {},
    ),
    _Join(
        "macro",
        "block_at(moment)",
        "(select max(height) from main.blocks where vega_time <= strata.moment(moment))",
        "Height of the last block at or before a time; text without an offset or zone is UTC.",
        _BLOCKS,
    ),
    _Join(
        "macro",
        "time_of(block)",
        "(select max(vega_time) from main.blocks where height = block)",
        "Time of a block.",
        _BLOCKS,
    ),
    _Join(
        "view",
        "assets",
        "select id, arg_max(symbol, vega_time) as symbol, arg_max(name, vega_time) as name, "
        "arg_max(decimals, vega_time) as decimals from main.assets group by id",
        "Assets, one row each, as of their latest change.",
        _ASSETS,
    ),
    _Join(
        "view",
        "markets",
        f"select market.id, {_INSTRUMENT}.code' as code, "  # noqa: S608 - ours
        f"{_INSTRUMENT}.name' as name, state, trading_mode, "
        "decimal_places, position_decimal_places, asset.id as asset_id, asset.symbol as asset, "
        "asset.decimals as asset_decimals from main.markets_current as market "
        f"left join strata.assets as asset on asset.id = {_SETTLEMENT_ASSET}",
        "Markets, one row each, as of their latest change, with their settlement assets.",
        {**_MARKETS, **_ASSETS},
    ),
    _Join(
        "view",
        "accounts",
        "select account.id, party_id, account.asset_id, asset.symbol as asset, asset.decimals, "
        "nullif(market_id, '') as market_id, market.code as market, account.type, "
        "account.type_name from main.accounts as account "
        "left join strata.assets as asset on asset.id = account.asset_id "
        "left join strata.markets as market on market.id = account.market_id",
        "Accounts with the names of their assets, markets and types; market is NULL without one.",
        {**_ACCOUNTS, **_ASSETS, **_MARKETS},
    ),
)


def joins_of(columns: Mapping[str, Set[str]]) -> Iterator[str]:
    """The statements for a catalog whose tables have these columns, in order."""
    for join in _ALL:
        if all(needed <= columns.get(table, frozenset()) for table, needed in join.needs.items()):
            yield from join.statements()
