"""A store as it should be: what was found damaged is answered as it is right."""

from __future__ import annotations

from transforms.stores.read_only import ReadOnlyStore
from transforms.stores.store import Store


class RightStore(ReadOnlyStore):
    """A store for reading; documents that were computed stand in the place of those stored.

    So a damaged document does not keep what follows from it from being held against what is right.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._right: dict[str, bytes] = {}

    def correct(self, key: str, content: bytes) -> None:
        """Answer with this from now on."""
        self._right[key] = content

    def read(
        self, key: str, start: int = 0, length: int | None = None, *, version: str | None = None
    ) -> bytes:
        """The right bytes where they are known, and those stored otherwise."""
        if key not in self._right:
            return self.store.read(key, start, length, version=version)
        return self._right[key][start : None if length is None else start + length]
