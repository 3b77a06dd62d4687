"""Loading: volumes, the catalog's snapshots and views, current state, and the proof over all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hostile_tables import EXACT_CELLS
from tests.pg_csv import Cell, pg_csv
from tests.segments_kit import block_time, build_segment, columns, decode, entry_bytes, table_rows
from tests.transforms.warehouse_kit import (
    HELD_STATES,
    Held,
    MemorySink,
    blocks_of,
    exact_tables,
    history_segment,
    load_folder,
    query,
    render,
    state_segment,
    verify,
)
from transforms.block_range import BlockRange
from transforms.errors import RangeError
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.tables.registry import HISTORY_TABLES, known_tables, primary_key
from transforms.warehouse.load import loader
from transforms.warehouse.load.volume_files import write_tables
from transforms.warehouse.manifests.manifest import (
    manifest_receipts,
    manifest_segments,
    read_about,
)
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse

_FIRST, _SECOND, _THIRD = BlockRange(1, 10), BlockRange(11, 20), BlockRange(21, 30)


def _files(warehouse: Warehouse, folder: str) -> list[str]:
    return sorted(path.name for path in (warehouse.cache / folder).iterdir())


# --- what a load gives ---------------------------------------------------------------------------


def test_every_table_of_every_segment_renders_to_its_bytes(held: Held) -> None:
    for segment in held.segments:
        tables = exact_tables(held.warehouse, segment)
        assert set(HISTORY_TABLES) <= set(tables)
        assert all(tables.values())


def test_the_sink_gets_the_proven_csv_of_each_history_table_with_rows_and_of_no_other(
    held: Held,
) -> None:
    csvs = {
        (blocks_of(segment), table): entry_bytes(segment, table)
        for segment in held.segments
        for table in HISTORY_TABLES
    }
    rows = {key: len(decode(csv)[1]) for key, csv in csvs.items()}
    assert held.sink.csvs == {key: csv for key, csv in csvs.items() if rows[key]}
    assert held.sink.rows == {key: count for key, count in rows.items() if count}
    assert 0 < len(held.sink.csvs) < len(csvs)


def test_a_segment_has_a_receipt_for_each_table(held: Held) -> None:
    earlier, later = held.reports
    assert (earlier.loaded, later.loaded) == ([_FIRST, _SECOND], [_THIRD])
    assert earlier.failures == later.failures == []
    receipts = held.warehouse.receipts(earlier.loaded)
    assert {(known.blocks, known.table) for known in receipts} == {
        (blocks, table) for blocks in earlier.loaded for table in HISTORY_TABLES
    }
    paths = {blocks_of(segment): segment for segment in held.segments}
    for receipt in receipts:
        csv = entry_bytes(paths[receipt.blocks], receipt.table)
        assert (receipt.rows, receipt.bytes) == (len(decode(csv)[1]), len(csv))


def test_progress_goes_to_the_bytes_of_the_segments(tmp_path: Path) -> None:
    state_segment(tmp_path / "s", last=5)
    warehouse = open_warehouse(tmp_path / "w")
    done: list[int] = []
    source = Source(FolderStore(tmp_path / "s"))
    pending = warehouse.survey(source).pending
    warehouse.load(source, pending, MemorySink(), done.append)
    assert sum(done) == sum(file.info.size for file in pending)


def test_the_progress_of_a_segment_that_fails_is_told_once(tmp_path: Path) -> None:
    state_segment(tmp_path / "s", last=5)
    wrong = {"rewards": (columns("rewards"), [["1"]])}
    history_segment(tmp_path / "s", first=6, last=9, tables=wrong)
    warehouse = open_warehouse(tmp_path / "w")
    done: list[int] = []
    source = Source(FolderStore(tmp_path / "s"))
    pending = warehouse.survey(source).pending
    report = warehouse.load(source, pending, MemorySink(), done.append)
    assert len(report.failures) == 1
    assert sum(done) == sum(file.info.size for file in pending)


def test_joined_segments_are_one_volume_and_a_gap_parts_them(held: Held) -> None:
    manifests = _files(held.warehouse, "manifests")
    assert [name.partition(".")[0] for name in manifests] == [
        "000000001-000000020",
        "000000021-000000030",
    ]
    assert [volume.key for volume in held.warehouse.catalog().snapshot.history] == [
        f"manifests/{name}" for name in manifests
    ]


def test_a_volume_that_has_its_bytes_takes_no_further_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "VOLUME_BYTES", 1)
    for first in (1, 4, 7):
        history_segment(tmp_path / "s", first=first, last=first + 2)
    load_folder(tmp_path / "w", tmp_path / "s")
    assert len(open_warehouse(tmp_path / "w").catalog().snapshot.volumes) == 3
    assert len(open_warehouse(tmp_path / "w").receipts()) == 3 * len(HISTORY_TABLES)


def test_a_file_of_the_warehouse_is_named_by_its_bytes(held: Held) -> None:
    for folder in ("manifests", "data/orders", "index", "state"):
        for path in (held.warehouse.cache / folder).iterdir():
            assert path.name.split(".")[1] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_data_file_has_its_rows_in_the_order_of_the_source(held: Held) -> None:
    path = held.warehouse.loaded_catalog().data_path(BlockRange(1, 10), "orders")
    table = pq.read_table(path, columns=["id", "_segment", "_row"])
    columns = (table.column(name).to_pylist() for name in ("_segment", "_row"))
    places = list(zip(*columns, strict=True))
    assert places == sorted(places)
    header, rows = decode(entry_bytes(held.segments[0], "orders"))
    ids = table.column("id").to_pylist()[: len(rows)]
    assert [f"\\x{id_}" for id_ in ids] == [row[header.index("id")] for row in rows]


def test_a_manifest_says_what_was_loaded_and_where_it_lies(held: Held) -> None:
    volume = held.warehouse.loaded_catalog().snapshot.history[0]
    path = held.warehouse.cache / volume.key
    assert [segment.blocks for segment in manifest_segments(path)] == [
        BlockRange(1, 10),
        BlockRange(11, 20),
    ]
    receipts = manifest_receipts([path])
    assert len(receipts) == 30
    assert len({receipt.table for receipt in receipts}) == 15
    assert read_about(path, volume.file)[1] == replace(volume, shapes={})


def test_many_rows_and_files_come_back_in_order(tmp_path: Path) -> None:
    """Enough rows for two of DuckDB's row groups, and several files."""
    header, row = pg_csv(*table_rows("orders", {"reference": "a,b"})).decode().splitlines()
    cells = row.partition(",")[2].removesuffix("0,f,f")
    for first in range(1, 123_001, 41_000):
        heights = range(first, first + 41_000)
        orders = [f"\\x{height * 7919 % 41_000:064x},{cells}{height},f,f\n" for height in heights]
        blocks = [f"{block_time(height)},{height},\\x00\n" for height in heights]
        tables = {
            "orders": (f"{header}\n" + "".join(orders)).encode(),
            "blocks": ("vega_time,height,hash\n" + "".join(blocks)).encode(),
        }
        history_segment(tmp_path / "s", first=first, last=heights[-1], tables=tables)
    sink = MemorySink()
    report = load_folder(tmp_path / "w", tmp_path / "s", sink)
    assert report.failures == []
    for (held_blocks, table), csv in sink.csvs.items():
        assert csv == entry_bytes(tmp_path / "s" / f"kit-chain-1-{held_blocks}.zip", table)


