"""One bound for the answers that a process has made and its clients have not taken.

An answer has room for the largest of its messages until it has ended. What finds no room is refused
before it is sent, so that clients which take nothing cost others a retry, and never the process.
For use on one event loop.
"""

from __future__ import annotations

from collections import Counter
from types import TracebackType

from api.core.api_errors import ApiError, Code, UnavailableError
from api.core.metrics import Metrics

# Of a message there are ours and a library's, and the allocator keeps about as much (measured).
_COPIES = 3
_CLIENTS = 2
"""How many clients that take nothing fill the bound: one alone leaves room for others."""


class UntakenError(ApiError):
    """The client has asked for more than it takes."""

    code = Code.RESOURCE_EXHAUSTED

    def __init__(self) -> None:
        super().__init__("this client has too much to take: read the answers before, or end them")


class Unread:
    """What is made and not taken, in bytes of memory: `most` for all clients, half for one."""

    def __init__(self, most: int, metrics: Metrics) -> None:
        self._most = most
        self._metrics = metrics
        self._size = 0
        self._of_client: Counter[str] = Counter()

    def take(self, client: str, size: int) -> None:
        """Make room, for an answer of any size where there is nothing else.

        Raises `UntakenError`, `UnavailableError`.
        """
        if _is_over(self._of_client[client], size, self._most // _CLIENTS):
            self._metrics.refused.inc()
            raise UntakenError
        if _is_over(self._size, size, self._most):
            self._metrics.refused.inc()
            raise UnavailableError("the server's clients have too much to take: try again")
        self._size += size
        self._of_client[client] += size

    def give(self, client: str, size: int) -> None:
        """It was taken, or will never be."""
        self._size -= size
        self._of_client[client] -= size
        if not self._of_client[client]:
            del self._of_client[client]


class Room:
    """The room of one answer, for the length of a block or until it is closed."""

    def __init__(self, unread: Unread, client: str) -> None:
        self._unread = unread
        self._client = client
        self._size = 0

    def take(self, size: int) -> None:
        """Make room for a message of `size` bytes; see `Unread.take`."""
        size *= _COPIES
        if size > self._size:
            self._unread.take(self._client, size - self._size)
            self._size = size

    def close(self) -> None:
        """Give the room back."""
        self._unread.give(self._client, self._size)
        self._size = 0

    def __enter__(self) -> Room:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()


def _is_over(there: int, size: int, most: int) -> bool:
    return there > 0 and there + size > most
