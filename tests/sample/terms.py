"""A market's terms as the network writes them down: JSON of proposals and of `markets` rows."""

from __future__ import annotations

from typing import Any

from tests.sample.participants import Terms
from tests.sample.text import Cell, jsonb

_NANOSECONDS = 1_000
_CLOSES_AFTER_SECONDS = 20


def _source(spec: str, name: str, kind: str) -> dict[str, Any]:
    return {
        "id": spec,
        "data": {
            "external": {
                "oracle": {
                    "signers": [{"ethAddress": {"address": "0x" + spec[:40]}}],
                    "filters": [{"key": {"name": name, "type": kind}}],
                }
            }
        },
    }


def oracle_names(terms: Terms) -> tuple[str, str]:
    """What the market's oracle calls the settlement price and the end of trading."""
    name = terms.code.split("/")[0]
    return f"prices.{name}.value", f"trading.{name}.terminated"


def _instrument(terms: Terms) -> dict[str, Any]:
    price, terminated = oracle_names(terms)
    future = {
        "quoteName": "USD",
        "settlementAsset": terms.asset.id,
        "dataSourceSpecForSettlementData": _source(terms.settlement_spec, price, "TYPE_INTEGER"),
        "dataSourceSpecForTradingTermination": _source(
            terms.termination_spec, terminated, "TYPE_BOOLEAN"
        ),
        "dataSourceSpecBinding": {
            "settlementDataProperty": price,
            "tradingTerminationProperty": terminated,
        },
    }
    return {
        "code": terms.code,
        "name": terms.name,
        "future": future,
        "metadata": {"tags": ["class:future", f"base:{terms.code.split('/')[0]}"]},
    }


def market_cells(terms: Terms, times: dict[str, int]) -> dict[str, Cell]:
    """The cells of a `markets` row that follow from the terms. `times`: when each state began."""
    factors = {"makerFee": "0.0002", "liquidityFee": "0.001", "infrastructureFee": "0.0005"}
    moments = {"proposed": "PROPOSED", "pending": "PENDING", "open": "ACTIVE", "close": "SETTLED"}
    risk = {"tau": 0.0001140771161, "riskAversionParameter": 0.001}
    return {
        "id": terms.id,
        "instrument_id": "",
        "tradable_instrument": jsonb(
            {
                "instrument": _instrument(terms),
                "logNormalRiskModel": {**risk, "params": {"r": 0.016, "sigma": 1.5}},
                "marginCalculator": {
                    "scalingFactors": {
                        "searchLevel": 1.1,
                        "initialMargin": 1.2,
                        "collateralRelease": 1.4,
                    }
                },
            }
        ),
        "decimal_places": terms.decimals,
        "fees": jsonb({"factors": factors}),
        "opening_auction": jsonb({"duration": 20}),
        "price_monitoring_settings": jsonb({"priceMonitoringParameters": {}}),
        "liquidity_monitoring_parameters": jsonb({"triggeringRatio": "0", "auctionExtension": 1}),
        "market_timestamps": jsonb(
            {name: times[state] * _NANOSECONDS for name, state in moments.items() if state in times}
        ),
        "position_decimal_places": terms.position_decimals,
        "lp_price_range": "0.05",
        "quadratic_slippage_factor": None,
        "linear_slippage_factor": "0.001",
        "parent_market_id": "",
        "insurance_pool_fraction": None,
    }


def proposal_terms(terms: Terms, proposed: int) -> dict[str, Cell]:
    """The cells `terms` and `rationale` of the proposal that asks for the market."""
    closes = proposed // 1_000_000 + _CLOSES_AFTER_SECONDS
    return {
        "terms": jsonb(
            {
                "newMarket": {"changes": {"instrument": _instrument(terms)}},
                "closingTimestamp": str(closes),
                "enactmentTimestamp": str(closes + _CLOSES_AFTER_SECONDS),
            }
        ),
        "rationale": jsonb(
            {"title": f"New market {terms.code}", "description": f'List "{terms.name}"\nSoon.'}
        ),
    }
