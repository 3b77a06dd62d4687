"""Every hostile segment, loaded among good ones: refused in words alone, or loaded exactly.

All refused files lie in one source between two good segments, each at its own thousand blocks, so
that one load meets them all; then all of them are corrected under the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from tests import hostile_tables, hostile_zips
from tests.cases import each_of
from tests.hostile_tables import (
    EXACT_CELLS,
    REFUSED_TABLES,
    exact_segment,
    missing_column,
    unknown_column,
)
from tests.hostile_zips import (
    REFUSED_ZIPS,
    bomb,
    gap,
    overlap,
    two_chains,
    two_versions,
    without_metadata,
)
from tests.segments_kit import Cell, pg_csv, table_rows
from tests.transforms.warehouse_kit import (
    MemorySink,
    blocks_of,
    exact_tables,
    history_segment,
    load_folder,
    quarantine_reasons,
    query,
)
from transforms.block_range import BlockRange
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.tables.registry import HISTORY_TABLES, UNKNOWN_TYPE
from transforms.warehouse.load.loader import LoadReport
from transforms.warehouse.survey import Survey
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse

_Made = TypeVar("_Made")
_NO_ZIP = "{key} is not a whole ZIP file"
_CRC = "{key}: history/orders cannot be inflated (Bad CRC-32"
_LARGER = "{{key}}: history/blocks cannot be inflated (it has more than its {size} bytes)"
_SURPLUS = "{key}: history/orders cannot be inflated (other bytes follow its deflate stream)"
_FOREIGN = "that is neither history/<table>, currentstate/<table> nor metadata.json"
_METADATA = "{key}: metadata.json is not a segment's metadata"
_CONTRADICTS = "{key}: the name contradicts metadata.json, which says "
_ORDERS = "{key}: table orders"
_COUNT = (
    "is not CSV with 25 columns: CSV Error on Line: {line}; Expected Number of Columns: 25 Found:"
)
_QUOTE = "is not CSV with 25 columns: CSV Error on Line: {line}; Value with unterminated quote"

# The words that a person needs: which file, which table, and where in it.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "a truncated file": (_NO_ZIP, "fetch it again"),
    "a file without its directory": (_NO_ZIP, "fetch it again"),
    "an empty file": (_NO_ZIP, "fetch it again"),
    "a file that is no ZIP": (_NO_ZIP, "fetch it again"),
    "an entry with a wrong CRC": (_CRC, "fetch the file again"),
    "an entry with a flipped bit": ("{key}: history/blocks cannot be inflated",),
    "an entry marked as encrypted": ("{key}: history/orders is encrypted",),
    "an entry larger than it says": (_LARGER.format(size=1000),),
    "an entry smaller than it says": ("{key}: history/blocks", "of 1048576 bytes"),
    "an entry of which a part is called the whole": ("{key}: history/blocks", "it has more than"),
    "an entry with bytes after its stream": (_SURPLUS,),
    "an entry with rows after its stream": (_SURPLUS,),
    "an entry whose stream has no end": ("{key}: history/orders", "stream has no end"),
    "an entry named ../evil": ("{key} holds an entry '../evil'", _FOREIGN),
    "an entry with an absolute name": ("{key} holds an entry '/etc/evil'", _FOREIGN),
    "an entry with a backslash name": ("{key} holds an entry '..\\\\evil'", _FOREIGN),
    "an entry that climbs from inside": ("{key} holds an entry 'history/../../x'", _FOREIGN),
    "a missing table": ("{key} lacks the table orders",),
    "two entries of one name": ("{key}: history/orders is in the ZIP twice",),
    "metadata with another last block": (_CONTRADICTS, "to 999"),
    "metadata with another chain": (_CONTRADICTS, "chain other"),
    "metadata with another version": (_CONTRADICTS, "schema version 2"),
    "metadata with text for a height": (_CONTRADICTS, "blocks one to"),
    "metadata that is no JSON": (_METADATA,),
    "metadata that is no object": (_METADATA,),
    "a renamed column": (_ORDERS, "lacks size and has size_ instead"),
    "a duplicated column": (_ORDERS, "the header repeats price"),
    "reordered columns": (_ORDERS, "the header reorders the columns of schema version 1"),
    "a column without a name": (_ORDERS, "a column without a name"),
    "a primary key twice": ("segment {blocks}: orders has several rows for vega_time 2023-01-01",),
    "the heights of other blocks": (
        "segment {blocks}: its table blocks has 1000 rows",
        "heights from 1001 to 2000",
    ),
    "an entry of no bytes": ("{key}: history/orders does not end with a line feed",),
    "a row with a field too few": (_ORDERS, _COUNT.format(line=2), "Found: 24"),
    "a row with a field too many": (_ORDERS, _COUNT.format(line=2), "Found: 26"),
    "a last row with a field too few": (_ORDERS, _COUNT.format(line=3), "Found: 24"),
    "a blank line between rows": (_ORDERS + ", row 2, column id: the source has b'\\n",),
    "bytes that are not UTF-8": ("{key}: history/orders is not UTF-8 near byte 255",),
    "half of a UTF-8 sequence": ("{key}: history/orders is not UTF-8 near byte 255",),
    "a NUL byte": ("{key}: history/orders has a NUL byte at byte 256",),
    "a quote that never closes": (_ORDERS, _QUOTE.format(line=3)),
    "an unclosed quote at the end": (_ORDERS, _QUOTE.format(line=3)),
    "a stray quote inside a value": (_ORDERS + ", row 1, column reference: the source has b'o\"e",),
    "text after a closing quote": (_ORDERS, _QUOTE.format(line=2)),
    "a value quoted without need": (_ORDERS + ", row 1, column reference: the source has b'\"one",),
    "a bare CR in a value": (_ORDERS,),
    "rows that end with CR LF": (_ORDERS,),
    "a last row without its line feed": ("{key}: history/orders does not end with a line feed",),
}
_MAKERS = {**REFUSED_ZIPS, **REFUSED_TABLES}


def _places() -> Iterator[tuple[str, BlockRange]]:
    """Blocks for each hostile segment, all joined; makers of broken ZIPs need a thousand."""
    first = 1001
    for name in _WORDS:
        last = first + (999 if name in REFUSED_ZIPS else 9)
        yield name, BlockRange(first, last)
        first = last + 1


_PLACES = dict(_places())
_LAST = max(_PLACES.values()).last
_GOOD = (BlockRange(1, 1000), BlockRange(_LAST + 1, _LAST + 1000))


def _key(blocks: BlockRange) -> str:
    return f"kit-chain-1-{blocks}.zip"


@dataclass(frozen=True)
class _Batch:
    """A load of everything hostile, and the load of the same names once they were corrected."""

    folder: Path
    warehouse: Warehouse
    report: LoadReport
    reasons: Mapping[str, str]
    hostile: Mapping[str, bytes]
    copies: Mapping[str, bytes | None]
    again: Survey
    blocks_seen: set[int]
    corrected: LoadReport


def _make(make: Callable[[Path], _Made], folder: Path, blocks: BlockRange) -> _Made:
    """Let a maker of the kit build its segment small, and at other blocks than its default ones."""
    builder = partial(history_segment, first=blocks.first, last=blocks.last)
    with pytest.MonkeyPatch.context() as kit:
        for module in (hostile_tables, hostile_zips):
            kit.setattr(module, "build_segment", builder)
        return make(folder)


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> _Batch:
    folder = tmp_path_factory.mktemp("source")
    warehouse = open_warehouse(tmp_path_factory.mktemp("warehouse"))
    for blocks in _GOOD:
        history_segment(folder, first=blocks.first, last=blocks.last)
    for name, make in _MAKERS.items():
        assert _make(make, folder, _PLACES[name]).name == _key(_PLACES[name])
    report = load_folder(warehouse.cache, folder)
    quarantined = warehouse.snapshot().quarantine
    copies = {
        file.key: (warehouse.cache / file.copy.key).read_bytes() if file.copy else None
        for file in quarantined
    }
    seen = {int(str(row[0])) for row in query(warehouse, "select distinct _segment from blocks")}
    again = warehouse.survey(Source(FolderStore(folder)))
    hostile = {name: (folder / _key(_PLACES[name])).read_bytes() for name in _MAKERS}
    for blocks in _PLACES.values():
        history_segment(folder, first=blocks.first, last=blocks.last)
    corrected = load_folder(warehouse.cache, folder)
    reasons = {file.key: file.reason for file in quarantined}
    return _Batch(folder, warehouse, report, reasons, hostile, copies, again, seen, corrected)


def test_the_words_are_stated_for_every_hostile_segment_of_the_kit() -> None:
    assert set(_WORDS) == set(_MAKERS)


@each_of("name", _WORDS)
def test_a_hostile_segment_is_quarantined_in_words(batch: _Batch, name: str) -> None:
    key = _key(_PLACES[name])
    (reason,) = [refusal.reason for refusal in batch.report.failures if refusal.key == key]
    assert reason == batch.reasons[key]
    expected = [words.format(key=key, blocks=_PLACES[name]) for words in _WORDS[name]]
    assert reason.startswith(expected[0])
    for words in expected:
        assert words in reason
    assert "\n" not in reason
    assert str(batch.warehouse.cache) not in reason
    assert len(reason) < 400
    assert batch.copies[key] == batch.hostile[name]


@each_of("name", _WORDS)
def test_nothing_of_a_hostile_segment_is_loaded(batch: _Batch, name: str) -> None:
    blocks = _PLACES[name]
    assert blocks not in batch.report.loaded
    assert blocks.first not in batch.blocks_seen


def test_the_good_segments_of_a_hostile_batch_are_loaded(batch: _Batch) -> None:
    assert {*batch.report.loaded} == set(_GOOD)
    assert batch.blocks_seen == {blocks.first for blocks in _GOOD}
    for blocks in _GOOD:
        assert all(exact_tables(batch.warehouse, batch.folder / _key(blocks)).values())


def test_refused_bytes_are_not_tried_again(batch: _Batch) -> None:
    assert batch.again.pending == ()
    assert {bad.key: bad.reason for bad in batch.again.refused} == batch.reasons


@each_of("name", _WORDS)
def test_a_corrected_file_of_the_same_name_is_loaded(batch: _Batch, name: str) -> None:
    blocks = _PLACES[name]
    assert blocks in batch.corrected.loaded


def test_nothing_is_left_in_quarantine_when_all_is_corrected(batch: _Batch) -> None:
    assert batch.corrected.failures == []
    assert list(batch.warehouse.snapshot().quarantine) == []
    # The copies stay for as long as a reader of an older snapshot may look for them.
    copies = {path.name for path in (batch.warehouse.cache / "quarantine").iterdir()}
    dropped = batch.warehouse.sweep(grace_seconds=-1)
    assert copies == {key.removeprefix("quarantine/") for key in dropped if "quarantine/" in key}
    assert list((batch.warehouse.cache / "quarantine").iterdir()) == []
    rows = query(batch.warehouse, "select count(*), count(distinct height) from blocks")
    assert rows == [(_LAST + 1000, _LAST + 1000)]


_EXACT = BlockRange(3001, 4000)


@pytest.fixture(scope="module")
def legal(tmp_path_factory: pytest.TempPathFactory) -> tuple[Warehouse, list[Path]]:
    """Four segments that look wrong and are not; the newest, the state's own, holds all cells."""
    folder = tmp_path_factory.mktemp("legal")
    warehouse = open_warehouse(tmp_path_factory.mktemp("warehouse"))
    makers: list[Callable[[Path], Path]] = [unknown_column, missing_column, without_metadata]
    segments = [
        _make(make, folder, BlockRange(number * 1000 + 1, number * 1000 + 1000))
        for number, make in enumerate(makers)
    ]
    segments.append(exact_segment(folder, first=_EXACT.first, last=_EXACT.last))
    report = load_folder(warehouse.cache, folder)
    assert report.failures == []
    return warehouse, segments


