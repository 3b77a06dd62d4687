"""The health of a server: the snapshot it serves, and how far the source is ahead of it.

Two loops keep it true: one goes over to new snapshots within a second or so, one looks now and
then at the source, and whether all files of the warehouse are there. What fails in either is logged
and tried again.
"""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from time import monotonic
from typing import Any, TypeVar

from api.core.api_errors import UnavailableError
from api.core.open_snapshots import OpenSnapshots
from api.core.server_settings import ServeSettings
from api.core.telemetry import Metrics, log
from exporters.archive.archive import Archive
from exporters.measures import HEIGHT, LOOK, LOST, SNAPSHOT, TIME, Figure, survey_figures
from transforms.coverage import count
from transforms.errors import ConfigError, StrataError
from transforms.segments.source import Source
from transforms.stores.store import Store
from transforms.stores.store_address import open_store
from transforms.warehouse.survey import Survey
from transforms.warehouse.warehouse import Warehouse

_Result = TypeVar("_Result")
_NAMED = 20
"""How many gaps and quarantined files are named; thousands may be counted."""
_LOOKING = "looking at the source"
_READING = "reading the archive"
_REFUSED = (
    "the archive's bucket refuses to let the server read: renew its credentials; the server's log "
    "has the bucket's answer"
)
_FACTS: Mapping[str, Callable[[Survey], Any]] = {
    "blocksBehind": lambda survey: survey.blocks_behind,
    "segmentsWaiting": lambda survey: len(survey.pending),
    "bytesWaiting": lambda survey: sum(file.info.size for file in survey.pending),
    "gaps": lambda survey: len(survey.gaps),
    "blocksMissing": lambda survey: count(survey.gaps),
    "missing": lambda survey: [str(gap) for gap in survey.gaps[:_NAMED]],
    "filesQuarantined": lambda survey: len(survey.refused),
    "quarantined": lambda survey: [
        {"file": refusal.key, "reason": refusal.reason} for refusal in survey.refused[:_NAMED]
    ],
}
"""What `strata status` says of source and warehouse."""


