"""The embedded sample history: always the same bytes, and a market that adds up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from pipelines.sample_history import copy_sample
from tests import zip_readers
from tests.cases import each_of
from tests.cid_kit import cid_of
from tests.sample import SEGMENTS, SampleSegment, write_sample
from tests.segments_kit import Cell, decode, pg_csv
from transforms.block_range import BlockRange
from transforms.errors import ConfigError
from transforms.segments.segment_name import SegmentName
from transforms.tables.registry import known_table, known_tables

_SHORT = (
    SampleSegment(1, BlockRange(1, 150)),
    SampleSegment(21, BlockRange(151, 220)),
    SampleSegment(21, BlockRange(221, 400)),
)
_EXTERNAL = "10"
_ROOT = Path(__file__).resolve().parents[3]
Tables = dict[str, list[list[dict[str, Cell]]]]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_sample(tmp_path_factory.mktemp("sample"))


@pytest.fixture(scope="module")
def tables(sample: list[Path]) -> Tables:
    """Every table's rows, one list per segment; a table may be absent from some versions."""
    found: Tables = defaultdict(list)
    for path in sample:
        for name, data in _entries(path):
            header, rows = decode(data)
            found[name.split("/")[1]].append([dict(zip(header, row, strict=True)) for row in rows])
    return found


def _entries(path: Path) -> Iterator[tuple[str, bytes]]:
    with ZipFile(path) as archive:
        for name in archive.namelist()[1:]:
            yield name, archive.read(name)


def _rows(tables: Tables, table: str) -> list[dict[str, Cell]]:
    return [row for segment in tables[table] for row in segment]


def _whole(value: Cell) -> int:
    assert value is not None
    return int(value)


def test_two_runs_write_the_same_bytes(tmp_path: Path) -> None:
    ours = write_sample(tmp_path / "ours", segments=_SHORT)
    program = (
        "from pathlib import Path; from tests.sample import test_sample as t;"
        f"t.write_sample(Path({str(tmp_path / 'theirs')!r}), segments=t._SHORT)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "TZ": "Asia/Tokyo"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, cwd=_ROOT)
    for path in [*ours, tmp_path / "ours/index.json"]:
        assert path.read_bytes() == (tmp_path / "theirs" / path.name).read_bytes()


def test_the_product_has_the_very_files_that_the_generator_writes(
    sample: list[Path], tmp_path: Path
) -> None:
    assert [path.name for path in copy_sample(tmp_path)] == [path.name for path in sample]
    for path in [*sample, sample[0].parent / "index.json"]:
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


def test_a_second_copy_leaves_whole_files_alone_and_replaces_damaged_ones(tmp_path: Path) -> None:
    first, second, third, *others = copy_sample(tmp_path)
    good, modified = second.read_bytes(), first.stat().st_mtime_ns
    second.write_bytes(b"damaged")
    third.unlink()
    copy_sample(tmp_path)
    assert first.stat().st_mtime_ns == modified
    assert second.read_bytes() == good
    assert third.is_file()
    names = {path.name for path in (first, second, third, *others)}
    assert {path.name for path in tmp_path.iterdir()} == {"index.json", *names}


def test_another_seed_writes_other_bytes(tmp_path: Path) -> None:
    one = write_sample(tmp_path / "one", segments=_SHORT[:1])
    two = write_sample(tmp_path / "two", segments=_SHORT[:1], seed=7)
    assert one[0].read_bytes() != two[0].read_bytes()


def test_nothing_but_the_segments_and_their_index_is_left_behind(tmp_path: Path) -> None:
    paths = write_sample(tmp_path, segments=_SHORT)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"index.json", *(path.name for path in paths)}


