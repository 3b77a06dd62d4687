"""What the server tells of itself: its log and its counters.

The log is one JSON object a line on stderr, each with the request that it is about. The counters
are for Prometheus; several worker processes count into one folder of files.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from random import getrandbits
from time import perf_counter
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from exporters.measures import HEIGHT, SERVED, SNAPSHOT, TIME, Figure, Measure

REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the request that the present task serves."""

# What a proxy in front may call a request; anything else could forge lines of a log.
_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,64}")

access_log = logging.getLogger("strata.access")
log = logging.getLogger("strata.api")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def request_id(candidate: str) -> str:
    """The id that a proxy in front gave a request, or a new one where it gave none, or an odd one.

    The present task's log is about that request from now on.
    """
    chosen = candidate if _PLAIN.fullmatch(candidate) else f"{getrandbits(64):016x}"
    REQUEST_ID.set(chosen)
    return chosen


class JsonFormatter(logging.Formatter):
    """A record as JSON: time (UTC), level, logger, request, message, and its own `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        if request := REQUEST_ID.get():
            entry["request"] = request
        if message := record.getMessage().strip():
            entry["message"] = message
        entry |= getattr(record, "fields", {})
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, separators=(",", ":"))


def log_config(level: str) -> dict[str, Any]:
    """The configuration for `logging.config.dictConfig`: everything from `level` up, as JSON."""
    # The web server reports every connection; only what goes wrong is of interest.
    levels = dict.fromkeys(("uvicorn", "exporters", "transforms"), "WARNING")
    levels["strata"] = level.upper()
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": JsonFormatter}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
        "loggers": {
            name: {"handlers": ["stderr"], "level": least, "propagate": False}
            for name, least in levels.items()
        },
    }


class Metrics:
    """The counters of one process.

    With a `folder`, where `PROMETHEUS_MULTIPROC_DIR` must point as well, `text` is about all
    processes that share it.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "strata_requests",
            "Requests answered, by operation and status.",
            ["operation", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "strata_request_seconds",
            "From a request to the end of its answer.",
            ["operation"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._bytes = self._counter("sent_bytes", "Bytes of answers.")
        self.refused = self._counter(
            "refused", "Requests that found no place: in the queue, or for answers."
        )
        self.timed_out = self._counter("timed_out", "Requests that hit their time limit.")
        self.limited = self._counter("rate_limited", "Requests beyond a client's rate.")
        self.streams_opened = self._counter("streams_opened", "Streams that began.")
        self.streams_closed = self._counter("streams_closed", "Streams that ended.")
        self.streams_dropped = self._counter("streams_dropped", "Readers that were too slow.")
        self.damaged = self._counter("damaged_parts", "Parts found damaged while served.")
        self._gauges = {measure: self._gauge(measure) for measure in SERVED}

    def served(
        self, operation: str, status: int | str, started: float, sent: int, about: Mapping[str, str]
    ) -> None:
        """Count one request that started at a time of `perf_counter`, and log it.

        `status` is HTTP's number, or the name of a gRPC code.
        """
        seconds = perf_counter() - started
        self._requests.labels(operation, str(status)).inc()
        self._seconds.labels(operation).observe(seconds)
        self._bytes.inc(sent)
        ended = {"status": status, "bytes": sent, "ms": round(seconds * 1000, 3)}
        access_log.info("", extra={"fields": {**about, "operation": operation, **ended}})

    def tell(self, figure: Figure) -> None:
        """Set what is measured of the site."""
        gauge = self._gauges[figure.measure]
        (gauge.labels(figure.case) if figure.case else gauge).set(figure.value)

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        if self._folder is None:
            return generate_latest(self._registry)
        everyone = CollectorRegistry()
        MultiProcessCollector(everyone, path=str(self._folder))  # type: ignore[no-untyped-call]
        return generate_latest(everyone)

    def _counter(self, name: str, meaning: str) -> Counter:
        return Counter(f"strata_{name}", meaning, registry=self._registry)

    def _gauge(self, measure: Measure) -> Gauge:
        return Gauge(
            f"strata_{measure.name}",
            measure.meaning,
            [measure.label] if measure.label else [],
            registry=self._registry,
            # Over several processes.
            multiprocess_mode="max" if measure in (SNAPSHOT, HEIGHT, TIME) else "mostrecent",
        )
