"""`current.duckdb`: a small DuckDB file of views over the volumes, made from a generation.

Each machine makes its own: views name files by absolute path. It holds no truth, may be deleted at
any time, and is replaced whole, so that who has it open keeps what was opened.
"""

from __future__ import annotations

import errno
import hashlib
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from transforms.duck import attached, quote_text, read_only_connection, working_connection
from transforms.errors import BusyError
from transforms.files import commit_file
from transforms.scratch import scratch_folder
from transforms.warehouse.catalog import Catalog
from transforms.warehouse.catalog_views import create_views
from transforms.warehouse.shapes import Volume

CURRENT = "current.duckdb"
_VOLUMES = pa.schema(
    [
        ("kind", pa.string()),
        ("file", pa.string()),
        ("first_block", pa.int64()),
        ("last_block", pa.int64()),
        ("schema_version", pa.int32()),
        ("bytes", pa.int64()),
        ("sha256", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Shown:
    """The file of views for who opens it without us; whether it shows the newest generation."""

    path: Path
    is_new: bool


@dataclass(frozen=True, slots=True)
class CatalogFile:
    """Where this machine's file belongs: `cache` is its folder, `files` that of the volumes.

    A folder may be mounted at several paths, and be used by several machines: `current.duckdb`
    belongs to the path that it was first made for, and others have theirs in `catalog/`.
    """

    cache: Path
    files: Path

    def path(self) -> Path:
        """The file that is right for this path; it may be absent, or older than the newest."""
        first = self.cache / CURRENT
        made_for, host = _made_for(first)
        if not made_for or Path(made_for) == self.files or self._was_moved(made_for, host):
            return first
        digest = hashlib.sha256(str(self.files).encode()).hexdigest()[:12]
        return self.cache / "catalog" / f"{digest}.duckdb"

    def made(self, catalog: Catalog) -> Path | None:
        """The file of this generation, of which nothing is lost; None where it is to be made."""
        path = self.path()
        return path if _state(path) == _content(catalog, self.files) else None

    def current(self, catalog: Catalog) -> Path:
        """The file of this generation, which is made unless it is there; one caller at a time."""
        found = self.made(catalog)
        if found is not None:
            return found
        path = self.path()
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        with scratch_folder(self.cache / "scratch") as scratch:
            write_catalog(scratch / CURRENT, catalog, self.files)
            commit_file(scratch / CURRENT, path)
        return path

    def _was_moved(self, made_for: str, host: str) -> bool:
        """Whether the folder was at that path on this machine and is there no longer."""
        if host != socket.gethostname():
            return False
        there = Path(made_for)
        return not there.exists() or not there.samefile(self.files)


def write_catalog(path: Path, catalog: Catalog, files: Path) -> None:
    """Write a new file of views over all volumes of a generation; they are made local first."""
    captures = catalog.document.captures
    catalog.files.bring([*catalog.document.attachable(), *catalog.document.records()])
    rows = pa.Table.from_pylist([_volume_row(v) for v in catalog.volumes], schema=_VOLUMES)
    with (
        working_connection(path.parent) as con,
        attached(con, path, "fresh", "(block_size 16384)"),
    ):
        con.execute("use fresh")
        con.execute("begin")
        con.execute("create schema strata")
        con.register("records", rows)
        con.execute("create table strata.volumes as from records")
        con.unregister("records")
        generation, content = _content(catalog, files)
        con.execute(
            f"create table strata.generation as select {generation} as generation, "
            f"{quote_text(catalog.chain_id)} as chain_id, {quote_text(files)} as warehouse, "
            f"{quote_text(socket.gethostname())} as host, {quote_text(content)} as content"
        )
        create_views(con, catalog.history(), catalog.states(), captures, catalog.files.path)
        con.execute("commit")
        con.execute("use memory")


def _content(catalog: Catalog, files: Path) -> tuple[int, str]:
    """What a file was made from: the generation, and a hash of what it names, and where."""
    named = "\n".join([str(files), catalog.document.warehouse, *(v.key for v in catalog.volumes)])
    return catalog.generation, hashlib.sha256(named.encode()).hexdigest()


def _state(path: Path) -> tuple[int, str]:
    found = _one(path, "select generation, content from strata.generation")
    return (int(found[0]), str(found[1])) if found else (0, "")


def _made_for(path: Path) -> tuple[str, str]:
    found = _one(path, "select warehouse, host from strata.generation")
    return (str(found[0]), str(found[1])) if found else ("", "")


def _one(path: Path, query: str) -> tuple[Any, ...] | None:
    """The first row of a query, None where the file is absent, damaged or another release's."""
    if path.is_file():
        # Whatever is wrong with it: it is made again, and what hinders that is told then.
        with (
            suppress(duckdb.Error, OSError, BusyError),
            read_only_connection(path, threads=1) as con,
        ):
            return con.execute(query).fetchone()
    return None


def _volume_row(volume: Volume) -> dict[str, object]:
    return {
        "kind": volume.kind,
        "file": volume.key,
        "first_block": volume.blocks.first,
        "last_block": volume.blocks.last,
        "schema_version": volume.version,
        "bytes": volume.size,
        "sha256": volume.file.sha256,
    }
