"""Proving the files of a run of segments: each data file by its hash and by its receipts.

One table that cannot be read does not keep the others from being read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path

import duckdb

from transforms.block_range import BlockRange
from transforms.duck import Connection, naming_large, quote_files
from transforms.errors import BusyError, IntegrityError, StrataError
from transforms.lookups.index_file import open_index
from transforms.lookups.lookup_tables import prove_lookups
from transforms.objects import StoredFile
from transforms.scratch import scratch_folder
from transforms.tables.file_columns import OWN_TYPES, duck_type, file_columns
from transforms.tables.registry import TableSchema, fold_case
from transforms.verifying.counts import Kind
from transforms.verifying.findings import (
    REPAIR,
    REPAIR_AND_LOAD,
    Finding,
    Problem,
    Remedy,
    move_away,
    unreadable,
)
from transforms.verifying.proofs import Proof
from transforms.verifying.verification import Verification
from transforms.warehouse.checks.file_check import NOT_READ, file_findings
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.load.rendering import data_reader, table_digests
from transforms.warehouse.load.volumes import volume_sources
from transforms.warehouse.manifests.data_files import file_sql, rows_sql
from transforms.warehouse.manifests.receipts import Receipt, receipts_digest
from transforms.warehouse.manifests.shapes import Shape, Volume

# What rows that were damaged can make of parsing.
_NONSENSE = (IntegrityError, StrataError, ValueError, TypeError, LookupError)


class RunCheck:
    """The check of one run of segments, and of the index file of any volume.

    `receipts` are those of its manifest, by table, then by block; None where that is not sound.
    """

    def __init__(
        self,
        backing: Backing,
        verification: Verification,
        volume: Volume,
        receipts: Sequence[Receipt] | None,
    ) -> None:
        self._backing = backing
        self._verification = verification
        self._volume = volume
        self._receipts = receipts
        self._rendered: set[BlockRange] = set()
        self._unproven: set[BlockRange] = set()
        self.was_read = True
        """Whether all files in scope could be read."""
        self._numbers = {"now": 0, "earlier": 0}

    @property
    def was_earlier(self) -> bool:
        """Whether all of them were proven earlier."""
        return self._numbers["earlier"] > 0 and not self._numbers["now"]

    def findings(self) -> Iterator[Finding]:
        """Read and render the tables in scope, and the index file; yields what is wrong."""
        verification, counts = self._verification, self._verification.counts
        sound = True
        with ExitStack() as closing:
            reader = _Reader(self._backing, closing)
            for table, shape in sorted(self._volume.shapes.items()):
                if verification.scope.has_table(table):
                    findings = [*self._table(reader, table, shape)]
                    sound = sound and not findings
                    yield from findings
                    if not verification.is_quick:
                        verification.report(Kind.TABLES)
            yield from self._index(reader, is_sound=sound)
        if not verification.is_quick and self._receipts is not None:
            count = len(self._rendered - self._unproven)
            counts.read(Kind.SEGMENTS, count, is_earlier=self.was_earlier)

    def _table(self, reader: _Reader, table: str, shape: Shape) -> Iterator[Finding]:
        verification, counts = self._verification, self._verification.counts
        receipts = [r for r in self._receipts or () if r.table == table]
        chosen = [r for r in receipts if verification.scope.reaches(r.blocks)]
        segments = {receipt.blocks for receipt in chosen}
        self._rendered |= segments
        file = self._volume.data.get(table)
        if file is None:
            counts.read(Kind.TABLES)
            if any(receipt.rows for receipt in receipts):
                what = f"it has rows of {table}, and no data file for them"
                yield self._finding(self._volume.file, Problem.DISAGREEMENT, what)
            return
        place, state, recorded = self._identity(file)
        if verification.proven.find(place, state, recorded) is not None:
            self._keep_rendered(file, receipts, chosen)
            self._numbers["earlier"] += 1
            counts.read(Kind.TABLES, is_earlier=True)
            counts.read(Kind.BYTES, file.size, is_earlier=True)
            return
        findings = [*file_findings(self._backing, file, REPAIR_AND_LOAD, lambda _: None)]
        self._numbers["now"] += 1
        if any(finding.problem in NOT_READ for finding in findings):
            self.was_read = False
            self._unproven |= segments
            yield from findings
            return
        counts.read(Kind.BYTES, file.size)
        if not (verification.is_quick or findings or self._receipts is None):
            problem = reader.problem(file, shape, receipts, chosen)
            if problem:
                findings = [self._finding(file, Problem.DAMAGED, f"{table}: {problem}")]
            else:
                verification.proven.keep(Proof(place, state, recorded))
                self._keep_rendered(file, receipts, chosen)
        if findings:
            self._unproven |= segments
        if not verification.is_quick:
            counts.read(Kind.TABLES)
        yield from findings

    def _keep_rendered(
        self, file: StoredFile, receipts: Sequence[Receipt], chosen: Sequence[Receipt]
    ) -> None:
        """Let the check of the lake know a sound file: the lake may have the same bytes."""
        if len(chosen) == len(receipts):
            self._verification.rendered[file.sha256] = receipts_digest(receipts)

    def _identity(self, file: StoredFile) -> tuple[str, str, str]:
        """What a proof of a file is about: its place, its state, what it was held against."""
        info = self._backing.store.head(file.key)
        recorded = f"{file.sha256} {self._volume.file.sha256}"
        return self._backing.store.describe(file.key), info.version if info else "", recorded

    def index_findings(self, *, is_sound: bool) -> Iterator[Finding]:
        """Prove the index file alone, also of a current state; yields what is wrong."""
        with ExitStack() as closing:
            yield from self._index(_Reader(self._backing, closing), is_sound=is_sound)

    def _index(self, reader: _Reader, *, is_sound: bool) -> Iterator[Finding]:
        """The index file, whose bytes are proven, and what it has where the rows are sound."""
        file = self._volume.index
        if file is None or not self._verification.scope.is_whole:
            return
        place, state, recorded = self._identity(file)
        if self._verification.proven.find(place, state, recorded) is not None:
            return
        findings = [*file_findings(self._backing, file, REPAIR, lambda _: None)]
        yield from findings
        if findings or not is_sound or self._verification.is_quick:
            return
        if problem := reader.index_problem(file, self._volume):
            yield Finding(
                Problem.DAMAGED,
                place,
                problem,
                Remedy((*move_away(place).commands, *REPAIR.commands)),
            )
        else:
            self._verification.proven.keep(Proof(place, state, recorded))

    def _finding(self, file: StoredFile, problem: Problem, what: str) -> Finding:
        place = self._backing.store.describe(file.key)
        away = move_away(place).commands
        remedy = Remedy((*away, *REPAIR_AND_LOAD.commands), REPAIR_AND_LOAD.note)
        return Finding(problem, place, what, remedy)


class _Reader:
    """Reads files of a run by a DuckDB that is opened when it is first needed."""

    def __init__(self, backing: Backing, closing: ExitStack) -> None:
        self._backing = backing
        self._scratch: Path = closing.enter_context(scratch_folder(backing.scratch))
        self._closing = closing.enter_context(ExitStack())
        self._open: Connection | None = None

    def problem(
        self,
        file: StoredFile,
        shape: Shape,
        receipts: Sequence[Receipt],
        chosen: Iterable[Receipt],
    ) -> str:
        """What is wrong with a data file, "" if nothing; errors of the machine pass.

        `receipts` are all of its segments, `chosen` those that are rendered.
        """
        path = self._backing.files.path(file)

        def source(schema: TableSchema) -> str:
            return rows_sql(schema.table, schema.columns, [path])

        def read(con: Connection) -> str:
            return (
                _columns_problem(con, path, receipts[0].table, shape)
                or _rows_problem(con, path, receipts)
                or _rendering_problem(table_digests(con, source, [*chosen], self._scratch))
            )

        with self._backing.files.hold([file]):
            return self._said(path, read)

    def index_problem(self, file: StoredFile, volume: Volume) -> str:
        """What is wrong with an index file, "" if nothing."""
        files = self._backing.files

        def read(con: Connection) -> str:
            with (
                closing(open_index(files.path(file))) as index,
                volume_sources(con, files, volume) as sources,
            ):
                return prove_lookups(con, index, sources)

        with files.hold([file, *volume.table_files]):
            return self._said(files.path(file), read)

    def _said(self, path: Path, read: Callable[[Connection], str]) -> str:
        try:
            if self._open is None:
                self._open = self._closing.enter_context(self._connection())
            with naming_large(str(path), self._scratch):
                return read(self._open)
        except OSError as error:
            if not error.filename:
                raise
            return unreadable(error, str(path))
        except BusyError:
            raise
        except sqlite3.Error as error:
            return f"it cannot be read ({error})"
        except duckdb.Error as error:
            self._open = None  # an error may make DuckDB refuse everything that follows
            self._closing.close()
            return f"it cannot be read ({str(error).splitlines()[0]})"
        except _NONSENSE as error:
            return f"it cannot be read ({' '.join(str(error).split())})"

    def _connection(self) -> AbstractContextManager[Connection]:
        return data_reader(self._scratch, self._backing.rendering_limit)


def _columns_problem(con: Connection, path: Path, table: str, shape: Shape) -> str:
    """How a file's columns are not those of its segments."""
    relation = con.sql(f"select * from {file_sql(quote_files([path]))}")  # noqa: S608 - quoted
    there = {
        fold_case(name): str(kind)
        for name, kind in zip(relation.columns, relation.types, strict=True)
    }
    columns = file_columns(table, shape.column_list())
    expected = {fold_case(c.name): duck_type(c.type) for c in columns} | OWN_TYPES
    if there == expected:
        return ""
    return (
        f"it has other columns than its table: {sorted(set(there.items()) ^ set(expected.items()))}"
    )


def _rows_problem(con: Connection, path: Path, receipts: Sequence[Receipt]) -> str:
    """How a file has other rows than its receipts say, by their number."""
    rows = sum(receipt.rows for receipt in receipts)
    ((there,),) = con.execute(f"select count(*) from {file_sql(quote_files([path]))}").fetchall()  # noqa: S608
    return "" if there == rows else f"it has {there} rows, its segments have {rows}"


def _rendering_problem(digests: Iterable[tuple[Receipt, str]]) -> str:
    """The first CSV that is another one than was loaded, and how many more."""
    others = [
        f"segment {receipt.blocks} renders to SHA-256 {digest}, not {receipt.sha256}"
        for receipt, digest in digests
        if digest != receipt.sha256
    ]
    more = f" (and {len(others) - 1} more of its segments)" if len(others) > 1 else ""
    return f"{others[0]}{more}" if others else ""