@each_of("number", range(4))
def test_what_only_looks_wrong_is_loaded_to_the_byte(
    legal: tuple[Warehouse, list[Path]], number: int
) -> None:
    warehouse, segments = legal
    tables = exact_tables(warehouse, segments[number])
    assert set(tables) == set(HISTORY_TABLES)
    assert all(tables.values())


@each_of(("table", "column"), EXACT_CELLS)
def test_every_legal_cell_comes_back(
    legal: tuple[Warehouse, list[Path]], table: str, column: str
) -> None:
    warehouse, _ = legal
    held = f'select "{column}" from exact.{table} where _segment = {_EXACT.first}'
    shown = query(warehouse, held)
    assert set(EXACT_CELLS[table, column]) <= {row[0] for row in shown}


_RAW: Mapping[tuple[str, str], tuple[Cell, ...]] = {
    ("orders", "price"): ("1" + "0" * 38, f"{2**256 - 1}", "9" * 1000, "NaN"),
    ("orders", "expires_at"): (
        *("0044-03-15 12:00:00+00 BC", "4714-11-24 00:00:00+00 BC"),
        *("infinity", "-infinity", "9999-12-31 23:59:59.999999+00", "10000-01-01 00:00:00+00"),
        "294276-12-31 23:59:59.999999+00",
    ),
    ("withdrawals", "amount"): ("1.50", "9" * 39, "NaN", "Infinity", "-Infinity"),
    ("liquidity_provisions", "fee"): ("NaN", "9" * 40 + ".1234567890123456"),
}


