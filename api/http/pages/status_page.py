"""The page of the server's state."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from exporters.archive.templating import render


def status_page(state: Mapping[str, Any]) -> bytes:
    """What `/ready` says as a page of the server's root."""
    newest = state["blockTimestamp"]
    seconds = int(newest) // 10**9 if newest is not None else None
    when = (
        "" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    )
    changed = (state["changedAt"] or "").replace("T", " ").replace("Z", " UTC")
    values = {
        "state": state,
        "newest": when,
        "changed": changed,
        "version": version("strata"),
        "base": ".",
    }
    return render("api.http", "status.html", **values)
