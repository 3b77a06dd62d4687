"""Reading a file of current state, or of captures, to its last column, and rendering its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from transforms.duck import Connection, quote_name, read_only_connection
from transforms.tables.registry import TableSchema
from transforms.verifying.verification import Scope
from transforms.warehouse.checks.file_reader import FileReader, file_reader
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.load.rendering import rendering_problem, table_digests
from transforms.warehouse.manifests.manifest_rows import read_receipts
from transforms.warehouse.manifests.receipts import Receipt

_Result = TypeVar("_Result")


class VolumeCheck:
    """A volume under examination; everything it has to say, whatever its condition."""

    def __init__(self, path: Path, reader: FileReader) -> None:
        self._path = path
        self._reader = reader
        self.problems: list[str] = []
        """What was wrong with the volume as a whole."""

    def receipts(self) -> list[Receipt]:
        """Its receipts, by table, then by block; empty where they cannot be read."""
        query = "from strata.receipts order by table_name, first_block"
        return self._said("strata.receipts", lambda con: read_receipts(con, query, {}))

    def tables(self, receipts: Sequence[Receipt], scope: Scope) -> Iterator[tuple[str, str]]:
        """Read every column of every table in a scope, and render it by its receipts there.

        Yields each table (one that was not loaded with its schema) and what is wrong with it.
        """
        by_table: dict[str, list[Receipt]] = {}
        for receipt in receipts:
            by_table.setdefault(receipt.table, []).append(receipt)
        tables = self._said("its list of tables", _listed)
        lacking = {table for table in by_table if ("main", table) not in tables}
        for schema, table in [*tables, *(("main", table) for table in sorted(lacking))]:
            if schema != "main":
                scan = partial(_scan, schema=schema, table=table)
                yield f"{schema}.{table}", self._reader.problem(self._path, scan)
            elif scope.has_table(table):
                mine = [item for item in by_table.get(table, ()) if scope.reaches(item.blocks)]
                yield table, self._table(table, mine)

    def _table(self, table: str, receipts: Sequence[Receipt]) -> str:
        def read(con: Connection) -> str:
            _scan(con, "main", table)
            return rendering_problem(table_digests(con, _source, receipts, self._reader.scratch))

        return self._reader.problem(self._path, read)

    def _said(self, what: str, read: Callable[[Connection], list[_Result]]) -> list[_Result]:
        rows: list[_Result] = []

        def keep(con: Connection) -> str:
            rows.extend(read(con))
            return ""

        if problem := self._reader.problem(self._path, keep):
            self.problems.append(f"{what}: {problem}")
        return rows


@contextmanager
def volume_check(backing: Backing, path: Path) -> Iterator[VolumeCheck]:
    """The check of a file of current state, or of captures, which is open in this block."""

    def opening(scratch: Path) -> AbstractContextManager[Connection]:
        limit = backing.memory_limit
        return read_only_connection(path, threads=1, scratch=scratch, memory_limit=limit)

    with file_reader(backing, opening) as reader:
        yield VolumeCheck(path, reader)


def _listed(con: Connection) -> list[tuple[str, str]]:
    query = (
        "select schema_name, table_name from duckdb_tables() "
        "where database_name = current_database() order by all"
    )
    return [(str(schema), str(table)) for schema, table in con.execute(query).fetchall()]


def _source(schema: TableSchema) -> str:
    return f"main.{quote_name(schema.table)}"


def _scan(con: Connection, schema: str, table: str) -> str:
    """Read every value of a table; DuckDB proves each block that it reads by its checksum."""
    name = f"{quote_name(schema)}.{quote_name(table)}"
    con.execute(f"select bit_xor(hash(read)) from {name} as read").fetchall()  # noqa: S608
    return ""
