"""A store as somebody sees it who only reads: what is answered may be another's word."""

from __future__ import annotations

from transforms.stores.store import PutResult, Store, Versioned


class ReadOnlyStore:
    """Hands everything on to `store`, and writes nothing. To be derived from."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.list, self.head, self.path = store.list, store.head, store.path
        self.fetch, self.describe, self.now = store.fetch, store.describe, store.now

    def read(
        self, key: str, start: int = 0, length: int | None = None, *, version: str | None = None
    ) -> bytes:
        """As stored."""
        return self.store.read(key, start, length, version=version)

    def get(self, key: str) -> Versioned:
        """As stored."""
        return self.store.get(key)

    def delete(self, key: str) -> None:
        """Nothing is written."""
        raise NotImplementedError(key)

    def put_if_absent(self, key: str, *_arguments: object, **_options: object) -> PutResult:
        """Nothing is written."""
        raise NotImplementedError(key)

    def put_if_match(self, key: str, *_arguments: object, **_options: object) -> str:
        """Nothing is written."""
        raise NotImplementedError(key)