@pytest.mark.parametrize(
    ("segments", "reason"),
    [
        ((), "start at block 1"),
        ((SampleSegment(1, BlockRange(2, 9)),), "start at block 1"),
        ((_SHORT[0], _SHORT[2]), "cannot follow"),
        ((SampleSegment(21, BlockRange(1, 150)), SampleSegment(1, BlockRange(151, 160))), "fall"),
    ],
)
def test_segments_that_do_not_follow_each_other_are_refused(
    tmp_path: Path, segments: tuple[SampleSegment, ...], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        write_sample(tmp_path, segments=segments)
    assert list(tmp_path.iterdir()) == []


def test_scale_multiplies_the_rows(tmp_path: Path) -> None:
    def orders(scale: int) -> int:
        folder = tmp_path / str(scale)
        path = write_sample(folder, segments=(SampleSegment(1, BlockRange(1, 300)),), scale=scale)
        return len(dict(_entries(path[0]))["history/orders"])

    assert orders(8) > 5 * orders(1)


def test_the_segments_are_whole_zips_of_uneven_length_and_two_versions(sample: list[Path]) -> None:
    names = [SegmentName.parse(path.name) for path in sample]
    assert [SampleSegment(name.version, name.blocks) for name in names] == list(SEGMENTS)
    assert {name.version for name in names} == {1, 21}
    assert len({name.blocks.last - name.blocks.first for name in names}) > 2
    for path in sample:
        zip_readers.check(path)


def test_every_segment_names_the_one_before_it(sample: list[Path]) -> None:
    index = json.loads((sample[0].parent / "index.json").read_text())
    previous = ""
    for path, entry in zip(sample, index, strict=True):
        with ZipFile(path) as archive:
            assert archive.namelist()[0] == "metadata.json"
            metadata = json.loads(archive.read("metadata.json"))
        assert metadata["PreviousHistorySegmentID"] == previous
        assert {**metadata, **entry} == entry
        assert entry["File"] == path.name
        previous = entry["HistorySegmentID"]
        assert previous == cid_of(path)


def test_every_table_of_the_version_is_there_under_its_header(sample: list[Path]) -> None:
    for path in sample:
        version = SegmentName.parse(path.name).version
        expected = {}
        for table in known_tables(version):
            known = known_table(table, version)
            assert known is not None
            folder = "history" if known.kind == "history" else "currentstate"
            expected[f"{folder}/{table}"] = known.schema.header
        assert [name for name, _ in _entries(path)] == sorted(expected)
        for name, data in _entries(path):
            assert data.startswith(expected[name])


def test_every_csv_is_what_postgresql_would_have_written(sample: list[Path]) -> None:
    for path in sample:
        for name, data in _entries(path):
            assert pg_csv(*decode(data)) == data, f"{path.name} {name}"


def _sortable(kind: str, value: Cell) -> tuple[int, str]:
    assert value is not None
    if kind in ("smallint", "integer", "bigint"):
        return int(value), ""
    return 0, value.removesuffix("+00")


def test_every_table_is_in_dump_order_without_a_repeated_key(sample: list[Path]) -> None:
    for path in sample:
        for name, data in _entries(path):
            known = known_table(name.split("/")[1], SegmentName.parse(path.name).version)
            assert known is not None
            types = {column.name: column.type for column in known.schema.columns}
            header, rows = decode(data)
            places = [(header.index(column), types[column]) for column in known.key]
            keys = [tuple(_sortable(kind, row[place]) for place, kind in places) for row in rows]
            assert keys == sorted(set(keys)), f"{path.name} {name}"


def test_every_block_is_there_once(tables: Tables) -> None:
    for (_, blocks), rows in zip(SEGMENTS, tables["blocks"], strict=True):
        heights = [_whole(row["height"]) for row in rows]
        assert heights == list(range(blocks.first, blocks.last + 1))


def test_history_lies_inside_its_segment(tables: Tables, sample: list[Path]) -> None:
    for number, blocks in enumerate(tables["blocks"]):
        times = {row["vega_time"] for row in blocks}
        for table in ("orders", "trades", "ledger", "balances", "positions", "deposits"):
            assert {row["vega_time"] for row in tables[table][number]} <= times


def test_trades_agree_with_the_orders_that_they_fill(
    tables: Tables,
) -> None:
    orders = {row["id"]: row for row in _rows(tables, "orders")}
    filled: dict[Cell, int] = defaultdict(int)
    trades = _rows(tables, "trades")
    assert len(trades) > 500
    for trade in trades:
        buy, sell = orders[trade["buy_order"]], orders[trade["sell_order"]]
        assert (buy["side"], sell["side"]) == ("1", "2")
        assert (buy["party_id"], sell["party_id"]) == (trade["buyer"], trade["seller"])
        assert buy["market_id"] == sell["market_id"] == trade["market_id"]
        for order in (buy, sell):
            filled[order["id"]] += _whole(trade["size"])
    for identity, order in orders.items():
        left = _whole(order["remaining"]) + int(order.get("reserved_remaining") or 0)
        assert filled[identity] == _whole(order["size"]) - left


def test_orders_meet_every_fate(tables: Tables) -> None:
    orders = _rows(tables, "orders")
    assert {row["status"] for row in orders} == set("1234567")
    assert {row["type"] for row in orders} == {"1", "2"}
    assert {row["time_in_force"] for row in orders} == set("1234")
    assert {row["pegged_reference"] for row in orders} == {"0", "2", "3"}
    assert {"0", "14", "20"} <= {str(row["reason"]) for row in orders}
    assert max(_whole(row["version"]) for row in orders) > 1
    assert any(row["lp_id"] != "\\x" for row in orders)
    assert any(row.get("peak_size") for row in orders)
    assert not any(row[name] is None for row in orders for name in ("reference", "expires_at"))


def test_live_orders_are_those_whose_last_row_is_active(
    tables: Tables,
) -> None:
    last: dict[Cell, dict[str, Cell]] = {}
    for rows, live in zip(tables["orders"], tables["orders_live"], strict=True):
        last.update({row["id"]: row for row in rows})
        active = {identity for identity, row in last.items() if row["status"] == "1"}
        assert {row["id"] for row in live} == active


def test_no_money_appears_or_vanishes_inside(
    tables: Tables,
) -> None:
    accounts = {row["id"]: row for row in tables["accounts"][-1]}
    outside = {name for name, row in accounts.items() if row["type"] == _EXTERNAL}
    balances: dict[Cell, int] = defaultdict(int)
    for row in _rows(tables, "ledger"):
        amount, source, target = (
            _whole(row["quantity"]),
            row["account_from_id"],
            row["account_to_id"],
        )
        assert amount > 0
        assert accounts[source]["asset_id"] == accounts[target]["asset_id"]
        balances[source] -= amount
        balances[target] += amount
        for account, column in ((source, "account_from_balance"), (target, "account_to_balance")):
            if account in outside:
                balances[account] = 0
            assert _whole(row[column]) == balances[account] >= 0
    for row in tables["current_balances"][-1]:
        assert _whole(row["balance"]) == balances[row["account_id"]]


def test_longs_and_shorts_balance(tables: Tables) -> None:
    for segment in tables["positions_current"]:
        net: dict[Cell, int] = defaultdict(int)
        for row in segment:
            net[row["market_id"]] += _whole(row["open_volume"])
        assert set(net.values()) <= {0}


def test_open_interest_is_the_sum_of_the_longs(tables: Tables) -> None:
    longs: dict[Cell, int] = defaultdict(int)
    last_change: dict[Cell, str] = defaultdict(str)
    for row in tables["positions_current"][-1]:
        longs[row["market_id"]] += max(0, _whole(row["open_volume"]))
    for row in _rows(tables, "positions"):
        last_change[row["market_id"]] = str(row["vega_time"])
    quoted = [
        row
        for row in tables["current_market_data"][-1]
        if str(row["vega_time"]) >= last_change[row["market"]]
    ]
    assert quoted
    for row in quoted:
        assert _whole(row["open_interest"]) == longs[row["market"]]


def test_two_markets_trade_on_and_one_settles(
    tables: Tables,
) -> None:
    states = sorted(str(row["state"]) for row in tables["markets_current"][-1])
    assert states == ["STATE_ACTIVE", "STATE_ACTIVE", "STATE_SETTLED"]
    seen = {row["state"] for row in _rows(tables, "markets")}
    assert {"STATE_PROPOSED", "STATE_PENDING", "STATE_TRADING_TERMINATED"} <= seen


@pytest.mark.parametrize("table", ["deposits", "withdrawals"])
def test_transfers_over_the_bridge_open_and_are_finished_later(tables: Tables, table: str) -> None:
    fates: dict[Cell, list[Cell]] = defaultdict(list)
    for row in _rows(tables, table):
        fates[row["id"]].append(row["status"])
    assert ["STATUS_OPEN", "STATUS_FINALIZED"] in fates.values()
    assert all(fate[0] in ("STATUS_OPEN", "STATUS_REJECTED") for fate in fates.values())
    assert all("STATUS_FINALIZED" not in fate[:-1] for fate in fates.values())


def test_a_withdrawal_keeps_its_reference_and_amount(tables: Tables) -> None:
    fixed = {(row["id"], row["ref"], row["amount"]) for row in _rows(tables, "withdrawals")}
    assert len(fixed) == len({row["id"] for row in _rows(tables, "withdrawals")})


def test_withdrawals_are_signed_by_every_validator(
    tables: Tables,
) -> None:
    signatures: dict[Cell, int] = defaultdict(int)
    for row in tables["node_signatures"][-1]:
        signatures[row["resource_id"]] += 1
    signed = {row["id"] for row in _rows(tables, "withdrawals") if row["status"] == "STATUS_OPEN"}
    assert signed
    assert {signatures[withdrawal] for withdrawal in signed} == {len(tables["nodes"][-1])}


def test_provisions_have_versions_and_the_live_ones_are_the_current_state(
    tables: Tables,
) -> None:
    rows = _rows(tables, "liquidity_provisions")
    assert {row["version"] for row in rows} == {"1", "2"}
    assert {"STATUS_PENDING", "STATUS_ACTIVE", "STATUS_STOPPED"} == {row["status"] for row in rows}
    last = {row["id"]: row["status"] for row in sorted(rows, key=lambda row: str(row["vega_time"]))}
    live = {row["id"] for row in tables["live_liquidity_provisions"][-1]}
    assert live == {provision for provision, status in last.items() if status == "STATUS_ACTIVE"}


def test_spam_parameters_are_there_and_one_was_changed(
    tables: Tables,
) -> None:
    values: dict[Cell, list[Cell]] = defaultdict(list)
    for row in tables["network_parameters"][-1]:
        values[row["key"]].append(row["value"])
    assert values["spam.protection.max.votes"] == ["3", "5"]
    for key in (
        "spam.protection.max.proposals",
        "spam.protection.proposal.min.tokens",
        "spam.protection.max.delegations",
        "spam.protection.delegation.min.tokens",
        "spam.protection.maxUserTransfersPerEpoch",
        "reward.staking.delegation.minimumValidatorStake",
        "spam.protection.minMultisigUpdates",
        "spam.protection.voting.min.tokens",
        "spam.pow.numberOfPastBlocks",
        "spam.pow.difficulty",
        "spam.pow.hashFunction",
        "spam.pow.numberOfTxPerBlock",
        "spam.pow.increaseDifficulty",
    ):
        assert values[key], key


def test_values_that_are_easily_lost_are_there(
    tables: Tables,
) -> None:
    references = {str(row["reference"]) for row in _rows(tables, "orders")}
    assert {"", "#rebalance", "NULL"} <= references
    for mark in (",", '"', "\n", "\r\n"):
        assert any(mark in reference for reference in references)
    assert max(len(str(row["balance"])) for row in _rows(tables, "balances")) >= 40
    assert any(row["end_time"] is None for row in tables["epochs"][-1])
    assert any(row["vega_time"] is None for row in tables["parties"][-1])


@each_of(
    "table",
    ["rewards", "delegations", "checkpoints", "margin_levels", "market_data", "oracle_data"],
)
def test_the_other_tables_have_rows_too(tables: Tables, table: str) -> None:
    assert all(tables[table])


def test_oracle_data_name_the_specs_that_they_match(
    tables: Tables,
) -> None:
    specs = {str(row["id"]).removeprefix("\\x") for row in tables["oracle_specs"][-1]}
    for row in tables["oracle_data"][-1]:
        assert str(row["matched_spec_ids"])[5:-2] in specs
