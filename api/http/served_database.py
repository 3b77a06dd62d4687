"""`strata.duckdb` and `strata.sql` at the server's own address, where the archive has none.

A publisher that knows no public address writes neither, and a server has an address. Both are made
of the lake when they are first asked for, below this machine's cache: all processes of a server
answer with the same bytes, as their name has the hash of their statements. Each address has files
of its own, so a server has them only for addresses that it knows.
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
from api.core.server_settings import Listen, is_loopback
from api.core.sockets import host_and_port
from api.http.answers import given_fields
from exporters.archive.archive import Archive
from exporters.archive.public_sql import PUBLIC_SQL, PUBLIC_TYPES
from transforms.files import naming_full_disk
from transforms.scratch import scratch_folder
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import Store
from transforms.warehouse.files.catalog import Catalog

_LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", re.ASCII)
_FRESH_SECONDS = 60.0
_KEPT_SECONDS = 24 * 3600.0
_KEPT_BYTES = 256 * 2**20
_MOST_ADDRESSES = 16


@dataclass(frozen=True, slots=True)
class ServedAddress:
    """Where clients read the archive: at its public address, or at one that the server knows."""

    public_url: str
    listen: Listen

    def of(self, scope: Scope) -> str:
        """The address for a request; empty if its `Host` is no name of this server."""
        if self.public_url:
            return self.public_url
        host = given_fields(scope).get("host", "").lower()
        own, port = scope["server"]
        names = (own, self.listen.host, "localhost", "127.0.0.1", "::1")
        is_known = host in (*self.listen.hosts, *(host_and_port(each, port) for each in names))
        # A tunnel to this machine may begin at any port.
        is_tunnel = _LOOPBACK.fullmatch(host) and is_loopback((scope["client"] or ("",))[0])
        if is_known or is_tunnel:
            return f"{scope['scheme']}://{host}/archive"
        return ""


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
            is_gone = folder and not (self.cache / "served" / folder).is_dir()
            if is_gone or time.monotonic() - made > _FRESH_SECONDS:
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
            with naming_full_disk(folder), scratch_folder(self.cache / "scratch") as scratch:
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
        """Remove documents that nobody has asked for since a day, and what is beyond the bound."""
        size, latest = 0, list[tuple[float, Path]]()
        for folder in (self.cache / "served").glob("*"):
            with suppress(FileNotFoundError):  # another process removed it just now
                latest.append((folder.stat().st_mtime, folder))
        for asked_at, folder in sorted(latest, reverse=True):
            with suppress(FileNotFoundError):
                size += sum(file.stat().st_size for file in folder.iterdir())
            if size > _KEPT_BYTES or time.time() - asked_at > _KEPT_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
