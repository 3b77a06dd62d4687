"""`current.duckdb`: a small DuckDB file of views over the volumes, made from a snapshot.

Each machine makes its own: views name files by absolute path. It holds no truth, may be deleted at
any time, and is replaced whole, so that who has it open keeps what was opened. Its hash stands in
`current.json` beside it: a file that somebody wrote to is neither asked nor copied.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from transforms.duck import new_database, working_connection
from transforms.duck_files import log_beside, remove_log
from transforms.files import commit_file, new_file
from transforms.scratch import scratch_folder
from transforms.sealed import read_sealed, seal
from transforms.stores.store import content_sha256
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.files.catalog import Catalog

CURRENT = "current.duckdb"
_CHANGED = (
    "%s is not as it was made: somebody wrote to it, or it is damaged. It is made anew; views of "
    "your own belong in a database of your own, which attaches this one"
)
_log = logging.getLogger(__name__)


_Record = Mapping[str, str]
"""Hashes: `file`, of `content` (what it shows by which code), of the text of its `views`."""


@dataclass(frozen=True, slots=True)
class CatalogFile:
    """The file of a warehouse on this machine."""

    backing: Backing

    @property
    def path(self) -> Path:
        """Where it lies; it may be absent, or older than the newest."""
        return self.backing.cache / CURRENT

    def is_made(self, catalog: Catalog) -> bool:
        """Whether the file of this snapshot is there, as it was made."""
        is_of_it = self._record().get("content") == self._content(catalog)
        return is_of_it and self._is_as_made(self.path)

    def make(self, catalog: Catalog) -> None:
        """Make the file of this snapshot; one caller at a time.

        Where the former one has the very same views, over other files, it is copied: to make the
        views takes longer than all that changes from one snapshot to the next.
        """
        with scratch_folder(self.backing.scratch) as scratch:
            fresh, former = scratch / CURRENT, None
            if self.path.is_file():
                shutil.copyfile(self.path, fresh)
                if self._is_as_made(fresh):
                    former = self._record()
                else:
                    _log.warning(_CHANGED, self.path)
            record = self.write(fresh, catalog, former)
            fresh.chmod(0o444)
            remove_log(self.path)
            commit_file(fresh, self.path)
            # A kill before this line leaves the record of another file: this one is made again.
            with new_file(self._record_path, scratch) as file:
                file.write(seal(record))

    @property
    def _record_path(self) -> Path:
        return self.path.with_suffix(".json")

    def _record(self) -> _Record:
        return read_sealed(self._record_path)

    def _is_as_made(self, file: Path) -> bool:
        """Whether it, or a copy of it, is the file that was made last."""
        with suppress(OSError):  # it is made again, and what hinders that is told then
            is_same = content_sha256(file) == self._record().get("file")
            return is_same and not log_beside(self.path)
        return False

    def _content(self, catalog: Catalog) -> str:
        return _hash([_format(), str(self.backing.files.folder), catalog.snapshot.commit])

    def write(self, path: Path, catalog: Catalog, former: _Record | None = None) -> _Record:
        """Write a file of views over all volumes of a snapshot; they are made local first.

        With `former`, a copy of that file lies there.
        """
        # Only who makes a file needs to know what its views are: that is a tenth of our modules.
        from transforms.warehouse.views.catalog_views import catalog_views

        with catalog.files.hold(catalog.snapshot.readable()):
            views = catalog_views(catalog)
        statements, fixed = views.all, _hash(views.fixed)
        if former is not None and former["views"] == fixed:
            statements = [*views.lists, *views.states]
        else:
            path.unlink(missing_ok=True)
        run_statements(path, statements)
        content = self._content(catalog)
        return {"file": content_sha256(path), "content": content, "views": fixed}


def run_statements(path: Path, statements: Iterable[str]) -> None:
    """Run statements in a DuckDB file, which is made where it is not there, for DuckDB 1.5 too."""
    with (
        working_connection(path.parent, size=0) as con,
        new_database(con, path, "fresh", 0),
    ):
        con.execute("use fresh")
        con.execute("begin")
        con.execute(";\n".join(statements))  # one by one they take a tenth more time
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
