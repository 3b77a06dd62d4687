"""What was read once and may be asked for again, in memory, bounded by what it takes there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


class BoundedCache(Generic[_Value]):
    """Values by key, for all threads: beyond `most_bytes`, what nobody asked for longest goes."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._values: OrderedDict[Hashable, tuple[_Value, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable) -> _Value | None:
        """The value of a key, if it is still here."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: Hashable, value: _Value, size: int) -> None:
        """Keep a value that takes about `size` bytes in the place of an earlier one."""
        with self._lock:
            _, before = self._values.pop(key, (None, 0))
            self._values[key] = (value, size)
            self._bytes += size - before
            while self._bytes > self._most_bytes:
                _, (_, oldest) = self._values.popitem(last=False)
                self._bytes -= oldest
