"""A small history with what is hard for engines, as segment ZIPs.

Amounts beyond 64 bits, fees of 16 places, texts that no type holds, infinite times and years that
nobody reads, NULL beside the empty string, columns that a later schema version adds. The same bytes
each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

from tests.segments_kit import Cell, block_rows, block_time, build_segment, table_rows
from transforms.tables.registry import known_table, known_tables

CHAIN = "engine-chain"
BLOCKS = 300
"""Of a segment."""
VERSIONS = (1, 1, 69)
"""The schema versions of the segments, in order."""
STATE = "parties"
"""The only table of current state."""

_MARKETS = tuple(f"\\x{number:064x}" for number in range(0xA0, 0xA5))
_PARTIES = tuple(f"\\x{number:064x}" for number in range(0xB0, 0xB0 + 40))
_AMOUNTS = (0, 1, 10**18, 2**63 - 1, 2**63, 10**20, 10**20 + 1, 2**64, 10**25 + 7, 3 * 10**30 + 1)
_HUGE = "9" * 78
_TIMES: tuple[Cell, ...] = (
    None,
    "infinity",
    "-infinity",
    "0044-03-15 12:00:00+00 BC",
    "1999-12-31 23:59:59.999999+00",
    "9999-12-31 23:59:59.998999+00",
    "9999-12-31 23:59:59.999999+00",
    "10000-01-01 00:00:00+00",
)

Row = Mapping[str, Cell]
Maker = Callable[[Random, int, int], Row]
"""From a source of numbers, the segment's first block and the row's number to some of its cells."""


def write_segments(folder: Path) -> list[Path]:
    """Write the history's segments into a folder; returns them in order."""
    return [_segment(folder, number, version) for number, version in enumerate(VERSIONS)]


def _segment(folder: Path, number: int, version: int) -> Path:
    first, last = number * BLOCKS + 1, (number + 1) * BLOCKS
    states = {
        name
        for name in known_tables(version)
        if (known := known_table(name, version)) and known.kind != "history"
    }
    tables = {name: _table(name, version, first, *made) for name, made in _ROWS.items()}
    tables[STATE] = table_rows(
        STATE, *({"id": party} for party in _PARTIES[: 10 * (number + 1)]), version=version
    )
    rows = tuple(tuple(row) for row in block_rows(first, last, CHAIN))
    return build_segment(
        folder,
        chain_id=CHAIN,
        version=version,
        first=first,
        last=last,
        tables={**tables, "blocks": (("vega_time", "height", "hash"), rows)},
        omit=states - {STATE},
    )


def _table(
    name: str, version: int, first: int, count: int, maker: Maker
) -> tuple[tuple[str, ...], list[list[Cell]]]:
    numbers = Random(f"{name} {first}")
    rows = (dict(maker(numbers, first, number)) for number in range(count))
    timed = ({"vega_time": _time(first, number, count), **row} for number, row in enumerate(rows))
    return table_rows(name, *timed, version=version, first=first)


def _time(first: int, number: int, count: int) -> str:
    """The times of `count` rows ascend through the segment's blocks, each of them another one."""
    return block_time(first + number * BLOCKS // count, number)


def _amount(numbers: Random) -> str:
    return str(numbers.choice(_AMOUNTS) + numbers.randrange(1000))


def _order(numbers: Random, first: int, number: int) -> Row:
    return {
        "id": f"\\x{first + number * 1_000_003:064x}",
        "market_id": numbers.choice(_MARKETS),
        "party_id": numbers.choice(_PARTIES),
        "side": str(numbers.randrange(1, 3)),
        "price": _HUGE if number == 17 else _amount(numbers),
        "size": str(numbers.randrange(1, 2**40)),
        "remaining": "0",
        "reference": (None, "", "plain", 'a,"b"\r\n', "日本")[number % 5],
        "batch_id": None if number % 3 else str(number),
        "lp_id": None,
        "created_at": block_time(first, number),
        "updated_at": None,
        "expires_at": _TIMES[number % 8],
    }


def _trade(numbers: Random, first: int, number: int) -> Row:
    order = f"\\x{first + numbers.randrange(2000) * 1_000_003:064x}"
    return {
        "synthetic_time": block_time(first, number),
        "id": f"\\x{first + number * 7:064x}",
        "market_id": numbers.choice(_MARKETS),
        "price": _amount(numbers),
        "size": str(numbers.randrange(1, 1000)),
        "buy_order": order,
        "buyer": numbers.choice(_PARTIES),
        "buyer_maker_fee": None if number % 2 else _amount(numbers),
    }


def _ledger(numbers: Random, first: int, number: int) -> Row:
    return {
        "ledger_entry_time": block_time(first, number),
        "account_from_id": numbers.choice(_PARTIES),
        "account_to_id": numbers.choice(_PARTIES),
        "quantity": _amount(numbers),
        "account_from_balance": "9" * 38 if number == 3 else "-" + _amount(numbers),
        "type": "TRANSFER_TYPE_LOSS",
    }


def _provision(numbers: Random, first: int, number: int) -> Row:
    return {
        "market_id": numbers.choice(_MARKETS),
        "party_id": numbers.choice(_PARTIES),
        "fee": f"{numbers.randrange(10**6)}.{numbers.randrange(10**16):016d}",
        "commitment_amount": _amount(numbers),
        "sells": '[{"offset": "1"}]',
        "status": "STATUS_ACTIVE",
    }


def _withdrawal(numbers: Random, first: int, number: int) -> Row:
    return {
        "amount": "0.5" if number == 5 else _amount(numbers),
        "party_id": numbers.choice(_PARTIES),
        "withdrawn_timestamp": _TIMES[number % 8],
        "foreign_tx_hash": "" if number % 2 else "0xabc",
    }


def _reward(numbers: Random, first: int, number: int) -> Row:
    return {
        "amount": _amount(numbers),
        "percent_of_total": ("NaN", "Infinity", "0.1", "12.5", "1e+20")[number % 5],
        "market_id": numbers.choice(_MARKETS),
    }


def _position(numbers: Random, first: int, number: int) -> Row:
    return {
        "market_id": _MARKETS[number % 5],
        "party_id": _PARTIES[number % 40],
        "open_volume": str(numbers.randrange(-(2**62), 2**62)),
        "realised_pnl": f"-{_HUGE}.{numbers.randrange(10**9)}",
    }


_ROWS: dict[str, tuple[int, Maker]] = {
    "orders": (2000, _order),
    "trades": (1000, _trade),
    "ledger": (300, _ledger),
    "liquidity_provisions": (100, _provision),
    "withdrawals": (100, _withdrawal),
    "rewards": (100, _reward),
    "positions": (200, _position),
}

TABLES = ("blocks", *_ROWS, STATE)
"""Those with rows: the others have no folder in the lake."""
