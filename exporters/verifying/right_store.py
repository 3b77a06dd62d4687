"""A store as it should be: what was found damaged is answered as it is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from transforms.objects import ObjectInfo
from transforms.stores.store import PutResult, Store, StoreAccess


class RightStore:
    """A store for reading; documents that were computed stand in the place of those stored.

    So a damaged document does not keep what follows from it from being held against what is right.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._right: dict[str, bytes] = {}

    def correct(self, key: str, content: bytes) -> None:
        """Answer with this from now on."""
        self._right[key] = content

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """As stored."""
        return self._store.list(prefix)

    def head(self, key: str) -> ObjectInfo | None:
        """As stored."""
        return self._store.head(key)

    def read(
        self, key: str, start: int = 0, length: int | None = None, *, version: str | None = None
    ) -> bytes:
        """The right bytes where they are known, and those stored otherwise."""
        if key not in self._right:
            return self._store.read(key, start, length, version=version)
        return self._right[key][start : None if length is None else start + length]

    def fetch(self, key: str, path: Path) -> None:
        """As stored."""
        self._store.fetch(key, path)

    def digest(self, info: ObjectInfo, advance: Callable[[int], None]) -> str:
        """As stored."""
        return self._store.digest(info, advance)

    def describe(self, key: str = "") -> str:
        """As stored."""
        return self._store.describe(key)

    def access(self, key: str) -> StoreAccess:
        """As stored."""
        return self._store.access(key)

    def path(self, key: str) -> Path | None:
        """As stored."""
        return self._store.path(key)

    def delete(self, key: str) -> None:
        """Nothing is written."""
        raise NotImplementedError(key)

    def put_if_absent(
        self,
        key: str,
        source: Path | bytes,
        *,
        content_type: str,
        sha256: str,
        immutable: bool,
        take: bool = False,
    ) -> PutResult:
        """Nothing is written."""
        raise NotImplementedError(key)

    def put_if_match(
        self,
        key: str,
        data: Path | bytes,
        expected_version: str | None,
        content_type: str,
        *,
        sha256: str | None = None,
    ) -> str:
        """Nothing is written."""
        raise NotImplementedError(key)
