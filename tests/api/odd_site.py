"""A site whose lists have odd rows among good ones: cells that load and that no network writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.api.chain_kit import (
    ALICE,
    MARKET,
    ORDER,
    RESOURCE,
    bytea,
    order_row,
    provision_row,
    withdrawal_row,
)
from tests.api.site_kit import Site
from tests.segments_kit import Cell, block_time, build_segment, table_rows
from tests.transforms.warehouse_kit import STATE_TABLES

ODD_JSON: Mapping[str, Cell] = {
    "a number of 5,000 digits": f'{{"erc20": {{"receiverAddress": "0x1"}}, "x": {"9" * 5000}}}',
    "3,000 levels": f'{{"erc20": {{"receiverAddress": "0x1"}}, "x": {"[" * 3000}{"]" * 3000}}}',
    "only levels": f"{'[' * 3000}{']' * 3000}",
    "only digits": f"[{'9' * 5000}]",
    "an exponent": '[1e999999, {"Name": 1e999999, "liquidity_order": {"proportion": 1e999}}]',
    "not a number": "[NaN, Infinity, -Infinity]",
    "a lone surrogate": r'{"erc20": {"receiverAddress": "\ud800"}}',
    "wrong types": '{"erc20": [{"receiverAddress": {"Name": []}}], "liquidity_order": 7}',
    "wrong entries": (
        '[null, 1, "x", [], {"Name": {}, "Value": 5}, {"order_id": 3, "liquidity_order": '
        '{"reference": "2", "proportion": -1, "offset": 7}}, {"liquidity_order": [{}]}]'
    ),
    "huge numbers": (
        f'[{{"liquidity_order": {{"reference": {10**30}, "proportion": {2**32}}}}}, '
        '{"liquidity_order": {"reference": 4294967295, "proportion": 1.5}}]'
    ),
    "a text": '"erc20"',
    "no JSON": "{oops",
    "nothing": "",
    "NULL": None,
}
"""Cells of JSON columns, by what is odd in them."""

_TIMES = (
    "infinity", "-infinity", "290000-01-01 00:00:00+00", "4000-01-01 00:00:00+00 BC", "oops", None
)  # fmt: skip
_IDS = ("\\xzz", "\\xabc", '\\x"', "\\x", "oops", "", None)
_NUMBERS = ("9" * 5000, "-1", "1.50", "NaN", "Infinity", "oops", "", None)
_SIGNERS = (
    '{"\\\\x0042"', "{}", '{"\\\\x004"}', '{"\\\\xzz"}', '{"\\\\x00ff"}', "{NULL}", "oops", ""
)  # fmt: skip
_STATUSES = ("", None)

Row = Mapping[str, Cell]


def odd_site(root: Path) -> Site:
    """Write two segments, the second with odd rows, and load each by itself."""
    site = Site(root)
    good = _tables(*_good())
    history = [name for name in good if name not in STATE_TABLES]
    build_segment(
        site.source_folder,
        last=100,
        tables={name: good[name] for name in history},
        omit=STATE_TABLES,
    )
    site.load()
    odd = _tables(*_odd())
    build_segment(
        site.source_folder,
        first=101,
        last=200,
        tables=odd,
        omit={*STATE_TABLES} - odd.keys(),
    )
    site.load()
    return site


def _tables(
    orders: list[Row], withdrawals: list[Row], provisions: list[Row], data: list[Row]
) -> dict[str, tuple[tuple[str, ...], list[list[Cell]]]]:
    signatures = [
        {"resource_id": bytea(RESOURCE), "sig": sig, "kind": kind}
        for sig in ("\\x01", *_IDS)
        for kind in ("NODE_SIGNATURE_KIND_ASSET_NEW", *_STATUSES)
    ]
    return {
        "orders": table_rows("orders", *orders),
        "withdrawals": table_rows("withdrawals", *withdrawals),
        "liquidity_provisions": table_rows("liquidity_provisions", *provisions),
        "live_liquidity_provisions": table_rows("live_liquidity_provisions", *provisions),
        "oracle_data": table_rows("oracle_data", *data),
        "oracle_data_current": table_rows("oracle_data_current", *data),
        "node_signatures": table_rows("node_signatures", *signatures),
    }


def _good() -> tuple[list[Row], list[Row], list[Row], list[Row]]:
    return (
        [order_row(ORDER, 1, 2)],
        [withdrawal_row(f"{number:064x}", ALICE, 3) for number in range(3)],
        [provision_row(f"{number:064x}", ALICE, MARKET, 4, "ACTIVE") for number in range(3)],
        [],
    )


def _odd() -> tuple[list[Row], list[Row], list[Row], list[Row]]:
    return _odd_orders(), _odd_withdrawals(), _odd_provisions(), _odd_data()


def _odd_orders() -> list[Row]:
    cells = _each(
        {
            **dict.fromkeys(("vega_time", "created_at", "updated_at", "expires_at"), _TIMES),
            **dict.fromkeys(("market_id", "party_id", "lp_id", "reference"), _IDS),
            **dict.fromkeys(("version", "seq_num", "size", "remaining", "price"), _NUMBERS),
            **dict.fromkeys(("side", "type", "status", "reason", "pegged_reference"), _NUMBERS),
            **dict.fromkeys(("pegged_offset", "post_only", "batch_id"), _NUMBERS),
        }
    )
    return [
        {**order_row(ORDER, 2 + number, 101 + number % 90), **odd}
        for number, odd in enumerate(cells)
    ]


def _each(cells: Mapping[str, tuple[Cell, ...]]) -> list[Row]:
    return [{column: cell} for column, given in cells.items() for cell in given]


def _odd_withdrawals() -> list[Row]:
    cells = _each(
        {
            "ext": (*ODD_JSON.values(),),
            **dict.fromkeys(("vega_time", "created_timestamp", "withdrawn_timestamp"), _TIMES),
            **dict.fromkeys(("id", "party_id", "asset", "foreign_tx_hash", "ref"), _IDS),
            "amount": _NUMBERS,
            "status": _STATUSES,
        }
    )
    return [
        {**withdrawal_row(f"{1000 + number:064x}", ALICE, 101 + number % 90), **odd}
        for number, odd in enumerate(cells)
    ]


def _odd_provisions() -> list[Row]:
    cells = _each(
        {
            **dict.fromkeys(("sells", "buys"), (*ODD_JSON.values(),)),
            **dict.fromkeys(("vega_time", "created_at", "updated_at"), _TIMES),
            **dict.fromkeys(("id", "party_id", "reference"), _IDS),
            **dict.fromkeys(("commitment_amount", "fee", "version"), _NUMBERS),
            "status": _STATUSES,
        }
    )
    return [
        {
            **provision_row(f"{1000 + number:064x}", ALICE, MARKET, 101 + number % 90, "ACTIVE"),
            "version": "1",
            **odd,
        }
        for number, odd in enumerate(cells)
    ]


def _odd_data() -> list[Row]:
    cells = _each(
        {
            "data": (*ODD_JSON.values(),),
            **dict.fromkeys(("vega_time", "broadcast_at"), _TIMES),
            **dict.fromkeys(("signers", "matched_spec_ids"), (*_SIGNERS, None)),
            "seq_num": _NUMBERS,
        }
    )
    return [
        {
            "signers": '{"\\\\x0042"}',
            "data": json.dumps([{"Name": "n", "Value": str(number)}]),
            "matched_spec_ids": f'{{"\\\\x{number:064x}"}}',
            "broadcast_at": block_time(101),
            "vega_time": block_time(101 + number % 90),
            "seq_num": str(number),
            **odd,
        }
        for number, odd in enumerate(cells)
    ]
