"""Running queries: on the newest generation, in a worker thread, whichever shell asks.

What the shells have in common is here: the rate limit, the queue, the time limit, the counters, and
the block that an answer is about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

from api.core.api_errors import ApiError, Code, DeadlineError
from api.core.metrics import Metrics
from api.core.rate_limit import Admission, RateLimiter
from api.core.snapshots import Block, Reading, Snapshots
from api.core.workers import Cancellation, Departure, Workers
from transforms.errors import IntegrityError

_Answer = TypeVar("_Answer")
Query = Callable[[Reading, Cancellation], _Answer]
"""What is run; it blocks, and long ones look at their cancellation now and then."""

Headers = tuple[tuple[str, str], ...]
NEXT_TO_BLOCK = "x-next-to-block"
"""Says of a list that ends early with which `toBlock` it goes on."""


@dataclass(frozen=True, slots=True)
class QueryRunner:
    """Runs the queries of one kind. `seconds` is the time limit of one.

    Those that need no rows are run even where some are lost.
    """

    snapshots: Snapshots
    workers: Workers
    metrics: Metrics
    seconds: float
    limiter: RateLimiter | None = None
    needs_rows: bool = True

    def admit(self, client: str) -> Admission:
        """Whether a client may ask now; counted."""
        if self.limiter is None:
            return Admission(200, ())
        admission = self.limiter.admit(client, monotonic())
        if admission.refusal is not None:
            self.metrics.limited.inc()
        return admission

    async def run(
        self, query: Query[_Answer], seconds: float, departure: Departure | None = None
    ) -> tuple[_Answer, Block | None]:
        """The answer, and the newest block that it knows of; see `Workers.run`.

        Cancelling the task that waits for it interrupts the query.
        """

        def job(cancellation: Cancellation) -> tuple[_Answer, Block | None]:
            with (
                self.snapshots.reading(needs_rows=self.needs_rows) as reading,
                cancellation.interrupting(reading.interrupt),
            ):
                try:
                    return query(reading, cancellation), reading.snapshot.newest
                except IntegrityError as error:  # of a record, perhaps
                    raise reading.examine(()) or error from error

        try:
            return await self.workers.run(job, seconds, departure)
        except ApiError as error:
            self._count(error)
            raise

    @property
    def newest(self) -> Block | None:
        """The newest block of the newest generation."""
        snapshot = self.snapshots.current
        return snapshot.newest if snapshot else None

    def _count(self, error: ApiError) -> None:
        if isinstance(error, DeadlineError):
            self.metrics.timed_out.inc()
        elif error.code is Code.UNAVAILABLE:
            self.metrics.refused.inc()


def next_headers(to_block: int | None) -> Headers:
    """The headers of a list that goes on with `to_block`, or ends."""
    return () if to_block is None else ((NEXT_TO_BLOCK, str(to_block)),)


def block_headers(newest: Block | None) -> Headers:
    """The headers that say which block an answer is about (decision 28)."""
    height, time = (newest.height, newest.time) if newest else (0, 0)
    return (
        ("x-block-height", str(height)),
        ("x-block-timestamp", str(time)),
    )
