"""Whether a file of the lake has what its name, its table's log and its receipts say.

The check of the lake and what corrects it ask the same, so that what one finds the other mends.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from exporters.archive.lake_place import MANIFESTS
from exporters.lake.log.table_version import ActiveFile
from exporters.lake.tables import Version
from transforms.block_range import BlockRange, contiguous_runs
from transforms.duck import Connection, quote_files
from transforms.errors import IntegrityError
from transforms.lake.parquet_files import lake_reader, readable_file
from transforms.lake.statistics import Statistics, fitted, read_statistics
from transforms.scratch import scratch_folder
from transforms.tables.file_columns import RECEIPT_LIST, FileColumn
from transforms.warehouse.checks.file_check import (
    csvs_problem,
    file_types,
    rows_problem,
    types_problem,
)
from transforms.warehouse.manifests.data_files import file_sql
from transforms.warehouse.manifests.manifest import manifest_receipts, read_columns
from transforms.warehouse.manifests.manifest_rows import SEGMENTS
from transforms.warehouse.manifests.receipts import Receipt, receipts_digest

_TYPES = {pa.string(): "string", pa.int32(): "integer", pa.int64(): "long"}
_DESCRIBED = ("first_block", "last_block")
COLUMNS = (
    *(FileColumn(field.name, _TYPES[field.type], field.name in _DESCRIBED) for field in SEGMENTS),
    FileColumn("receipts", RECEIPT_LIST),
)
"""The columns of the table."""


def segment_blocks(path: Path) -> list[BlockRange]:
    """The blocks of the segments of a manifest. Raises `IntegrityError` where it is damaged."""
    table = read_columns(path, _DESCRIBED)
    return [*map(BlockRange, *(table.column(name).to_pylist() for name in _DESCRIBED))]


def manifest_statistics(path: Path) -> Statistics:
    """What the log says of a manifest. Raises `IntegrityError` where it is damaged."""
    blocks = segment_blocks(path)
    firsts, lasts = [item.first for item in blocks], [item.last for item in blocks]
    summary = {
        "numRecords": len(blocks),
        "minValues": dict(zip(_DESCRIBED, (min(firsts), min(lasts)), strict=True)),
        "maxValues": dict(zip(_DESCRIBED, (max(firsts), max(lasts)), strict=True)),
        "nullCount": dict.fromkeys(_DESCRIBED, 0),
    }
    return Statistics(len(blocks), json.dumps(summary, separators=(",", ":")))


def is_sound(
    version: Version, file: ActiveFile, receipts: Sequence[Receipt] | None, scratch: Path
) -> bool:
    """Whether a file is there, whole, renders what receipts say, and is described by the log."""
    with scratch_folder(scratch) as folder:
        copy = folder / "file.parquet"
        try:
            version.lake.fetch(version.table, file, copy)
        except IntegrityError:
            return False
        with lake_reader(folder, version.lake.memory_mb, file.bytes) as con:
            return not any(file_problems(version, file, copy, folder, receipts, con))


def file_problems(
    version: Version,
    file: ActiveFile,
    copy: Path,
    scratch: Path,
    receipts: Sequence[Receipt] | None,
    con: Connection,
) -> Iterator[str]:
    """What is wrong with a file, in words; the first ones may hide others.

    `copy` is the file, which hashes to what its name says. `receipts` are those of its segments,
    ascending, which are rendered; None where nothing is to be. `con` reads it.
    """
    if (size := copy.stat().st_size) != file.bytes:
        yield f"it has {size} bytes, its table's log says {file.bytes}"
    try:
        if version.table == MANIFESTS:
            yield from _manifest_problems(version, file, copy, receipts)
            return
        with readable_file(copy, scratch):
            columns = _columns(version, file_types(con, copy))
            if problem := types_problem(con, copy, columns):
                yield problem
                return
            statistics = read_statistics(con, file_sql(quote_files([copy])), columns)
            yield from _log_problems(version, file, statistics)
            if receipts is not None:
                problem = rows_problem(con, copy, receipts)
                if problem := problem or csvs_problem(con, copy, receipts, scratch):
                    yield problem
    except IntegrityError as error:
        yield str(error)


def _columns(version: Version, names: Iterable[str]) -> list[FileColumn]:
    """Those of the table's columns that a file with these has, besides our own."""
    types, described = version.content.columns, version.content.statistics_of
    own = [name for name in names if name in types and not name.startswith("_")]
    return [FileColumn(name, types[name], name in described) for name in own]


def _log_problems(version: Version, file: ActiveFile, statistics: Statistics) -> Iterator[str]:
    """Hold rows and statistics against the log: by a wrong one readers pass over rows."""
    expected = json.loads(fitted(statistics.text, version.content.statistics_of))
    try:
        logged = dict(json.loads(file.statistics))
    except (ValueError, TypeError):
        logged = {}
    if not statistics.rows:  # it may be older than columns that were described since
        known = logged.get("nullCount", {})
        nulls = expected["nullCount"]
        expected["nullCount"] = {name: nulls[name] for name in nulls if name in known}
    for part, values in expected.items():
        if logged.get(part) != values:
            yield f"its table's log says {part} {logged.get(part)}, it has {values}"
            return
    if more := logged.keys() - expected.keys() - {"tightBounds"}:
        yield f"its table's log has statistics that Strata does not write: {sorted(more)}"


def _manifest_problems(
    version: Version, file: ActiveFile, copy: Path, receipts: Sequence[Receipt] | None
) -> Iterator[str]:
    yield from _log_problems(version, file, manifest_statistics(copy))
    if [*contiguous_runs(segment_blocks(copy))] != [file.blocks]:
        yield "its segments are not those of its name"
    own = manifest_receipts([copy])
    if receipts is not None and receipts_digest(own) != receipts_digest(receipts):
        yield "its receipts are not those of what is loaded"
