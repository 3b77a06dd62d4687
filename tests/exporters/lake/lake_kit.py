"""Small real lakes: loaded segments, as ZIPs and in the lake, and ways to look at what came."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from zipfile import ZipFile

from exporters.lake.publication.history_tables import HistoryTables
from pipelines.settings import Settings
from pipelines.site.lake_publishing import publish_missing
from pipelines.site.publication_state import site_lake
from pipelines.site.publishing import publish_segments
from pipelines.site.site import Site
from tests.hostile_tables import exact_segment
from tests.lake_readers import CsvReceipt, PyarrowLake, active_files
from tests.pg_csv import Cell
from tests.segments_kit import build_segment, columns, entry_bytes, table_rows
from transforms.block_range import BlockRange
from transforms.tables.registry import HISTORY_TABLES, known_table, known_tables
from transforms.warehouse.manifests.shapes import Volume

__all__ = ["HISTORY_TABLES", "LakeSite"]


@dataclass(frozen=True)
class LakeSite:
    """A site whose lake a test looks at."""

    site: Site

    @property
    def chain(self) -> str:
        return self.site.loaded_catalog().snapshot.chain_id

    @property
    def folder(self) -> Path:
        """The lake's folder."""
        return Path(self.site.settings.archive, self.chain, "lake")

    def elsewhere(self, archive: Path, *, batch: int = 3, folder: Path | None = None) -> LakeSite:
        """The same warehouse, or a copy of it in a folder, with another archive."""
        settings = self.site.settings
        warehouse = shutil.copytree(settings.warehouse, folder) if folder else settings.warehouse
        others = replace(settings, warehouse=str(warehouse), archive=str(archive), batch=batch)
        return LakeSite(Site(others))

    def copied(self, folder: Path) -> LakeSite:
        """A copy of warehouse and archive, which share no file with these."""
        settings = self.site.settings
        warehouse = shutil.copytree(settings.warehouse, folder / "warehouse")
        archive = shutil.copytree(settings.archive, folder / "archive")
        return LakeSite(Site(replace(settings, warehouse=str(warehouse), archive=str(archive))))

    def load(self) -> None:
        """Load all that is new in the source, so many segments to a volume."""
        site, batch = self.site, self.site.settings.batch
        pending = site.warehouse.survey(site.source).pending
        for start in range(0, len(pending), batch):
            files = pending[start : start + batch]
            assert not site.warehouse.load(site.source, files, site.stage).failures

    def publish(self) -> dict[str, str]:
        """Put into the lake what it lacks; why tables stay as they are."""
        return publish_missing(self.site)

    def publish_zips(self) -> None:
        """Put all ZIPs into the archive."""
        report = publish_segments(self.site, self.site.loaded_catalog().blocks).report
        assert not report.failed

    def dumped(self, receipt: CsvReceipt) -> bytes:
        """The CSV in the published ZIP, read by Python's own reader; else in the segment."""
        if receipt.table not in HISTORY_TABLES:
            (path,) = Path(self.site.settings.source).glob(f"*-{receipt.first}-{receipt.last}.zip")
            return entry_bytes(path, receipt.table)
        name = f"{self.chain}-{receipt.table}-{receipt.first}-{receipt.last}.zip"
        with ZipFile(Path(self.site.settings.archive, self.chain, receipt.table, name)) as archive:
            (member,) = archive.namelist()
            return archive.read(member)

    def files(self, table: str) -> list[str]:
        """The names of a table's files, ascending by block."""
        names = [path.name for path in active_files(self.folder / table)]
        return sorted(names, key=lambda name: int(name.partition("-")[0]))

    def spans(self, table: str) -> list[str]:
        """The blocks that each file of a table is about, ascending."""
        return [name.partition(".")[0] for name in self.files(table)]

    def versions(self) -> dict[str, int]:
        """The newest version of each table."""
        logs = (path / "_delta_log" for path in self.folder.iterdir())
        return {log.parent.name: len(list(log.glob("*.json"))) - 1 for log in logs}

    def check(self, *segments: BlockRange) -> None:
        """Hold every table of these segments, and of no others, against the published ZIPs."""
        read = PyarrowLake(self.folder)
        receipts = read.receipts()
        expected = sorted((table, s.first) for s in segments for table in self.dumps(s))
        assert sorted((receipt.table, receipt.first) for receipt in receipts) == expected
        for receipt in receipts:
            assert read.csv(receipt) == self.dumped(receipt), (receipt.table, receipt.first)

    def dumps(self, segment: BlockRange) -> list[str]:
        """The tables of history that a segment's ZIP has."""
        (path,) = Path(self.site.settings.source).glob(f"*-{segment}.zip")
        with ZipFile(path) as archive:
            pairs = (name.partition("/") for name in archive.namelist())
            return [table for folder, _, table in pairs if folder == "history" and table]


def history_tables(site: Site, published: Collection[BlockRange] | None = None) -> HistoryTables:
    """The tables of history, as if volumes with these blocks (None: all) were published."""

    def is_published(volume: Volume) -> bool:
        return published is None or any(map(volume.blocks.overlaps, published))

    return HistoryTables(site_lake(site), site.loaded_catalog(), is_published, site.scratch())


def lake_site(folder: Path, source: Path, *, batch: int = 3) -> LakeSite:
    """A site below a folder; its volumes have `batch` segments."""
    return LakeSite(
        Site(
            Settings(
                source=str(source),
                warehouse=str(folder / "warehouse"),
                archive=str(folder / "archive"),
                batch=batch,
            )
        )
    )


