"""Views over the files of tables: `main.<table>` typed and friendly, `exact.<table>` as CSV text.

`current.duckdb` has them over a warehouse's files, `strata.duckdb` over a lake's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from transforms.block_range import BlockRange
from transforms.duck import quote_name, quote_text
from transforms.tables.column_facts import table_meaning
from transforms.tables.dialect import select_list
from transforms.tables.reference import table_reference
from transforms.tables.registry import Column, fold_case, tables_ever
from transforms.warehouse.manifests.data_files import empty_sql, rows_sql, state_sql
from transforms.warehouse.manifests.manifest import receipts_source, segments_source
from transforms.warehouse.manifests.shapes import Shape
from transforms.warehouse.views.catalog_columns import (
    ViewColumn,
    exact_columns,
    typed_columns,
)
from transforms.warehouse.views.derived_views import derived_views

_EMPTY = "Empty: no segment that is shown here has this table."


@dataclass(frozen=True, slots=True)
class ViewedTable:
    """A table as views show it: its columns, and its files.

    Of each file there is the address, or a pattern of its path, and the names of its columns of
    CSVs. `as_of` is the segment of which a table of current state is, None for one of history; its
    file of a lake may be of an earlier one, since which the rows are the same.
    """

    name: str
    shape: Shape
    files: Sequence[tuple[str, Iterable[str]]]
    as_of: BlockRange | None = None

    def groups(self) -> Iterator[tuple[tuple[str, ...], Sequence[Column]]]:
        """Its files of the same kind and columns, with these."""
        alike: defaultdict[tuple[bool, tuple[str, ...]], list[str]] = defaultdict(list)
        for file, names in self.files:
            alike[_is_state(file), tuple(names)].append(file)
        for (_, names), files in alike.items():
            there = set(map(fold_case, names))
            columns = (c for c in self.shape.column_list() if fold_case(c.name) in there)
            yield tuple(files), [*columns]

    def source(
        self, listed: Callable[[Sequence[str]], str], blocks: BlockRange | None = None
    ) -> str:
        """SQL over its rows, of history over those of the segments in `blocks` (None: all).

        There is one reader for each group, whose list of files `listed` names: `union_by_name`
        would open every file for every view, each time a database is written.
        """
        readers, there = [], set[Column]()
        for files, columns in self.groups():
            there.update(columns)
            names = listed(files)
            reader = rows_sql(self.name, columns, names)
            if _is_state(files[0]):
                reader = state_sql(self.name, names)
            elif self.as_of is not None:
                segment = f"{self.as_of.first}::bigint as _segment"
                reader = f"(select * replace ({segment}) from {reader})"  # noqa: S608 - quoted
            elif blocks is not None:
                reader = f"(from {reader} where _segment between {blocks.first} and {blocks.last})"
            readers.append(reader)
        if there != {*self.shape.column_list()}:  # only segments without rows have the others
            readers.append(empty_sql(self.name, self.shape.column_list()))
        return f"({' union all by name '.join(f'from {reader}' for reader in readers)})"

    def main(self, kind: str, source: str) -> Iterator[str]:
        """What makes `main.<table>`, a view or a table, over SQL for its rows, with comments."""
        name, columns = f"main.{quote_name(self.name)}", typed_columns(self.name, self.shape)
        yield from _made(kind, name, columns, source, self._meaning)
        for column in columns:
            if column.comment:
                what = f"{name}.{quote_name(column.name)}"
                yield f"comment on column {what} is {quote_text(column.comment)}"

    def exact(self, kind: str, source: str) -> Iterator[str]:
        """What makes `exact.<table>`, likewise."""
        columns = exact_columns(self.name, self.shape.column_list())
        meaning = f"{self._meaning} As the exact text of the CSV."
        yield from _made(kind, f"exact.{quote_name(self.name)}", columns, source, meaning)

    @property
    def _meaning(self) -> str:
        state = "" if self.as_of is None else " Current state after the segment of _segment."
        return f"{table_meaning(self.name)}{state}"


def list_sql(files: Iterable[str]) -> str:
    """SQL for a list of files."""
    return f"[{', '.join(map(quote_text, files))}]"


def _is_state(file: str) -> bool:
    return file.endswith(".duckdb")


@dataclass(slots=True)
class Views:
    """The statements that make views, in an empty database.

    `files` are the lists of files, each a function of the database; they and `states`, which say
    what is shown, may be made again where `fixed` is the same text: the views stay as they are.
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
            f"create or replace macro {name} as {list_sql(files)}"
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
        views = cls(fixed=["create schema exact"])
        for table in tables:
            source = table.source(views.listed)
            views.fixed += [*table.main("view", source), *table.exact("view", source)]
        for name in absent:
            views.fixed += empty_table(name, "view")
        if manifests:
            files = views.listed(manifests)
            views.fixed.append(f"create view strata.segments as from {segments_source(files)}")
            views.fixed.append(f"create view strata.receipts as from {receipts_source(files)}")
        views.fixed += derived_views({table.name: table.shape for table in tables})
        return views


def _made(
    kind: str, name: str, columns: Sequence[ViewColumn], source: str, meaning: str
) -> tuple[str, str]:
    listed = select_list([(column.sql, column.name) for column in columns])
    made = f"create {kind} {name} as select {listed} from {source}"  # noqa: S608 - quoted
    return made, f"comment on {kind} {name} is {quote_text(meaning)}"


@cache  # most tables of most snapshots are not there
def empty_table(name: str, kind: str) -> tuple[str, str]:
    """What makes a documented table without rows, a view or a table, so that every query runs.

    Two thousand comments on columns would take longer to write than all other views of a small
    chain: there are none.
    """
    table = table_reference(name)
    shape = Shape({column.name: column.source_type for column in table.columns})
    columns, source = typed_columns(name, shape), empty_sql(name, shape.column_list())
    return _made(kind, f"main.{quote_name(name)}", columns, source, f"{table.meaning} {_EMPTY}")


def absent_names(there: Iterable[str]) -> list[str]:
    """The documented tables that are not there."""
    folded = set(map(fold_case, there))
    return [name for name in tables_ever() if fold_case(name) not in folded]
