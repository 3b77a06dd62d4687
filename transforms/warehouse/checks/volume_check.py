"""Proving one volume: its files by their hashes, its tables by their receipts, its index file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import duckdb

from transforms.duck import (
    Connection,
    attached,
    naming_large,
    quote_name,
    working_connection,
)
from transforms.errors import BusyError, StrataError
from transforms.lookups.index_file import open_index
from transforms.lookups.lookup_tables import prove_lookups
from transforms.objects import StoredFile
from transforms.scratch import scratch_folder
from transforms.tables.file_columns import file_columns
from transforms.tables.registry import TableSchema
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
from transforms.verifying.verification import Kind, Verification
from transforms.warehouse.checks.file_check import (
    NOT_READ,
    csvs_problem,
    file_findings,
    rows_problem,
    types_problem,
)
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.load.rendering import rendering_problem, table_digests
from transforms.warehouse.load.volumes import volume_sources
from transforms.warehouse.manifests.manifest_rows import read_receipts
from transforms.warehouse.manifests.receipts import Receipt, receipts_digest
from transforms.warehouse.manifests.shapes import Volume

# What rows that were damaged, and not found out by checksums, can make of parsing.
_NONSENSE = (sqlite3.Error, StrataError, ValueError, TypeError, LookupError)
_STATE_RECEIPTS = "from {}.strata.receipts order by table_name, first_block"


class VolumeCheck:
    """The check of one volume, by the receipts of its manifest, by table, then by block.

    None are given where the manifest is damaged, and for a current state, which has its own.
    """

    def __init__(
        self,
        backing: Backing,
        verification: Verification,
        volume: Volume,
        receipts: Sequence[Receipt] | None,
    ) -> None:
        self._backing = backing
        self._check = verification
        self._volume = volume
        self._receipts = receipts
        self._is_earlier: list[bool] = []  # of each file that was read, whether that was before

    def findings(self) -> Iterator[Finding]:
        """Read and render the tables in scope, and the index file; yields what is wrong."""
        scope, counts = self._check.scope, self._check.counts
        tables = [table for table in sorted(self._volume.shapes) if scope.has_table(table)]
        files = [(self._volume.data.get(table), [table]) for table in tables]
        if self._volume.kind == "state":
            files = [(self._volume.file, tables)]
        is_sound = True
        for file, names in files:
            for finding in self._file(file, names):
                is_sound = False
                yield finding
            if not self._check.is_quick:
                self._check.report(Kind.TABLES)
        yield from self._index(is_sound=is_sound)
        is_earlier = bool(self._is_earlier) and all(self._is_earlier)
        if len(self._is_earlier) == sum(file is not None for file, _ in files):
            counts.read(Kind.VOLUMES, is_earlier=is_earlier)
        if is_sound and not self._check.is_quick:
            segments = {r.blocks for r in self._receipts or () if scope.reaches(r.blocks)}
            counts.read(Kind.SEGMENTS, len(segments), is_earlier=is_earlier)
        if self._check.is_quick:
            self._check.report(Kind.VOLUMES)

    def _file(self, file: StoredFile | None, tables: Sequence[str]) -> Iterator[Finding]:
        """Prove a data file, or the file of a state, with its tables."""
        counts, is_quick = self._check.counts, self._check.is_quick
        receipts = [r for r in self._receipts or () if r.table in tables]
        if file is None:
            counts.read(Kind.TABLES, 0 if is_quick else 1)
            if any(receipt.rows for receipt in receipts):
                what = f"it has rows of {tables[0]}, and no data file for them"
                yield self._finding(self._volume.file, Problem.DISAGREEMENT, what)
            return
        proof = self._proof(file)
        is_earlier = self._check.proven.has(proof)
        findings = [] if is_earlier else [*file_findings(self._backing, file, REPAIR_AND_LOAD)]
        if any(finding.problem in NOT_READ for finding in findings):
            yield from findings
            return
        is_readable = self._receipts is not None or self._volume.kind == "state"
        if not (is_quick or is_earlier or findings) and is_readable:
            if problem := self._problem(file, file.size, self._reading(file, receipts)):
                findings = [self._finding(file, Problem.DAMAGED, problem)]
            else:
                self._check.proven.keep(proof)
        self._is_earlier.append(is_earlier)
        counts.read(Kind.BYTES, file.size, is_earlier=is_earlier)
        counts.read(Kind.TABLES, 0 if is_quick else len(tables), is_earlier=is_earlier)
        if receipts and not is_quick and not findings and receipts == self._in_scope(receipts):
            # The lake may have the same bytes.
            self._check.rendered[file.sha256] = receipts_digest(receipts)
        yield from findings

    def _in_scope(self, receipts: Sequence[Receipt]) -> list[Receipt]:
        return [receipt for receipt in receipts if self._check.scope.reaches(receipt.blocks)]

    def _reading(
        self, file: StoredFile, receipts: Sequence[Receipt]
    ) -> Callable[[Connection, Path], str]:
        """What reads a file, and says what is wrong with it, "" if nothing."""
        path = self._backing.files.path(file)

        def read_data(con: Connection, scratch: Path) -> str:
            table = receipts[0].table
            columns = file_columns(table, self._volume.shapes[table].column_list())
            problem = (
                types_problem(con, path, columns)
                or rows_problem(con, path, receipts)
                or csvs_problem(con, path, self._in_scope(receipts), scratch)
            )
            return f"{table}: {problem}" if problem else ""

        def read_state(con: Connection, scratch: Path) -> str:
            with attached(con, path, "state", "(read_only)") as state:
                own = read_receipts(con, _STATE_RECEIPTS.format(state), {})
                problems = (
                    (table, rendering_problem(table_digests(con, in_state, [*group], scratch)))
                    for table, group in groupby(own, key=attrgetter("table"))
                    if self._check.scope.has_table(table)
                )
                return "; ".join(f"{table}: {problem}" for table, problem in problems if problem)

        def in_state(schema: TableSchema) -> str:
            return f"state.main.{quote_name(schema.table)}"

        return read_state if self._volume.kind == "state" else read_data

    def _index(self, *, is_sound: bool) -> Iterator[Finding]:
        """The index file, whose bytes are proven, and what it has where the rows are sound."""
        file, volume, files = self._volume.index, self._volume, self._backing.files
        if file is None or not self._check.scope.is_whole:
            return
        proof = self._proof(file)
        if self._check.proven.has(proof):
            return
        findings = [*file_findings(self._backing, file, REPAIR)]
        yield from findings
        if findings or not is_sound or self._check.is_quick:
            return

        def read(con: Connection, _: Path) -> str:
            with (
                files.hold(volume.table_files),
                closing(open_index(files.path(file))) as index,
                volume_sources(con, files, volume) as sources,
            ):
                return prove_lookups(con, index, sources)

        if problem := self._problem(file, volume.size, read):
            remedy = Remedy((*move_away(proof.place).commands, *REPAIR.commands))
            yield Finding(Problem.DAMAGED, proof.place, problem, remedy)
        else:
            self._check.proven.keep(proof)

    def _problem(self, file: StoredFile, size: int, read: Callable[[Connection, Path], str]) -> str:
        """What `read`, of so many bytes, says is wrong with a file; errors of the machine pass."""
        backing = self._backing
        path = backing.files.path(file)
        try:
            with (
                scratch_folder(backing.scratch) as scratch,
                backing.files.hold([file]),
                # An error may make DuckDB refuse everything that follows: it ends the instance.
                working_connection(scratch, size=size, memory_limit=backing.rendering_limit) as con,
                naming_large(str(path), scratch),
            ):
                return read(con, scratch)
        except OSError as error:
            if not error.filename:
                raise
            return unreadable(error, str(path))
        except BusyError:
            raise
        except duckdb.Error as error:
            return f"it cannot be read ({str(error).splitlines()[0]})"
        except _NONSENSE as error:
            return f"it cannot be read ({' '.join(str(error).split())})"

    def _proof(self, file: StoredFile) -> Proof:
        """That a file, as it is now, is what the manifest says."""
        info = self._backing.store.head(file.key)
        recorded = f"{file.sha256} {self._volume.file.sha256}"
        place = self._backing.store.describe(file.key)
        return Proof(place, info.version if info else "", recorded)

    def _finding(self, file: StoredFile, problem: Problem, what: str) -> Finding:
        """A file that is whole, and not what its records say."""
        place = self._backing.store.describe(file.key)
        commands = (*move_away(place).commands, *REPAIR_AND_LOAD.commands)
        return Finding(problem, place, what, Remedy(commands, REPAIR_AND_LOAD.note))
