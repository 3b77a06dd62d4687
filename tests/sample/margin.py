"""Marking a market to market: losses pay gains, margins follow positions."""

from __future__ import annotations

from tests.sample.market import Market
from tests.sample.money import AccountType

_PERCENT = 100
_RISK = 5
_SEARCH, _INITIAL, _RELEASE = 110, 120, 140


def mark_to_market(market: Market) -> None:
    """Settle every position at the last traded price and bring the margins up or down."""
    market.mark = market.last_price
    gains = {
        party: position.settle(market.mark) * market.terms.unit
        for party, position in market.positions.items()
    }
    for party in sorted(gains, key=gains.__getitem__):  # losses first: they pay the gains
        _settle(market, party, gains[party])
    for party, position in market.positions.items():
        if position.volume or gains[party]:
            market.touch(party)
            _balance_margin(market, party, abs(position.volume))


def close_positions(market: Market) -> None:
    """Settle finally at the last price: every position ends, every margin is paid back."""
    mark_to_market(market)
    for party, position in market.positions.items():
        if position.volume:
            position.trade(-position.volume, market.mark)
            position.settle(market.mark)
            market.touch(party)
        margin = _margin_account(market, party)
        home = market.accounts.general(party, market.terms.asset)
        market.accounts.move(margin, home, market.accounts.balance(margin), "CLEAR_ACCOUNT")


def _margin_account(market: Market, party: str) -> str:
    terms = market.terms
    return market.accounts.account(AccountType.MARGIN, terms.asset, party, terms.id)


def _settle(market: Market, party: str, gain: int) -> None:
    terms, accounts = market.terms, market.accounts
    settlement = accounts.account(AccountType.SETTLEMENT, terms.asset, market=terms.id)
    margin = _margin_account(market, party)
    if gain < 0:
        missing = max(0, -gain - accounts.balance(margin))
        accounts.move(accounts.general(party, terms.asset), margin, missing, "MARGIN_LOW")
        accounts.move(margin, settlement, -gain, "MTM_LOSS")
    else:
        accounts.move(settlement, margin, gain, "MTM_WIN")


def _balance_margin(market: Market, party: str, volume: int) -> None:
    """Note the margin levels of a position and move its margin into their bounds."""
    maintenance = volume * market.mark * market.terms.unit * _RISK // _PERCENT
    search, initial, release = (
        maintenance * percent // _PERCENT for percent in (_SEARCH, _INITIAL, _RELEASE)
    )
    margin = _margin_account(market, party)
    market.recorder.put(
        "margin_levels",
        margin,
        account_id=margin,
        timestamp=market.recorder.time,
        maintenance_margin=maintenance,
        search_level=search,
        initial_margin=initial,
        collateral_release_level=release,
    )
    general = market.accounts.general(party, market.terms.asset)
    held = market.accounts.balance(margin)
    if held < search:
        market.accounts.move(general, margin, initial - held, "MARGIN_LOW")
    elif held > release:
        market.accounts.move(margin, general, held - initial, "MARGIN_HIGH")
