"""The contents of a copy of the warehouse: from the attached `current` into the attached `fresh`.

Rows are read by the views of the catalog alone, wherever its files lie and whatever they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from transforms.block_range import BlockRange
from transforms.duck import Connection, quote_name, quote_text, reporting
from transforms.errors import ConfigError
from transforms.tables.conform import conversion
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.shapes import Shape
from transforms.warehouse.views.catalog_columns import rounded_columns
from transforms.warehouse.views.catalog_joins import joins_of
from transforms.warehouse.views.catalog_views import (
    SPAM_CAPTURES,
    exact_view,
    table_shapes,
    unfit_cells,
    unfit_query,
    utc_macro,
)

Progress = Callable[[int, int], object]
"""Called with the rows that are copied, and how many there are, from another thread, too."""

_ABOUT = "The warehouse's snapshot that this file was copied from, and the blocks of its history."


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table to copy: which rows, as SQL; how many there are, and how many bytes of CSV.

    `shape` is None where it comes from no segment. Bytes are those of history.
    """

    name: str
    where: str
    rows: int
    bytes: int
    shape: Shape | None

    @property
    def is_rounded(self) -> bool:
        """Whether `exact` has more of it than `main`."""
        return self.shape is not None and bool(rounded_columns(self.name, self.shape.column_list()))


def chosen_names(con: Connection, names: Sequence[str]) -> list[str]:
    """The tables of these names, all where there is none. Raises `ConfigError` for unknown ones."""
    views = "duckdb_views() where database_name = 'current' and schema_name = 'main'"
    query = f"select view_name from {views} and not internal order by 1"  # noqa: S608 - ours
    there = [name for (name,) in con.execute(query).fetchall()]
    for name in names:
        if name not in there:
            raise ConfigError(f"there is no table {name!r}: take some of {', '.join(there)}")
    return [name for name in there if not names or name in names]


def copied_tables(
    con: Connection, catalog: Catalog, blocks: BlockRange, names: Sequence[str]
) -> list[CopiedTable]:
    """What to copy of these tables: of history the rows of `blocks`, of current state all."""
    shapes = table_shapes(catalog.history(), catalog.states())
    within = f"between {blocks.first} and {blocks.last}"
    sums = ", ".join(
        f"coalesce(sum({column}) filter (first_block {within}), 0)::bigint"
        for column in ("rows", "bytes")
    )
    query = f"select table_name, min(first_block), {sums} from strata.receipts group by table_name"  # noqa: S608
    history = {name: numbers for name, *numbers in con.execute(query).fetchall()}
    tables = []
    for name in names:
        if name in history:
            first, rows, size = history[name]
            # What it was as current state, before a schema version made it history, stays whole.
            where = f"_segment {within} or _segment < {first}"
        else:
            count = f"select count(*), 0 from main.{quote_name(name)}"  # noqa: S608 - quoted
            where, ((rows, size),) = "true", con.execute(count).fetchall()
        tables.append(CopiedTable(name, where, rows, size, shapes.get(name)))
    return tables


def copy_rows(con: Connection, tables: Sequence[CopiedTable], progress: Progress) -> dict[str, int]:
    """Copy `main`, and of `exact` what cannot be rendered from it; returns the rows of `main`."""
    for schema in ("exact", "strata"):
        con.execute(f"create schema fresh.{schema}")
    parts = [("main", table) for table in tables]
    parts += [("exact", table) for table in tables if table.is_rounded]
    total, done = sum(table.rows for _, table in parts), 0
    rows: dict[str, int] = {}
    for schema, table in parts:
        name = f"{schema}.{quote_name(table.name)}"

        def report(share: float, done: int = done, of: int = table.rows) -> None:
            progress(done + int(share * of), total)

        with reporting(con, report):
            statement = f"create table fresh.{name} as from {name} where {table.where}"
            ((count,),) = con.execute(statement).fetchall()
        rows.setdefault(table.name, count)
        done += table.rows
        progress(done, total)
    return rows


def copy_records(con: Connection, tables: Sequence[CopiedTable], blocks: BlockRange) -> None:
    """Write the tables of `strata`: what was loaded, which cells do not fit, where it is from."""
    within = f"first_block between {blocks.first} and {blocks.last}"
    names = [table.name for table in tables]
    listed = ", ".join(map(quote_text, names))
    statements = [
        f"segments as from strata.segments where {within}",
        f"receipts as from strata.receipts where {within} and table_name in ({listed})",
        "copy as select chain_id, snapshot, "  # noqa: S608 - numbers
        f"{blocks.first}::bigint as first_block, {blocks.last}::bigint as last_block "
        "from strata.snapshot",
        _unfit(tables),
    ]
    if SPAM_CAPTURES in names:
        statements.append("refused_captures as from strata.refused_captures")
    for statement in statements:
        con.execute(f"create table fresh.strata.{statement}")
    con.execute(f"comment on table fresh.strata.copy is {quote_text(_ABOUT)}")


def _unfit(tables: Sequence[CopiedTable]) -> str:
    cells = [
        query
        for table in tables
        if table.shape and table.shape.raw
        for query in unfit_cells(table.name, table.shape, "fresh.", _times(table.name, table.shape))
    ]
    nothing = "select ''::varchar as table_name, ''::varchar as column_name where false"
    return f"unfit as {unfit_query([nothing, *cells])}"


def _times(table: str, shape: Shape) -> list[str]:
    types = {column.name: conversion(table, column).type for column in shape.column_list()}
    return [name for name, kind in types.items() if kind == "TIMESTAMPTZ"]


def make_views(con: Connection, tables: Sequence[CopiedTable]) -> None:
    """Make the macros, the other views of `exact`, and those for joins, over the copied tables."""
    con.execute("use fresh")
    columns: dict[str, set[str]] = {}
    for table in tables:
        if table.shape is None:
            continue
        columns[table.name] = {*table.shape.columns}
        if not table.is_rounded:
            con.execute(exact_view(table.name, table.shape, f"main.{quote_name(table.name)}"))
    for statement in (*utc_macro(), *joins_of(columns)):
        con.execute(statement)
    con.execute("use current")


def copy_comments(con: Connection) -> None:
    """Give tables, views and columns the comments that they have in the catalog."""
    kinds = {
        (schema, name): kind
        for kind in ("table", "view")
        for schema, name in con.execute(
            f"select schema_name, {kind}_name from duckdb_{kind}s() where database_name = 'fresh' "  # noqa: S608
            "and not internal"
        ).fetchall()
    }
    views = "select schema_name, view_name, null, comment from duckdb_views()"
    columns = "select schema_name, table_name, column_name, comment from duckdb_columns()"
    for query in (views, columns):
        rows = con.execute(f"{query} where database_name = 'current' and comment is not null")
        for schema, name, column, comment in rows.fetchall():
            if kind := kinds.get((schema, name)):
                place = f"fresh.{schema}.{quote_name(name)}"
                what = f"column {place}.{quote_name(column)}" if column else f"{kind} {place}"
                con.execute(f"comment on {what} is {quote_text(comment)}")
