"""Liquidity provisions of one market: pledged, deployed as pegged orders, amended, ended."""

from __future__ import annotations

from dataclasses import dataclass

from tests.sample.book import Order, Side
from tests.sample.market import Market
from tests.sample.money import AccountType
from tests.sample.participants import Participants, digest
from tests.sample.text import Cell, jsonb

_COMMITMENT = 50_000
_ORDER_SIZE = 10_000
_OFFSET_TICKS = 5
_COLUMNS = {Side.BUY: "buys", Side.SELL: "sells"}
_REFERENCES = {Side.BUY: 2, Side.SELL: 3}  # the best bid, the best ask


@dataclass(slots=True)
class _Provision:
    id: str
    party: str
    created: int
    updated: int
    version: int = 1


class Provisions:
    """What two of the liquidity providers commit to a market."""

    def __init__(self, market: Market, participants: Participants) -> None:
        self.parties = participants.providers[:2]
        self._market = market
        self._terms = market.terms
        self._recorder = market.recorder
        self._offset = self._terms.tick * _OFFSET_TICKS
        self._reference = f"provision for {self._terms.code}"
        self._provisions: list[_Provision] = []

    @property
    def stake(self) -> int:
        """The sum of the commitments, in the asset's smallest unit."""
        return self._terms.asset.whole(_COMMITMENT) * len(self._provisions)

    def pledge(self) -> None:
        """Each provider submits a provision and puts up its bond."""
        for party in self.parties:
            self._recorder.begin_transaction()
            now = self._recorder.time
            provision = _Provision(digest(self._terms.id, "liquidity", party), party, now, now)
            self._provisions.append(provision)
            self._write_row(provision, "PENDING")
            general, bond = self._accounts_of(party)
            amount = self._terms.asset.whole(_COMMITMENT)
            self._market.accounts.move(general, bond, amount, "BOND_LOW")

    def deploy(self) -> None:
        """The provisions become active, with an order on each side of the book."""
        for provision in self._provisions:
            self._write_row(provision, "ACTIVE")
            for side in Side:
                self._market.submit(self._order(provision, side))

    def amend(self) -> None:
        """Every provision gets a new version."""
        for provision in self._provisions:
            provision.version += 1
            provision.updated = self._recorder.time
            self._write_row(provision, "ACTIVE")

    def stop(self) -> None:
        """The provisions end and the bonds go home."""
        for provision in self._provisions:
            self._write_row(provision, "STOPPED")
            general, bond = self._accounts_of(provision.party)
            held = self._market.accounts.balance(bond)
            self._market.accounts.move(bond, general, held, "BOND_HIGH")

    def _accounts_of(self, party: str) -> tuple[str, str]:
        asset, accounts = self._terms.asset, self._market.accounts
        bond = accounts.account(AccountType.BOND, asset, party, self._terms.id)
        return accounts.general(party, asset), bond

    def _write_row(self, provision: _Provision, status: str) -> None:
        sides: dict[str, Cell] = {
            column: jsonb([self._shape(provision, side)]) for side, column in _COLUMNS.items()
        }
        self._recorder.put(
            "liquidity_provisions",
            provision.id,
            id=provision.id,
            party_id=provision.party,
            created_at=provision.created,
            updated_at=provision.updated,
            market_id=self._terms.id,
            commitment_amount=self._terms.asset.whole(_COMMITMENT),
            fee="0.0010000000000000",
            version=provision.version,
            status=f"STATUS_{status}",
            reference=self._reference,
            **sides,
        )

    def _shape(self, provision: _Provision, side: Side) -> dict[str, object]:
        order = {"offset": str(self._offset), "reference": _REFERENCES[side], "proportion": 10}
        return {"order_id": digest(provision.id, _COLUMNS[side]), "liquidity_order": order}

    def _order(self, provision: _Provision, side: Side) -> Order:
        distance = -self._offset if side is Side.BUY else self._offset
        return Order(
            id=digest(provision.id, _COLUMNS[side]),
            market_id=self._terms.id,
            party_id=provision.party,
            side=side,
            price=self._market.mark + distance,
            size=_ORDER_SIZE,
            remaining=_ORDER_SIZE,
            created_at=self._recorder.time,
            reference=self._reference,
            pegged_offset=self._offset,
            pegged_reference=_REFERENCES[side],
            lp_id=provision.id,
        )
