"""The pages of what is not the archive: the server's state, and errors."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from exporters.archive.templating import render

_BAD, _UNAUTHORIZED, _UNKNOWN, _MANY, _BUSY = 400, 401, 404, 429, 503
_TITLES = {
    _BAD: "This cannot be answered",
    _UNAUTHORIZED: "A token is needed",
    _UNKNOWN: "There is nothing here",
    _MANY: "Too many requests",
    _BUSY: "Not now",
}
_ADVICE = {
    _BAD: "Go back and correct what was entered. All segments: /api/v2/networkhistory/segments.",
    _UNAUTHORIZED: "Whoever runs this server gives tokens to programs; browsers cannot send one.",
    _UNKNOWN: "The archive's page lists what there is.",
    _MANY: "Wait a moment and load this page again.",
    _BUSY: "Wait a moment and load this page again.",
}
_TITLE = "This did not work"
_OTHERWISE = "Go back, or load this page again; /status says how the server is."


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


def error_page(status: int, message: str, base: str) -> bytes:
    """An error with what to do."""
    title, advice = _TITLES.get(status, _TITLE), _ADVICE.get(status, _OTHERWISE)
    values = {"status": status, "title": title, "message": message, "advice": advice, "base": base}
    return render("api.http", "error.html", **values)
