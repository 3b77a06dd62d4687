"""What a catalog, or a copy of one, has besides its tables: views and macros over `main`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from importlib.resources import files

from transforms.duck import quote_name, quote_text
from transforms.warehouse.manifests.shapes import Shape
from transforms.warehouse.views.catalog_columns import rounded_columns, utc

_NEEDS = re.compile(r"^-- needs (.+)$", re.MULTILINE)
_REMARK = re.compile(r"^--.*$", re.MULTILINE)
_UNFIT_MEANING = (
    "The columns of main with cells that their type cannot hold, and in how many rows: these are "
    "NULL in main, so that sums and orders lack them; exact has their text. Decimals that main "
    "rounds are not counted."
)
_UTC_MEANING = "A time in UTC, without a zone, whatever the time zone of the session is."


def derived_views(shapes: Mapping[str, Shape]) -> Iterator[str]:
    """The statements for tables of these shapes, in order: `main.utc`, `strata.unfit`, joins."""
    # A bare NULL has no type, and there are several `epoch_us`.
    yield f"create macro main.utc(t) as {utc('coalesce(t, null::timestamp)')}"
    yield f"comment on macro main.utc is {quote_text(_UTC_MEANING)}"
    yield from _unfit_view(shapes)
    yield from joins_of({name: shape.columns for name, shape in shapes.items()})


def joins_of(columns: Mapping[str, Collection[str]]) -> Iterator[str]:
    """The macros and views of `joins.sql` for tables that have these columns."""
    there = {f"{table}.{column}" for table, names in columns.items() for column in names}
    text = files("transforms.warehouse.views").joinpath("joins.sql").read_text("utf-8")
    for paragraph in text.split("\n\n"):
        if there.issuperset(
            name for line in _NEEDS.findall(paragraph) for name in line.split(", ")
        ):
            statements = _REMARK.sub("", paragraph).split(";\n")
            yield from filter(None, (each.strip().removesuffix(";") for each in statements))


def _unfit_view(shapes: Mapping[str, Shape]) -> Iterator[str]:
    cells = ["select null::varchar as table_name, null::varchar as column_name where false"]
    for name, shape in shapes.items():
        table, view = quote_text(name), quote_name(name)
        for column in sorted(shape.raw):
            lacks = f"_raw[{quote_text(column)}] is not null and {quote_name(column)} is null"
            cells.append(f"select {table}, {quote_text(column)} from main.{view} where {lacks}")  # noqa: S608 - quoted
        for column, value in rounded_columns(name, shape.column_list()).items():
            lacks = f"{quote_name(column)} is not null and {value} is null"
            cells.append(f"select {table}, {quote_text(column)} from exact.{view} where {lacks}")  # noqa: S608 - quoted
    yield (
        'create view strata.unfit as select table_name, column_name, count(*) as "rows" '  # noqa: S608 - quoted
        f"from ({' union all '.join(cells)}) group by all order by all"
    )
    yield f"comment on view strata.unfit is {quote_text(_UNFIT_MEANING)}"