def test_cells_that_no_type_holds_are_counted_by_column(
    legal: tuple[Warehouse, list[Path]],
) -> None:
    warehouse, _ = legal
    counted = {
        (receipt.table, column): count
        for receipt in warehouse.receipts()
        for column, count in receipt.raw_cells.items()
        if count
    }
    assert counted == {key: len(cells) for key, cells in _RAW.items()}


@each_of(("table", "column"), _RAW)
def test_a_cell_that_no_type_holds_is_null_beside_its_text(
    legal: tuple[Warehouse, list[Path]], table: str, column: str
) -> None:
    warehouse, _ = legal
    kept = query(
        warehouse,
        f"select _raw['{column}'] from {table} "
        f"where _raw['{column}'] is not null and {column} is null",
    )
    assert {row[0] for row in kept} == set(_RAW[table, column])


def test_an_unknown_column_is_text_and_null_where_it_is_missing(
    legal: tuple[Warehouse, list[Path]],
) -> None:
    warehouse, _ = legal
    receipts = warehouse.loaded_catalog().receipts(BlockRange(1, 1000))
    (receipt,) = (receipt for receipt in receipts if receipt.table == "orders")
    assert (receipt.schema.columns[-1].name, receipt.schema.columns[-1].type) == (
        "from_the_future",
        UNKNOWN_TYPE,
    )
    kinds = query(warehouse, "select distinct typeof(from_the_future) from orders")
    assert kinds == [("VARCHAR",)]
    lacking = "select reduce_only, from_the_future from orders where _segment = 1001"
    assert query(warehouse, lacking) == [(None, None)]


