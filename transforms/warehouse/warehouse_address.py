"""From an address to the warehouse that it names."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from transforms.duck import check_folder
from transforms.errors import ConfigError
from transforms.files import check_folder_place
from transforms.memory import MEMORY_MB
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import S3Options
from transforms.stores.store_address import open_store
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.files.local_files import CACHES, MOST_CACHE_BYTES
from transforms.warehouse.log.seen import Published
from transforms.warehouse.warehouse import Warehouse

_MOST_PATH_BYTES = 400  # SQLite opens paths of up to 512 bytes; names of index files have 100


def open_warehouse(
    place: str | Path,
    cache: Path | None = None,
    *,
    cache_bytes: int = MOST_CACHE_BYTES,
    memory_mb: int = MEMORY_MB,
    options: S3Options | None = None,
    published: Published | None = None,
) -> Warehouse:
    """The warehouse in a folder or at `s3://bucket/prefix`; nothing is read or created yet.

    `cache` is this machine's folder for it: by default the folder of the warehouse itself, for a
    bucket one below the user's own; `memory_mb` bounds each DuckDB that works on it; `published`
    reads what the archive recorded of its log. Raises `ConfigError` for any other address, and for
    a folder in which DuckDB opens no files.
    """
    store = open_store(str(place), options)
    log = store.path("log")
    if log is not None:
        # Views name files by path: one path, whatever the links on the way to it.
        store = FolderStore(log.parent.resolve())
        cache = cache or log.parent.resolve()
    address = str(place).rstrip("/")
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", address.rpartition("/")[2])
    name = f"{plain}-{hashlib.sha256(os.fsencode(address)).hexdigest()[:8]}"
    cache = (cache or CACHES / name).expanduser().absolute()
    check_folder_place(cache)
    for folder in [cache] if log is None else [log.parent.resolve(), cache.resolve()]:
        check_folder(folder)
        if (length := len(os.fsencode(folder))) > _MOST_PATH_BYTES:
            raise ConfigError(
                f"the path of a warehouse has at most {_MOST_PATH_BYTES} bytes, and {folder} has "
                f"{length}: name a folder with a shorter path"
            )
    return Warehouse(Backing(store, cache, cache_bytes, memory_mb, published))
