"""A store as somebody sees it who only reads: what is answered may be another's word."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from transforms.objects import ObjectInfo
from transforms.stores.store import PutResult, Store, Versioned


class ReadOnlyStore:
    """Hands everything on to `store`, and writes nothing. To be derived from."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """As stored."""
        return self.store.list(prefix)

    def head(self, key: str) -> ObjectInfo | None:
        """As stored."""
        return self.store.head(key)

    def read(
        self, key: str, start: int = 0, length: int | None = None, *, version: str | None = None
    ) -> bytes:
        """As stored."""
        return self.store.read(key, start, length, version=version)

    def get(self, key: str) -> Versioned:
        """As stored."""
        return self.store.get(key)

    def fetch(self, key: str, path: Path) -> None:
        """As stored."""
        self.store.fetch(key, path)

    def digest(self, info: ObjectInfo, advance: Callable[[int], None]) -> str:
        """As stored."""
        return self.store.digest(info, advance)

    def describe(self, key: str = "") -> str:
        """As stored."""
        return self.store.describe(key)

    def now(self) -> float:
        """As stored."""
        return self.store.now()

    def path(self, key: str) -> Path | None:
        """As stored."""
        return self.store.path(key)

    def delete(self, key: str) -> None:
        """Nothing is written."""
        raise NotImplementedError(key)

    def put_if_absent(self, key: str, *_arguments: object, **_options: object) -> PutResult:
        """Nothing is written."""
        raise NotImplementedError(key)

    def put_if_match(self, key: str, *_arguments: object, **_options: object) -> str:
        """Nothing is written."""
        raise NotImplementedError(key)
