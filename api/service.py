"""What all requests of one process share, opened when it starts and closed when it stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from api.core.clients import RateLimiter, Slots, Unread
from api.core.health import Health
from api.core.open_snapshots import OpenSnapshots, Reading
from api.core.server_settings import ServeSettings
from api.core.telemetry import Metrics, log
from api.core.workers import QueryRunner, Workers
from api.queries import oracle, withdrawals
from api.queries.export_request import ExportQuery
from api.queries.provision_feed import ProvisionFeed
from exporters.exports.range_export import RangeExporter
from exporters.warehouse_place import site_warehouse
from transforms.stores.store_address import open_store

# Rendering and hashing parts keeps a core busy: more at once would only delay the queries.
_EXPORT_THREADS, _EXPORT_QUEUE = 2, 32
# A download has one block read at a time, so that as many wait as there are downloads.
_READING_THREADS, _READING_QUEUE = 8, 10_000
# Apart from the queries, so that a flood of these never keeps a snapshot from the streams.
_STREAM_THREADS, _STREAM_QUEUE = 2, 10_000


def _prepare(reading: Reading) -> None:
    """Find what listings need of a snapshot before any request asks for it."""
    withdrawals.prepare(reading)
    oracle.prepare(reading)


class Service:
    """One process of the server, without its paths."""

    def __init__(self, settings: ServeSettings, metrics: Path | None = None) -> None:
        """`metrics` is the folder where several processes count together."""
        limits, access = settings.limits, settings.access
        self.settings = settings
        self.metrics = Metrics(metrics)
        locations = settings.locations
        self.store = open_store(locations.archive, locations.store_options)
        self.warehouse = site_warehouse(locations)
        self._closing = ExitStack()
        self.snapshots = self._closing.enter_context(
            OpenSnapshots.open(self.warehouse, memory_limit=limits.memory, prepare=_prepare)
        )
        places = (self.warehouse.cache, self.store, locations.name_style)
        exporter = RangeExporter(*places, limits.rendered_bytes, locations.memory_limit)
        self.exports = ExportQuery(exporter, self._note_damage)
        self.health = Health(settings, self.warehouse, self.snapshots, self.metrics, self.store)
        self.queries = Workers("query", limits.threads, limits.queue)
        doubt = self.health.doubt_archive
        exports = Workers("export", _EXPORT_THREADS, _EXPORT_QUEUE, doubt)
        limiter = RateLimiter(access.rate, access.burst) if access.rate else None
        self.calls = QueryRunner(
            self.snapshots, self.queries, self.metrics, limits.query_seconds, limiter
        )
        self.downloads = QueryRunner(
            self.snapshots, exports, self.metrics, limits.export_seconds, needs_rows=False
        )
        self.files = Workers("file", _READING_THREADS, _EXPORT_QUEUE, doubt)
        self.reading = Workers("read", _READING_THREADS, _READING_QUEUE, doubt)
        self.slots = Slots(limits.streams_per_client)
        self.unread = Unread(limits.unread_bytes, self.metrics)
        streams = Workers("stream", _STREAM_THREADS, _STREAM_QUEUE)
        runner = QueryRunner(self.snapshots, streams, self.metrics, limits.export_seconds)
        self.feed = ProvisionFeed(runner, limits.stream_buffer)
        self._workers = (self.queries, exports, self.files, self.reading, streams)
        self.stopping = asyncio.Event()

    def _note_damage(self, damage: str) -> None:
        """A copy of a part is damaged: for the log and the counter, whoever asked for it."""
        self.metrics.damaged.inc()
        log.warning("%s", damage)

    def stop(self) -> None:
        """End the streams, which never end by themselves, and ask for no more requests."""
        self.stopping.set()
        self.health.stop()
        self.feed.stop()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep up with the warehouse for the length of a block, then close everything."""
        loops = [
            asyncio.create_task(self.health.follow_snapshots(self.feed.notify, self.feed.refuse)),
            asyncio.create_task(self.health.follow_places()),
        ]
        try:
            yield
        finally:
            self.stop()
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            await self._end_jobs()
            self._closing.close()

    async def _end_jobs(self) -> None:
        """Wait for the jobs of threads, also those left behind: they use what is closed next."""
        for workers in self._workers:
            await workers.close()
        # Of `asyncio.to_thread`.
        await asyncio.get_running_loop().shutdown_default_executor()
