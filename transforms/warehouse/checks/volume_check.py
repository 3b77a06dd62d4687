"""Reading a file of current state, or of captures, to its last column, and rendering its tables.

One table that cannot be read does not keep the others from being read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import duckdb

from transforms.duck import Connection, naming_large, quote_name, read_only_connection
from transforms.errors import BusyError, IntegrityError, StrataError
from transforms.tables.registry import TableSchema
from transforms.verifying.findings import unreadable
from transforms.verifying.verification import Scope
from transforms.warehouse.load.rendering import table_digests
from transforms.warehouse.manifests.manifest_rows import read_receipts
from transforms.warehouse.manifests.receipts import Receipt

_Result = TypeVar("_Result")

# What rows that were damaged, and not found out by DuckDB's own checksums, can make of parsing.
_NONSENSE = (IntegrityError, StrataError, ValueError, TypeError, LookupError)


@dataclass(frozen=True, slots=True)
class TableCheck:
    """A table after it was read: what is wrong with it, if anything.

    `table` has its schema before it, unless it is one that was loaded.
    """

    table: str
    problem: str = ""


class VolumeCheck:
    """A volume under examination; everything it has to say, whatever its condition."""

    def __init__(self, path: Path, scratch: Path, memory_limit: str) -> None:
        self._path = path
        self._scratch = scratch
        self._memory_limit = memory_limit
        self._open: Connection | None = None
        self._stack = ExitStack()
        self.problems: list[str] = []
        """What was wrong with the volume as a whole."""

    def close(self) -> None:
        """Let go of the volume."""
        self._open = None
        self._stack.close()

    def receipts(self) -> list[Receipt]:
        """Its receipts, by table, then by block; empty where they cannot be read."""
        query = "from strata.receipts order by table_name, first_block"
        return self._said("strata.receipts", lambda con: read_receipts(con, query, {}))

    def tables(self, receipts: Sequence[Receipt], scope: Scope) -> Iterator[TableCheck]:
        """Read every column of every table in a scope, and render it by its receipts there."""
        by_table: dict[str, list[Receipt]] = {}
        for receipt in receipts:
            by_table.setdefault(receipt.table, []).append(receipt)
        tables = self._said("its list of tables", _listed)
        lacking = {table for table in by_table if ("main", table) not in tables}
        for schema, table in [*tables, *(("main", table) for table in sorted(lacking))]:
            if schema != "main":
                problem = self._problem(partial(_scan, schema=schema, table=table))
                yield TableCheck(f"{schema}.{table}", problem=problem)
            elif scope.has_table(table):
                mine = [item for item in by_table.get(table, ()) if scope.reaches(item.blocks)]
                yield self._table(table, mine)

    def _table(self, table: str, receipts: Sequence[Receipt]) -> TableCheck:
        others: list[str] = []

        def read(con: Connection) -> str:
            _scan(con, "main", table)
            for receipt, digest in table_digests(con, _source, receipts, self._scratch):
                if digest != receipt.sha256:
                    others.append(
                        f"{table} of segment {receipt.blocks} renders to SHA-256 {digest}, not "
                        f"{receipt.sha256}"
                    )
            return ""

        problem = self._problem(read)
        if others:
            more = f" (and {len(others) - 1} more of its segments)" if len(others) > 1 else ""
            problem = "; ".join(filter(None, (f"{others[0]}{more}", problem)))
        return TableCheck(table, problem)

    def _said(self, what: str, read: Callable[[Connection], list[_Result]]) -> list[_Result]:
        rows: list[_Result] = []

        def keep(con: Connection) -> str:
            rows.extend(read(con))
            return ""

        if problem := self._problem(keep):
            self.problems.append(f"{what}: {problem}")
        return rows

    def _problem(self, read: Callable[[Connection], str]) -> str:
        """What `read` says, or why it cannot; errors of the machine pass."""
        try:
            if self._open is None:
                connection = read_only_connection(
                    self._path,
                    threads=1,
                    scratch=self._scratch,
                    memory_limit=self._memory_limit,
                )
                self._open = self._stack.enter_context(connection)
            with naming_large(str(self._path), self._scratch):
                return read(self._open)
        except OSError as error:
            if not error.filename:
                raise
            return unreadable(error, str(self._path))
        except BusyError:
            raise
        except duckdb.Error as error:
            self.close()  # an error may make DuckDB refuse everything that follows
            return f"it cannot be read ({str(error).splitlines()[0]})"
        except _NONSENSE as error:
            return f"it cannot be read ({' '.join(str(error).split())})"


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
