"""The statements of `strata.sql`: the catalog's views over a lake's files at public addresses.

They are computed from the lake's logs, so the same versions give the same text but for one line,
which says when it was made. A line before each list of files says in JSON what these have; by it
the next publisher knows them, and a database is made without asking for any of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from transforms.block_range import BlockRange
from transforms.duck import quote_text
from transforms.tables.file_columns import (
    OWN_COLUMNS,
    OWN_TYPES,
    duck_type,
)
from transforms.tables.registry import UNKNOWN_TYPE, fold_case
from transforms.warehouse.manifests.data_files import empty_sql, rows_sql
from transforms.warehouse.manifests.manifest import receipts_source, segments_source
from transforms.warehouse.manifests.manifest_rows import RECEIPTS
from transforms.warehouse.manifests.shapes import Shape
from transforms.warehouse.views.catalog_columns import empty_views
from transforms.warehouse.views.catalog_joins import joins_of
from transforms.warehouse.views.catalog_views import (
    table_comments,
    table_views,
    unfit_view,
    utc_macro,
)


def _receipt_field(field: pa.Field[pa.DataType]) -> str:
    return f'"{field.name}" {"BIGINT" if pa.types.is_integer(field.type) else "VARCHAR"}'


_NESTED = {
    "_raw": OWN_TYPES["_raw"],
    "receipts": f"STRUCT({', '.join(map(_receipt_field, RECEIPTS))})[]",
}
_HEADER = """\
-- Chain {chain}, as Strata published it: views over the files of its lake at
--   {address}/lake
-- In DuckDB 1.5 or 2.0 (httpfs is loaded by itself) a database of these very statements answers:
--   attach '{address}/strata.duckdb' as vega (read_only);
--   use vega;
-- Or run the statements in an empty database of your own. A file that a newer one replaced stays
-- for a week; strata.snapshot says when these were made: take them anew when that is long ago.
"""
_MADE = "create table strata.snapshot as select "
_SNAPSHOT_MEANING = (
    "What these views show: snapshot of the publisher's warehouse, last block, when they were "
    "made, and where. Their files stay for a week after newer ones took their place."
)
_LIST = re.compile(
    r"^-- (files_\d+) (\{.*\})\ncreate macro strata\.\1\(\) as \[(.*)\];$", re.MULTILINE
)
_LISTED = re.compile(r"/([^/']+)'")


@dataclass(frozen=True, slots=True)
class PublicTable:
    """A table of a lake: its version, the types of its columns by name, its files.

    Types are Delta's. `files` are the names of files, by the names of the columns that they have;
    none of a table without rows.
    `state_of` is the segment whose current state the rows are, None for a table of history. Their
    file may be of an earlier segment, since which they are the same.
    """

    name: str
    version: int
    types: Mapping[str, str]
    files: Mapping[tuple[str, ...], Sequence[str]]
    state_of: BlockRange | None = None

    @property
    def names(self) -> Mapping[str, str]:
        """The columns that its files have, by their lower case."""
        return {fold_case(name): name for columns in self.files for name in columns}


@dataclass(frozen=True, slots=True)
class PublicLake:
    """A chain's tables, the manifests apart, and the shapes that the warehouse has of them.

    `address` is that of the chain's folder.
    """

    chain_id: str
    address: str
    tables: Sequence[PublicTable]
    manifests: PublicTable | None
    shapes: Mapping[str, Shape]


@dataclass(frozen=True, slots=True)
class FileList:
    """A list of files as the statements have it: of which table and version, with which columns.

    `columns` are DuckDB's types by name, `files` the names of the files.
    """

    name: str
    table: str
    version: int
    columns: Mapping[str, str]
    files: tuple[str, ...]


def file_lists(statements: str) -> Iterator[FileList]:
    """The lists of files in statements."""
    for name, about, addresses in _LIST.findall(statements):
        facts = json.loads(about)
        files = tuple(_LISTED.findall(addresses))
        yield FileList(name, facts["table"], facts["version"], facts["columns"], files)


def snapshot_line(snapshot: int, last_block: int, time: str, lake: PublicLake) -> str:
    """The statement that says when the others were made; `time` is a timestamp's text."""
    return (
        f"{_MADE}{quote_text(lake.chain_id)} as chain_id, {snapshot}::bigint as snapshot, "
        f"{last_block}::bigint as last_block, timestamptz {quote_text(time)} as time, "
        f"{quote_text(lake.address)} as address"
    )


def lasting(statements: str) -> str:
    """The text without the statement that says when it was made."""
    return "".join(
        line for line in statements.splitlines(keepends=True) if not line.startswith(_MADE)
    )


def public_statements(lake: PublicLake, snapshot: str) -> str:
    """All statements; `snapshot` is the one of `snapshot_line`."""
    lists = _Lists(lake.address)
    views = [*_views(lake, lists)]
    made = f"comment on table strata.snapshot is {quote_text(_SNAPSHOT_MEANING)}"
    conditions = conditions_statements(lake.address)
    statements = [snapshot, made, "create schema exact", *utc_macro(), *views, *conditions]
    header = _HEADER.format(chain=lake.chain_id, address=lake.address)
    lines = (" ".join(map(str.strip, each.strip().splitlines())) for each in statements)
    after = "".join(f"{line};\n" for line in lines)
    return f"{header}create schema strata;\n{''.join(lists.lines)}{after}"