def test_an_unknown_label_is_data(legal: tuple[Warehouse, list[Path]]) -> None:
    warehouse, _ = legal
    found = "select count(*) from withdrawals where status = 'STATUS_FROM_THE_FUTURE'"
    assert query(warehouse, found) == [(1,)]


_NAMES = ["rowid", "filename", "select", "side_name", "file_index_"]


def test_unknown_columns_keep_their_names(tmp_path: Path) -> None:
    header, rows = table_rows("orders", {"reference": "one"}, {"reference": "two"})
    body = pg_csv(header, [[*row, *_NAMES] for row in rows]).partition(b"\n")[2]
    line = ",".join([*header, *_NAMES]).encode() + b"\n"
    later = pg_csv([*header, "Rowid"], [[*row, None] for row in rows])
    segments = [
        history_segment(tmp_path / "s", last=3, tables={"orders": line + body}),
        history_segment(tmp_path / "s", first=4, last=6, tables={"orders": later}),
    ]
    warehouse = open_warehouse(tmp_path / "w")
    assert load_folder(warehouse.cache, tmp_path / "s").failures == []
    for segment in segments:
        assert all(exact_tables(warehouse, segment).values())
    with warehouse.connect() as con:
        shown = [str(column[0]) for column in con.execute("from orders limit 0").description or ()]
    assert {name.lower() for name in _NAMES} <= {name.lower() for name in shown}
    assert query(warehouse, "select side_name, rowid from orders order by _segment, _row") == [
        ("side_name", "rowid"),
        ("side_name", "rowid"),
        (None, None),
        (None, None),
    ]


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    bomb(tmp_path / "s")
    (refusal,) = load_folder(tmp_path / "w", tmp_path / "s").failures
    assert "history/orders has a NUL byte" in refusal.reason
    assert open_warehouse(tmp_path / "w").catalog().snapshot.volumes == ()


