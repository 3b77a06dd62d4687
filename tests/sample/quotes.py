"""What a market looks like from outside at one moment: a row of `market_data`."""

from __future__ import annotations

from tests.sample.book import Side
from tests.sample.listing import Listing
from tests.sample.text import Cell, jsonb

_MARK_TO_MARKET_MICROSECONDS = 60_000_000


def write_market_data(listing: Listing) -> None:
    """Write down prices, volumes and stakes of a market that trades."""
    market, terms = listing.market, listing.market.terms
    stake = listing.provisions.stake
    market.recorder.put(
        "market_data",
        terms.id,
        market=terms.id,
        mark_price=market.mark,
        last_traded_price=market.last_price,
        open_interest=market.open_interest,
        auction_end=0,
        auction_start=0,
        indicative_price=0,
        indicative_volume=0,
        market_trading_mode="TRADING_MODE_CONTINUOUS",
        auction_trigger="AUCTION_TRIGGER_UNSPECIFIED",
        extension_trigger="AUCTION_TRIGGER_UNSPECIFIED",
        target_stake=market.open_interest * market.mark * terms.unit // 10,
        supplied_stake=stake,
        price_monitoring_bounds=_bounds(market.mark, terms.tick),
        market_value_proxy=str(stake),
        liquidity_provider_fee_shares=_shares(listing),
        market_state="STATE_ACTIVE",
        next_mark_to_market=market.recorder.time + _MARK_TO_MARKET_MICROSECONDS,
        market_growth=0,
        **_top_of_book(listing),
    )


def _top_of_book(listing: Listing) -> dict[str, Cell]:
    """Best prices and volumes; a side without orders shows 0, and so does the middle then."""
    book = listing.market.book
    bid, offer = book.best(Side.BUY), book.best(Side.SELL)
    mid = (bid + offer) // 2 if bid is not None and offer is not None else 0
    cells: dict[str, Cell] = {"mid_price": mid, "static_mid_price": mid}
    for name, side, price in (("bid", Side.BUY, bid), ("offer", Side.SELL, offer)):
        for best in ("best", "best_static"):
            cells[f"{best}_{name}_price"] = price or 0
            cells[f"{best}_{name}_volume"] = book.volume(side, price)
    return cells


def _bounds(mark: int, tick: int) -> str:
    trigger = {"horizon": 3600, "probability": "0.9999", "auction_extension": 60}
    return jsonb(
        [
            {
                "trigger": trigger,
                "min_valid_price": str(mark - 100 * tick),
                "max_valid_price": str(mark + 100 * tick),
                "reference_price": str(mark),
            }
        ]
    )


def _shares(listing: Listing) -> str:
    stake = str(listing.provisions.stake)
    return jsonb(
        [
            {
                "party": party,
                "average_score": "1",
                "equity_like_share": "0.5",
                "average_entry_valuation": stake,
            }
            for party in listing.provisions.parties
        ]
    )