class Health:
    """Whether one process is ready, and what is known of its data."""

    def __init__(
        self,
        settings: ServeSettings,
        warehouse: Warehouse,
        snapshots: OpenSnapshots,
        metrics: Metrics,
        store: Store,
    ) -> None:
        self._limits = settings.limits
        self._warehouse = warehouse
        self._source = settings.locations.source
        self._snapshots = snapshots
        self._metrics = metrics
        self._last_survey: Survey | None = None
        self._stopping = False
        self._store = store
        self._is_archive_refused = False
        self._is_archive_doubtful = False
        self._failing: dict[str, str] = {}

    @property
    def is_ready(self) -> bool:
        """Whether a snapshot is open and whole, and the server is not about to stop."""
        return not self.reason

    @property
    def reason(self) -> str:
        """Why it is not ready, as a sentence; empty where it is."""
        if self._stopping:
            return "the server is about to stop"
        return self._snapshots.refusal or (_REFUSED if self._is_archive_refused else "")

    def stop(self) -> None:
        """Say that balancers should send no more requests."""
        self._stopping = True

    def doubt_archive(self) -> None:
        """Look at the archive soon, as a request was refused what it needs."""
        self._is_archive_doubtful = True

    def described(self) -> dict[str, Any]:
        """All of it as JSON; what is not known is null."""
        snapshot, survey = self._snapshots.current, self._last_survey
        newest = snapshot.newest if snapshot else None
        return {
            "ready": self.is_ready,
            "reason": self.reason,
            "chainId": snapshot.catalog.snapshot.chain_id if snapshot else "",
            "snapshot": snapshot.catalog.snapshot.number if snapshot else None,
            "segments": snapshot.segments if snapshot else 0,
            "changedAt": _rfc3339(snapshot.catalog.snapshot.time) if snapshot else None,
            "blockHeight": newest.height if newest else None,
            "blockTimestamp": str(newest.time) if newest else None,
            **{name: survey and fact(survey) for name, fact in _FACTS.items()},
        }

    async def follow_snapshots(
        self, changed: Callable[[], Awaitable[bool]], refused: Callable[[UnavailableError], object]
    ) -> None:
        """Go over to every new snapshot, awaiting `changed` after each until it succeeds.

        While files or rows are lost, `refused` is called with what requests for rows get, and they
        are looked for, which takes at most a tenth of the time: a look may hash large files. So is
        an archive that refuses the server.
        """
        is_notified, look_at = True, 0.0
        while True:
            self._count()
            await asyncio.sleep(self._limits.poll_seconds)
            is_suspect = self._snapshots.damage is not None or self._is_archive_doubtful
            if is_suspect and monotonic() >= look_at:
                began = monotonic()
                await self._attempt("looking for lost files", to_thread(self._snapshots.look))
                await self._attempt(_READING, to_thread(self._look_at_archive))
                look_at = monotonic() + min(self._limits.lag_seconds, 10 * (monotonic() - began))
            refreshed = to_thread(self._snapshots.refresh)
            if await self._attempt("opening the newest snapshot", refreshed):
                is_notified = False
            if self._snapshots.damage is not None:
                refused(UnavailableError(self._snapshots.damage.sentence))
            if not is_notified:
                is_notified = bool(await self._attempt("notifying the streams' readers", changed()))

    async def follow_places(self) -> None:
        """Look, now and then, for the warehouse's files and for what the source has beyond it."""
        while True:
            await self._attempt(_READING, to_thread(self._look_at_archive))
            looked = to_thread(self._survey)
            self._last_survey = await self._attempt(_LOOKING, looked)
            survey = self._last_survey
            is_empty = survey is not None and bool(survey.source_problem)
            self._metrics.tell(Figure(LOOK, _LOOKING not in self._failing and not is_empty))
            if survey is not None:
                for figure in survey_figures(survey):
                    self._metrics.tell(figure)
            await asyncio.sleep(self._limits.lag_seconds)

    def _look_at_archive(self) -> None:
        """Find out whether the archive may be read. Raises `ConfigError` if not."""
        if (snapshot := self._snapshots.current) is None:
            return
        archive = Archive(self._store, snapshot.catalog.snapshot.chain_id)
        try:
            self._store.head(archive.key("index.json"))
            self._is_archive_refused = False
        except ConfigError:
            self._is_archive_refused = True
            raise
        finally:
            self._is_archive_doubtful = self._is_archive_refused

    def _survey(self) -> Survey | None:
        """What the source has beyond the warehouse; None where that is not known."""
        self._snapshots.look()
        if not self._source or self._snapshots.damage is not None:
            return None
        return self._warehouse.survey(Source(open_store(self._source)))

    def _count(self) -> None:
        snapshot, damage = self._snapshots.current, self._snapshots.damage
        self._metrics.tell(Figure(LOST, damage.files if damage else 0))
        if snapshot is not None:
            self._metrics.tell(Figure(SNAPSHOT, snapshot.catalog.snapshot.number))
            newest = snapshot.newest
            self._metrics.tell(Figure(HEIGHT, newest.height if newest else 0))
            self._metrics.tell(Figure(TIME, newest.time / 1e9 if newest else 0))

    async def _attempt(self, what: str, job: Awaitable[_Result]) -> _Result | None:
        """Await a job; what it raises is logged, once while it lasts, and None returned."""
        (result,) = await asyncio.gather(job, return_exceptions=True)
        if not isinstance(result, BaseException):
            if self._failing.pop(what, None) is not None:
                log.info("%s works again", what)
            return result
        # An outage is one failure, however its many attempts describe it.
        failure = "away" if isinstance(result, ConnectionError) else str(result)
        if self._failing.get(what) != failure:
            self._failing[what] = failure
            # These are sentences; of others the place is needed to understand them.
            trace = None if isinstance(result, (StrataError, ConnectionError)) else result
            log.error("%s failed and is tried again: %s", what, result, exc_info=trace)
        return None


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
