"""What a reader of the liquidity provision stream gets (spec 4.4; decision 24). No shell here.

First the provisions that are there, then those that each new snapshot of the catalog changed. A
snapshot is asked once for all readers, and nothing is open between two messages: a reader goes on
in the newest snapshot where it stood in the one before. Every state that a reader has not seen
is sent at least once; to one that connects while a snapshot is changing, perhaps twice. A snapshot
whose changes cannot be read is asked again, a few times; then all readers get an error, which ends
their streams, and the next snapshot is told as ever. So they do where files are lost.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TypeVar

from api.core.api_errors import ApiError, FailedError, Reason, UnavailableError
from api.core.broadcast import Mailbox, MissedError, TooSlowError
from api.core.open_snapshots import NOTHING_LOADED, OpenSnapshot, Reading
from api.core.telemetry import log
from api.core.workers import Cancellation, Query, QueryRunner
from api.queries.liquidity import (
    BATCH,
    Known,
    Place,
    ProvisionFilter,
    changed_provisions,
    current_provisions,
)
from api.queries.pagination import Record

STOPPING = "the server is about to stop: connect again"
TOO_SLOW = "the reader is too slow: connect again"
MISSED = "what changed could not be read: connect again, which begins with what is there"
BROKEN = "the provisions cannot be read: the server's log says why"
_ATTEMPTS = 5

_Answer = TypeVar("_Answer")
BEGIN: Place = (-(2**63), "")
"""The place before all."""

Encoding = Callable[[Record], bytes]
"""How one shell writes a provision."""


@dataclass(frozen=True, slots=True)
class EncodedChange:
    """Provisions in one encoding; all readers of that encoding share it."""

    provisions: Sequence[tuple[Record, bytes]]
    size: int

    def batches(self, criteria: ProvisionFilter) -> Iterator[list[bytes]]:
        """The provisions that a reader wants, as many at once as go into one message."""
        matching = (encoded for record, encoded in self.provisions if criteria.matches(record))
        while batch := list(islice(matching, BATCH)):
            yield batch


@dataclass(frozen=True, slots=True)
class Present:
    """The current provisions of a snapshot in one encoding, in order, for all readers of both."""

    places: Sequence[Place]
    provisions: Sequence[tuple[Record, bytes]]

    @classmethod
    def of(cls, reading: Reading, encode: Encoding) -> Present:
        """Read them, once for each snapshot."""

        def read(_: OpenSnapshot) -> Present:
            current = [*current_provisions(reading)]
            provisions = [(record, encode(record)) for _, record in current]
            return cls([place for place, _ in current], provisions)

        return reading.snapshot.once(("present", encode), read)

    def after(self, place: Place, criteria: ProvisionFilter) -> tuple[list[bytes], Place | None]:
        """The next message of a reader at a place, and where it is then; None: at the end."""
        batch: list[bytes] = []
        for at in range(bisect_right(self.places, place), len(self.places)):
            record, encoded = self.provisions[at]
            if criteria.matches(record):
                batch.append(encoded)
            if len(batch) == BATCH:
                return batch, self.places[at]
        return batch, None


class Change:
    """The provisions that a snapshot changed, each encoded once for all readers."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self._encoded: dict[Encoding, EncodedChange] = {}

    def encoded(self, encode: Encoding) -> EncodedChange:
        """The change in an encoding."""
        if encode not in self._encoded:
            encoded = [encode(record) for record in self._records]
            provisions = [*zip(self._records, encoded, strict=True)]
            self._encoded[encode] = EncodedChange(provisions, sum(map(len, encoded)))
        return self._encoded[encode]


