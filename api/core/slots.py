"""How many streams and downloads one client may have open at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from api.core.api_errors import ApiError, Code


class TooManyStreamsError(ApiError):
    """The client has as many streams and downloads open as it may."""

    code = Code.RESOURCE_EXHAUSTED

    def __init__(self) -> None:
        super().__init__("client reached max subscription allowed")


class Slots:
    """Counts what each client has open in this process; for use on one event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._counts: Counter[str] = Counter()

    @contextmanager
    def taken(self, client: str) -> Iterator[None]:
        """Count one more for the length of a block. Raises `TooManyStreamsError`."""
        if self._counts[client] >= self._most:
            raise TooManyStreamsError
        self._counts[client] += 1
        try:
            yield
        finally:
            self._counts[client] -= 1
            if not self._counts[client]:
                del self._counts[client]