def test_large_tables_stay_in_order_when_they_are_merged(tmp_path: Path) -> None:
    """DuckDB 2.0 may write the parts of a large union in another order to Parquet."""
    header, row = pg_csv(*table_rows("checkpoints", {"seq_num": None})).decode().splitlines()
    segments = []
    for first, count in ((1, 122_881), (11, 7), (21, 122_879)):
        rows = "".join(f"{row}{at}\n" for at in range(count))
        tables = {"checkpoints": f"{header}\n{rows}".encode()}
        folder = tmp_path / f"only-{first}"
        segments.append(history_segment(folder, first=first, last=first + 9, tables=tables))
        assert load_folder(tmp_path / "w", folder).failures == []
    warehouse = open_warehouse(tmp_path / "w")
    assert len(warehouse.compact(most_partial=1)) == 1
    for segment in segments:
        rendered = render(warehouse, blocks_of(segment), "checkpoints")
        assert rendered == entry_bytes(segment, "checkpoints")


def test_the_texts_that_a_data_file_keeps_are_counted(held: Held) -> None:
    raw = {
        (receipt.blocks, receipt.table): dict(receipt.raw_cells)
        for receipt in held.warehouse.receipts()
        if any(receipt.raw_cells.values())
    }
    assert raw == {
        (_FIRST, "orders"): {"expires_at": 3},
        (_SECOND, "orders"): {"expires_at": 2, "price": 1},
        (_THIRD, "orders"): {"expires_at": 2},
        (_SECOND, "withdrawals"): {"amount": 1},
    }


