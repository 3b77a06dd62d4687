"""The contents of a copy of the warehouse: from the attached `current` into the attached `fresh`.

Rows are read by the views of the catalog alone, wherever its files lie and whatever they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from transforms.block_range import BlockRange
from transforms.duck import Connection, quote_name, quote_text
from transforms.errors import ConfigError
from transforms.warehouse.files.catalog import SPAM_CAPTURES, Catalog
from transforms.warehouse.manifests.shapes import Shape
from transforms.warehouse.views.catalog_columns import rounded_columns
from transforms.warehouse.views.catalog_joins import joins_of
from transforms.warehouse.views.catalog_views import table_shapes, view_names
from transforms.warehouse.views.table_views import exact_view, unfit_view, utc_macro

Progress = Callable[[int, int], object]
"""Called with how many tables are copied, and how many there are."""

_ABOUT = "The warehouse's snapshot that this file was copied from, and the blocks of its history."


def copy_contents(
    con: Connection,
    catalog: Catalog,
    blocks: BlockRange,
    tables: Sequence[str],
    progress: Progress,
) -> dict[str, int]:
    """Copy these tables (none: all), of history the rows of `blocks`; returns the rows of each.

    Raises `ConfigError` for an unknown table.
    """
    there = view_names(catalog)
    if unknown := [name for name in tables if name not in there]:
        raise ConfigError(f"there is no table {unknown[0]!r}: take some of {', '.join(there)}")
    names = [*(tables or there)]
    shapes = {name: shape for name, shape in table_shapes(catalog).items() if name in names}
    con.execute("use current")
    for schema in ("exact", "strata"):
        con.execute(f"create schema fresh.{schema}")
    exact = [name for name, shape in shapes.items() if _is_rounded(name, shape)]
    rows = _copy_rows(con, names, exact, blocks, progress)
    con.execute("begin")
    _copy_records(con, names, blocks)
    con.execute("use fresh")
    _make_views(con, shapes)
    _copy_comments(con)
    con.execute("commit")
    con.execute("use memory")
    return rows


def _copy_rows(
    con: Connection,
    names: Sequence[str],
    exact: Sequence[str],
    blocks: BlockRange,
    progress: Progress,
) -> dict[str, int]:
    """Copy `main`, and of these tables `exact`, too.

    What a table had as current state, before a schema version made it history, stays whole.
    """
    receipts = "select table_name, min(first_block) from strata.receipts group by 1"
    first_blocks = dict(con.execute(receipts).fetchall())
    relations = [*(("main", name) for name in names), *(("exact", name) for name in exact)]
    rows: dict[str, int] = {}
    for count, (schema, name) in enumerate(relations, 1):
        condition = "true"
        if name in first_blocks:
            within = f"_segment between {blocks.first} and {blocks.last}"
            condition = f"(_segment < {first_blocks[name]} or {within})"
        table = f"{schema}.{quote_name(name)}"
        copied = con.execute(f"create table fresh.{table} as from {table} where {condition}")
        ((rows[name],),) = copied.fetchall()
        progress(count, len(relations))
    return rows


def _is_rounded(name: str, shape: Shape) -> bool:
    """Whether `exact` has more of a table than `main`, so that it cannot be rendered from it."""
    return bool(rounded_columns(name, shape.column_list()))


def _copy_records(con: Connection, names: Iterable[str], blocks: BlockRange) -> None:
    """Write the tables of `strata`: what was loaded, and where it is from."""
    within = f"first_block between {blocks.first} and {blocks.last}"
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


def _make_views(con: Connection, shapes: Mapping[str, Shape]) -> None:
    """Make the macros, the other views of `exact`, and those for joins, over the copied tables."""
    statements = [*utc_macro()]
    for name, shape in shapes.items():
        if not _is_rounded(name, shape):
            statements.append(exact_view(name, shape, f"main.{quote_name(name)}"))
    statements += unfit_view(shapes.items())
    statements += joins_of({name: {*shape.columns} for name, shape in shapes.items()})
    con.execute(";\n".join(statements))


def _copy_comments(con: Connection) -> None:
    """Give tables, views and columns the comments that they have in the catalog."""
    kinds = {
        (schema, name): kind
        for kind in ("table", "view")
        for schema, name in con.execute(
            f"select schema_name, {kind}_name from duckdb_{kind}s() "  # noqa: S608
            "where database_name = 'fresh' and not internal"
        ).fetchall()
    }
    comments = con.execute(
        "select schema_name, view_name, null, comment from duckdb_views() "
        "where database_name = 'current' and comment is not null union all "
        "select schema_name, table_name, column_name, comment from duckdb_columns() "
        "where database_name = 'current' and comment is not null"
    )
    for schema, name, column, comment in comments.fetchall():
        if kind := kinds.get((schema, name)):
            place = f"{schema}.{quote_name(name)}"
            what = f"column {place}.{quote_name(column)}" if column else f"{kind} {place}"
            con.execute(f"comment on {what} is {quote_text(comment)}")