class ProvisionFeed:
    """The readers of one process. `buffer` is how many bytes may wait for one of them."""

    def __init__(self, runner: QueryRunner, buffer: int) -> None:
        self._runner = runner
        self._snapshots = runner.snapshots
        self._metrics = runner.metrics
        self._buffer = buffer
        self._readers: dict[Encoding, set[Mailbox[EncodedChange]]] = {}
        self._stopping = False
        self._failures = 0
        current = self._snapshots.current
        self._segments: Known = current.known_segments if current else {}
        # Of a snapshot whose records are lost it is not known what the next one changes.
        is_lost = current is not None and current.segment_lists is None
        self._given_up = current.catalog.snapshot.number if current and is_lost else None

    def stop(self) -> None:
        """End the streams of all readers."""
        self._stopping = True
        for mailboxes in self._readers.values():
            for mailbox in mailboxes:
                mailbox.close()

    def check_rows(self) -> None:
        """Raise `UnavailableError` where nothing is loaded, or files are lost.

        No reader could be told what is there.
        """
        self._snapshots.check_rows()
        if self._snapshots.current is None:
            raise UnavailableError(NOTHING_LOADED)

    def refuse(self, error: UnavailableError) -> None:
        """End the streams of all readers with an error: they would wait for rows in vain."""
        self._miss(error)

    async def notify(self) -> bool:
        """Pass on what the newest snapshot changed since the last success; True in the end.

        Raises what keeps it from being read. After some failures in a row the readers are told of
        these instead, and what changed until then counts as known.
        """
        try:
            await (self._tell() if self._given_up is None else self._begin_anew())
        except Exception:
            self._failures += 1
            if self._failures >= _ATTEMPTS:
                self._give_up()
            raise
        self._failures = 0
        return True

    async def batches(
        self, criteria: ProvisionFilter, encode: Encoding, *, snapshot: bool
    ) -> AsyncGenerator[list[bytes]]:
        """Yield encoded provisions for one reader, message by message, until it must go.

        This never ends by itself: the error that it raises in the end says why.
        """
        with self._ending(), self._subscribed(encode) as mailbox:
            self.check_rows()
            if snapshot:
                async for batch in self._present(criteria, encode):
                    yield batch
            async for change in mailbox.items():
                for batch in await self._matching(change, criteria):
                    yield batch
            raise UnavailableError(STOPPING)

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Count one reader; what its stream ends with is an `ApiError`, whatever happens."""
        self._metrics.streams_opened.inc()
        try:
            yield
        except TooSlowError:
            self._metrics.streams_dropped.inc()
            raise FailedError(Reason.STREAM_FAILED, TOO_SLOW) from None
        except MissedError:
            raise FailedError(Reason.STREAM_FAILED, MISSED) from None
        except ApiError:
            raise
        except Exception as error:
            # The head of the answer has left: only a line of the stream can still say it.
            log.exception("a stream failed unexpectedly")
            raise FailedError(Reason.STREAM_FAILED, BROKEN) from error
        finally:
            self._metrics.streams_closed.inc()

    async def _tell(self) -> None:
        change, segments = await self._read(self._change)
        for encode in [*self._readers]:
            encoded = await self._encoded(change, encode)
            for mailbox in self._readers[encode]:
                mailbox.put(encoded)
        self._segments = segments

    # A change may have many provisions: not on the event loop, which others wait for.

    async def _encoded(self, change: Change, encode: Encoding) -> EncodedChange:
        return await self._runner.workers.run(lambda _: change.encoded(encode))

    async def _matching(
        self, change: EncodedChange, criteria: ProvisionFilter
    ) -> Sequence[list[bytes]]:
        return await self._runner.workers.run(lambda _: [*change.batches(criteria)])

    def _give_up(self) -> None:
        current = self._snapshots.current
        self._given_up = current.catalog.snapshot.number if current else 0
        self._failures = 0
        self._miss()

    async def _begin_anew(self) -> None:
        """Take the newest snapshot for known; whoever came before it has missed what it is."""
        snapshot, segments = await self._read(_newest)
        if snapshot != self._given_up:
            self._miss()
        self._segments, self._given_up = segments, None

    def _miss(self, error: Exception | None = None) -> None:
        for mailboxes in self._readers.values():
            for mailbox in mailboxes:
                mailbox.miss(error)

    @contextmanager
    def _subscribed(self, encode: Encoding) -> Iterator[Mailbox[EncodedChange]]:
        mailbox: Mailbox[EncodedChange] = Mailbox(self._buffer)
        if self._stopping:
            mailbox.close()
        mailboxes = self._readers.setdefault(encode, set())
        mailboxes.add(mailbox)
        try:
            yield mailbox
        finally:
            mailboxes.remove(mailbox)

    async def _present(
        self, criteria: ProvisionFilter, encode: Encoding
    ) -> AsyncIterator[list[bytes]]:
        """Yield the provisions that are there, a message at a time."""
        place: Place | None = BEGIN
        while place is not None and not self._stopping:
            query = partial(_after, place=place, criteria=criteria, encode=encode)
            batch, place = await self._read(query)
            if batch:
                yield batch

    def _change(self, reading: Reading, _: Cancellation) -> tuple[Change, Known]:
        """What changed since what is known, and what is known with it."""
        segments = reading.snapshot.known_segments
        return Change(changed_provisions(reading, self._segments)), segments

    async def _read(self, query: Query[_Answer]) -> _Answer:
        answer, _ = await self._runner.run(query, self._runner.seconds)
        return answer


def _newest(reading: Reading, _: Cancellation) -> tuple[int, Known]:
    """The newest snapshot and its segments."""
    return reading.snapshot.catalog.snapshot.number, reading.snapshot.known_segments


def _after(
    reading: Reading, _: Cancellation, *, place: Place, criteria: ProvisionFilter, encode: Encoding
) -> tuple[list[bytes], Place | None]:
    """The next message of a reader at a place; see `Present.after`."""
    return Present.of(reading, encode).after(place, criteria)
