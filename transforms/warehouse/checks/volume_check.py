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
from transforms.warehouse.checks.file_check import (
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

    Without receipts its files are hashed, and not read.
    """

    _backing: Backing
    _volume: Volume
    _receipts: Sequence[Receipt] | None

    def findings(self) -> Iterator[Finding]:
        """Read and render the tables, and the index file; yields what is wrong."""
        is_sound = True
        for table, file in sorted(self._volume.data.items()):
            receipts = self._receipts or ()
            if self._volume.kind == "history":
                receipts = [receipt for receipt in receipts if receipt.table == table]
            read = partial(self._rows_problem, table, file, receipts)
            for finding in self._examine(file, REPAIR_AND_LOAD, file.size, read):
                is_sound = False
                yield finding
        if self._volume.index is not None and is_sound:
            read = partial(self._index_problem, self._volume.index)
            yield from self._examine(self._volume.index, REPAIR, self._volume.size, read)
        elif self._volume.index is not None:
            yield from file_findings(self._backing, self._volume.index, REPAIR)

    def _rows_problem(
        self,
        table: str,
        file: StoredFile,
        receipts: Sequence[Receipt],
        con: Connection,
        scratch: Path,
    ) -> str:
        """How a file has other rows than its receipts say, "" if not."""
        path = self._backing.files.path(file)
        if self._volume.kind == "state":
            return state_problem(con, path, receipts, scratch)
        columns = file_columns(table, self._volume.shapes[table].column_list())
        problem = types_problem(con, path, columns) or csvs_problem(con, path, receipts, scratch)
        return f"{table}: {problem}" if problem else ""

    def _index_problem(self, file: StoredFile, con: Connection, _: Path) -> str:
        files, volume = self._backing.files, self._volume
        with files.hold(volume.data.values()), closing(open_index(files.path(file))) as index:
            return prove_lookups(con, index, volume_sources(files, volume))

    def _examine(
        self, file: StoredFile, remedy: Remedy, size: int, read: _Read
    ) -> Iterator[Finding]:
        """Hash a file; if it is whole, `read` it, for so many bytes."""
        findings = [*file_findings(self._backing, file, remedy)]
        yield from findings
        if findings or self._receipts is None:
            return
        if problem := self._problem(file, size, read):
            place = self._backing.store.describe(file.key)
            anew = Remedy((*move_away(place).commands, *remedy.commands), remedy.note)
            yield Finding(Problem.DAMAGED, place, problem, anew)

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
