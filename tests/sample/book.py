"""Orders and a price-time order book."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import IntEnum
from heapq import heappop, heappush

from tests.sample.text import Cell


class Side(IntEnum):
    """Which way an order trades."""

    BUY = 1
    SELL = 2

    @property
    def other(self) -> Side:
        """The side that it trades with."""
        return Side.SELL if self is Side.BUY else Side.BUY


class Status(IntEnum):
    """The network's numbers for an order's state."""

    ACTIVE = 1
    EXPIRED = 2
    CANCELLED = 3
    STOPPED = 4
    FILLED = 5
    REJECTED = 6
    PARTIALLY_FILLED = 7


LIMIT, MARKET = 1, 2
GTC, GTT, IOC, FOK = 1, 2, 3, 4


@dataclass(slots=True, eq=False, kw_only=True)
class Order:
    """One order as the `orders` table shows it; unset values are 0 or empty, as the network's."""

    id: str
    market_id: str
    party_id: str
    side: Side
    price: int
    size: int
    remaining: int
    created_at: int
    time_in_force: int = GTC
    type: int = LIMIT
    status: Status = Status.ACTIVE
    reference: str = ""
    reason: int = 0
    version: int = 1
    batch_id: int = 0
    pegged_offset: int = 0
    pegged_reference: int = 0
    lp_id: str = ""
    updated_at: int = 0
    expires_at: int = 0
    post_only: bool = False
    reduce_only: bool = False
    reserved_remaining: int | None = None
    peak_size: int | None = None
    minimum_visible_size: int | None = None

    def cells(self) -> dict[str, Cell]:
        """The order's columns."""
        return {name: getattr(self, name) for name in _COLUMNS}

    @property
    def open_size(self) -> int:
        """What is still to be traded, visible or not."""
        return self.remaining + (self.reserved_remaining or 0)

    def crosses(self, price: int) -> bool:
        """Whether the order would trade at a price of the other side."""
        if self.type == MARKET:
            return True
        return price <= self.price if self.side is Side.BUY else price >= self.price

    def fill(self, size: int) -> None:
        """Take a trade off; an iceberg shows its next peak once the visible part is gone."""
        self.remaining -= size
        if self.remaining == 0 and self.reserved_remaining and self.peak_size:
            self.remaining = min(self.peak_size, self.reserved_remaining)
            self.reserved_remaining -= self.remaining
        if self.remaining == 0:
            self.status = Status.FILLED


_COLUMNS = tuple(field.name for field in fields(Order))


class Book:
    """The live orders of one market, best price first, then oldest first."""

    def __init__(self) -> None:
        self.live: list[Order] = []
        self._places: dict[Order, int] = {}
        self._expiring: list[tuple[int, str, Order]] = []
        self._queues: dict[Side, dict[int, deque[Order]]] = {side: {} for side in Side}
        self._prices: dict[Side, list[int]] = {side: [] for side in Side}

    def add(self, order: Order) -> None:
        """Put an order at the end of the queue at its price."""
        queues, prices = self._queues[order.side], self._prices[order.side]
        if order.price not in queues:
            queues[order.price] = deque()
            insort(prices, order.price)
        queues[order.price].append(order)
        self._places[order] = len(self.live)
        self.live.append(order)
        if order.expires_at:
            heappush(self._expiring, (order.expires_at, order.id, order))

    def remove(self, order: Order) -> None:
        """Take an order off the book."""
        queues, prices = self._queues[order.side], self._prices[order.side]
        queues[order.price].remove(order)
        if not queues[order.price]:
            del queues[order.price]
            del prices[bisect_left(prices, order.price)]
        place, last = self._places.pop(order), self.live.pop()
        if last is not order:
            self.live[place] = last
            self._places[last] = place

    def best(self, side: Side) -> int | None:
        """The best price of a side."""
        prices = self._prices[side]
        if not prices:
            return None
        return prices[-1] if side is Side.BUY else prices[0]

    def volume(self, side: Side, price: int | None) -> int:
        """The visible size at a price; 0 where there is none."""
        queue = self._queues[side].get(price, ()) if price is not None else ()
        return sum(order.remaining for order in queue)

    def counterpart(self, order: Order) -> Order | None:
        """The resting order that this one would trade with first."""
        price = self.best(order.side.other)
        if price is None or not order.crosses(price):
            return None
        return self._queues[order.side.other][price][0]

    def fillable(self, order: Order) -> int:
        """How much of an order the book could fill at once."""
        return sum(
            self.volume(order.side.other, price)
            for price in self._prices[order.side.other]
            if order.crosses(price)
        )

    def expired(self, time: int) -> Iterator[Order]:
        """The live orders whose time is up, each once."""
        while self._expiring and self._expiring[0][0] <= time:
            order = heappop(self._expiring)[-1]
            if order in self._places:
                yield order