_TABLES = {table for table, _ in EXACT_CELLS if table in HISTORY_TABLES}
_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
_HOSTILE = st.sampled_from(
    [cell for cells in EXACT_CELLS.values() for cell in cells if len(cell or "") < 2000]
)


@st.composite
def _rows(draw: st.DrawFn) -> dict[str, list[list[Cell]]]:
    """Rows of any texts, most of which the column's type cannot hold; their keys differ."""
    tables: dict[str, list[list[Cell]]] = {}
    for table in sorted(_TABLES):
        names, (plain,) = table_rows(table, {})
        cells = [st.one_of(st.just(cell), _HOSTILE, st.none(), _TEXT) for cell in plain]
        key_cells = itemgetter(*map(names.index, primary_key(table, 1)))
        rows = st.lists(st.tuples(*cells).map(list), max_size=4, unique_by=key_cells)
        tables[table] = draw(rows)
    return tables


@settings(max_examples=3, deadline=None)
@given(_rows(), _rows())
def test_any_rows_at_all_are_loaded_and_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    one: dict[str, list[list[Cell]]],
    other: dict[str, list[list[Cell]]],
) -> None:
    root = tmp_path_factory.mktemp("any")
    for first, rows in ((1, one), (3, other)):
        tables = {table: (columns(table), rows[table]) for table in rows}
        history_segment(root / "s", first=first, last=first + 1, tables=tables)
    warehouse = open_warehouse(root / "w")
    sink = MemorySink()
    assert load_folder(warehouse.cache, root / "s", sink).failures == []
    for segment in (root / "s").glob("*.zip"):
        for table in _TABLES:
            csv = entry_bytes(segment, table)
            staged = sink.csvs.get((blocks_of(segment), table))
            assert staged == (csv if csv.count(b"\n") > 1 else None)
    assert list(verify(warehouse)) == []


# --- the catalog ---------------------------------------------------------------------------------


def test_each_load_makes_one_snapshot(held: Held) -> None:
    catalog = held.warehouse.catalog()
    assert catalog.snapshot.number == 3  # the first one is empty
    assert catalog.snapshot.chain_id == "kit-chain"
    assert list(catalog.blocks) == [_FIRST, _SECOND, _THIRD]
    assert [volume.blocks for volume in catalog.snapshot.history] == [BlockRange(1, 20), _THIRD]


def test_the_file_of_views_is_no_link_and_new_after_a_load(held: Held) -> None:
    current = held.warehouse.cache / "current.duckdb"
    assert not current.is_symlink()
    with duckdb.connect(current, read_only=True) as con:
        assert con.execute("select snapshot from strata.snapshot").fetchall() == [(3,)]
        assert con.execute("select count(*), max(height) from blocks").fetchall() == [(30, 30)]


def test_a_change_that_changes_nothing_makes_no_snapshot(held: Held) -> None:
    log = held.warehouse.backing.log
    assert log.commit(lambda newest: newest).number == 3
    assert log.numbers() == [1, 2, 3]


def test_the_volume_of_a_segment_is_known(held: Held) -> None:
    catalog = held.warehouse.catalog()
    found = [catalog.volumes_over(blocks) for blocks in (_FIRST, _SECOND, _THIRD)]
    assert [volume.blocks for (volume,) in found] == [BlockRange(1, 20), BlockRange(1, 20), _THIRD]
    for other in (BlockRange(31, 40), BlockRange(15, 25)):
        with pytest.raises(RangeError, match=f"does not hold the segment {other}"):
            catalog.data_path(other, "orders")


def _tables(held: Held) -> set[str]:
    """The tables that segments have; views of others are empty."""
    volumes = held.warehouse.loaded_catalog().snapshot.volumes
    return {table for volume in volumes for table in volume.shapes}


def _views(held: Held) -> list[tuple[str, str]]:
    rows = query(
        held.warehouse,
        "select schema_name, view_name from duckdb_views() "
        "where database_name = current_database() and schema_name in ('main', 'exact') "
        "and not internal order by all",
    )
    return [(str(schema), str(view)) for schema, view in rows if view in _tables(held)]


def test_every_table_is_shown_twice(held: Held) -> None:
    views = _views(held)
    main = {view for schema, view in views if schema == "main"}
    assert main == {view for schema, view in views if schema == "exact"}
    assert main == {*HISTORY_TABLES, *HELD_STATES, "market_lineage", "stop_orders"}


