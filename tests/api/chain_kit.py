"""A small chain with something of everything, in three segments, each loaded by itself.

It is loaded once per test process and only read.
"""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from api.core.open_snapshots import OpenSnapshots, Reading
from tests.api.answers_kit import load
from tests.segments_kit import Cell, Table, block_time, build_segment, table_rows
from tests.transforms.warehouse_kit import STATE_TABLES
from transforms.warehouse.warehouse_address import open_warehouse

ALICE, BOB = "c1" * 32, "c2" * 32
MARKET, OTHER_MARKET = "e1" * 32, "e2" * 32
ORDER, LONG_ORDER, ODD_ORDER, TIED_ORDER = "a1" * 32, "a2" * 32, "a3" * 32, "a4" * 32
RESOURCE = "d1" * 32
PROVISION, CANCELLED, EARLY = "f1" * 32, "f2" * 32, "f3" * 32
LONG_VERSIONS = 67
"""The versions of the long order, each written 15 times."""

_Row = Mapping[str, Cell]


def bytea(text: str) -> str:
    """Hex as PostgreSQL writes bytes."""
    return f"\\x{text}"


def order_row(id_: str, version: int, block: int, micros: int = 0, **columns: Cell) -> _Row:
    """A row of `orders`, written in a block; every order is created in block 1."""
    return {
        "id": bytea(id_),
        "market_id": bytea(MARKET),
        "party_id": bytea(ALICE),
        "version": str(version),
        "created_at": block_time(1),
        "updated_at": "1970-01-01 00:00:00+00",
        "expires_at": "1970-01-01 00:00:00+00",
        "vega_time": block_time(block, micros),
        **columns,
    }


def withdrawal_row(id_: str, party: str, block: int, status: str = "OPEN", **columns: Cell) -> _Row:
    """A row of `withdrawals`."""
    return {
        "id": bytea(id_),
        "party_id": bytea(party),
        "status": f"STATUS_{status}",
        "vega_time": block_time(block),
        "created_timestamp": block_time(1),
        "withdrawn_timestamp": "1970-01-01 00:00:00+00",
        **columns,
    }


def provision_row(id_: str, party: str, market: str, block: int, status: str) -> _Row:
    """A row of `liquidity_provisions` or `live_liquidity_provisions`."""
    return {
        "id": bytea(id_),
        "party_id": bytea(party),
        "market_id": bytea(market),
        "status": f"STATUS_{status}",
        "vega_time": block_time(block),
        "version": str(block),
        "sells": "[]",
        "buys": "[]",
        "reference": f"ref {id_[:2]}",
    }


def _orders() -> list[list[_Row]]:
    long = [order_row(LONG_ORDER, n // 15, 12, n) for n in range(15 * LONG_VERSIONS)]
    return [
        [
            order_row(ORDER, 1, 2, remaining="9"),
            order_row(ORDER, 1, 5, remaining="8"),
            order_row(ODD_ORDER, 2, 4),
            order_row(TIED_ORDER, 1, 4),
        ],
        [
            order_row(ORDER, 2, 12),
            order_row(ORDER, 3, 12, remaining="7"),
            *long,
            order_row(TIED_ORDER, 2, 14),
            order_row(TIED_ORDER, 3, 14),
        ],
        [
            order_row(ORDER, 3, 25, remaining="6"),
            order_row(ORDER, 4, 26),
            # Its first version is written after its second, as no network does.
            order_row(ODD_ORDER, 1, 27),
        ],
    ]


def _withdrawals() -> list[list[_Row]]:
    return [
        [
            withdrawal_row("01" * 32, ALICE, 2),
            withdrawal_row("02" * 32, ALICE, 3, amount="5.50"),
            withdrawal_row("03" * 32, BOB, 3),
            withdrawal_row("04" * 32, ALICE, 4, amount="1" + "0" * 60),
        ],
        [
            withdrawal_row("01" * 32, ALICE, 12, "FINALIZED", withdrawn_timestamp=block_time(12)),
            # One id for two parties in one block: their order needs the party.
            withdrawal_row("05" * 32, ALICE, 14),
            withdrawal_row("05" * 32, BOB, 14),
        ],
        [
            withdrawal_row("03" * 32, BOB, 22, "REJECTED"),
            withdrawal_row("06" * 32, "03", 23),
        ],
    ]


def _provisions() -> list[list[_Row]]:
    return [
        [
            provision_row(PROVISION, ALICE, MARKET, 2, "PENDING"),
            provision_row(CANCELLED, BOB, MARKET, 3, "ACTIVE"),
        ],
        [provision_row(PROVISION, ALICE, MARKET, 12, "ACTIVE")],
        [provision_row(CANCELLED, BOB, MARKET, 24, "CANCELLED")],
    ]


def _state() -> dict[str, Table]:
    """The current state of the newest segment."""
    signatures = [
        {"resource_id": bytea(RESOURCE), "sig": bytea(sig), "kind": "NODE_SIGNATURE_KIND_ASSET_NEW"}
        for sig in ("01", "0102", "ff", "00ff")
    ]
    other = {"resource_id": "\\x03", "sig": "\\x07", "kind": "NODE_SIGNATURE_KIND_ASSET_UPDATE"}
    return {
        "node_signatures": table_rows("node_signatures", *signatures, other),
        "live_liquidity_provisions": table_rows(
            "live_liquidity_provisions",
            provision_row(PROVISION, ALICE, MARKET, 12, "ACTIVE"),
            provision_row(EARLY, ALICE, OTHER_MARKET, 0, "ACTIVE"),
        ),
    }


def chain_folder(folder: Path, *segments: int) -> Path:
    """Write segments of the small chain (0 to 2) into a folder."""
    segments_rows = zip(_orders(), _withdrawals(), _provisions(), strict=True)
    for number, (orders, withdrawals, provisions) in enumerate(segments_rows):
        if number in segments:
            build_segment(
                folder,
                first=number * 10 + 1,
                last=number * 10 + 10,
                omit={*STATE_TABLES} - (_state().keys() if number == 2 else set()),
                tables={
                    "orders": table_rows("orders", *orders),
                    "withdrawals": table_rows("withdrawals", *withdrawals),
                    "liquidity_provisions": table_rows("liquidity_provisions", *provisions),
                    **(_state() if number == 2 else {}),
                },
            )
    return folder


@cache
def _warehouse() -> Path:
    """A warehouse of the whole small chain, one volume per segment."""
    kept = ExitStack()
    atexit.register(kept.close)
    root = Path(kept.enter_context(TemporaryDirectory(prefix="chain-")))
    for number in range(3):
        load(chain_folder(root / "source", number), root / "warehouse")
    return root / "warehouse"


@cache
def small_chain() -> Reading:
    """The whole small chain, open to be asked."""
    kept = ExitStack()
    atexit.register(kept.close)
    snapshots = kept.enter_context(OpenSnapshots.open(open_warehouse(_warehouse())))
    return kept.enter_context(snapshots.reading())
