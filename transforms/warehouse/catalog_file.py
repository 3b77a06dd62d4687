"""`current.duckdb`: a small DuckDB file of views over the volumes, made from a generation.

Each machine makes its own: views name files by absolute path. It holds no truth, may be deleted at
any time, and is replaced whole, so that who has it open keeps what was opened.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import cache, lru_cache
from pathlib import Path

import duckdb
import pyarrow as pa

from transforms.duck import STORAGE, attached, read_only_connection, working_connection
from transforms.errors import BusyError
from transforms.files import commit_file, file_version
from transforms.scratch import scratch_folder
from transforms.warehouse.catalog import Catalog
from transforms.warehouse.catalog_views import views_of
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
        said = _said(first)
        if not said.warehouse or Path(said.warehouse) == self.files or self._was_moved(said):
            return first
        digest = hashlib.sha256(str(self.files).encode()).hexdigest()[:12]
        return self.cache / "catalog" / f"{digest}.duckdb"

    def made(self, catalog: Catalog) -> Path | None:
        """The file of this generation, of which nothing is lost; None where it is to be made."""
        path, said = self.path(), _Said.of(catalog, self.files)
        known = _said(path)
        is_made = (known.generation, known.content) == (said.generation, said.content)
        return path if is_made else None

    def current(self, catalog: Catalog) -> Path:
        """The file of this generation, which is made unless it is there; one caller at a time."""
        found = self.made(catalog)
        if found is not None:
            return found
        path = self.path()
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        with scratch_folder(self.cache / "scratch") as scratch:
            write_catalog(scratch / CURRENT, catalog, self.files, path)
            commit_file(scratch / CURRENT, path)
        return path

    def _was_moved(self, said: _Said) -> bool:
        """Whether the folder was at that path on this machine and is there no longer."""
        if said.host != socket.gethostname():
            return False
        there = Path(said.warehouse)
        return not there.exists() or not there.samefile(self.files)


@dataclass(frozen=True, slots=True)
class _Said:
    """What a file says of itself, in `strata.generation`.

    `content` is a hash of what it names, where, and by which code, `views` one of the text of its
    views.
    """

    generation: int = 0
    chain_id: str = ""
    warehouse: str = ""
    host: str = ""
    content: str = ""
    views: str = ""

    @classmethod
    def of(cls, catalog: Catalog, files: Path, views: Sequence[str] = ()) -> _Said:
        """What the file of a generation has to say."""
        keys = (volume.key for volume in catalog.volumes)
        named = [_format(), str(files), catalog.document.warehouse, *keys]
        return cls(
            catalog.generation,
            catalog.chain_id,
            str(files),
            socket.gethostname(),
            _hash(named),
            _hash(views) if views else "",
        )


def write_catalog(path: Path, catalog: Catalog, files: Path, before: Path | None = None) -> None:
    """Write a new file of views over all volumes of a generation; they are made local first.

    Where the file `before` has the very same views, over other files, it is copied: to make a view
    takes longer than all that changes from one generation to the next.
    """
    document = catalog.document
    catalog.files.bring([*document.attachable(), *document.records()])
    views = views_of(catalog.history(), catalog.states(), document.captures, catalog.files.path)
    said = _Said.of(catalog, files, views.fixed)
    if before is not None and _said(before).views == said.views:
        shutil.copyfile(before, path)
        # What is damaged in it is found here, or by whoever reads it: each block has a checksum.
        with suppress(duckdb.Error):
            _write(path, catalog, said, [*views.lists, *views.states])
            return
        path.unlink()
    made = ["create schema strata", *views.lists, *views.fixed, *views.states]
    _write(path, catalog, said, made)


def _write(path: Path, catalog: Catalog, said: _Said, statements: Sequence[str]) -> None:
    rows = pa.Table.from_pylist([_volume_row(v) for v in catalog.volumes], schema=_VOLUMES)
    with (
        working_connection(path.parent) as con,
        attached(con, path, "fresh", f"({STORAGE}, block_size 16384)"),
    ):
        con.execute("use fresh")
        con.execute("begin")
        for statement in statements:
            con.execute(statement)
        for name, records in (
            ("volumes", rows),
            ("generation", pa.Table.from_pylist([asdict(said)])),
        ):
            con.register("records", records)
            con.execute(f"create or replace table strata.{name} as from records")
            con.unregister("records")
        con.execute("commit")
        con.execute("use memory")


@cache
def _format() -> str:
    """A hash of the code and facts that the views are made of.

    Where a release changes them, it makes the file of the same generation again.
    """
    here = Path(__file__).parent
    parts = [*here.glob("catalog_*.py"), here / "record.py"]
    parts += (one for one in (here.parent / "tables").iterdir() if one.suffix in (".py", ".json"))
    return _hash(
        f"{one.name} {hashlib.sha256(one.read_bytes()).hexdigest()}" for one in sorted(parts)
    )


def _hash(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def _said(path: Path) -> _Said:
    """What a file says; nothing where it is absent, damaged or another release's."""
    # Whatever is wrong with it: it is made again, and what hinders that is told then.
    with suppress(duckdb.Error, OSError, BusyError):
        if path.is_file():
            return _read_said(path, file_version(path.stat()))
    return _Said()


@lru_cache(maxsize=4)
def _read_said(path: Path, _version: str) -> _Said:
    columns = ", ".join(field.name for field in fields(_Said))
    with read_only_connection(path, threads=1) as con:
        found = con.execute(f"select {columns} from strata.generation").fetchone()  # noqa: S608
        return _Said(*found) if found else _Said()


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
