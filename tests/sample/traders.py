"""What the traders do: they place, amend and cancel orders around a price that wanders."""

from __future__ import annotations

from random import Random

from tests.sample.book import FOK, GTT, IOC, MARKET, Order, Side, Status
from tests.sample.market import Market

_ACTS_PER_100_BLOCKS = 16
_MOST_LIVE_ORDERS = 60
_REJECTED_FOR_MARGIN = 14
_BEST_BID, _BEST_ASK = 2, 3
_GTT_MICROSECONDS = 120_000_000
# What users write into references: most are plain, some need care from everyone who passes them on.
_REFERENCES = (
    "",
    "market maker",
    "bot-7",
    "#rebalance",
    "grid, level 3",
    'the "safe" side',
    "first line\nsecond line",
    "first line\r\nsecond line",
    " padded ",
    "NULL",
    "\\.",
    "é€😀",
)


class Traders:
    """The traders of one market; `icebergs` from the release on that knows them."""

    def __init__(self, market: Market, parties: tuple[str, ...], rng: Random) -> None:
        self.icebergs = False
        self._market = market
        self._parties = parties
        self._rng = rng
        self._fair = market.terms.price
        self._scale = max(1, len(parties) // 24)

    def trade(self) -> None:
        """A few transactions of one block."""
        terms, rng = self._market.terms, self._rng
        pull = (terms.price - self._fair) // (100 * terms.tick)
        self._fair += (rng.randrange(-4, 5) + pull) * terms.tick
        for order in self._market.book.expired(self._market.recorder.time):
            self._market.close(order, Status.EXPIRED)
        whole, rest = divmod(_ACTS_PER_100_BLOCKS * self._scale, 100)
        for _ in range(whole + (rng.randrange(100) < rest)):
            self._market.recorder.begin_transaction()
            self._act(rng.randrange(100))

    def _act(self, dice: int) -> None:
        live = self._market.book.live
        if len(live) > _MOST_LIVE_ORDERS * self._scale or (dice < 15 and live):
            self._cancel(self._rng.choice(live))
        elif dice < 25 and live:
            self._amend(self._rng.choice(live))
        elif dice < 45:
            self._market.submit(self._market_order())
        elif dice < 48:
            self._reject(self._limit_order())
        elif dice < 52:
            self._submit_pegged()
        else:
            self._market.submit(self._limit_order())

    def _order(self) -> Order:
        rng = self._rng
        size = rng.randrange(1, 50) * 10
        return Order(
            id=self._market.recorder.new_hash(),
            market_id=self._market.terms.id,
            party_id=rng.choice(self._parties),
            side=rng.choice((Side.BUY, Side.SELL)),
            price=0,
            size=size,
            remaining=size,
            created_at=self._market.recorder.time,
            reference=rng.choice(_REFERENCES),
        )

    def _limit_order(self) -> Order:
        rng, tick = self._rng, self._market.terms.tick
        order = self._order()
        away = rng.randrange(-3, 20) * tick
        order.price = self._fair - away if order.side is Side.BUY else self._fair + away
        kind = rng.randrange(20)
        if kind == 0:
            order.time_in_force = GTT
            order.expires_at = order.created_at + _GTT_MICROSECONDS
        elif kind == 1:
            order.post_only = True
        elif kind == 2:
            self._make_greedy(order)
        elif kind < 5 and self.icebergs:
            self._make_iceberg(order)
        return order

    def _make_greedy(self, order: Order) -> None:
        """Take all there is up to a price on the other side, and no more."""
        order.time_in_force = IOC
        order.price = 2 * self._fair - order.price
        order.size = order.remaining = 50 * order.size

    def _make_iceberg(self, order: Order) -> None:
        order.size *= 10
        order.peak_size = order.remaining = order.size // 5
        order.minimum_visible_size = order.peak_size // 2
        order.reserved_remaining = order.size - order.remaining

    def _market_order(self) -> Order:
        order = self._order()
        order.type, order.time_in_force = MARKET, self._rng.choice((IOC, IOC, FOK))
        return order

    def _submit_pegged(self) -> None:
        """Follow a price of the book at a distance; without one there is nothing to follow."""
        order = self._order()
        best = self._market.book.best(order.side)
        if best is None:
            return
        order.pegged_offset = self._rng.randrange(1, 10) * self._market.terms.tick
        order.pegged_reference = _BEST_BID if order.side is Side.BUY else _BEST_ASK
        buying = order.side is Side.BUY
        order.price = best - order.pegged_offset if buying else best + order.pegged_offset
        self._market.submit(order)

    def _reject(self, order: Order) -> None:
        order.status, order.reason = Status.REJECTED, _REJECTED_FOR_MARGIN
        self._market.record(order)

    def _cancel(self, order: Order) -> None:
        if not order.lp_id:  # only the network cancels those
            self._market.close(order, Status.CANCELLED)

    def _amend(self, order: Order) -> None:
        if order.pegged_reference or order.peak_size:
            self._cancel(order)
            return
        tick = self._market.terms.tick
        step = self._rng.randrange(1, 5) * tick
        price = order.price - step if order.side is Side.BUY else order.price + step
        self._market.amend(order, price, self._rng.randrange(3) * 10)
