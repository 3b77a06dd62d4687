"""A store whose documents are read once: what follows from them is computed from one reading."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from transforms.stores.read_only import ReadOnlyStore
from transforms.stores.store import Store, Versioned, versioned

_READERS = 16


class DocumentStore(ReadOnlyStore):
    """The documents as they were when they were first asked for, or as they were written here.

    Whoever reads all that he writes before anything else cannot put what follows from older
    documents in the place of what follows from newer ones: his write is refused then.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._documents: dict[str, Versioned | None] = {}

    def read_first(self, keys: Iterable[str]) -> None:
        """Read documents, several at a time; those that are absent are known to be so."""
        names = list(keys)
        with ThreadPoolExecutor(_READERS) as pool:
            contents = pool.map(lambda key: versioned(self.store, key), names)
            self._documents.update(zip(names, contents, strict=True))

    def get(self, key: str) -> Versioned:
        """A document with its version."""
        if key not in self._documents:
            self._documents[key] = versioned(self.store, key)
        document = self._documents[key]
        if document is None:
            raise FileNotFoundError(errno.ENOENT, "There is no such object", self.describe(key))
        return document

    def read(
        self, key: str, start: int = 0, length: int | None = None, *, version: str | None = None
    ) -> bytes:
        """A document, or a part of another object."""
        if start or length is not None or version is not None:
            return self.store.read(key, start, length, version=version)
        return self.get(key)[0]

    def put_if_match(self, key: str, *arguments: Any, **options: Any) -> str:  # noqa: ANN401 - as there
        """Write a document; see `transforms.stores.store.Store`."""
        version = self.store.put_if_match(key, *arguments, **options)
        self._documents[key] = (arguments[0], version)
        return version
