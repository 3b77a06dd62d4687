"""An object as a local file, to be read by programs that want one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transforms.scratch import scratch_folder
from transforms.stores.store import Store


@contextmanager
def local_copy(store: Store, key: str, scratch: Path | None, name: str) -> Iterator[Path]:
    """An object as a local file: a folder's own, or a copy of this name, for the block.

    Raises `FileNotFoundError` where it is not there.
    """
    own = store.path(key)
    if own is not None:
        if not own.is_file():
            raise FileNotFoundError(own)
        yield own
        return
    with scratch_folder(scratch) as folder:
        copy = folder / name
        store.fetch(key, copy)
        yield copy
