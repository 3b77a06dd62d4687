"""Holding a file of a warehouse or a lake against what names it, and its rows against receipts."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import duckdb

from transforms.duck import Connection, quote_files
from transforms.duck_files import FOREIGN_LOG, log_beside
from transforms.errors import BusyError, IntegrityError, StrataError
from transforms.objects import StoredFile
from transforms.stores.store import content_sha256
from transforms.tables.file_columns import OWN_TYPES, FileColumn, duck_type
from transforms.tables.registry import TableSchema, fold_case
from transforms.verifying.findings import REPAIR, Finding, Problem, Remedy, move_away, unreadable
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.files.local_files import MISSING
from transforms.warehouse.files.lost_files import damage
from transforms.warehouse.load.rendering import rendering_problem
from transforms.warehouse.manifests.data_files import file_sql, rows_sql, state_sql
from transforms.warehouse.manifests.receipts import Receipt

Read = Callable[[], str]
"""Reads a file; says what is wrong, "" if nothing."""

# What rows that were damaged, and not found out by checksums, can make of parsing.
_NONSENSE = (sqlite3.Error, StrataError, ValueError, TypeError, LookupError)


def file_findings(
    backing: Backing, file: StoredFile, remedy: Remedy, read: Read | None = None
) -> Iterator[Finding]:
    """Hash a file that a snapshot names and, if it is whole, `read` it."""
    findings = [*_hash_findings(backing, file, remedy)]
    yield from findings
    if read is None or findings:
        return
    place = backing.store.describe(file.key)
    if problem := _read_problem(backing, file, read):
        anew = Remedy((*move_away(place).commands, *remedy.commands), remedy.note)
        yield Finding(Problem.DAMAGED, place, problem, anew)


def _read_problem(backing: Backing, file: StoredFile, read: Read) -> str:
    """What `read` says is wrong with a file; errors of the machine pass."""
    try:
        return read()
    except OSError as error:
        if not error.filename:
            raise
        return unreadable(error, str(backing.files.path(file)))
    except BusyError:
        raise
    except (duckdb.Error, *_NONSENSE) as error:
        return f"it cannot be read ({' '.join(str(error).split())})"


def _hash_findings(backing: Backing, file: StoredFile, remedy: Remedy) -> Iterator[Finding]:
    """Hash a file; of a bucket's, also the copy in this machine's cache."""
    place = backing.store.describe(file.key)
    local = backing.files.path(file)
    copy = None if backing.store.path(file.key) else local
    if log := log_beside(local):
        yield Finding(Problem.DAMAGED, str(log), FOREIGN_LOG, REPAIR)
    try:
        if copy and not copy.exists():
            backing.files.bring([file])  # which hashes it, and has it here for what follows
            return
        if problem := damage(backing.store, file):
            yield damage_finding(place, problem, remedy)
    except FileNotFoundError:
        yield damage_finding(place, MISSING, remedy)
    except IntegrityError as error:
        yield Finding(Problem.DAMAGED, place, str(error), remedy)
    except OSError as error:
        yield Finding(Problem.DAMAGED, place, unreadable(error, place), remedy)
    if copy and copy.exists() and content_sha256(copy) != file.sha256:
        what = f"this copy of {place} does not hash to {file.sha256}"
        yield Finding(Problem.DAMAGED, str(copy), what, Remedy((f"rm {shlex.quote(str(copy))}",)))


def damage_finding(place: str, problem: str, remedy: Remedy) -> Finding:
    """The finding of a file that is missing or damaged; see `damage` and `absent_files`."""
    kind = Problem.MISSING if problem == MISSING else Problem.DAMAGED
    return Finding(kind, place, f"it {problem}", remedy)


def file_types(con: Connection, path: Path) -> Mapping[str, str]:
    """The columns of a data file with DuckDB's types."""
    relation = con.sql(f"select * from {file_sql(quote_files([path]))}")  # noqa: S608 - quoted
    return dict(zip(relation.columns, map(str, relation.types), strict=True))


def types_problem(con: Connection, path: Path, columns: Sequence[FileColumn]) -> str:
    """How a file has other columns than these and our own; "" if not. Case does not count."""
    there = {fold_case(name): kind for name, kind in file_types(con, path).items()}
    expected = {fold_case(c.name): duck_type(c.type) for c in columns} | OWN_TYPES
    others = sorted(set(there.items()) ^ set(expected.items()))
    return f"it has other columns than its table: {others}" if others else ""


def rows_problem(con: Connection, path: Path, receipts: Sequence[Receipt]) -> str:
    """How a file has other rows than its segments, by their number; "" if not."""
    rows = sum(receipt.rows for receipt in receipts)
    ((there,),) = con.execute(f"select count(*) from {file_sql(quote_files([path]))}").fetchall()  # noqa: S608
    return "" if there == rows else f"it has {there} rows, its segments have {rows}"


def csvs_problem(con: Connection, path: Path, receipts: Sequence[Receipt], scratch: Path) -> str:
    """How a file of one table has other rows or CSVs than receipts (ascending) say; "" if not."""

    def source(schema: TableSchema) -> str:
        return rows_sql(schema.table, schema.columns, [path])

    problem = rows_problem(con, path, receipts)
    return problem or rendering_problem(con, source, receipts, scratch)


def state_problem(con: Connection, path: Path, receipts: Sequence[Receipt], scratch: Path) -> str:
    """How a file of current state has other CSVs than receipts say; "" if not."""

    def source(schema: TableSchema) -> str:
        return state_sql(schema.table, [path])

    problems = (
        (receipt.table, rendering_problem(con, source, [receipt], scratch)) for receipt in receipts
    )
    return "; ".join(f"{table}: {problem}" for table, problem in problems if problem)