class _Lists:
    """Lists of files as functions of the database: each is there once, for all views over it."""

    def __init__(self, address: str) -> None:
        self.lines: list[str] = []
        self._address = address

    def name(self, table: PublicTable, columns: Sequence[str], files: Iterable[str]) -> str:
        """SQL for a new list of files of a table with these columns."""
        name = f"files_{len(self.lines) + 1}"
        kinds = {fold_case(column): kind for column, kind in table.types.items()}
        types = {
            column: _NESTED.get(column) or duck_type(kinds[fold_case(column)]) for column in columns
        }
        about = {"table": table.name, "version": table.version, "columns": types}
        folder = f"{self._address}/lake/{table.name}"
        listed = ", ".join(quote_text(f"{folder}/{file}") for file in files)
        self.lines.append(
            f"-- {name} {json.dumps(about)}\ncreate macro strata.{name}() as [{listed}];\n"
        )
        return f"strata.{name}()"


def _views(lake: PublicLake, lists: _Lists) -> Iterator[str]:
    columns: dict[str, set[str]] = {}
    filled: list[tuple[str, Shape]] = []
    for table in lake.tables:
        loaded = lake.shapes.get(table.name, Shape())
        shape = _shape(table, loaded) if table.files else Shape(loaded.columns)
        columns[table.name] = {*shape.columns}
        source = _source(table, shape, lists)
        # The log does not say which columns have texts in `_raw`: any may.
        exact = Shape(shape.columns, {*shape.columns})
        for statement in table_views(table.name, source, typed=shape, exact=exact):
            # What columns mean is said once, in `main`: the file is fetched whole.
            if not statement.startswith("comment on column exact."):
                yield statement
        yield from table_comments(table.name, table.state_of.last if table.state_of else None)
        if table.files:
            filled.append((table.name, shape))
    # A table that the lake cannot show now is not there; one that no segment has is empty.
    yield from empty_views({*lake.shapes, *columns})
    if lake.manifests is not None:
        ((names, files),) = lake.manifests.files.items()
        manifests = lists.name(lake.manifests, names, files)
        yield f"create view strata.segments as from {segments_source(manifests)}"
        yield f"create view strata.receipts as from {receipts_source(manifests)}"
    yield from unfit_view(filled, is_any_raw=True)
    yield from joins_of(columns)


def _shape(table: PublicTable, loaded: Shape) -> Shape:
    """The columns that a table's rows can give: as loaded, then what the lake has beside that."""
    own = {column.name for column in OWN_COLUMNS}
    columns = {
        column.name: column.type
        for column in loaded.column_list()
        if fold_case(column.name) in table.names
    }
    there = {fold_case(name) for name in columns}
    more = {
        name: UNKNOWN_TYPE
        for folded, name in table.names.items()
        if folded not in there and name not in own
    }
    return Shape(columns | more)


def _source(table: PublicTable, shape: Shape, lists: _Lists) -> str:
    """SQL over a table's files, as rows of a volume: a reader for each group of equal columns."""
    readers = []
    for names, files in table.files.items():
        there = {fold_case(name) for name in names}
        columns = (column for column in shape.column_list() if fold_case(column.name) in there)
        reader = f"from {rows_sql(table.name, columns, lists.name(table, names, files))}"
        if table.state_of:  # their file may be of an earlier segment
            reader = f"select * replace ({table.state_of.first}::bigint as _segment) {reader}"
        readers.append(reader)
    if not readers:
        return empty_sql(table.name, shape.column_list())
    return f"({' union all by name '.join(readers)})"


ADDRESS_MACRO = "conditions_file"
"""The macro of the schema `strata` that has the address of the document, in a list."""

NO_DAYS = '{"days": []}'
"""A document without any day, over which the view can be made."""

_DAY = (
    '"date" DATE, condition VARCHAR, "from" BIGINT, "to" BIGINT, last_modified TIMESTAMPTZ, '
    "reason VARCHAR"
)
_QUERY = f"""
    select "date", condition, "from" as first_block, "to" as last_block, last_modified, reason
    from (
      select unnest(days, recursive := true)
      from read_json(strata.{ADDRESS_MACRO}(), columns = {{days: 'STRUCT({_DAY})[]'}})
    )
"""  # noqa: S608 - of constants
_MEANING = (
    "Each UTC day: available, degraded (a table lacks some of its blocks), pending (it has the "
    "newest block) or missing; the blocks of its segments; when a file of it was last replaced; "
    "and why. What conditions.json says now."
)


def conditions_statements(address: str) -> Iterator[str]:
    """What makes the view over the document in the chain's folder at an address."""
    document = quote_text(f"{address}/conditions.json")
    yield f"create macro strata.{ADDRESS_MACRO}() as [{document}]"
    yield f"create view strata.conditions as {_QUERY}"
    yield f"comment on view strata.conditions is {quote_text(_MEANING)}"
