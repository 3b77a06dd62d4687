"""A party's position in a market: what it holds, what it paid and what it has earned.

All in integers: prices in the market's unit, averages scaled by 10^16 like the network's decimals.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.sample.participants import Terms
from tests.sample.text import Cell

_PLACES = 16
_SCALE = 10**_PLACES


def decimal_text(scaled: int) -> str:
    """A number scaled by 10^16 as the network writes it: no zeros at the end, no bare point."""
    whole, fraction = divmod(abs(scaled), _SCALE)
    sign = "-" if scaled < 0 else ""
    digits = f"{fraction:0{_PLACES}d}".rstrip("0")
    return f"{sign}{whole}.{digits}" if digits else f"{sign}{whole}"


@dataclass(slots=True)
class Position:
    """An open or closed position; `volume` is negative when short."""

    volume: int = 0
    entry: int = 0
    realised: int = 0
    settled_value: int = 0
    unsettled: int = 0

    def trade(self, size: int, price: int) -> None:
        """Buy `size` at a price, or sell it where it is negative."""
        self.unsettled -= size * price
        if self.volume * size >= 0:
            held, added = abs(self.volume), abs(size)
            self.entry = (self.entry * held + price * _SCALE * added) // (held + added)
        else:
            closed = min(abs(size), abs(self.volume))
            gain = (price * _SCALE - self.entry) * closed
            self.realised += gain if self.volume > 0 else -gain
            if abs(size) > abs(self.volume):
                self.entry = price * _SCALE
        self.volume += size

    def settle(self, mark: int) -> int:
        """Mark to market: the gain since the last time, in price times size units."""
        value = self.volume * mark
        gain = value + self.unsettled - self.settled_value
        self.settled_value, self.unsettled = value, 0
        return gain

    def cells(self, terms: Terms, mark: int) -> dict[str, Cell]:
        """The row of `positions` at a mark price; pending values equal the settled ones."""
        unrealised = (mark * _SCALE - self.entry) * self.volume if self.volume else 0
        figures: dict[str, Cell] = {
            "open_volume": self.volume,
            "realised_pnl": decimal_text(self.realised * terms.unit),
            "unrealised_pnl": decimal_text(unrealised * terms.unit),
            "average_entry_price": decimal_text(self.entry * terms.price_unit),
            "average_entry_market_price": str(self.entry // _SCALE),
        }
        return {
            **figures,
            **{f"pending_{name}": value for name, value in figures.items()},
            "loss": "0",
            "adjustment": "0",
            "loss_socialisation_amount": "0",
            "distressed_status": "POSITION_STATUS_UNSPECIFIED",
        }
