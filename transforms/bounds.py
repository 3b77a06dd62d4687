"""Ends of a range as people write them: a height, a date, or a time. Pure values: no I/O here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from transforms.errors import ConfigError, RangeError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# No block has more: Python refuses to read thousands.
_MOST_DIGITS = 18


class BoundError(RangeError, ConfigError):
    """A text is neither a block nor a time."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range: a block, or a time in microseconds since 1970, UTC; `text` as given."""

    text: str
    block: int | None = None
    micros: int | None = None


def lower_bound(text: str) -> Bound:
    """The beginning of a range: `5000`, `2023-06-01` or `2023-06-01T12:30:00Z`.

    A time without an offset is UTC, a date is its first moment. Raises `BoundError`.
    """
    return _bound(text, time.min)


def upper_bound(text: str) -> Bound:
    """The end of a range, which belongs to it: a date is its last moment. Raises `BoundError`."""
    return _bound(text, time.max)


def both_bounds(start: str | None, end: str | None) -> tuple[Bound | None, Bound | None]:
    """The bounds of a range, of which either may not be given. Raises `BoundError`."""
    return lower_bound(start) if start else None, upper_bound(end) if end else None


def _bound(text: str, of_day: time) -> Bound:
    text = text.strip()
    if text.isdecimal() and text.isascii() and len(text) <= _MOST_DIGITS:
        return Bound(text, block=int(text))
    try:
        moment = _moment(text, of_day).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BoundError(
            f"{text!r:.80} is neither a block nor a time: give a height like 5000, a date like "
            "2023-06-01 or a time like 2023-06-01T12:30:00Z"
        ) from None
    return Bound(text, micros=(moment - _EPOCH) // _MICROSECOND)


def _moment(text: str, of_day: time) -> datetime:
    if len(text) == len("2023-06-01"):
        return datetime.combine(date.fromisoformat(text), of_day, UTC)
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def rfc3339(micros: int) -> str:
    """A time in microseconds since 1970 as text in UTC: `2023-06-01T00:00:01.325067Z`."""
    moment = _EPOCH + timedelta(microseconds=micros)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
