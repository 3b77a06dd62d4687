"""One small warehouse, loaded once and only read by the tests that share it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pytest

from tests.segments_kit import Cell, build_segment, table_rows
from tests.transforms.warehouse_kit import HELD_STATES, STATE_TABLES, Held, MemorySink, load_folder
from transforms.warehouse.warehouse_address import open_warehouse

_few_tables = partial(build_segment, omit=set(STATE_TABLES) - set(HELD_STATES))


def _orders(*prices: str) -> list[Mapping[str, Cell]]:
    """Orders whose ids descend, so that no sorted table has them in their source's order."""
    return [
        {
            "id": f"\\x{len(prices) - number:064x}",
            "price": price,
            "side": str(number % 3),
            "reference": f"line\r\n{number}, #",
            "expires_at": "infinity",
        }
        for number, price in enumerate(prices)
    ]


@pytest.fixture(scope="session")
def held(tmp_path_factory: pytest.TempPathFactory) -> Held:
    folder = tmp_path_factory.mktemp("segments")
    sink = MemorySink()
    warehouse = open_warehouse(tmp_path_factory.mktemp("held") / "warehouse")
    positions = table_rows("positions", {"realised_pnl": "1.50"}, {"realised_pnl": "-2.0"}, first=3)
    first = _few_tables(
        folder,
        last=10,
        tables={
            "orders": table_rows("orders", *_orders("10", "9" * 38, "7"), first=1),
            "positions": positions,
            "parties": table_rows("parties", {}),
        },
    )
    second = _few_tables(
        folder,
        first=11,
        last=20,
        tables={
            "orders": table_rows("orders", *_orders("5", "9" * 78), first=11),
            "withdrawals": table_rows("withdrawals", {"amount": "1.50"}, {}, first=11),
            "parties": table_rows("parties", {}, {}, first=11),
        },
    )
    earlier = load_folder(warehouse.cache, folder, sink)
    third = _few_tables(
        folder,
        first=21,
        last=30,
        version=21,
        tables={
            "orders": table_rows("orders", *_orders("1", "2"), version=21, first=21),
            "parties": table_rows("parties", {}, {}, {}, version=21, first=21),
        },
    )
    later = load_folder(warehouse.cache, folder, sink)
    return Held(folder, warehouse, (first, second, third), (earlier, later), sink)
