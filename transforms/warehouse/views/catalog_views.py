"""The catalog's views: `main.<table>` typed and friendly, `exact.<table>` as the text of the CSV.

Views name files by absolute path, so that the catalog can be opened from any directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from transforms.duck import quote_files, quote_name, quote_text
from transforms.objects import StoredFile
from transforms.tables.column_facts import table_meaning
from transforms.tables.conform import conversion
from transforms.tables.dialect import select_list
from transforms.tables.registry import fold_case
from transforms.warehouse.files.catalog import SPAM_CAPTURES, Catalog
from transforms.warehouse.manifests.data_files import empty_sql, rows_sql, state_sql
from transforms.warehouse.manifests.manifest import receipts_source, segments_source
from transforms.warehouse.manifests.shapes import Shape, Volume
from transforms.warehouse.views.catalog_columns import (
    ViewColumn,
    empty_names,
    empty_views,
    exact_columns,
    rounded_columns,
    typed_columns,
    utc,
)
from transforms.warehouse.views.catalog_joins import joins_of

PathOf = Callable[[StoredFile], Path]
"""From a file of the warehouse to where it lies on this machine."""

CAPTURES_VIEW = f"main.{SPAM_CAPTURES}"
_UNFIT_MEANING = (
    "The columns of main with cells that their type cannot hold, and in how many rows: these are "
    "NULL in main, so that sums and orders lack them; exact has their text. Decimals that main "
    "rounds are not counted."
)
_UTC_MEANING = "A time in UTC, without a zone, whatever the time zone of the session is."

ListOf = Callable[[Sequence[Path]], str]
"""From files to SQL for the list of them."""


@dataclass(frozen=True, slots=True)
class _Table:
    """A table as the catalog shows it: over which volumes, with which columns."""

    name: str
    volumes: tuple[Volume, ...]
    shape: Shape

    @property
    def as_of(self) -> int | None:
        """The block of which a table of current state is; None for one of history."""
        newest = self.volumes[-1]
        return None if newest.kind == "history" else newest.blocks.last

    def source(self, path: PathOf, list_of: ListOf) -> str:
        """SQL over the table in all volumes: one reader for each group of equal columns.

        `union_by_name` would open every file for every view, each time a catalog is written.
        """
        groups: dict[tuple[frozenset[str], frozenset[str]], tuple[Shape, list[Path]]] = {}
        readers: list[str] = []
        for volume in self.volumes:
            shape = volume.shapes[self.name]
            if volume.kind == "state":
                readers.append(state_sql(self.name, list_of([path(volume.database)])))
            elif file := volume.data.get(self.name):
                key = (frozenset(shape.columns), frozenset(shape.raw))
                group = groups.setdefault(key, (shape, []))
                group[1].append(path(file))
        readers += (
            rows_sql(self.name, shape.column_list(), list_of(files), shape.raw)
            for shape, files in groups.values()
        )
        if {fold_case(name) for columns, _ in groups for name in columns} < {
            fold_case(name) for name in self.shape.columns
        }:  # only segments without rows have them, or only those of a state
            readers.append(empty_sql(self.name, self.shape.column_list()))
        return f"({' union all by name '.join(f'from {reader}' for reader in readers)})"


@dataclass(frozen=True, slots=True)
class Views:
    """The statements that make the views, in a database that has a schema `strata`.

    `lists` say which files there are and `states` as of which block; they may be run again for
    another snapshot whose `fixed` is the same text, which leaves the views as they are.
    """

    lists: tuple[str, ...]
    fixed: tuple[str, ...]
    states: tuple[str, ...]


def views_of(
    history: Sequence[Volume],
    states: Sequence[Volume],
    captures: StoredFile | None,
    path: PathOf,
) -> Views:
    """All views of a snapshot with their comments."""
    lists, path = _Lists(), lru_cache(maxsize=None)(path)
    tables = [*_tables(history, states)]
    fixed = ["create schema exact", *utc_macro()]
    for table in tables:
        source = table.source(path, lists.name)
        fixed += table_views(table.name, source, typed=table.shape, exact=table.shape)
    if manifests := [path(volume.file) for volume in history]:
        list_name = lists.name(manifests)
        fixed.append(f"create view strata.segments as from {segments_source(list_name)}")
        fixed.append(f"create view strata.receipts as from {receipts_source(list_name)}")
    fixed += empty_views(table.name for table in tables)
    fixed += unfit_view((table.name, table.shape) for table in tables)
    fixed += joins_of({table.name: {*table.shape.columns} for table in tables})
    if captures is not None:
        fixed += _capture_views(lists.name([path(captures)]))
    comments = (comment for table in tables for comment in table_comments(table.name, table.as_of))
    return Views(tuple(lists.statements()), tuple(fixed), tuple(comments))


def utc_macro() -> Iterator[str]:
    """What makes `main.utc`."""
    # A bare NULL has no type, and there are several `epoch_us`.
    yield f"create macro main.utc(t) as {utc('coalesce(t, null::timestamp)')}"
    yield f"comment on macro main.utc is {quote_text(_UTC_MEANING)}"


class _Lists:
    """Lists of files as functions of the database: each is there once, whatever names it."""

    def __init__(self) -> None:
        self._names: dict[tuple[Path, ...], str] = {}

    def name(self, files: Sequence[Path]) -> str:
        """SQL for a list."""
        return self._names.setdefault(tuple(files), f"strata.files_{len(self._names) + 1}()")

    def statements(self) -> Iterator[str]:
        """What makes the functions."""
        for files, name in self._names.items():
            yield f"create or replace macro {name} as {quote_files(files)}"


def exact_view(name: str, shape: Shape, source: str) -> str:
    """What makes the view `exact.<table>` over SQL for its rows."""
    return _view(f"exact.{quote_name(name)}", exact_columns(name, shape), source)


def _view(view: str, columns: Sequence[ViewColumn], source: str) -> str:
    listed = select_list([(column.sql, column.name) for column in columns])
    return f"create view {view} as select {listed} from {source}"  # noqa: S608 - quoted


def table_views(table: str, source: str, *, typed: Shape, exact: Shape) -> Iterator[str]:
    """What makes a table's two views over `source`, SQL for its rows with CSVs' columns."""
    name = quote_name(table)
    for view, columns in (
        (f"main.{name}", typed_columns(table, typed)),
        (f"exact.{name}", exact_columns(table, exact)),
    ):
        yield _view(view, columns, source)
        for column in columns:
            if column.comment:
                what = f"{view}.{quote_name(column.name)}"
                yield f"comment on column {what} is {quote_text(column.comment)}"


def view_names(catalog: Catalog) -> list[str]:
    """The names of the views in `main`, sorted."""
    shapes = table_shapes(catalog.history(), catalog.states())
    captures = () if catalog.snapshot.captures is None else (SPAM_CAPTURES,)
    return sorted({*shapes, *empty_names(shapes), *captures})


def table_shapes(history: Sequence[Volume], states: Sequence[Volume]) -> dict[str, Shape]:
    """The shapes of all tables over these volumes, by name."""
    return {table.name: table.shape for table in _tables(history, states)}


def unfit_view(tables: Iterable[tuple[str, Shape]], *, is_any_raw: bool = False) -> Iterator[str]:
    """What makes `strata.unfit` over the views of these tables.

    Columns that are not `raw` by a table's shape have no texts in `_raw`, unless `is_any_raw`.
    """
    cells = ["select null::varchar as table_name, null::varchar as column_name where false"]
    for table, shape in tables:
        if shape.raw or is_any_raw:
            cells.append(_raw_cells(table, shape))
        decimals = rounded_columns(table, shape.column_list())
        cells += (_rounded_cells(table, column, sql) for column, sql in decimals.items())
    yield (
        'create view strata.unfit as select table_name, column_name, count(*) as "rows" '  # noqa: S608 - quoted
        f"from ({' union all '.join(cells)}) group by all order by all"
    )
    yield f"comment on view strata.unfit is {quote_text(_UNFIT_MEANING)}"


def _raw_cells(table: str, shape: Shape) -> str:
    """A row for each cell of a table whose text is in `_raw` and that is NULL in `main`."""
    times = [
        quote_text(column.name)
        for column in shape.column_list()
        if column.name in shape.raw and conversion(table, column).type == "TIMESTAMPTZ"
    ]
    shown = (
        f"where not (key in ({', '.join(times)}) and try_cast(value as timestamptz) is not null)"
    )
    rows = f"main.{quote_name(table)} where _raw is not null"
    entries = f"select unnest(map_entries(_raw), recursive := true) from {rows}"  # noqa: S608 - quoted
    return (
        f"select {quote_text(table)}, key from ({entries}) "  # noqa: S608 - quoted
        f"{shown if times else ''}"
    )


def _rounded_cells(table: str, column: str, sql: str) -> str:
    """A row for each text of a column that `main` shows as a decimal and that fits none."""
    return (
        f"select {quote_text(table)}, {quote_text(column)} from exact.{quote_name(table)} "  # noqa: S608 - quoted
        f"where {quote_name(column)} is not null and {sql} is null"
    )


def _capture_views(file: str) -> Iterator[str]:
    for view, table, text in (
        (CAPTURES_VIEW, "captures", "What a core node said of each party's spam counters, newest."),
        ("strata.refused_captures", "refused_lines", "Lines that are no captures, and why."),
    ):
        yield (
            f"create view {view} as from read_duckdb({file}, "
            f"hive_partitioning = false, table_name = '{table}')"
        )
        yield f"comment on view {view} is {quote_text(text)}"


def _tables(history: Sequence[Volume], states: Sequence[Volume]) -> Iterator[_Table]:
    names = {table for volume in (*history, *states) for table in volume.shapes}
    for name in sorted(names):
        parts = [volume for volume in history if name in volume.shapes]
        copies = [volume for volume in states if name in volume.shapes]
        # A table that a later schema version turned into history keeps its last whole copy, which
        # has the rows from before; otherwise only the newest copy counts.
        older = [copy for copy in copies if not parts or copy.version < parts[-1].version]
        volumes = (*older[-1:], *parts)
        shape = Shape()
        columns: dict[str, str] | None = None
        for volume_shape in (volume.shapes[name] for volume in volumes):
            if volume_shape.columns is columns:  # as in most volumes of a snapshot
                shape.raw |= volume_shape.raw
            else:
                shape.merge(volume_shape)
                columns = volume_shape.columns
        yield _Table(name, volumes, shape)


def table_comments(table: str, as_of: int | None) -> Iterator[str]:
    """What describes a table's two views; `as_of` is the block of a table of current state."""
    name = quote_name(table)
    state = "" if as_of is None else f" Current state as of block {as_of}."
    for schema, how in (("main", ""), ("exact", " As the exact text of the CSV.")):
        text = f"{table_meaning(table)}{state}{how}"
        yield f"comment on view {schema}.{name} is {quote_text(text)}"
