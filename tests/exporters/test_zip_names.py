from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.zip_names import CsvName, NameStyle, csv_name, parse_csv_name, zip_name
from tests.cases import each_of
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.tables.registry import HISTORY_TABLES

NAMES = [
    (NameStyle.SPEC, (1, 1000), 1, "c-orders-1-1000.zip", "c-orders-1-1-1000.csv"),
    (NameStyle.SPEC, (0, 0), 0, "c-orders-0-0.zip", "c-orders-0-0-0.csv"),
    (
        NameStyle.REFERENCE,
        (1, 1000),
        1,
        "c-orders-000001-001000.zip",
        "c-orders-001-000001-001000.csv",
    ),
    (
        NameStyle.REFERENCE,
        (22_470_001, 22_470_300),
        1234,
        "c-orders-22470001-22470300.zip",
        "c-orders-1234-22470001-22470300.csv",
    ),
]


@each_of(("style", "ends", "version", "zipped", "csv"), NAMES)
def test_names_follow_the_spec_and_the_style_pads_their_numbers(
    style: NameStyle, ends: tuple[int, int], version: int, zipped: str, csv: str
) -> None:
    assert zip_name("c", "orders", BlockRange(*ends), style) == zipped
    assert csv_name("c", "orders", version, BlockRange(*ends), style) == csv


def test_numbers_are_unpadded_by_default() -> None:
    assert zip_name("vega-1", "market_data", BlockRange(1, 300)) == "vega-1-market_data-1-300.zip"
    assert csv_name("v", "ledger", 7, BlockRange(1, 300)) == "v-ledger-7-1-300.csv"


@given(
    chain_id=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True),
    table=st.sampled_from(HISTORY_TABLES),
    version=st.integers(0, 999_999),
    ends=st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)).map(sorted),
    style=st.sampled_from(NameStyle),
)
def test_a_csv_name_reads_back_whatever_the_chain_id(
    chain_id: str, table: str, version: int, ends: list[int], style: NameStyle
) -> None:
    blocks = BlockRange(*ends)
    name = csv_name(chain_id, table, version, blocks, style)
    assert parse_csv_name(name) == CsvName(chain_id, table, version, blocks)


@each_of(
    "name", ["", "orders.csv", "c-orders-1-1000.csv", "c-orders-1-1-1000.zip", "c-orders-x-1-2.csv"]
)
def test_a_name_of_another_form_is_refused(name: str) -> None:
    with pytest.raises(IntegrityError, match="is not named <chain id>-<table>"):
        parse_csv_name(name)
