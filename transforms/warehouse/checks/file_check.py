"""Proving the files of a warehouse: by their hashes, and by what they are to hold."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import duckdb

from transforms.duck import Connection, naming_large, quote_files
from transforms.duck_files import FOREIGN_LOG, log_beside
from transforms.lookups.index_file import open_index
from transforms.lookups.lookup_tables import prove_lookups
from transforms.objects import StoredFile
from transforms.stores.store import object_sha256
from transforms.tables.file_columns import OWN_TYPES, FileColumn, duck_type, file_columns
from transforms.tables.registry import fold_case
from transforms.verifying.findings import (
    REPAIR,
    REPAIR_AND_LOAD,
    Finding,
    Problem,
    Remedy,
    move_away,
    read_findings,
)
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.files.local_files import LocalFiles
from transforms.warehouse.load.rendering import rendering_problem
from transforms.warehouse.load.volume_files import volume_sources
from transforms.warehouse.manifests.data_files import ALL_TABLES, file_sql
from transforms.warehouse.manifests.manifest import manifest_receipts
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.manifests.shapes import Volume


def volume_findings(backing: Backing, volume: Volume, *, is_read: bool) -> Iterator[Finding]:
    """Hash the files of a volume and, with `is_read`, render its tables and make its index again.

    Its manifest was read before. Once one of the files is damaged, the others are only hashed.
    """
    remedies = dict.fromkeys(volume.data.values(), REPAIR_AND_LOAD)
    if volume.index:
        remedies[volume.index] = REPAIR
    for file, remedy in remedies.items():
        prove = partial(_problem, backing, volume, file) if is_read else str
        for finding in file_findings(backing, file, remedy, prove):
            is_read = False
            yield finding


def _problem(backing: Backing, volume: Volume, file: StoredFile) -> str:
    """How the content of a file is not what the manifest says; "" if it is."""
    files, is_index = backing.files, file == volume.index
    needed = [volume.file, file, *(volume.data.values() if is_index else ())]
    size = volume.size if is_index else file.size
    try:
        with (
            files.hold(needed),
            # An error may make DuckDB refuse everything that follows: it ends the instance.
            backing.working(size) as (con, scratch),
            naming_large(str(files.path(file)), scratch),
        ):
            if not is_index:
                return _rows_problem(con, files, volume, file, scratch)
            with closing(open_index(files.path(file))) as index:
                return prove_lookups(con, index, volume_sources(files, volume))
    except (duckdb.Error, sqlite3.Error) as error:
        return f"it cannot be read ({' '.join(str(error).split())})"


def _rows_problem(
    con: Connection, files: LocalFiles, volume: Volume, file: StoredFile, scratch: Path
) -> str:
    path, manifest = files.path(file), files.path(volume.file)
    (table,) = (name for name, data in volume.data.items() if data == file)
    if table == ALL_TABLES:
        return rendering_problem(con, path, manifest_receipts([manifest]), scratch)
    receipts = manifest_receipts([manifest], table=table)
    return (
        types_problem(con, path, file_columns(table, volume.shapes[table].column_list()))
        or rows_problem(con, path, receipts)
        or rendering_problem(con, path, receipts, scratch)
    )


def file_findings(
    backing: Backing, file: StoredFile, remedy: Remedy, prove: Callable[[], str] = str
) -> list[Finding]:
    """Hash a file that a snapshot names; this machine's damaged copy of a bucket's is replaced.

    If it is whole, `prove` says what is wrong with its content, "" if nothing.
    """
    place, local = backing.store.describe(file.key), backing.files.path(file)
    findings: list[Finding] = []
    if log := log_beside(local):
        findings.append(Finding(Problem.DAMAGED, str(log), FOREIGN_LOG, REPAIR))
    findings += read_findings(place, partial(_hash_problem, backing, file), remedy)
    if not findings:
        anew = Remedy((*move_away(place).commands, *remedy.commands), remedy.note)
        findings += read_findings(place, prove, anew)
    return findings


def _hash_problem(backing: Backing, file: StoredFile) -> str:
    proof, proofs = backing.files.proof(file), backing.files.proofs
    if backing.store.path(file.key) is None:
        is_copied = backing.files.path(file).exists()
        backing.files.bring([file], recheck=True, prove=True)
        if not is_copied:  # it is now, for what follows, and was hashed
            return ""
    sha256 = object_sha256(backing.store, file.key)
    if sha256 == file.sha256:
        proofs.keep(proof)
        return ""
    proofs.forget(proof.place)
    return f"it hashes to {sha256}, not {file.sha256}"


def types_problem(con: Connection, path: Path, columns: Sequence[FileColumn]) -> str:
    """How a file has other columns than these and our own; "" if not. Case does not count."""
    relation = con.sql(f"from {file_sql(quote_files([path]))}")
    names, kinds = map(fold_case, relation.columns), map(str, relation.types)
    expected = {fold_case(c.name): duck_type(c.type) for c in columns} | OWN_TYPES
    others = sorted({*zip(names, kinds, strict=True)} ^ {*expected.items()})
    return f"it has other columns than its table: {others}" if others else ""


def rows_problem(con: Connection, path: Path, receipts: Sequence[Receipt]) -> str:
    """How a file has other rows than its segments, by their number; "" if not."""
    rows = sum(receipt.rows for receipt in receipts)
    ((there,),) = con.execute(f"select count(*) from {file_sql(quote_files([path]))}").fetchall()  # noqa: S608
    return "" if there == rows else f"it has {there} rows, its segments have {rows}"
