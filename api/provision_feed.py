"""What a reader of the liquidity provision stream gets (spec 4.4; decision 24). No HTTP here.

First the provisions that are there, then those that each new generation of the catalog changed. A
generation is asked once for all readers. A provision's newest state is told at least once; to a
reader that connects while a generation is changing, perhaps twice.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice

from api.broadcast import Mailbox, TooSlowError
from api.errors import ApiError, FailedError, Reason, UnavailableError
from api.messages import LIQUIDITY_PROVISION
from api.metrics import Metrics
from api.pagination import Record
from api.protojson import error_json, record_json
from api.queries.liquidity import (
    BATCH,
    ProvisionFilter,
    changed_provisions,
    current_provisions,
)
from api.snapshots import Snapshots
from api.work import Cancellation, Workers
from transforms.segments import BlockRange

STOPPING = "the server is about to stop: connect again"
TOO_SLOW = "the reader is too slow: connect again"


@dataclass(frozen=True, slots=True)
class Change:
    """The provisions that a generation changed, each with its JSON; all readers share it."""

    provisions: Sequence[tuple[Record, str]]
    size: int

    def lines(self, wanted: ProvisionFilter) -> Iterator[bytes]:
        """The messages for a reader: the provisions that it wants, in batches."""
        matching = (text for record, text in self.provisions if wanted.matches(record))
        while batch := list(islice(matching, BATCH)):
            yield _line(batch)


class ProvisionFeed:
    """The readers of one process. `buffer` is how many bytes may wait for one of them."""

    def __init__(
        self, snapshots: Snapshots, workers: Workers, metrics: Metrics, buffer: int
    ) -> None:
        self._snapshots = snapshots
        self._workers = workers
        self._metrics = metrics
        self._buffer = buffer
        self._readers: set[Mailbox[Change]] = set()
        self._stopping = False
        current = snapshots.current
        self._told: Collection[BlockRange] = frozenset(current.catalog.segments if current else ())

    def stop(self) -> None:
        """Tell every reader that this is the end."""
        self._stopping = True
        for mailbox in self._readers:
            mailbox.close()

    async def tell(self) -> None:
        """Pass on what the newest generation changed since the last call."""
        change = await self._workers.run(self._change)
        for mailbox in self._readers:
            mailbox.put(change)

    async def lines(self, wanted: ProvisionFilter, *, snapshot: bool) -> AsyncGenerator[bytes]:
        """Yield the lines for one reader, until it must go; the last one then says why."""
        self._metrics.streams_opened.inc()
        try:
            with self._subscribed() as mailbox:
                if snapshot:
                    async for line in self._present(wanted):
                        yield line
                async for change in mailbox.items():
                    for line in change.lines(wanted):
                        yield line
            yield error_line(UnavailableError(STOPPING))
        except TooSlowError:
            self._metrics.streams_dropped.inc()
            yield error_line(FailedError(Reason.STREAM_FAILED, TOO_SLOW))
        except ApiError as error:
            yield error_line(error)
        finally:
            self._metrics.streams_closed.inc()

    @contextmanager
    def _subscribed(self) -> Iterator[Mailbox[Change]]:
        mailbox: Mailbox[Change] = Mailbox(self._buffer)
        if self._stopping:
            mailbox.close()
        self._readers.add(mailbox)
        try:
            yield mailbox
        finally:
            self._readers.remove(mailbox)

    async def _present(self, wanted: ProvisionFilter) -> AsyncIterator[bytes]:
        """Yield the provisions that are there, a batch at a time, all of one generation."""
        with ExitStack() as held:
            batches = await self._workers.run(lambda _: self._open(wanted, held))
            while not self._stopping:
                batch = await self._workers.run(lambda _: next(batches, None))
                if batch is None:
                    return
                yield _line([_text(record) for record in batch])

    def _open(self, wanted: ProvisionFilter, held: ExitStack) -> Iterator[list[Record]]:
        reading = held.enter_context(self._snapshots.reading())
        return current_provisions(reading, wanted)

    def _change(self, cancellation: Cancellation) -> Change:
        with (
            self._snapshots.reading() as reading,
            cancellation.interrupting(reading.interrupt),
        ):
            records = changed_provisions(reading, self._told)
            self._told = frozenset(reading.snapshot.catalog.segments)
            provisions = [(record, _text(record)) for record in records]
            return Change(provisions, sum(len(text) for _, text in provisions))


def error_line(error: ApiError) -> bytes:
    """An error as a message of the stream."""
    return f'{{"error":{error_json(error)}}}\n'.encode()


def _text(record: Record) -> str:
    return record_json(LIQUIDITY_PROVISION, record)


def _line(texts: Sequence[str]) -> bytes:
    return f'{{"result":{{"liquidityProvisions":[{",".join(texts)}]}}}}\n'.encode()
