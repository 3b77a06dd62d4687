"""The files of a volume: written, proven, and put into the warehouse by the names of their bytes.

Of history each table becomes a data file. A current state is one DuckDB file with a table per CSV
table. What servers look up by key becomes an index file beside either.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.duck import Connection, less_memory, new_database, quote_name
from transforms.duck_errors import OUT_OF_MEMORY, reason
from transforms.lookups.index_file import SUFFIX, new_index
from transforms.lookups.lookup_tables import LookupSource, first_and_last, write_lookups
from transforms.objects import StoredFile
from transforms.scratch import scratch_folder
from transforms.segments.prepare import PreparedSegment
from transforms.stores.store import Store, asked_together, content_sha256, content_size
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.files.local_files import LocalFiles
from transforms.warehouse.load.table_load import PartSink, TableLoad
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.data_files import ALL_TABLES, rows_sql
from transforms.warehouse.manifests.data_files import FOLDER as DATA
from transforms.warehouse.manifests.file_names import INDEX, MANIFESTS, STATE
from transforms.warehouse.manifests.manifest import write_manifest
from transforms.warehouse.manifests.receipts import LoadedSegment, Receipt
from transforms.warehouse.manifests.shapes import UNSTORED, Shape, Times, Volume, shapes_of

_TYPE = "application/octet-stream"

_log = logging.getLogger(__name__)


def write_tables(
    con: Connection, scratch: Path, segments: Sequence[PreparedSegment], sink: PartSink | None
) -> tuple[dict[str, Path], list[Receipt]]:
    """Write the tables of consecutive segments as new files below `scratch`, proven.

    With a sink they are history, and it takes the CSV of the 15 history tables; without one they
    are the current state after a segment. Returns the files, see `Volume.data`. Raises
    `SegmentError`.
    """
    receipts: list[Receipt] = []
    data = {} if sink is not None else {ALL_TABLES: scratch / "state.duckdb"}
    with ExitStack() as stack:
        if sink is None:
            size = sum(segment.bytes for segment in segments)
            stack.enter_context(new_database(con, data[ALL_TABLES], "state", size))
        for table in sorted({table for segment in segments for table in segment.tables}):
            path = scratch / f"{table}.parquet"
            place = path if sink is not None else f"state.main.{quote_name(table)}"
            load = TableLoad(con, table, place, scratch, sink if table in HISTORY_TABLES else None)
            receipts += load.load([s.tables[table] for s in segments if table in s.tables])
            if path.exists():
                data[table] = path
    return data, receipts


def store_volume(
    backing: Backing,
    con: Connection,
    base: Snapshot,
    data: Mapping[str, Path],
    segments: Sequence[LoadedSegment],
    receipts: Sequence[Receipt],
) -> Volume:
    """Put the files of a volume, with its index file and, last, its manifest; describe it.

    `data` are the files of its rows, see `Volume.data`; `base` is the snapshot upon which it was
    built.
    """
    blocks = BlockRange(segments[0].blocks.first, segments[-1].blocks.last)
    version, shapes = max(segment.name.version for segment in segments), shapes_of(receipts)
    times = _times(con, shapes["blocks"], data["blocks"]) if "blocks" in data else None
    kind, folder = ("state", STATE) if ALL_TABLES in data else ("history", MANIFESTS)

    def put(file: tuple[str, Path]) -> StoredFile:
        return store_new(backing, file[0], blocks, file[1])

    with scratch_folder(backing.scratch) as scratch:
        folders = (STATE if table == ALL_TABLES else f"{DATA}/{table}" for table in data)
        files = [*zip(folders, data.values(), strict=True)]
        if lookups := write_index(con, scratch, _sources(data, shapes)):
            files.append((INDEX, lookups))
        stored = [*asked_together(backing.store, put, files)]
        index = stored.pop() if lookups else None
        rows = dict(zip(data, stored, strict=True))
        facts = kind, UNSTORED, blocks, len(segments), version
        volume = Volume(*facts, shapes, rows, index, times)
        path = scratch / "manifest.parquet"
        write_manifest(path, base.number, volume, segments, receipts)
        return replace(volume, file=store_new(backing, folder, blocks, path))


def _times(con: Connection, shape: Shape, path: Path) -> Times | None:
    """The first and last time of the blocks in a data file."""
    if "vega_time" not in shape.columns:
        return None
    return first_and_last(con, rows_sql("blocks", shape.column_list(), [path]))


def write_index(con: Connection, scratch: Path, sources: Mapping[str, LookupSource]) -> Path | None:
    """Write the index file of a volume's tables; None where these allow none.

    None also where a row takes more memory than there is: servers refuse what it would answer.
    """
    path = scratch / f"index{SUFFIX}"
    try:
        with less_memory(con), new_index(path) as file:
            is_written = write_lookups(con, file, sources)
    except OUT_OF_MEMORY as error:
        what = "an index file was not made: let STRATA_MEMORY_MB be more and run strata repair: %s"
        _log.warning(what, reason(error))
        return None
    return path if is_written else None


def _sources(data: Mapping[str, Path], shapes: Mapping[str, Shape]) -> dict[str, LookupSource]:
    """The tables of a volume, as its index file is made of them."""
    sources = {}
    for table, shape in shapes.items():
        columns = shape.column_list()
        files = [data[name] for name in (table, ALL_TABLES) if name in data]
        rows = rows_sql(table, columns, files)
        sources[table] = LookupSource(table, columns, rows, is_empty=not files)
    return sources


def volume_sources(files: LocalFiles, volume: Volume) -> dict[str, LookupSource]:
    """The tables of a volume, whose files are held, as its index file is made of them."""
    data = {table: files.path(file) for table, file in volume.data.items()}
    return _sources(data, volume.shapes)


def store_new(backing: Backing, folder: str, blocks: BlockRange, path: Path) -> StoredFile:
    """Put a file of `blocks` into a folder of the warehouse, under the name of its bytes.

    It is whole and verified there before anything can name it. `path` is gone afterwards: it is the
    object, or this machine's copy of it.
    """
    sha256 = content_sha256(path)
    file = store_file(backing.store, f"{folder}/{blocks.key}.{sha256}{path.suffix}", sha256, path)
    if path.exists():
        backing.files.adopt(file, path)
        path.unlink(missing_ok=True)
    backing.files.proofs.keep(backing.files.proof(file))
    return file


def store_file(store: Store, key: str, sha256: str, path: Path) -> StoredFile:
    """Put a file that hashes to `sha256` at `key`; see `store_new`."""
    file = StoredFile(key, content_size(path), sha256)
    store.put_if_absent(key, path, content_type=_TYPE, sha256=sha256, immutable=True, take=True)
    return file
