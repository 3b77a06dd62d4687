"""One market's order book at work: orders meet, trades happen and are paid for."""

from __future__ import annotations

from tests.sample.book import FOK, GTC, GTT, Book, Order, Side, Status
from tests.sample.money import Accounts, AccountType
from tests.sample.participants import Terms
from tests.sample.positions import Position
from tests.sample.record import Recorder
from tests.sample.text import Cell

_TEN_THOUSAND = 10_000
_FEE_RATES = {"maker": 2, "infrastructure": 5, "liquidity": 10}
_SELF_TRADING, _POST_ONLY_ORDER_WOULD_TRADE = 20, 49


class Market:
    """A market's book, positions and prices, in the market's own units."""

    def __init__(self, terms: Terms, recorder: Recorder, accounts: Accounts) -> None:
        self.terms = terms
        self.book = Book()
        self.positions: dict[str, Position] = {}
        self.open_interest = 0
        self.mark = terms.price
        self.last_price = terms.price
        self.recorder = recorder
        self.accounts = accounts
        self._touched: dict[str, str] = {}

    def submit(self, order: Order) -> None:
        """Match an order, then leave the rest on the book or stop it."""
        if order.post_only and self.book.counterpart(order) is not None:
            order.status, order.reason = Status.REJECTED, _POST_ONLY_ORDER_WOULD_TRADE
        elif order.time_in_force == FOK and self.book.fillable(order) < order.remaining:
            order.status = Status.STOPPED
        else:
            self._match(order)
        if order.status is Status.ACTIVE:
            if order.time_in_force in (GTC, GTT):
                self.book.add(order)
            else:
                traded = order.remaining < order.size
                order.status = Status.PARTIALLY_FILLED if traded else Status.STOPPED
        self.record(order)

    def close(self, order: Order, status: Status) -> None:
        """Take a live order off the book: cancelled, expired or stopped."""
        self.book.remove(order)
        order.status, order.updated_at = status, self.recorder.time
        self.record(order)

    def amend(self, order: Order, price: int, more: int) -> None:
        """Replace a live order by its next version, at another price and with a greater size."""
        self.book.remove(order)
        order.version += 1
        order.price, order.updated_at = price, self.recorder.time
        order.size += more
        order.remaining += more
        self.submit(order)

    def record(self, order: Order) -> None:
        """Note an order's present state: the last one of a block and version counts."""
        self.recorder.put("orders", (order.id, order.version), **order.cells())

    def touch(self, party: str) -> None:
        """A party's position has changed, or what it is worth."""
        self._touched[party] = self.recorder.tx_hash

    def close_block(self) -> None:
        """Note the positions that the block has changed, each with its last transaction."""
        for party, tx_hash in self._touched.items():
            cells = self.positions[party].cells(self.terms, self.mark)
            named: dict[str, Cell] = {"party_id": party, "market_id": self.terms.id}
            self.recorder.put("positions", tx_hash=tx_hash, **named, **cells)
        self._touched.clear()

    def _match(self, order: Order) -> None:
        while order.remaining and (resting := self.book.counterpart(order)) is not None:
            if resting.party_id == order.party_id:
                order.status, order.reason = Status.STOPPED, _SELF_TRADING
                return
            size = min(order.remaining, resting.remaining)
            self._trade(order, resting, size)
            order.fill(size)
            self._fill_resting(resting, size)

    def _fill_resting(self, resting: Order, size: int) -> None:
        used_up = resting.remaining == size
        if used_up:
            self.book.remove(resting)
        resting.fill(size)
        resting.updated_at = self.recorder.time
        if used_up and resting.remaining:
            self.book.add(resting)  # an iceberg's next peak queues up again
        self.record(resting)

    def _trade(self, order: Order, resting: Order, size: int) -> None:
        buy, sell = (order, resting) if order.side is Side.BUY else (resting, order)
        notional = size * resting.price * self.terms.unit
        fees = {name: notional * rate // _TEN_THOUSAND for name, rate in _FEE_RATES.items()}
        payer, other = ("buyer", "seller") if order is buy else ("seller", "buyer")
        self.last_price = resting.price
        self.recorder.put(
            "trades",
            id=self.recorder.new_hash(),
            market_id=self.terms.id,
            price=resting.price,
            size=size,
            buyer=buy.party_id,
            seller=sell.party_id,
            aggressor=int(order.side),
            buy_order=buy.id,
            sell_order=sell.id,
            type=1,
            buyer_auction_batch=0,
            seller_auction_batch=0,
            **{f"{payer}_{name}_fee": fee for name, fee in fees.items()},
            **{f"{other}_{name}_fee": 0 for name in fees},
        )
        self._pay(fees, order.party_id, resting.party_id)
        self._take(buy.party_id, size, resting.price)
        self._take(sell.party_id, -size, resting.price)

    def _take(self, party: str, size: int, price: int) -> None:
        position = self.positions.setdefault(party, Position())
        long_before = max(position.volume, 0)
        position.trade(size, price)
        self.open_interest += max(position.volume, 0) - long_before
        self.touch(party)

    def _pay(self, fees: dict[str, int], taker: str, maker: str) -> None:
        asset, accounts = self.terms.asset, self.accounts
        purse = accounts.general(taker, asset)
        till = accounts.account(AccountType.FEES_MAKER, asset, market=self.terms.id)
        pool = accounts.account(AccountType.FEES_LIQUIDITY, asset, market=self.terms.id)
        network = accounts.account(AccountType.FEES_INFRASTRUCTURE, asset)
        accounts.move(purse, till, fees["maker"], "MAKER_FEE_PAY")
        accounts.move(till, accounts.general(maker, asset), fees["maker"], "MAKER_FEE_RECEIVE")
        accounts.move(purse, network, fees["infrastructure"], "INFRASTRUCTURE_FEE_PAY")
        accounts.move(purse, pool, fees["liquidity"], "LIQUIDITY_FEE_PAY")
