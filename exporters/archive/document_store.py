"""A store whose documents are read once: what follows from them is computed from one reading."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping

from transforms.stores.store import PutResult, Store, Versioned, asked_together, versioned


class DocumentStore:
    """The documents as they were when they were first asked for, or as they were changed here.

    Whoever reads all that he writes before what it follows from cannot put what follows from older
    documents in the place of what follows from newer ones: his write is refused then.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.list, self.head, self.path = store.list, store.head, store.path
        self.fetch, self.describe, self.now = store.fetch, store.describe, store.now
        self._documents: dict[str, Versioned | None] = {}
        self._changes: dict[str, tuple[bytes, str | None]] = {}

    def read_first(self, keys: Iterable[str]) -> None:
        """Read documents, several at a time; those that are absent are known to be so."""
        names = list(keys)
        contents = asked_together(self.store, lambda key: versioned(self.store, key), names)
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

    def change(self, key: str, content: Callable[[bytes | None], bytes]) -> bool:
        """Give a document the content that is computed from its present one (None: absent).

        It is read here from now on; `put` writes it. Returns whether it differs.
        """
        before, version = versioned(self, key) or (None, None)
        after = content(before)
        if after != before:
            self._documents[key] = (after, version or "")
            self._changes[key] = (after, version)
        return after != before

    def put(self, content_types: Mapping[str, str]) -> None:
        """Write changed documents, several at a time; the type of each by key.

        Raises `LostRaceError` where another writer was faster with one of them.
        """

        def put_one(key: str) -> None:
            self.store.put_if_match(key, *self._changes[key], content_types[key])

        for _ in asked_together(self.store, put_one, content_types):
            pass

    def delete(self, key: str) -> None:
        """What lies there is changed by `put` alone."""
        raise NotImplementedError(key)

    def put_if_absent(self, key: str, *_arguments: object, **_options: object) -> PutResult:
        """See `delete`."""
        raise NotImplementedError(key)

    def put_if_match(self, key: str, *_arguments: object, **_options: object) -> str:
        """See `delete`."""
        raise NotImplementedError(key)