_TIMES = (
    *("infinity", "-infinity", "0001-01-01 00:00:00+00", "0001-12-31 23:59:59.999999+00 BC"),
    *("0044-03-15 12:00:00+00 BC", "9999-12-31 23:59:59.999999+00", "10000-01-01 00:00:00+00"),
    *("2023-05-01 10:00:00.5+00", "1969-12-31 23:59:59.999999+00", "290000-01-01 00:00:00+00"),
    *("2023-05-01 10:00:00.50+00", "oops", "", None),
)
_WHOLE = (
    "0",
    "-0",
    "-1",
    f"{2**31}",
    f"{2**53 + 1}",
    f"{2**63}",
    "1.50",
    "9" * 78,
    "oops",
    "",
    None,
)
_TEXTS = (
    "",
    " ",
    '"',
    "'",
    ",",
    "\r",
    "\n",
    "\r\n",
    "a\r\nb",
    "ünï-日本 😀",
    "\ufeff",
    "NULL",
    None,
)
_ODD: Mapping[str, Sequence[Cell]] = {
    "bytea": ("\\x", "\\x00", "\\xAB", "\\xzz", "\\xabc", '\\x"', "oops", "", None),
    "smallint": _WHOLE,
    "integer": _WHOLE,
    "bigint": _WHOLE,
    "hugeint": (*_WHOLE, "9" * 38, "-" + "9" * 38, "1" + "0" * 38),
    "numeric": (*_WHOLE, "NaN", "Infinity", "1e3", "10.0"),
    "numeric(1000,16)": (
        *("0.0000000000000000", "-1.5000000000000000", "0.0000000000000001", "1.50", "1"),
        *("9" * 22 + "." + "9" * 16, "9" * 62 + "." + "9" * 16, "NaN", "", None),
    ),
    "timestamp with time zone": _TIMES,
    "boolean": ("t", "f", "true", "T", "", None),
    "double precision": (
        "-0",
        "1e+15",
        "1.1258999068426242e+15",
        "NaN",
        "1.0",
        "-Infinity",
        "",
        None,
    ),
    "jsonb": (
        *('{"a": 1,  "a": 2}', "[NaN]", "{oops", "", "null", '"\\ud800"', f"[{'9' * 400}]", None),
        *('{"line": "a\\nb"}', '["ünï 😀", "\\u0000"]', f"{'[' * 300}{']' * 300}", " {} "),
    ),
}
"""Texts by type that load, of which many are none that the type can hold; otherwise `_TEXTS`."""

ODD_NAMES = ("select", "Group", "date", "x1", "order_by", "Value", "file")
"""Names of columns that are words of SQL, or spelled as none of the network's."""


def odd_texts(kind: str) -> Sequence[Cell]:
    """Texts that a column of a type may have and that are hard to hold."""
    return _ODD.get(kind, _TEXTS)


def odd_rows(table: str, first: int, version: int = 1) -> tuple[Sequence[str], list[list[Cell]]]:
    """A row for each odd text of each column, the other cells plain."""
    known = known_table(table, version)
    assert known is not None
    rows: list[dict[str, Cell]] = []
    for column in known.schema.columns:
        if column.name not in known.key:
            rows += ({column.name: text} for text in odd_texts(column.type))
    return table_rows(table, *rows, version=version, first=first)


def added(
    table: str, names: Sequence[str], cells: Sequence[Cell], first: int, version: int = 1
) -> tuple[list[str], list[list[Cell]]]:
    """Rows with columns that nobody knows at their end: in row n, cell n in each of them."""
    header, rows = table_rows(table, *[{} for _ in cells], version=version, first=first)
    longer = [[*row, *[cell] * len(names)] for row, cell in zip(rows, cells, strict=True)]
    return [*header, *names], longer


def odd_history(folder: Path) -> Path:
    """Seven segments with whatever loads and is hard to hold; returns their folder."""
    folder.mkdir(parents=True, exist_ok=True)
    exact_segment(folder, first=1, last=10)
    write_segment(
        folder, 11, {table: odd_rows(table, 11) for table in HISTORY_TABLES if table != "blocks"}
    )
    cells: Sequence[Cell] = (None, "", "x", 'a "quoted"\r\ncell', "\\x00", "1.50")
    write_segment(
        folder,
        21,
        {
            "orders": added("orders", ODD_NAMES, cells, 21),
            "trades": added("trades", ("From_The_Future", "With_Capitals"), cells, 21),
        },
    )
    write_segment(
        folder,
        31,
        {
            "orders": added("orders", ODD_NAMES, cells, 31),
            "trades": added("trades", ("From_The_Future", "With_Capitals"), cells, 31),
        },
    )
    lacking = [name for name in columns("deposits") if name not in ("amount", "status")]
    write_segment(folder, 41, {"deposits": (lacking, [[None] * len(lacking)])})
    write_segment(folder, 51, {}, version=6)
    newer = {
        table: odd_rows(table, 61, 123) for table in ("orders", "trades", "rewards", "positions")
    }
    write_segment(folder, 61, newer, version=123)
    return folder


def odd_start(folder: Path) -> Path:
    """The first two of these segments, in which each type has all its odd texts."""
    for path in odd_history(folder).glob("*.zip"):
        if int(path.stem.split("-")[-2]) > 11:
            path.unlink()
    return folder


def write_segment(
    folder: Path,
    first: int,
    tables: Mapping[str, tuple[Sequence[str], Sequence[Sequence[Cell]]]],
    version: int = 1,
    *,
    states: Collection[str] = (),
) -> Path:
    """Ten blocks; of the current state only the tables that are asked for."""
    omit = {*known_tables(version)} - {*HISTORY_TABLES, *states}
    return build_segment(
        folder, first=first, last=first + 9, version=version, tables=tables, omit=omit
    )


def named_files(statements: str) -> list[tuple[str, str]]:
    """The table and the name of each file of a lake that the statements of `strata.sql` name."""
    return re.findall(r"/lake/([^/']+)/([^/']+)'", statements)
