"""`strata.sql` and `strata.duckdb`: the catalog's views over a lake's files at public addresses.

They follow from the lake's tables, so the same versions give the same text but for one line, which
says when it was made. The database is made without asking for any file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.duck import Connection, quote_text, working_connection
from transforms.quoting import file_pattern
from transforms.tables.registry import Column, fold_case
from transforms.warehouse.manifests.data_files import empty_sql, rows_sql
from transforms.warehouse.manifests.manifest import About, write_manifest
from transforms.warehouse.manifests.shapes import Shape
from transforms.warehouse.views.catalog_file import run_statements
from transforms.warehouse.views.table_views import FileGroup, ViewedTable, Views

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


@dataclass(frozen=True, slots=True)
class PublicLake:
    """A chain's tables, manifests and conditions, and the documented tables that are `absent`.

    `address` is that of the chain's folder, `manifests` and `conditions` those of files.
    """

    chain_id: str
    address: str
    conditions: str
    tables: Sequence[ViewedTable] = ()
    manifests: tuple[str, ...] = ()
    absent: Sequence[str] = ()

    def views(self, snapshot: str) -> Views:
        """All views over it; `snapshot` is the statement of `snapshot_line`."""
        views = Views.of(self.tables, self.manifests, self.absent)
        views.fixed += conditions_view(views.listed([self.conditions]))
        meaning = quote_text(_SNAPSHOT_MEANING)
        views.states += [snapshot, f"comment on table strata.snapshot is {meaning}"]
        return views


def public_table(
    name: str,
    shape: Shape,
    files: Mapping[tuple[str, ...], Sequence[str]],
    state_of: BlockRange | None = None,
) -> ViewedTable:
    """A table of a lake with the addresses of its files, by the names of the columns they have.

    `state_of` is the segment whose current state the rows are, None for a table of history. Their
    file may be of an earlier segment, since which they are the same.
    """

    def rows(columns: Sequence[Column], listed: str) -> str:
        source = rows_sql(name, columns, listed, shape.raw)
        if state_of is None:
            return source
        return f"(select * replace ({state_of.first}::bigint as _segment) from {source})"  # noqa: S608 - quoted

    groups = []
    for names, addresses in files.items():
        there = set(map(fold_case, names))
        columns = [column for column in shape.column_list() if fold_case(column.name) in there]
        groups.append(FileGroup(columns, tuple(addresses), partial(rows, columns)))
    return ViewedTable(name, shape, groups, state_of.last if state_of else None)


def snapshot_line(snapshot: int, last_block: int, time: str, lake: PublicLake) -> str:
    """The statement that says when the others were made; `time` is a timestamp's text."""
    return (
        f"{_MADE}{quote_text(lake.chain_id)} as chain_id, {snapshot}::bigint as snapshot, "
        f"{last_block}::bigint as last_block, timestamptz {quote_text(time)} as time, "
        f"{quote_text(lake.address)} as address"
    )


def public_statements(lake: PublicLake, snapshot: str) -> str:
    """The text of all statements; `snapshot` is the one of `snapshot_line`."""
    lines = (" ".join(map(str.strip, each.splitlines())) for each in lake.views(snapshot).all)
    header = _HEADER.format(chain=lake.chain_id, address=lake.address)
    return header + "".join(f"{line};\n" for line in lines)


def lasting(statements: str) -> str:
    """The text without the statement that says when it was made."""
    return "".join(
        line for line in statements.splitlines(keepends=True) if not line.startswith(_MADE)
    )


def write_database(path: Path, lake: PublicLake, snapshot: str, scratch: Path) -> None:
    """Write a new database of the statements; no file of the lake is asked for.

    A view is only made over files that are there: until all are made, each list is that of a file
    without rows.
    """
    with working_connection(scratch, size=0) as con:
        empty = _without_rows(con, lake, scratch)
    run_statements(path, [*empty.views(snapshot).all, *lake.views(snapshot).lists])


def _without_rows(con: Connection, lake: PublicLake, scratch: Path) -> PublicLake:
    """The lake with a new file without rows in the place of the files of each group."""
    places = (scratch / f"{number}.parquet" for number in count())

    def group_without_rows(table: str, group: FileGroup) -> FileGroup:
        path = next(places)
        query = f"from {empty_sql(table, group.columns)}"
        con.execute(f"copy ({query}) to {quote_text(path)} (format parquet)")
        return replace(group, files=(file_pattern(path),))

    tables = [
        replace(table, groups=[group_without_rows(table.name, group) for group in table.groups])
        for table in lake.tables
    ]
    manifest, conditions = scratch / "manifest.parquet", scratch / "conditions.json"
    write_manifest(manifest, About("", 0), [], [])
    conditions.write_text(_NO_DAYS)
    manifests = (file_pattern(manifest),) if lake.manifests else ()
    return replace(lake, tables=tables, manifests=manifests, conditions=file_pattern(conditions))


_NO_DAYS = '{"days": []}'
_DAY = (
    '"date" DATE, condition VARCHAR, "from" BIGINT, "to" BIGINT, last_modified TIMESTAMPTZ, '
    "reason VARCHAR"
)
_MEANING = (
    "Each UTC day: available, degraded (a table lacks some of its blocks), pending (it has the "
    "newest block) or missing; the blocks of its segments; when a file of it was last replaced; "
    "and why. What conditions.json says now."
)


def conditions_view(files: str) -> Iterator[str]:
    """What makes the view over the document `conditions.json`; `files` is SQL for a list of it."""
    yield (
        'create view strata.conditions as select "date", condition, "from" as first_block, '  # noqa: S608 - of constants
        '"to" as last_block, last_modified, reason from (select unnest(days, recursive := true) '
        f"from read_json({files}, columns = {{days: 'STRUCT({_DAY})[]'}}))"
    )
    yield f"comment on view strata.conditions is {quote_text(_MEANING)}"