def test_both_views_of_a_table_have_the_same_rows(held: Held) -> None:
    with held.warehouse.connect() as con:
        for view in {view for _, view in _views(held)}:
            rows = [
                con.execute(f"select _segment, _row from {schema}.{view} order by all").fetchall()
                for schema in ("main", "exact")
            ]
            assert rows[0] == rows[1]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu", "Pacific/Chatham"])
def test_the_exact_view_gives_the_text_of_the_csv_in_any_time_zone(held: Held, zone: str) -> None:
    with held.warehouse.connect() as con:
        con.execute(f"set TimeZone = '{zone}'")
        for segment in held.segments:
            for table in HISTORY_TABLES:
                header, rows = decode(entry_bytes(segment, table))
                names = ", ".join(f'"{name}"' for name in header)
                shown = con.execute(
                    f"select {names} from exact.{table} where _segment = ? order by _row",
                    [blocks_of(segment).first],
                ).fetchall()
                assert [list(row) for row in shown] == rows


def test_all_tables_have_a_comment_and_all_columns_of_main(held: Held) -> None:
    bare = query(
        held.warehouse,
        "select schema_name, view_name from duckdb_views() where not internal "
        "and schema_name in ('main', 'exact') and coalesce(comment, '') = ''",
    )
    assert bare == []
    silent = query(
        held.warehouse,
        "select table_name, schema_name, column_name from duckdb_columns() "
        "where schema_name = 'main' and database_name = current_database() "
        "and column_name not in ('_segment', '_row') and coalesce(comment, '') = ''",
    )
    assert [column for column in silent if column[0] in _tables(held)] == []


@pytest.mark.parametrize(
    ("column", "type_name"),
    [
        ("orders.price", "DECIMAL(38,0)"),
        ("orders.size", "BIGINT"),
        ("orders.vega_time", "TIMESTAMP WITH TIME ZONE"),
        ("orders.post_only", "BOOLEAN"),
        ("orders.id", "VARCHAR"),
        ("positions.realised_pnl", "DECIMAL(38,10)"),
        ("withdrawals.amount", "DECIMAL(38,0)"),
        ("withdrawals.ext", "JSON"),
        ("rewards.percent_of_total", "DOUBLE"),
        ("liquidity_provisions.fee", "DECIMAL(38,16)"),
        ("orders._raw", "MAP(VARCHAR, VARCHAR)"),
    ],
)
def test_the_friendly_view_is_typed(held: Held, column: str, type_name: str) -> None:
    table, _, name = column.partition(".")
    described = {row[0]: row[1] for row in query(held.warehouse, f"describe main.{table}")}
    assert described[name] == type_name


def test_enum_numbers_are_readable_by_name(held: Held) -> None:
    rows = query(held.warehouse, "select distinct side, side_name from orders order by 1")
    assert rows == [(0, "SIDE_UNSPECIFIED"), (1, "SIDE_BUY"), (2, "SIDE_SELL")]


def test_a_column_of_a_later_schema_is_null_before_it(held: Held) -> None:
    assert "peak_size" in set(columns("orders", 21)) - set(columns("orders", 1))
    counted = "select _segment, count(peak_size), count(*) from orders group by 1 order by 1"
    assert query(held.warehouse, counted) == [(1, 0, 3), (11, 0, 2), (21, 2, 2)]


def test_a_snapshot_names_its_files_by_absolute_path(held: Held) -> None:
    lists = "select macro_definition from duckdb_functions() where schema_name = 'strata'"
    named = str(query(held.warehouse, lists))
    assert f"{held.warehouse.cache}/data/orders/000000001-000000020." in named


def test_a_warehouse_may_lie_at_any_path(tmp_path: Path) -> None:
    """Nothing of it is a pattern, a hive partition or the end of a quoted name."""
    root = tmp_path / "height=7" / 'it\'s a [w]* {x} "é"'
    look_alike = tmp_path / "height=7" / 'it\'s a wXY {x} "é"'
    segment = history_segment(tmp_path / "s", last=3)
    other = history_segment(tmp_path / "t", last=5)
    for place, folder in ((look_alike, other.parent), (root, segment.parent)):
        assert load_folder(place, folder).failures == []
    assert query(open_warehouse(root), "select height from blocks") == [(1,), (2,), (3,)]
    assert all(exact_tables(open_warehouse(root), segment).values())
    assert list(verify(open_warehouse(root))) == []


