"""What a reader of the liquidity provision stream gets (spec 4.4; decision 24). No shell here.

First the provisions that are there, then those that each new snapshot of the catalog changed. A
snapshot is asked once for all readers, and nothing is open between two messages. Every state that a
reader has not seen is sent at least once; to one that connects while a snapshot is changing,
perhaps twice. Where the changes of a snapshot cannot be read all readers get an error, which ends
their streams, and the next snapshot is told as ever. So they do where files are lost.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

from api.core.api_errors import ApiError, FailedError, Reason, UnavailableError
from api.core.broadcast import Mailbox
from api.core.open_snapshots import OpenSnapshot, Reading
from api.core.telemetry import log
from api.core.workers import Query, QueryRunner
from api.queries.liquidity import (
    BATCH,
    ProvisionFilter,
    changed_provisions,
    current_provisions,
)
from api.queries.pagination import Record
from transforms.warehouse.manifests.shapes import Volume

STOPPING = "the server is about to stop: connect again"
TOO_SLOW = "the reader is too slow: connect again"
MISSED = "what changed could not be read: connect again, which begins with what is there"
BROKEN = "the provisions cannot be read: the server's log says why"

_Answer = TypeVar("_Answer")
Encoding = Callable[[Record], bytes]
"""How one shell writes a provision."""
Provisions = Sequence[tuple[Record, bytes]]
"""Provisions in one encoding, which all readers of it share."""


def encoded(records: Sequence[Record], encode: Encoding) -> Provisions:
    """Provisions in an encoding."""
    return [(record, encode(record)) for record in records]


def batches(provisions: Provisions, criteria: ProvisionFilter) -> Iterator[list[bytes]]:
    """The provisions that a reader wants, as many at once as go into one message."""
    matching = (message for record, message in provisions if criteria.matches(record))
    while batch := list(islice(matching, BATCH)):
        yield batch


def present(reading: Reading, encode: Encoding) -> Provisions:
    """The current provisions in one encoding, oldest first; read once for each snapshot."""
    return reading.snapshot.once(
        ("present", encode), lambda _: encoded(current_provisions(reading), encode)
    )


class ProvisionFeed:
    """The readers of one process. `buffer` is how many bytes may wait for one of them."""

    def __init__(self, runner: QueryRunner, buffer: int) -> None:
        self._runner = runner
        self._snapshots = runner.snapshots
        self._metrics = runner.metrics
        self._buffer = buffer
        self._readers: dict[Mailbox[Provisions], Encoding] = {}
        self._stopping = False
        current = self._snapshots.current
        # None: it is not known what the next snapshot changes, as the present one is lost.
        self._volumes: Sequence[Volume] | None = ()
        if current is not None:
            self._volumes = _history(current) if current.is_whole else None

    def stop(self) -> None:
        """End the streams of all readers."""
        self._stopping = True
        self.refuse(UnavailableError(STOPPING))

    def refuse(self, error: ApiError) -> None:
        """End the streams of all readers with an error."""
        for mailbox in self._readers:
            mailbox.end(error)

    async def notify(self) -> bool:
        """Pass on what the newest snapshot changed since the last one; True in the end.

        Raises what keeps it from being read. The readers are told of this instead, and the newest
        snapshot that can be read counts as known.
        """
        missed = FailedError(Reason.STREAM_FAILED, MISSED)
        try:
            if self._volumes is not None:
                await self._tell(self._volumes)
            else:  # whoever came before it has missed what the newest one changed
                self._volumes = await self._read(lambda reading: _history(reading.snapshot))
                self.refuse(missed)
        except Exception as error:
            self._volumes = None
            self.refuse(error if isinstance(error, UnavailableError) else missed)
            raise
        return True

    async def batches(
        self, criteria: ProvisionFilter, encode: Encoding
    ) -> AsyncGenerator[list[bytes]]:
        """Yield encoded provisions for one reader, message by message, until it must go.

        This never ends by itself: the error that it raises in the end says why.
        """
        with self._ending(), self._subscribed(encode) as mailbox:
            self._snapshots.check_rows()  # no reader could be told what is there
            if criteria.snapshot:
                there = await self._read(lambda reading: present(reading, encode))
                for batch in await self._matching(there, criteria):
                    if self._stopping:
                        break
                    yield batch
            async for change in mailbox.items():
                for batch in await self._matching(change, criteria):
                    yield batch

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Count one reader; what its stream ends with is an `ApiError`, whatever happens."""
        self._metrics.streams_opened.inc()
        try:
            yield
        except ApiError:
            raise
        except Exception as error:
            # The head of the answer has left: only a line of the stream can still say it.
            log.exception("a stream failed unexpectedly")
            raise FailedError(Reason.STREAM_FAILED, BROKEN) from error
        finally:
            self._metrics.streams_closed.inc()

    async def _tell(self, before: Sequence[Volume]) -> None:
        """Give each reader what changed since the volumes `before`, in its encoding."""
        records, volumes = await self._read(
            lambda reading: (changed_provisions(reading, before), _history(reading.snapshot))
        )
        for encode in {*self._readers.values()}:
            provisions = await self._encoded(records, encode)
            size = sum(len(message) for _, message in provisions)
            for mailbox, of_reader in self._readers.items():
                if of_reader is encode:
                    self._put(mailbox, provisions, size)
        self._volumes = volumes

    def _put(self, mailbox: Mailbox[Provisions], provisions: Provisions, size: int) -> None:
        if mailbox.is_full:
            self._metrics.streams_dropped.inc()
            mailbox.clear()
            mailbox.end(FailedError(Reason.STREAM_FAILED, TOO_SLOW))
        mailbox.put(provisions, size)

    # A change may have many provisions: not on the event loop, which others wait for.

    async def _encoded(self, records: Sequence[Record], encode: Encoding) -> Provisions:
        return await self._runner.workers.run(lambda _: encoded(records, encode))

    async def _matching(
        self, change: Provisions, criteria: ProvisionFilter
    ) -> Sequence[list[bytes]]:
        return await self._runner.workers.run(lambda _: [*batches(change, criteria)])

    @contextmanager
    def _subscribed(self, encode: Encoding) -> Iterator[Mailbox[Provisions]]:
        mailbox: Mailbox[Provisions] = Mailbox(self._buffer)
        if self._stopping:
            mailbox.end(UnavailableError(STOPPING))
        self._readers[mailbox] = encode
        try:
            yield mailbox
        finally:
            del self._readers[mailbox]

    async def _read(self, query: Query[_Answer]) -> _Answer:
        answer, _ = await self._runner.run(query)
        return answer


def _history(snapshot: OpenSnapshot) -> Sequence[Volume]:
    return snapshot.catalog.snapshot.history
