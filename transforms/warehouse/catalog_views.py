"""The catalog's views: `main.<table>` typed and friendly, `exact.<table>` as the text of the CSV.

Views name volume files by absolute path, so that the catalog can be opened from any directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from transforms.duck import Connection, quote_files, quote_name, quote_text
from transforms.objects import StoredFile
from transforms.tables.conform import rendered
from transforms.tables.dialect import select_list
from transforms.tables.enum_names import enum_names
from transforms.tables.meanings import column_meaning, table_meaning
from transforms.tables.registry import Column, fold_case
from transforms.warehouse.record import receipts_source, segments_source
from transforms.warehouse.shapes import Shape, Volume

PathOf = Callable[[StoredFile], Path]
"""From a file of the warehouse to where it lies on this machine."""

CAPTURES_VIEW = "main.spam_captures"
_OWN_COLUMNS = {
    "_segment": "First block (height) of the segment that the row came from.",
    "_row": "The row's place in its segment's CSV, from 1.",
    "_raw": "Column to exact text, of cells that the column's type cannot hold; normally NULL.",
}


ListOf = Callable[[Sequence[Path]], str]
"""From files to SQL for the list of them."""


@dataclass(frozen=True, slots=True)
class _Table:
    """A table as the catalog shows it: over which volumes, with which columns."""

    name: str
    volumes: tuple[Volume, ...]
    shape: Shape

    def source(self, path: PathOf, list_of: ListOf) -> str:
        """SQL over the table in all volumes: one reader for each group of equal columns.

        `union_by_name` would open every volume for every view, each time a catalog is written.
        """
        groups: dict[frozenset[str], list[Path]] = {}
        # Most volumes of a document share one mapping of columns.
        shared: dict[int, list[Path]] = {}
        for volume in self.volumes:
            columns = volume.shapes[self.name].columns
            if id(columns) not in shared:
                shared[id(columns)] = groups.setdefault(frozenset(columns), [])
            shared[id(columns)].append(path(volume.file))
        readers = (
            f"from read_duckdb({list_of(files)}, hive_partitioning = false, "
            # A volume's own tables in `strata` may be named alike.
            f"schema_name = 'main', table_name = {quote_text(self.name)})"
            for files in groups.values()
        )
        return f"({' union all by name '.join(readers)})"


@dataclass(frozen=True, slots=True)
class Views:
    """The statements that make the views, in a database that has a schema `strata`.

    `lists` say which files there are and `states` as of which block; they may be run again for
    another generation whose `fixed` is the same text, which leaves the views as they are.
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
    """All views of a generation with their comments."""
    lists, path = _Lists(), lru_cache(maxsize=None)(path)
    tables = [*_tables(history, states)]
    fixed = ["create schema exact"]
    for table in tables:
        fixed += _table_views(table, table.source(path, lists.name))
    if records := [path(volume.record) for volume in history if volume.record]:
        named = lists.name(records)
        fixed.append(f"create view strata.segments as from {segments_source(named)}")
        fixed.append(f"create view strata.receipts as from {receipts_source(named)}")
    if captures is not None:
        fixed += _capture_views(lists.name([path(captures)]))
    comments = (comment for table in tables for comment in _view_comments(table))
    return Views(tuple(lists.statements()), tuple(fixed), tuple(comments))


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


def create_stored_views(con: Connection, history: Sequence[Volume], path: PathOf) -> None:
    """Create views of the tables of history with the columns that volumes store, and no more."""
    for table in _tables(history, ()):
        source = table.source(path, quote_files)
        con.execute(f"create view main.{quote_name(table.name)} as select * from {source}")  # noqa: S608


def _table_views(table: _Table, source: str) -> Iterator[str]:
    columns = table.shape.column_list()
    labels = _labels(table.name, columns)
    friendly = [pair for column in columns for pair in _friendly(table.name, column, labels)]
    own = [(quote_name(name), name) for name in _OWN_COLUMNS]
    exact = [
        (rendered(table.name, column, raw=column.name in table.shape.raw), column.name)
        for column in columns
    ]
    exact += [(quote_name(name), name) for name in ("_segment", "_row")]
    name = quote_name(table.name)
    for view, columns_sql in ((f"main.{name}", [*friendly, *own]), (f"exact.{name}", exact)):
        query = f"select {select_list(columns_sql)} from {source}"  # noqa: S608 - quoted
        yield f"create view {view} as {query}"
    yield from _column_comments(table, columns)


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
        held = [volume for volume in history if name in volume.shapes]
        copies = [volume for volume in states if name in volume.shapes]
        # A table that a later schema version turned into history keeps its last whole copy, which
        # has the rows from before; otherwise only the newest copy counts.
        older = [copy for copy in copies if not held or copy.version < held[-1].version]
        volumes = (*older[-1:], *held)
        shape = Shape()
        columns: dict[str, str] | None = None
        for held_shape in (volume.shapes[name] for volume in volumes):
            if held_shape.columns is columns:  # as in most volumes of a document
                shape.raw |= held_shape.raw
            else:
                shape.merge(held_shape)
                columns = held_shape.columns
        yield _Table(name, volumes, shape)


def _labels(table: str, columns: Sequence[Column]) -> dict[str, str]:
    """Column of numbers to the column of their names; a CSV's own column of that name stays."""
    taken = {fold_case(column.name) for column in columns}
    numbers = (column.name for column in columns if enum_names(table, column.name))
    return {name: f"{name}_name" for name in numbers if f"{name}_name" not in taken}


def _friendly(table: str, column: Column, labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    name = quote_name(column.name)
    if column.type == "numeric" and (table, column.name) != ("withdrawals", "amount"):
        yield f"try_cast({name} as decimal(38,10))", column.name
        return
    yield name, column.name
    names = enum_names(table, column.name)
    if names and column.name in labels:
        cases = " ".join(f"when {number} then {quote_text(text)}" for number, text in names.items())
        yield f"case {name} {cases} else {name}::varchar end", labels[column.name]


def _view_comments(table: _Table) -> Iterator[str]:
    name = quote_name(table.name)
    kind = "" if table.volumes[-1].kind == "history" else _as_of(table.volumes[-1])
    for schema, how in (("main", ""), ("exact", " As the exact text of the CSV.")):
        text = f"{table_meaning(table.name)}{kind}{how}"
        yield f"comment on view {schema}.{name} is {quote_text(text)}"


def _column_comments(table: _Table, columns: Sequence[Column]) -> Iterator[str]:
    name = quote_name(table.name)
    for schema in ("main", "exact"):
        for column in columns:
            meaning = quote_text(column_meaning(table.name, column.name))
            yield f"comment on column {schema}.{name}.{quote_name(column.name)} is {meaning}"
    for own, meaning in _OWN_COLUMNS.items():
        yield f"comment on column main.{name}.{own} is {quote_text(meaning)}"
    for number, label in _labels(table.name, columns).items():
        text = quote_text(f"The name of {number}; the number itself where it has none.")
        yield f"comment on column main.{name}.{quote_name(label)} is {text}"


def _as_of(volume: Volume) -> str:
    return f" Current state as of block {volume.blocks.last}."