# --- current state -------------------------------------------------------------------------------


def test_only_the_newest_state_of_each_schema_version_is_kept(held: Held) -> None:
    catalog = held.warehouse.catalog()
    assert [(state.version, state.blocks) for state in catalog.snapshot.states] == [
        (1, _SECOND),
        (21, _THIRD),
    ]
    rows = "select count(*), min(_segment), max(_segment) from parties"
    assert query(held.warehouse, rows) == [(3, 21, 21)]


def test_the_comment_of_a_state_says_as_of_which_block(held: Held) -> None:
    shown = "select view_name, comment from duckdb_views() where schema_name = 'main'"
    comments = {row[0]: str(row[1]) for row in query(held.warehouse, shown)}
    assert "Current state" in comments["parties"]
    assert "Current state" not in comments["orders"]


def test_older_segments_that_come_later_do_not_replace_the_state(tmp_path: Path) -> None:
    state_segment(tmp_path / "s", first=11, last=20, tables={"parties": table_rows("parties", {})})
    load_folder(tmp_path / "w", tmp_path / "s")
    twice = table_rows("parties", {}, {})
    state_segment(tmp_path / "s", first=1, last=10, tables={"parties": twice})
    load_folder(tmp_path / "w", tmp_path / "s")
    warehouse = open_warehouse(tmp_path / "w")
    assert query(warehouse, "select count(*), max(_segment) from parties") == [(1, 11)]
    assert query(warehouse, "select count(*) from blocks") == [(20,)]


def test_a_table_that_became_history_keeps_its_last_whole_copy_before(tmp_path: Path) -> None:
    """Oracle data is dumped whole up to version 41 and as history from 42 on."""
    for first, version, count in ((1, 36, 2), (3, 42, 1), (5, 42, 1)):
        rows = table_rows("oracle_data", *[{}] * count, version=version, first=first)
        others = {*known_tables(version)} - {*HISTORY_TABLES, "oracle_data"}
        build_segment(
            tmp_path / "s",
            version=version,
            first=first,
            last=first + 1,
            tables={"oracle_data": rows},
            omit=others,
        )
    load_folder(tmp_path / "w", tmp_path / "s")
    counted = "select _segment, count(*) from oracle_data group by 1 order by 1"
    assert query(open_warehouse(tmp_path / "w"), counted) == [(1, 2), (3, 1), (5, 1)]


def test_a_bad_table_of_the_newest_state_refuses_its_segment_alone(tmp_path: Path) -> None:
    state_segment(tmp_path / "s", last=2)
    state_segment(
        tmp_path / "s", first=3, last=4, tables={"parties": b"id,tx_hash,alias,vega_time\n1\n"}
    )
    report = load_folder(tmp_path / "w", tmp_path / "s")
    (refusal,) = report.failures
    assert refusal.key == "kit-chain-1-3-4.zip"
    assert "table parties" in refusal.reason
    assert report.loaded == [BlockRange(1, 2)]
    assert query(open_warehouse(tmp_path / "w"), "select max(height) from blocks") == [(2,)]


def test_a_segment_without_current_state_has_only_history(tmp_path: Path) -> None:
    segment = history_segment(tmp_path / "s", last=2)
    warehouse = open_warehouse(tmp_path / "w")
    assert load_folder(warehouse.cache, tmp_path / "s").failures == []
    catalog = warehouse.catalog()
    assert catalog.snapshot.states == ()
    assert all(exact_tables(warehouse, segment).values())


@pytest.mark.parametrize("bad", [range(12), [5], [0, 1, 4, 5, 11], [*range(0, 12, 2)]])
def test_bad_segments_of_a_batch_do_not_cost_many_tries_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: Iterable[int]
) -> None:
    bad = set(bad)
    for number in range(12):
        wrong = {"rewards": (columns("rewards"), [["1"]])} if number in bad else {}
        first = 2 * number + 1
        history_segment(tmp_path / "s", first=first, last=first + 1, tables=wrong)
    tries: list[int] = []

    def counting(*args: Any) -> tuple[dict[str, Path], list[Receipt]]:
        tries.append(len(args[2]))
        return write_tables(*args)

    monkeypatch.setattr(loader, "write_tables", counting)
    report = load_folder(tmp_path / "w", tmp_path / "s")
    assert len(report.failures) == len(bad)
    assert len(report.loaded) == 12 - len(bad)
    assert sum(tries) == 24  # the whole once, each segment once more
