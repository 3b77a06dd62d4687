"""Proving one volume: its files by their hashes, its tables by their receipts, its index file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from transforms.duck import Connection, naming_large, working_connection
from transforms.lookups.index_file import open_index
from transforms.lookups.lookup_tables import prove_lookups
from transforms.objects import StoredFile
from transforms.scratch import scratch_folder
from transforms.tables.file_columns import file_columns
from transforms.verifying.findings import REPAIR, REPAIR_AND_LOAD, Finding
from transforms.warehouse.checks.file_check import (
    csvs_problem,
    file_findings,
    state_problem,
    types_problem,
)
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.load.volumes import volume_sources
from transforms.warehouse.manifests.manifest import manifest_receipts
from transforms.warehouse.manifests.shapes import Volume


@dataclass(frozen=True, slots=True)
class VolumeCheck:
    """The check of one volume."""

    backing: Backing
    volume: Volume

    def findings(self, *, is_read: bool) -> Iterator[Finding]:
        """Hash the files and, with `is_read`, render the tables and make the index again.

        Once one of the files is damaged, the others are only hashed.
        """
        proofs = [
            (file, REPAIR_AND_LOAD, file.size, partial(self._rows_problem, table, file))
            for table, file in sorted(self.volume.data.items())
        ]
        if index := self.volume.index:
            proofs.append((index, REPAIR, self.volume.size, partial(self._index_problem, index)))
        for file, remedy, size, prove in proofs:
            read = partial(self._working, file, size, prove) if is_read else None
            for finding in file_findings(self.backing, file, remedy, read):
                is_read = False
                yield finding

    def _working(
        self, file: StoredFile, size: int, prove: Callable[[Connection, Path], str]
    ) -> str:
        """What is wrong with a file, by a proof that reads so many bytes."""
        backing = self.backing
        with (
            scratch_folder(backing.scratch) as scratch,
            backing.files.hold([file]),
            # An error may make DuckDB refuse everything that follows: it ends the instance.
            working_connection(scratch, size=size, memory_limit=backing.rendering_limit) as con,
            naming_large(str(backing.files.path(file)), scratch),
        ):
            return prove(con, scratch)

    def _rows_problem(self, table: str, file: StoredFile, con: Connection, scratch: Path) -> str:
        """How a file has other rows than its receipts say, "" if not."""
        volume, files = self.volume, self.backing.files
        path, manifest = files.path(file), files.path(volume.file)
        if volume.kind == "state":
            return state_problem(con, path, [*manifest_receipts([manifest])], scratch)
        receipts = [*manifest_receipts([manifest], table=table)]
        columns = file_columns(table, volume.shapes[table].column_list())
        problem = types_problem(con, path, columns) or csvs_problem(con, path, receipts, scratch)
        return f"{table}: {problem}" if problem else ""

    def _index_problem(self, file: StoredFile, con: Connection, _: Path) -> str:
        files, volume = self.backing.files, self.volume
        with files.hold(volume.data.values()), closing(open_index(files.path(file))) as index:
            return prove_lookups(con, index, volume_sources(files, volume))
