"""Rendering a table of a volume: spec 2.8.1-5, with any NULL string (2.8.3)."""

from __future__ import annotations

import pytest

from tests.pg_csv import decode, pg_csv
from tests.segments_kit import entry_bytes
from tests.transforms.warehouse_kit import Held, blocks_of, render
from transforms.block_range import BlockRange

_NULLS = ["", "NULL", "\\N", "-", "#", "t", "0", "id", "\\x", "infinity", "é", " "]


@pytest.mark.parametrize("null", _NULLS)
def test_a_null_is_the_null_string_and_a_value_equal_to_it_is_quoted(held: Held, null: str) -> None:
    for segment in held.segments:
        header, rows = decode(entry_bytes(segment, "orders"))
        rendered = render(held.warehouse, blocks_of(segment), "orders", null)
        assert rendered == pg_csv(header, rows, null)


@pytest.mark.parametrize("null", ["", "NULL"])
def test_a_table_without_rows_is_its_header(held: Held, null: str) -> None:
    receipts = held.warehouse.loaded_catalog().receipts(BlockRange(1, 10))
    (receipt,) = (receipt for receipt in receipts if receipt.table == "trades")
    assert receipt.rows == 0
    assert render(held.warehouse, receipt.blocks, "trades", null) == receipt.schema.header


def test_each_schema_has_its_own_header(held: Held) -> None:
    first, _, third = held.segments
    for segment in (first, third):
        rendered = render(held.warehouse, blocks_of(segment), "orders")
        assert rendered.partition(b"\n")[0] == entry_bytes(segment, "orders").partition(b"\n")[0]
