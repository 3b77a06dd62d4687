"""Who and what takes part in the sample market: everything that is known before the first block.

Ids are SHA-256 of the seed and a name, so they never depend on the course of the market.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

NETWORK_PARTY = "03"
"""The well-known one-byte id of the network itself."""

_PARTIES_PER_SCALE = 24
_NODES = ("Altair", "Bellatrix", "Capella", "Deneb", "Electra")


def digest(*parts: object) -> str:
    """A 32-byte id as lower-case hex."""
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Asset:
    """An asset that lives in a contract on a foreign chain."""

    id: str
    name: str
    symbol: str
    decimals: int
    contract: str

    def whole(self, units: int) -> int:
        """An amount of whole units in the asset's smallest unit."""
        scale: int = 10**self.decimals
        return units * scale


@dataclass(frozen=True)
class Terms:
    """What was agreed when a market was proposed. Heights are blocks, prices the market's unit."""

    id: str
    code: str
    name: str
    asset: Asset
    decimals: int
    position_decimals: int
    price: int
    tick: int
    opens: int
    settles: int | None

    @cached_property
    def unit(self) -> int:
        """Smallest units of the asset per price unit and size unit."""
        return self.price_unit // int(10**self.position_decimals)

    @cached_property
    def price_unit(self) -> int:
        """Smallest units of the asset per price unit, for a size of one whole contract."""
        return self.asset.whole(1) // int(10**self.decimals)

    @property
    def settlement_spec(self) -> str:
        """The oracle spec whose data settles the market."""
        return digest(self.id, "settlement")

    @property
    def termination_spec(self) -> str:
        """The oracle spec whose data ends trading."""
        return digest(self.id, "termination")


@dataclass(frozen=True)
class Participants:
    """Parties, nodes, assets, markets. `scale` multiplies the parties; `last` is the last block."""

    seed: int
    chain_id: str
    scale: int
    last: int

    @cached_property
    def parties(self) -> tuple[str, ...]:
        """The traders' ids; the first is a whale."""
        count = _PARTIES_PER_SCALE * self.scale
        return tuple(digest(self.seed, "party", number) for number in range(count))

    @cached_property
    def providers(self) -> tuple[str, ...]:
        """The liquidity providers' ids, who are traders too."""
        return self.parties[1:4]

    @cached_property
    def nodes(self) -> dict[str, str]:
        """The validators: id to name."""
        return {digest(self.seed, "node", name): name for name in _NODES}

    @cached_property
    def assets(self) -> tuple[Asset, Asset, Asset]:
        """A stablecoin, an asset of 18 decimals and the staking token."""
        facts = (("Tether USD", "USDT", 6), ("Dai Stablecoin", "DAI", 18), ("Vega", "VEGA", 18))
        stable, dai, vega = (
            Asset(digest(self.seed, symbol), name, symbol, decimals, self.address(symbol))
            for name, symbol, decimals in facts
        )
        return stable, dai, vega

    @cached_property
    def markets(self) -> tuple[Terms, ...]:
        """Two markets that stay open and one that settles on the way."""
        stable, dai, _ = self.assets
        soon, late, end = self.last // 60 + 60, self.last // 15 + 60, self.last * 3 // 5
        return (
            self._terms("BTC/USD", stable, (2, 3), 2_650_000, 50, soon, None),
            self._terms("ETH/USD", dai, (4, 2), 18_400_000, 1_000, soon, None),
            self._terms("LINK/USD", stable, (3, 1), 6_500, 5, late, end),
        )

    def _terms(
        self,
        code: str,
        asset: Asset,
        decimals: tuple[int, int],
        price: int,
        tick: int,
        opens: int,
        settles: int | None,
    ) -> Terms:
        name = f"{code} June 2023, cash settled"
        market = digest(self.seed, "market", code)
        return Terms(market, code, name, asset, *decimals, price, tick, opens, settles)

    def address(self, *parts: object) -> str:
        """A foreign-chain address of someone or something."""
        return f"0x{digest(self.seed, 'address', *parts)[:40]}"
