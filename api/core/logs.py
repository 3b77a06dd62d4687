"""The server's log: one JSON object a line on stderr, each with the request that it is about."""

from __future__ import annotations

import json
import logging
import re
import secrets
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the request that the present task serves."""

# What a proxy in front may call a request; anything else could forge lines of a log.
_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,64}")

access_log = logging.getLogger("strata.access")
log = logging.getLogger("strata.api")


def request_id(candidate: str) -> str:
    """The id that a proxy in front gave a request, or a new one where it gave none, or an odd one.

    The present task's log is about that request from now on.
    """
    chosen = candidate if _PLAIN.fullmatch(candidate) else secrets.token_hex(8)
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
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": JsonFormatter}},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "json",
                "stream": "ext://sys.stderr",
            }
        },
        "loggers": {
            # The web server reports every connection; only what goes wrong is of interest.
            "uvicorn": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
            "strata": {"handlers": ["stderr"], "level": level.upper(), "propagate": False},
            **{
                name: {"handlers": ["stderr"], "level": "WARNING", "propagate": False}
                for name in ("exporters", "transforms")
            },
        },
    }
