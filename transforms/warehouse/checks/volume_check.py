"""Proving one volume: its files by their hashes, its tables by their receipts, its index file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb

from transforms.duck import Connection, naming_large, working_connection
from transforms.errors import BusyError, StrataError
from transforms.lookups.index_file import open_index
from transforms.lookups.lookup_tables import prove_lookups
from transforms.objects import StoredFile
from transforms.scratch import scratch_folder
from transforms.tables.file_columns import file_columns
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
    state_problem,
    types_problem,
)
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.load.volumes import volume_sources
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.manifests.shapes import Volume

_Read = Callable[[Connection, Path], str]
"""Reads files with a connection and a scratch folder; says what is wrong, "" if nothing."""

# What rows that were damaged, and not found out by checksums, can make of parsing.
_NONSENSE = (sqlite3.Error, StrataError, ValueError, TypeError, LookupError)


@dataclass(frozen=True, slots=True)
class VolumeCheck:
    """The check of one volume, by the receipts of its manifest, by table, then by block.

    None are given where the manifest is damaged.
    """

    _backing: Backing
    _check: Verification
    _volume: Volume
    _receipts: Sequence[Receipt] | None

    def findings(self) -> Iterator[Finding]:
        """Read and render the tables, and the index file; yields what is wrong."""
        counts, tables = self._check.counts, sorted(self._volume.shapes)
        files = [(self._volume.data.get(table), [table]) for table in tables]
        if self._volume.kind == "state":
            files = [(self._volume.database, tables)]
        problems: set[Problem] = set()
        for file, names in files:
            for finding in self._file(file, names):
                problems.add(finding.problem)
                yield finding
            if not self._check.is_quick:
                self._check.report(Kind.TABLES)
        yield from self._index(is_sound=not problems)
        if problems.isdisjoint(NOT_READ):
            counts.read(Kind.VOLUMES)
        is_history = self._volume.kind == "history"
        if is_history and not problems and not self._check.is_quick:
            counts.read(Kind.SEGMENTS, len({r.blocks for r in self._receipts or ()}))
        if self._check.is_quick:
            self._check.report(Kind.VOLUMES)

    def _file(self, file: StoredFile | None, tables: Sequence[str]) -> Iterator[Finding]:
        """Prove a data file, or the file of a state, with its tables."""
        counts, is_whole = self._check.counts, not self._check.is_quick
        receipts = [r for r in self._receipts or () if r.table in tables]
        if file is None:
            counts.read(Kind.TABLES, int(is_whole))
            if any(receipt.rows for receipt in receipts):
                place = self._backing.store.describe(self._volume.key)
                what = f"it has rows of {tables[0]}, and no data file for them"
                yield Finding(Problem.DISAGREEMENT, place, what, _anew(place, REPAIR_AND_LOAD))
            return
        read = partial(self._rows_problem, file, receipts)
        is_read = is_whole and self._receipts is not None
        findings = self._examine(file, REPAIR_AND_LOAD, file.size, read if is_read else None)
        yield from findings
        if any(finding.problem in NOT_READ for finding in findings):
            return
        counts.read(Kind.BYTES, file.size)
        counts.read(Kind.TABLES, len(tables) if is_whole else 0)

    def _rows_problem(
        self, file: StoredFile, receipts: Sequence[Receipt], con: Connection, scratch: Path
    ) -> str:
        """How a file has other rows than its receipts say, "" if not."""
        path = self._backing.files.path(file)
        if self._volume.kind == "state":
            return state_problem(con, path, receipts, scratch)
        table = receipts[0].table
        columns = file_columns(table, self._volume.shapes[table].column_list())
        problem = types_problem(con, path, columns) or csvs_problem(con, path, receipts, scratch)
        return f"{table}: {problem}" if problem else ""

    def _index(self, *, is_sound: bool) -> Iterator[Finding]:
        """The index file, whose bytes are proven, and what it has where the rows are sound."""
        file, volume, files = self._volume.index, self._volume, self._backing.files
        if file is None:
            return
        index_path = files.path(file)

        def read(con: Connection, _: Path) -> str:
            with files.hold(volume.data.values()), closing(open_index(index_path)) as index:
                return prove_lookups(con, index, volume_sources(files, volume))

        is_read = is_sound and not self._check.is_quick
        yield from self._examine(file, REPAIR, volume.size, read if is_read else None)

    def _examine(
        self, file: StoredFile, remedy: Remedy, size: int, read: _Read | None
    ) -> list[Finding]:
        """Hash a file unless it was proven; if it is whole, `read` it, for so many bytes."""
        proof = self._proof(file)
        if self._check.proven.has(proof):
            return []
        findings = [*file_findings(self._backing, file, remedy)]
        if read is not None and not findings:
            if problem := self._problem(file, size, read):
                return [Finding(Problem.DAMAGED, proof.place, problem, _anew(proof.place, remedy))]
            self._check.proven.keep(proof)
        return findings

    def _problem(self, file: StoredFile, size: int, read: _Read) -> str:
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


def _anew(place: str, remedy: Remedy) -> Remedy:
    """What mends a file that is whole, and not what its records say."""
    return Remedy((*move_away(place).commands, *remedy.commands), remedy.note)
