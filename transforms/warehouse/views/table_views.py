"""Views over the files of tables: `main.<table>` typed and friendly, `exact.<table>` as CSV text.

`current.duckdb` has them over a warehouse's files, `strata.duckdb` over a lake's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from transforms.duck import quote_name, quote_text
from transforms.tables.column_facts import table_meaning
from transforms.tables.conform import conversion
from transforms.tables.dialect import select_list
from transforms.tables.reference import schema_reference
from transforms.tables.registry import Column, fold_case
from transforms.warehouse.manifests.data_files import empty_sql
from transforms.warehouse.manifests.manifest import receipts_source, segments_source
from transforms.warehouse.manifests.shapes import Shape
from transforms.warehouse.views.catalog_columns import (
    ViewColumn,
    exact_columns,
    rounded_columns,
    typed_columns,
    utc,
)
from transforms.warehouse.views.catalog_joins import joins_of

_UNFIT_MEANING = (
    "The columns of main with cells that their type cannot hold, and in how many rows: these are "
    "NULL in main, so that sums and orders lack them; exact has their text. Decimals that main "
    "rounds are not counted."
)
_UTC_MEANING = "A time in UTC, without a zone, whatever the time zone of the session is."
_EMPTY = "Empty: no segment that is shown here has this table."


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files of a table that have the same columns of CSVs.

    `files` are their addresses, or patterns of their paths; `rows` gives SQL for a list of them.
    """

    columns: Sequence[Column]
    files: tuple[str, ...]
    rows: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class ViewedTable:
    """A table as views show it: its columns, and its files, each in one group.

    `as_of` is the block of which a table of current state is; None for one of history.
    """

    name: str
    shape: Shape
    groups: Sequence[FileGroup]
    as_of: int | None = None

    def source(self, views: Views) -> str:
        """SQL over all its rows: one reader for each group.

        `union_by_name` would open every file for every view, each time a database is written.
        """
        readers = [group.rows(views.listed(group.files)) for group in self.groups]
        there = {fold_case(column.name) for group in self.groups for column in group.columns}
        columns = self.shape.column_list()
        if not there.issuperset(fold_case(column.name) for column in columns):
            readers.append(empty_sql(self.name, columns))  # only segments without rows have them
        return f"({' union all by name '.join(f'from {reader}' for reader in readers)})"


@dataclass(slots=True)
class Views:
    """The statements that make views, in an empty database.

    `files` are the lists of files, each a function of the database; they and `states`, which say as
    of which block, may be made again where `fixed` is the same text: the views stay as they are.
    """

    files: dict[tuple[str, ...], str] = field(default_factory=dict)
    fixed: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)

    def listed(self, files: Sequence[str]) -> str:
        """SQL for a list of files, which is there once, whatever names it."""
        return self.files.setdefault(tuple(files), f"strata.files_{len(self.files) + 1}()")

    @property
    def lists(self) -> list[str]:
        """What makes the lists."""
        return [
            f"create or replace macro {name} as [{', '.join(map(quote_text, files))}]"
            for files, name in self.files.items()
        ]

    @property
    def all(self) -> list[str]:
        """All statements, in order."""
        return ["create schema strata", *self.lists, *self.fixed, *self.states]

    @classmethod
    def of(
        cls, tables: Sequence[ViewedTable], manifests: Sequence[str], absent: Iterable[str]
    ) -> Views:
        """The views of tables; those of documented tables that are `absent` are empty."""
        views = cls(fixed=["create schema exact", *utc_macro()])
        for table in tables:
            views.fixed += _table_views(table, table.source(views))
            views.states += _table_comments(table)
        for name in absent:
            views.fixed += _empty_view(name)
        if manifests:
            files = views.listed(manifests)
            views.fixed.append(f"create view strata.segments as from {segments_source(files)}")
            views.fixed.append(f"create view strata.receipts as from {receipts_source(files)}")
        shapes = {table.name: table.shape for table in tables}
        views.fixed += unfit_view(shapes.items())
        views.fixed += joins_of({name: {*shape.columns} for name, shape in shapes.items()})
        return views


