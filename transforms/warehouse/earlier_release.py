"""What the earlier release left in the folder of a warehouse: numbered catalogs, and links to them.

current.duckdb        link to the newest catalog/<8 digits>.duckdb
spam/current.duckdb   link to the newest spam/<8 digits>.duckdb
quarantine/*.json     why files were refused, each with the file beside it as a .zip
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from transforms.duck import read_only_connection
from transforms.files import sync_file
from transforms.objects import ObjectInfo, StoredFile
from transforms.segments.inventory import Refusal
from transforms.segments.quarantine import QuarantinedFile
from transforms.stores.store import content_sha256

_CURRENT = "current.duckdb"
_NUMBERED = re.compile(r"\d{8}\.duckdb")


class EarlierRelease:
    """The files of the earlier release in the folder `root`. Nothing is read until it is asked."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def catalog(self) -> Path | None:
        """The newest catalog: the one that the link names; without it the last one."""
        link = self._root / _CURRENT
        if link.is_symlink() and link.exists():
            return link.resolve()
        return max(self._catalogs(), default=None)

    def is_there(self) -> bool:
        """Whether there is anything that a document should hold now."""
        return self.catalog() is not None or any(self._reasons())

    def volumes(self, catalog: Path) -> list[str]:
        """The keys of the volumes that a catalog names. Raises `duckdb.Error` for a damaged one."""
        with read_only_connection(catalog, threads=1) as con:
            rows = con.execute("select file from strata.volumes order by kind, first_block")
            return [str(file) for (file,) in rows.fetchall()]

    def captures(self) -> StoredFile | None:
        """The newest file of spam captures."""
        link = self._root / "spam" / _CURRENT
        return self._stored(link.resolve()) if link.exists() else None

    def quarantine(self) -> list[QuarantinedFile]:
        """The refused files, by key; what cannot be read is left out: its file is tried again."""
        found = []
        for path in self._reasons():
            with suppress(FileNotFoundError, ValueError, LookupError, TypeError):
                row = json.loads(path.read_text())
                info = ObjectInfo(row["key"], row["size"], row["version"])
                copy = path.with_suffix(".zip")
                stored = self._stored(copy) if copy.exists() else None
                found.append(QuarantinedFile(Refusal(info, row["reason"]), stored))
        return sorted(found, key=lambda file: file.refusal.info)

    def remove(self, cache: Path) -> None:
        """Remove what a document holds by now. May be killed and run again.

        The catalog that `current.duckdb` in `cache` links to stays until that file is made anew.
        """
        link = self._root / _CURRENT
        if link.is_symlink() and not (cache.is_dir() and cache.samefile(self._root)):
            link.unlink(missing_ok=True)
        used = link.resolve() if link.is_symlink() else None
        gone = [*self._reasons(), self._root / "spam" / _CURRENT]
        gone += [path for path in self._catalogs() if path.resolve() != used]
        if used is None:
            gone.append(self._root / "catalog" / ".lock")
        there = [path for path in gone if path.is_symlink() or path.exists()]
        for path in there:
            path.unlink(missing_ok=True)
        for folder in {path.parent for path in there}:
            sync_file(folder)
        with suppress(OSError):  # not empty, or not there
            (self._root / "catalog").rmdir()

    def _catalogs(self) -> Iterator[Path]:
        paths = (self._root / "catalog").glob("*.duckdb")
        return (path for path in paths if _NUMBERED.fullmatch(path.name))

    def _reasons(self) -> Iterator[Path]:
        return (self._root / "quarantine").glob("*.json")

    def _stored(self, path: Path) -> StoredFile:
        key = path.relative_to(self._root.resolve()).as_posix()
        return StoredFile(key, path.stat().st_size, content_sha256(path))
