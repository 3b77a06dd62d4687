"""What an operation of the read API is: a path, a method of gRPC, a query, and their messages.

`api.operations` has all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from api.core.descriptors import Message, Method, Request
from api.core.open_snapshots import Reading
from api.core.workers import Departure, Headers, QueryRunner, block_headers
from api.queries.pagination import Page, Record

Write = Callable[[Message, Record], bytes]
"""How one shell writes a message."""


def _no_headers(_reading: Reading, _request: Request) -> Headers:
    return ()


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation; `name` is that in the log and the counters.

    `path` is that of HTTP, empty where it has none; `method` is that of gRPC. A record in the place
    of `query` is always the answer, whatever is loaded, or nothing; None: the answer comes in
    pieces. What `is_kept` is written once for each snapshot where no
    parameter is given. `id` is the description's name, where that is not the method's.
    """

    name: str
    path: str
    method: Method
    query: Callable[[Reading, Request], Page | Record] | Record | None
    headers: Callable[[Reading, Request], Headers] = _no_headers
    is_kept: bool = False
    id: str = ""

    @property
    def in_path(self) -> str:
        """The name in camelCase of the parameter in its path; empty where there is none."""
        return self.path.partition("{")[2].rstrip("}")

    @property
    def rpc_path(self) -> str:
        """The path of its method in gRPC."""
        return f"/{self.method.containing_service.full_name}/{self.method.name}"

    def answer(self, reading: Reading, request: Request, write: Write) -> tuple[bytes, Headers]:
        """The answer to a request, as a shell writes it, and its headers."""
        headers = self.headers(reading, request)
        if self.is_kept and not request.ListFields():
            # What most ask for are megabytes of segments.
            kept = (self.method.full_name, write)
            body = reading.snapshot.once(kept, lambda _: self._written(reading, request, write))
            return body, headers
        return self._written(reading, request, write), headers

    def _written(self, reading: Reading, request: Request, write: Write) -> bytes:
        answer = self.query(reading, request) if callable(self.query) else self.query
        assert answer is not None
        return write(
            self.method.output_type, (answer.record,) if isinstance(answer, Page) else answer
        )


class Answers:
    """The answers to an operation, as one shell writes them."""

    def __init__(self, operation: Operation, runner: QueryRunner, write: Write) -> None:
        self._operation = operation
        self._runner = runner
        self._write = write
        query = operation.query
        self._fixed = (
            write(operation.method.output_type, query) if isinstance(query, tuple) else None
        )

    async def of(
        self,
        request: Request,
        departure: Departure | None = None,
        seconds: float | None = None,
    ) -> tuple[bytes, Headers]:
        """The answer to a request, and its headers; see `QueryRunner.run`."""
        if self._fixed is not None:
            return self._fixed, self.block_headers()
        operation = self._operation
        (body, more), newest = await self._runner.run(
            lambda reading: operation.answer(reading, request, self._write),
            departure,
            seconds,
        )
        return body, (*more, *block_headers(newest))

    def block_headers(self) -> Headers:
        """The headers of an answer that no snapshot was asked for."""
        return block_headers(self._runner.newest)
