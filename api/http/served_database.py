"""`strata.duckdb` and `strata.sql` at the server's own address, where the archive has none.

A publisher that knows no public address writes neither, and who has a server has an address. Both
are made of the lake when they are first asked for, below this machine's cache: all processes of a
server answer with the same bytes, as their name has the hash of their statements.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from threading import Lock

from starlette.types import Scope

from api.core.open_snapshots import OpenSnapshots
from api.http.answers import given_fields
from exporters.archive.archive import Archive
from exporters.archive.public_sql import PUBLIC_SQL, PUBLIC_TYPES
from transforms.scratch import scratch_folder
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import Store
from transforms.warehouse.files.catalog import Catalog

_HOST = re.compile(r"[A-Za-z0-9.-]+(:\d{1,5})?|\[[0-9A-Fa-f:]+\](:\d{1,5})?")
_FRESH_SECONDS = 60.0
_KEPT_SECONDS = 24 * 3600.0
_MOST_ADDRESSES = 16


def own_address(scope: Scope) -> str:
    """Where the archive is by the words of a request; empty where these are odd."""
    host = given_fields(scope).get("host", "")
    return f"{scope['scheme']}://{host}/archive" if _HOST.fullmatch(host) else ""


@dataclass
class ServedDatabase:
    """The documents of the loaded chain, at any address of this server."""

    snapshots: OpenSnapshots
    store: Store
    cache: Path
    _made: dict[str, tuple[float, str]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @property
    def files(self) -> FolderStore:
        """What has them, by `key`."""
        return FolderStore(self.cache / "served")

    def key(self, key: str, address: str) -> str | None:
        """Where the document that a key of the archive names lies; None where there is none.

        At an address that was asked for within a minute it may be as old.
        """
        chain_id, _, name = key.partition("/")
        current = self.snapshots.current
        if name not in PUBLIC_TYPES or not address or current is None:
            return None
        if chain_id != current.catalog.snapshot.chain_id:
            return None
        with self._lock:  # one at a time: it takes half a second
            made, folder = self._made.pop(address, (-inf, ""))
            if time.monotonic() - made > _FRESH_SECONDS:
                made = time.monotonic()
                folder = self._folder(current.catalog, address)
            if len(self._made) >= _MOST_ADDRESSES:
                del self._made[next(iter(self._made))]
            self._made[address] = made, folder
        return f"{folder}/{name}" if folder else None

    def _folder(self, catalog: Catalog, address: str) -> str:
        """The folder of the documents as the lake is now; empty where there are none."""
        # A server that nobody asks for them need not know how they are made.
        from exporters.lake.lake_files import Lake
        from exporters.lake.publication.public_documents import PublicDocuments

        lake = Lake(Archive(self.store, catalog.snapshot.chain_id), self.cache / "lake")
        documents = PublicDocuments(lake, address, catalog, self.cache / "scratch")
        public = documents.public_lake()
        if not public.tables:
            return ""
        name = hashlib.sha256(public.statements().encode()).hexdigest()
        folder = self.cache / "served" / name
        if not folder.is_dir():
            self._sweep()
            folder.parent.mkdir(parents=True, exist_ok=True)
            with scratch_folder(self.cache / "scratch") as scratch:
                (scratch / name).mkdir()
                (scratch / name / PUBLIC_SQL).write_bytes(documents.make(public, scratch / name))
                try:
                    (scratch / name).rename(folder)
                except OSError:
                    if not folder.is_dir():  # else another process was faster
                        raise
        os.utime(folder)
        return name

    def _sweep(self) -> None:
        """Remove documents that nobody has asked for since a day."""
        for folder in (self.cache / "served").glob("*"):
            with suppress(FileNotFoundError):  # another process removed it just now
                if time.time() - folder.stat().st_mtime > _KEPT_SECONDS:
                    shutil.rmtree(folder, ignore_errors=True)
