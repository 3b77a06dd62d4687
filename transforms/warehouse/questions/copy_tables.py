"""The contents of a copy of the warehouse: from the attached `current` into the attached `fresh`.

Rows are read by the views of the catalog alone, wherever its files lie and whatever they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from transforms.block_range import BlockRange
from transforms.duck import Connection, quote_name, quote_text
from transforms.errors import ConfigError
from transforms.warehouse.files.catalog import SPAM_CAPTURES, Catalog
from transforms.warehouse.manifests.shapes import Shape
from transforms.warehouse.views.catalog_columns import rounded_columns
from transforms.warehouse.views.catalog_joins import joins_of
from transforms.warehouse.views.catalog_views import (
    exact_view,
    table_shapes,
    unfit_view,
    utc_macro,
)

Progress = Callable[[int, int], object]
"""Called with the rows that are copied, and how many there are."""

_ABOUT = "The warehouse's snapshot that this file was copied from, and the blocks of its history."


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table to copy: SQL for which of its rows, and how many these are.

    `shape` is None where it comes from no segment.
    """

    name: str
    condition: str
    rows: int
    shape: Shape | None

    @property
    def is_rounded(self) -> bool:
        """Whether `exact` has more of it than `main`."""
        return self.shape is not None and bool(rounded_columns(self.name, self.shape.column_list()))


def copied_tables(
    con: Connection, catalog: Catalog, blocks: BlockRange, names: Sequence[str]
) -> list[CopiedTable]:
    """What to copy of these tables (none: of all): of history the rows of `blocks`, else all rows.

    What a table had as current state, before a schema version made it history, stays whole. Raises
    `ConfigError` for an unknown table.
    """
    views = "duckdb_views() where database_name = 'current' and schema_name = 'main'"
    query = f"select view_name from {views} and not internal order by 1"  # noqa: S608 - ours
    there = [name for (name,) in con.execute(query).fetchall()]
    if unknown := [name for name in names if name not in there]:
        raise ConfigError(f"there is no table {unknown[0]!r}: take some of {', '.join(there)}")
    shapes = table_shapes(catalog.history(), catalog.states())
    history = dict(
        con.execute(
            "select table_name, min(first_block) from strata.receipts group by 1"
        ).fetchall()
    )
    tables = []
    for name in names or there:
        condition = "true"
        if name in history:
            within = f"_segment between {blocks.first} and {blocks.last}"
            condition = f"(_segment < {history[name]} or {within})"
        counted = f"select count(*) from main.{quote_name(name)} where {condition}"  # noqa: S608 - quoted
        ((rows,),) = con.execute(counted).fetchall()
        tables.append(CopiedTable(name, condition, rows, shapes.get(name)))
    return tables


def copy_rows(con: Connection, tables: Sequence[CopiedTable], progress: Progress) -> None:
    """Copy `main`, and of `exact` what cannot be rendered from it."""
    for schema in ("exact", "strata"):
        con.execute(f"create schema fresh.{schema}")
    parts = [("main", table) for table in tables]
    parts += [("exact", table) for table in tables if table.is_rounded]
    total, done = sum(table.rows for _, table in parts), 0
    for schema, table in parts:
        name = f"{schema}.{quote_name(table.name)}"
        con.execute(f"create table fresh.{name} as from {name} where {table.condition}")
        done += table.rows
        progress(done, total)


def copy_records(con: Connection, tables: Sequence[CopiedTable], blocks: BlockRange) -> None:
    """Write the tables of `strata`: what was loaded, and where it is from."""
    within = f"first_block between {blocks.first} and {blocks.last}"
    names = [table.name for table in tables]
    listed = f"table_name in ({', '.join(map(quote_text, names))})"
    statements = [
        f"segments as from strata.segments where {within}",
        f"receipts as from strata.receipts where {within} and {listed}",
        "copy as select chain_id, snapshot, "  # noqa: S608 - numbers
        f"{blocks.first}::bigint as first_block, {blocks.last}::bigint as last_block "
        "from strata.snapshot",
    ]
    if SPAM_CAPTURES in names:
        statements.append("refused_captures as from strata.refused_captures")
    for statement in statements:
        con.execute(f"create table fresh.strata.{statement}")
    con.execute(f"comment on table fresh.strata.copy is {quote_text(_ABOUT)}")


def make_views(con: Connection, tables: Sequence[CopiedTable]) -> None:
    """Make the macros, the other views of `exact`, and those for joins, over the copied tables."""
    con.execute("use fresh")
    shapes = {table.name: table.shape for table in tables if table.shape is not None}
    for table in tables:
        if table.shape is not None and not table.is_rounded:
            con.execute(exact_view(table.name, table.shape, f"main.{quote_name(table.name)}"))
    columns = {name: {*shape.columns} for name, shape in shapes.items()}
    for statement in (*utc_macro(), *unfit_view(shapes.items()), *joins_of(columns)):
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
