"""`current.duckdb`: a small DuckDB file of views over the volumes, made from a snapshot.

Each machine makes its own: views name files by absolute path. It holds no truth, may be deleted at
any time, and is replaced whole, so that who has it open keeps what was opened. Its hash stands in
`current.json` beside it: a file that somebody wrote to is neither asked nor copied.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import pyarrow as pa

from transforms.duck import new_database, working_connection
from transforms.duck_files import FOREIGN_LOG, log_beside, remove_log
from transforms.errors import IntegrityError
from transforms.files import commit_file, new_file
from transforms.scratch import scratch_folder
from transforms.sealed import seal, unseal
from transforms.stores.store import content_sha256
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.shapes import Volume

CURRENT = "current.duckdb"
OWN_VIEWS = "views of your own belong in a database of your own, which attaches this one"
_log = logging.getLogger(__name__)
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
    """The file of views for who opens it without us; whether it shows the newest snapshot."""

    path: Path
    is_new: bool


@dataclass(frozen=True, slots=True)
class CatalogFile:
    """Where this machine's file belongs: `cache` is its folder, `files` that of the volumes."""

    cache: Path
    files: Path

    @classmethod
    def of(cls, backing: Backing) -> CatalogFile:
        """The file of a warehouse."""
        return cls(backing.cache, backing.files.folder)

    def path(self) -> Path:
        """Where it lies; it may be absent, or older than the newest."""
        return self.cache / CURRENT

    def made(self, catalog: Catalog) -> Path | None:
        """The file of this snapshot, of which nothing is lost; None where it is to be made."""
        path = self.path()
        record, target = read_record(path), ViewsRecord.of(catalog, self.files)
        if (record.snapshot, record.content) != (target.snapshot, target.content):
            return None
        with suppress(OSError):  # it is made again, and what hinders that is told then
            return None if record.difference(path) else path
        return None

    def current(self, catalog: Catalog) -> Path:
        """The file of this snapshot, which is made unless it is there; one caller at a time."""
        path = self.made(catalog)
        if path is not None:
            return path
        path = self.path()
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        before = read_record(path)
        with suppress(OSError):  # what somebody put into it is not in the next one
            if before.file and (difference := before.difference(path)):
                _log.warning("%s: %s. It is made anew; %s", path, difference, OWN_VIEWS)
        with scratch_folder(self.cache / "scratch") as scratch:
            fresh = scratch / CURRENT
            record = write_catalog(fresh, catalog, self.files, path)
            fresh.chmod(0o444)
            remove_log(path)
            commit_file(fresh, path)
            # A kill before this line leaves the record of another file: this one is made again.
            with new_file(_record_path(path), scratch) as file:
                file.write(seal(asdict(record)))
        return path


@dataclass(frozen=True, slots=True)
class ViewsRecord:
    """What is known of a file since it was made; empty where nothing is.

    `content` is a hash of what it names, where, and by which code, `views` one of the text of its
    views, `file` one of its bytes.
    """

    snapshot: int = 0
    chain_id: str = ""
    warehouse: str = ""
    content: str = ""
    views: str = ""
    file: str = ""

    @classmethod
    def of(cls, catalog: Catalog, files: Path, views: Sequence[str] = ()) -> ViewsRecord:
        """What is known of the file of a snapshot before it is made."""
        keys = (volume.key for volume in catalog.volumes)
        parts = [_format(), str(files), catalog.snapshot.warehouse, *keys]
        return cls(
            catalog.snapshot.number,
            catalog.chain_id,
            str(files),
            _hash(parts),
            _hash(views) if views else "",
        )

    def difference(self, path: Path) -> str:
        """How a file is not the one that was made; empty where it is. Raises `OSError`."""
        if log := log_beside(path):
            return f"{log.name} lies beside it: {FOREIGN_LOG}"
        if not self.file:
            return f"nothing says that it is right: {_record_path(path).name} is lost or damaged"
        if content_sha256(path) != self.file:
            return "it is not as it was made: somebody wrote to it, or it is damaged"
        return ""


def read_record(path: Path) -> ViewsRecord:
    """What was recorded of a file; nothing where it or its record is absent, or damaged."""
    place = _record_path(path)
    with suppress(OSError, IntegrityError, TypeError):  # the last: of another release
        if path.is_file():
            return ViewsRecord(**unseal(place.read_bytes(), str(place)))
    return ViewsRecord()


def _record_path(path: Path) -> Path:
    return path.with_suffix(".json")


def write_catalog(
    path: Path, catalog: Catalog, files: Path, before: Path | None = None
) -> ViewsRecord:
    """Write a new file of views over all volumes of a snapshot; they are made local first.

    Where the file `before` has the very same views, over other files, it is copied: to make a view
    takes longer than all that changes from one snapshot to the next. Not if somebody wrote to it.
    """
    # Only who makes a file needs to know what its views are, and that is a tenth of our modules.
    from transforms.warehouse.views.catalog_views import views_of

    snapshot = catalog.snapshot
    catalog.files.bring(snapshot.readable())
    views = views_of(catalog.history(), catalog.states(), snapshot.captures, catalog.files.path)
    record = ViewsRecord.of(catalog, files, views.fixed)
    if before is not None and _is_copied(before, path, record.views):
        _write(path, catalog, record, [*views.lists, *views.states])
    else:
        statements = ["create schema strata", *views.lists, *views.fixed, *views.states]
        _write(path, catalog, record, statements)
    return replace(record, file=content_sha256(path))


def _is_copied(before: Path, path: Path, views: str) -> bool:
    """Copy a file that has these views; the copy is proven, as anybody may write to the file."""
    record = read_record(before)
    if record.views != views:
        return False
    shutil.copyfile(before, path)
    if content_sha256(path) == record.file:
        return True
    path.unlink()
    return False


def _write(path: Path, catalog: Catalog, record: ViewsRecord, statements: Sequence[str]) -> None:
    rows = pa.Table.from_pylist([_volume_row(v) for v in catalog.volumes], schema=_VOLUMES)
    with (
        working_connection(path.parent, size=0) as con,
        new_database(con, path, "fresh", 0),
    ):
        con.execute("use fresh")
        con.execute("begin")
        con.execute(";\n".join(statements))  # one by one they take a tenth more time
        for name, records in (
            ("volumes", rows),
            ("snapshot", pa.Table.from_pylist([asdict(record)]).drop(["file"])),
        ):
            con.register("records", records)
            con.execute(f"create or replace table strata.{name} as from records")
            con.unregister("records")
        con.execute("commit")
        con.execute("use memory")


@cache
def _format() -> str:
    """A hash of the code and facts that the views are made of.

    Where a release changes them, it makes the file of the same snapshot again.
    """
    warehouse = Path(__file__).parents[1]
    folders = (warehouse / "views", warehouse / "manifests", warehouse.parent / "tables")
    files = sorted(path for folder in folders for path in folder.glob("*.*"))
    return _hash(f"{path.name} {content_sha256(path)}" for path in files)


def _hash(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


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