@pytest.mark.parametrize("make", [overlap, two_versions])
def test_rivals_for_the_same_blocks_wait_until_one_is_gone(
    tmp_path: Path, make: Callable[[Path], tuple[Path, Path]]
) -> None:
    one, other = _make(make, tmp_path / "s", _GOOD[0])
    warehouse = open_warehouse(tmp_path / "w")
    assert load_folder(warehouse.cache, tmp_path / "s").loaded == []
    reasons = quarantine_reasons(warehouse)
    assert set(reasons) == {one.name, other.name}
    for path, rival in ((one, other), (other, one)):
        assert reasons[path.name].startswith(f"{path.name} covers blocks that {rival.name} covers")
    assert warehouse.catalog().snapshot.volumes == ()
    other.unlink()
    assert load_folder(warehouse.cache, tmp_path / "s").loaded == [blocks_of(one)]
    assert quarantine_reasons(warehouse) == {}


def test_a_gap_is_no_error(tmp_path: Path) -> None:
    segments = _make(gap, tmp_path / "s", _GOOD[0])
    warehouse = open_warehouse(tmp_path / "w")
    report = load_folder(warehouse.cache, tmp_path / "s")
    assert report.failures == []
    assert len(warehouse.catalog().snapshot.volumes) == 2
    for segment in segments:
        assert all(exact_tables(warehouse, segment).values())
    assert query(warehouse, "select count(*), max(height) from blocks") == [(2000, 3000)]


def test_another_chain_is_refused_and_the_first_one_loaded(tmp_path: Path) -> None:
    mine, other = _make(two_chains, tmp_path / "s", _GOOD[0])
    warehouse = open_warehouse(tmp_path / "w")
    report = load_folder(warehouse.cache, tmp_path / "s")
    assert report.loaded == [blocks_of(mine)]
    assert quarantine_reasons(warehouse) == {
        other.name: f"{other.name} belongs to chain other, not to kit-chain: "
        "keep one chain in a source"
    }


def test_a_rival_of_what_was_loaded_in_the_meantime_is_refused(tmp_path: Path) -> None:
    """The survey was made before another process loaded the same blocks from another file."""
    history_segment(tmp_path / "one", last=4)
    history_segment(tmp_path / "other", first=3, last=6)
    history_segment(tmp_path / "other", first=7, last=9)
    warehouse = open_warehouse(tmp_path / "w")
    source = Source(FolderStore(tmp_path / "other"))
    survey = warehouse.survey(source)
    load_folder(warehouse.cache, tmp_path / "one")
    report = warehouse.load(source, survey.pending, MemorySink())
    assert [refusal.reason for refusal in report.failures] == [
        "kit-chain-1-3-6.zip covers blocks that kit-chain-1-1-4.zip, loaded in the meantime, "
        "covers too: remove the one that is wrong"
    ]
    assert report.loaded == [BlockRange(7, 9)]
    assert query(warehouse, "select height from blocks order by 1") == [
        (height,) for height in (1, 2, 3, 4, 7, 8, 9)
    ]
