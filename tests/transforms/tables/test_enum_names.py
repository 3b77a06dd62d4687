"""Enum numbers against the lists of the specification."""

from __future__ import annotations

import pytest

from tests.cases import each_of
from transforms.tables.column_facts import enum_names
from transforms.tables.registry import known_table, known_tables

_RESERVED = {38, 39}
_LAST_OF_THE_SPECIFICATION = 50


@each_of(
    ("table", "column", "names"),
    [
        ("orders", "side", "SIDE_UNSPECIFIED SIDE_BUY SIDE_SELL"),
        ("orders", "type", "TYPE_UNSPECIFIED TYPE_LIMIT TYPE_MARKET TYPE_NETWORK"),
        (
            "orders",
            "status",
            "STATUS_UNSPECIFIED STATUS_ACTIVE STATUS_EXPIRED STATUS_CANCELLED STATUS_STOPPED "
            "STATUS_FILLED STATUS_REJECTED STATUS_PARTIALLY_FILLED STATUS_PARKED",
        ),
        (
            "orders",
            "time_in_force",
            "TIME_IN_FORCE_UNSPECIFIED TIME_IN_FORCE_GTC TIME_IN_FORCE_GTT TIME_IN_FORCE_IOC "
            "TIME_IN_FORCE_FOK TIME_IN_FORCE_GFA TIME_IN_FORCE_GFN",
        ),
        (
            "orders",
            "pegged_reference",
            "PEGGED_REFERENCE_UNSPECIFIED PEGGED_REFERENCE_MID PEGGED_REFERENCE_BEST_BID "
            "PEGGED_REFERENCE_BEST_ASK",
        ),
        (
            "trades",
            "type",
            "TYPE_UNSPECIFIED TYPE_DEFAULT TYPE_NETWORK_CLOSE_OUT_GOOD TYPE_NETWORK_CLOSE_OUT_BAD",
        ),
        ("trades", "aggressor", "SIDE_UNSPECIFIED SIDE_BUY SIDE_SELL"),
    ],
)
def test_an_enum_column_names_every_number(table: str, column: str, names: str) -> None:
    assert enum_names(table, column) == dict(enumerate(names.split()))


def test_order_reasons_number_the_specification_s_list_around_the_reserved_two() -> None:
    reasons = enum_names("orders", "reason")
    assert reasons is not None
    assert set(reasons) >= set(range(_LAST_OF_THE_SPECIFICATION + 1)) - _RESERVED
    assert not _RESERVED & set(reasons)
    assert all(name.startswith("ORDER_ERROR_") for name in reasons.values())


@each_of(
    ("number", "name"),
    [
        (0, "UNSPECIFIED"),
        (14, "MARGIN_CHECK_FAILED"),
        (20, "SELF_TRADING"),
        (37, "BUY_CANNOT_REFERENCE_BEST_ASK_PRICE"),
        (40, "OFFSET_MUST_BE_GREATER_OR_EQUAL_TO_ZERO"),
        (43, "INSUFFICIENT_ASSET_BALANCE"),
        (50, "REDUCE_ONLY_ORDER_WOULD_NOT_REDUCE_POSITION"),
    ],
)
def test_an_order_reason_has_the_network_s_number(number: int, name: str) -> None:
    reasons = enum_names("orders", "reason")
    assert reasons is not None
    assert reasons[number] == f"ORDER_ERROR_{name}"


def test_live_orders_use_the_names_of_orders() -> None:
    for column in ("side", "type", "status", "time_in_force", "reason", "pegged_reference"):
        assert enum_names("orders_live", column) == enum_names("orders", column)


@pytest.mark.parametrize("version", [1, 21, 123])
def test_every_smallint_column_has_names(version: int) -> None:
    for table in known_tables(version):
        known = known_table(table, version)
        assert known is not None
        for column in known.schema.columns:
            if column.type == "smallint":
                assert enum_names(table, column.name), f"{table}.{column.name}"


@pytest.mark.parametrize(("table", "column"), [("orders", "size"), ("deposits", "status")])
def test_other_columns_have_no_names(table: str, column: str) -> None:
    assert enum_names(table, column) is None