def utc_macro() -> Iterator[str]:
    """What makes `main.utc`."""
    # A bare NULL has no type, and there are several `epoch_us`.
    yield f"create macro main.utc(t) as {utc('coalesce(t, null::timestamp)')}"
    yield f"comment on macro main.utc is {quote_text(_UTC_MEANING)}"


def exact_view(name: str, shape: Shape, source: str) -> str:
    """What makes the view `exact.<table>` over SQL for its rows."""
    return _view(f"exact.{quote_name(name)}", exact_columns(name, shape.column_list()), source)


def _view(view: str, columns: Sequence[ViewColumn], source: str) -> str:
    listed = select_list([(column.sql, column.name) for column in columns])
    return f"create view {view} as select {listed} from {source}"  # noqa: S608 - quoted


def _table_views(table: ViewedTable, source: str) -> Iterator[str]:
    view, columns = f"main.{quote_name(table.name)}", typed_columns(table.name, table.shape)
    yield _view(view, columns, source)
    yield exact_view(table.name, table.shape, source)
    for column in columns:
        if column.comment:
            what = f"{view}.{quote_name(column.name)}"
            yield f"comment on column {what} is {quote_text(column.comment)}"


def _table_comments(table: ViewedTable) -> Iterator[str]:
    name = quote_name(table.name)
    state = "" if table.as_of is None else f" Current state as of block {table.as_of}."
    for schema, how in (("main", ""), ("exact", " As the exact text of the CSV.")):
        text = f"{table_meaning(table.name)}{state}{how}"
        yield f"comment on view {schema}.{name} is {quote_text(text)}"


@cache  # most tables of most snapshots are not there
def _empty_view(name: str) -> tuple[str, str]:
    """A documented table without rows, so that every query runs.

    Two thousand comments on columns would take longer to write than all other views of a small
    chain: there are none.
    """
    table = schema_reference()[name]
    shape = Shape({column.name: column.source_type for column in table.columns})
    view = f"main.{quote_name(name)}"
    made = _view(view, typed_columns(name, shape), empty_sql(name, shape.column_list()))
    return made, f"comment on view {view} is {quote_text(f'{table.meaning} {_EMPTY}')}"


def absent_names(there: Iterable[str]) -> list[str]:
    """The documented tables that are not there."""
    folded = set(map(fold_case, there))
    return [name for name in schema_reference() if fold_case(name) not in folded]


def unfit_view(tables: Iterable[tuple[str, Shape]]) -> Iterator[str]:
    """What makes `strata.unfit` over the views of these tables."""
    cells = ["select null::varchar as table_name, null::varchar as column_name where false"]
    for name, shape in tables:
        table, view = quote_text(name), quote_name(name)
        entries = f"unnest(map_entries(_raw), recursive := true) from main.{view}"
        cells.append(f"select {table}, key from (select {entries}) where {_is_unfit(name, shape)}")  # noqa: S608 - quoted
        for column, value in rounded_columns(name, shape.column_list()).items():
            lacks = f"{quote_name(column)} is not null and {value} is null"
            cells.append(f"select {table}, {quote_text(column)} from exact.{view} where {lacks}")  # noqa: S608 - quoted
    yield (
        'create view strata.unfit as select table_name, column_name, count(*) as "rows" '  # noqa: S608 - quoted
        f"from ({' union all '.join(cells)}) group by all order by all"
    )
    yield f"comment on view strata.unfit is {quote_text(_UNFIT_MEANING)}"


def _is_unfit(name: str, shape: Shape) -> str:
    """SQL for whether `main` lacks a cell of `_raw`: it has the times that only files lack."""
    columns = (column for column in shape.column_list() if column.name in shape.raw)
    times = [c.name for c in columns if conversion(name, c).type == "TIMESTAMPTZ"]
    if not times:
        return "true"
    listed = ", ".join(map(quote_text, times))
    return f"not (key in ({listed}) and try_cast(value as timestamptz) is not null)"
