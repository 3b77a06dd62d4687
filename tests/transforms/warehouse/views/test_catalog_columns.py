"""What stands in `main.<table>` beside the columns of the CSV, at every schema version."""

from __future__ import annotations

import duckdb
import pytest

from transforms.tables.registry import Column, KnownTable, known_table, known_tables
from transforms.warehouse.manifests.data_files import empty_sql
from transforms.warehouse.manifests.shapes import Shape
from transforms.warehouse.views.catalog_columns import exact_columns, typed_columns

_VERSIONS = range(1, 124)
_ORDERS = {"side", "time_in_force", "type", "status", "reason", "pegged_reference"}
_NUMBERED = {
    "orders": _ORDERS,
    "orders_live": _ORDERS,
    "trades": {"aggressor", "type"},
    "accounts": {"type"},
    "party_margin_modes": {"margin_mode"},
    "stop_orders": {"size_override_setting"},
    "stop_orders_live": {"size_override_setting"},
    "transfers": {"dispatch_metric"},
}
_LABELS = """
    amm_status amm_status_reason asset_status_type auction_trigger_type composite_price_type
    deposit_status erc20_multisig_signer_event funding_period_data_point_source
    liquidity_provision_status margin_mode_type market_state_type market_trading_mode_type
    node_signature_kind node_status oracle_spec_status position_status_type proposal_error
    proposal_state protocol_upgrade_proposal_status stake_linking_status stake_linking_type
    stop_order_expiry_strategy stop_order_rejection_reason stop_order_status
    stop_order_trigger_direction transfer_status transfer_type validator_node_status
    vote_value withdrawal_status
"""
"""The enums that the network's database declares, over all versions."""
_NAMED = {"ledger": {"type"}, "rewards": {"reward_type"}}
_COUNTS = {
    *("active_for", "allowed_empty_amm_levels", "batch_id", "decimal_places", "decimals", "epoch"),
    *("inactive_for", "position_decimal_places", "rank", "version", "voting_power"),
    "window_length",
}
"""The columns of small integers that are no enums."""


def _known(version: int) -> list[KnownTable]:
    found = (known_table(table, version) for table in known_tables(version))
    return [known for known in found if known is not None]


def _shape(known: KnownTable) -> Shape:
    return Shape({column.name: column.type for column in known.schema.columns})


def _beside(known: KnownTable, suffix: str) -> set[str]:
    """The columns that have another one of a suffix beside them, which the CSV does not have."""
    names = [column.name for column in typed_columns(known.schema.table, _shape(known))]
    return {name for name in known.schema.names if f"{name}{suffix}" in names}


def _is_enum(table: str, column: Column) -> bool:
    named = _NUMBERED.get(table, set()) | _NAMED.get(table, set())
    return column.type in _LABELS.split() or column.name in named


def test_every_enum_has_its_name_in_every_table_at_every_version() -> None:
    for version in _VERSIONS:
        for known in _known(version):
            table = known.schema.table
            expected = {column.name for column in known.schema.columns if _is_enum(table, column)}
            assert _beside(known, "_name") == expected, (version, table)


def test_every_small_integer_is_an_enum_or_a_count() -> None:
    for version in _VERSIONS:
        for known in _known(version):
            small = {c.name for c in known.schema.columns if c.type in ("smallint", "integer")}
            assert small <= _beside(known, "_name") | _COUNTS, (version, known.schema.table)


def test_every_time_has_its_date() -> None:
    for version in (1, 123):
        for known in _known(version):
            times = {c.name for c in known.schema.columns if c.type == "timestamp with time zone"}
            assert _beside(known, "_date") == times


def test_every_column_has_a_comment() -> None:
    for known in _known(123):
        shape = _shape(known)
        assert all(column.comment for column in typed_columns(known.schema.table, shape))


def test_the_columns_of_every_table_can_be_asked() -> None:
    with duckdb.connect() as con:
        for version in (1, 123):
            for known in _known(version):
                table, shape = known.schema.table, _shape(known)
                rows = empty_sql(table, known.schema.columns)
                exact = exact_columns(table, known.schema.columns)
                for columns in (typed_columns(table, shape), exact):
                    listed = ", ".join(f'{column.sql} as "{column.name}"' for column in columns)
                    asked = con.sql(f"select {listed} from {rows}")
                    assert asked.columns == [column.name for column in columns]


def test_a_column_of_the_csv_keeps_its_name() -> None:
    columns = {
        "status": "deposit_status",
        "Status_Name": "text",
        "vega_time": "timestamp with time zone",
        "vega_time_date": "text",
    }
    names = [column.name for column in typed_columns("deposits", Shape(columns))]
    assert names == [*columns, "_segment", "_row", "_raw"]


@pytest.mark.parametrize(
    ("column", "kind", "says"),
    [
        ("amount", "hugeint", "More than 38 digits are NULL here, and exact.deposits has"),
        ("fee", "numeric(1000,16)", "More than 22 digits before the point are NULL"),
        ("factor", "numeric", "Rounded to 10 decimals here"),
    ],
)
def test_a_comment_says_what_a_decimal_loses(column: str, kind: str, says: str) -> None:
    typed, *_ = typed_columns("deposits", Shape({column: kind}))
    assert says in typed.comment
    assert "pandas' .df() makes floats of it: .pl() and .to_arrow_table()" in typed.comment


def test_a_comment_says_that_cells_are_missing() -> None:
    typed, *_ = typed_columns("deposits", Shape({"amount": "hugeint"}, {"amount"}))
    assert typed.comment.endswith(
        "Cells that do not fit are NULL here: see strata.unfit and exact.deposits."
    )
