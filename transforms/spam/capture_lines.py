"""One line of a spam capture: a core node's report of a party's counters, checked (spec 2.7).

Whole numbers may come as text or as numbers and times as RFC 3339 or Unix time in seconds,
milliseconds, microseconds or nanoseconds; here they become numbers and RFC 3339 in UTC.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from transforms.tables.column_facts import HEX_OF

MAX_LINE_BYTES = 2**20
# A line may have very many empty objects, each of which gets the defaults of its values.
MAX_STATISTICS_BYTES = 4 * MAX_LINE_BYTES

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = re.compile(r"[0-9]{1,78}", re.ASCII)
_INTEGER = re.compile(r"-?[0-9]{1,78}", re.ASCII)
_HEX = re.compile(r"([0-9a-fA-F]{2})+")
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_SECOND = 10**9
# The unit of a Unix time follows from its size: as seconds this one is in the year 5138, in any
# finer unit it is in March 1973.
_MOST_SECONDS = 10**11


class CaptureLineError(ValueError):
    """A line that is no capture; the message says which value of it is wrong."""


def parse_capture(line: bytes, chain_id: str) -> dict[str, Any]:
    """Read one line of a capture of a chain: `party_id` in hex, `epoch`, `statistics` as JSON.

    Raises `CaptureLineError`.
    """
    if len(line) > MAX_LINE_BYTES:
        raise CaptureLineError(f"it is longer than {MAX_LINE_BYTES} bytes")
    try:
        document = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise CaptureLineError(f"it is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise CaptureLineError("it is not a JSON object")
    if document.get("chainId") != chain_id:
        raise CaptureLineError(f"its chainId is {document.get('chainId')!r:.80}, not {chain_id!r}")
    statistics = _read(_STATISTICS, document.get("statistics"), "statistics")
    if not statistics or statistics["epochSeq"] is None:
        raise CaptureLineError("its statistics have no epochSeq")
    party = _read(_PARTY, document.get("partyId"), "partyId")
    text = json.dumps(statistics, ensure_ascii=False)
    if len(text.encode()) > MAX_STATISTICS_BYTES:
        raise CaptureLineError("its statistics have too many votes or blocks")
    return {"party_id": party, "epoch": statistics["epochSeq"], "statistics": text}


def format_nanos(nanos: int) -> str:
    """Unix nanoseconds as RFC 3339 in UTC, the fraction without trailing zeros."""
    seconds, rest = divmod(nanos, _SECOND)
    moment = (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()
    return f"{moment}.{rest:09d}".rstrip("0").rstrip(".") + "Z"


def parse_nanos(text: str) -> int:
    """RFC 3339 in any zone as Unix nanoseconds. Raises `ValueError`."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r:.80} is not a time of RFC 3339")
    whole = datetime.fromisoformat(match[1] + match[3]) - _EPOCH
    return whole // timedelta(seconds=1) * _SECOND + int((match[2] or "").ljust(9, "0"))


@dataclass(frozen=True, slots=True)
class _Value:
    """What a value has to be, how it is read (a `ValueError` where it is not that), its default."""

    what: str
    read: Callable[[Any], Any]
    default: object = None


def _read(kind: Any, value: Any, where: str) -> Any:  # noqa: ANN401 - JSON
    """A value by its schema: objects as dicts, lists as lists of one schema; others' names not."""
    if value is None:
        return kind.default if isinstance(kind, _Value) else [] if isinstance(kind, list) else None
    if isinstance(kind, _Value):
        try:
            return kind.read(value)
        except (TypeError, ValueError, OverflowError):
            raise CaptureLineError(f"{where} is {value!r:.80}, not {kind.what}") from None
    if not isinstance(value, type(kind)):
        what = "an object" if isinstance(kind, dict) else "a list"
        raise CaptureLineError(f"{where} is {value!r:.80}, not {what}")
    if isinstance(kind, list):
        return [_read(kind[0], item, f"{where}[{i}]") for i, item in enumerate(value)]
    return {name: _read(kind[name], value.get(name), f"{where}.{name}") for name in kind}


def _text(value: Any) -> str:  # noqa: ANN401
    if not isinstance(value, str):
        raise TypeError
    value.encode()  # half of a surrogate pair is no text
    return value


def _party(value: Any) -> str:  # noqa: ANN401
    text = HEX_OF.get(_text(value), value)
    if not _HEX.fullmatch(text):
        raise ValueError
    return str(text.lower())


def _whole(value: Any) -> int:  # noqa: ANN401
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if type(value) is not int or not 0 <= value < 2**64:
        raise ValueError
    return value


def _tokens(value: Any) -> str:  # noqa: ANN401
    text = str(value) if type(value) is int else _text(value)
    if not _DIGITS.fullmatch(text):
        raise ValueError
    return text


def _boolean(value: Any) -> bool:  # noqa: ANN401
    if not isinstance(value, bool):
        raise TypeError
    return value


def _time(value: Any) -> str | None:  # noqa: ANN401
    """A time as RFC 3339, None for a party that is not banned.

    A time before 1970 is no ban: Go's "no time" is in the year 1.
    """
    if isinstance(value, str) and value and not _INTEGER.fullmatch(value):
        nanos = parse_nanos(value)
    else:
        nanos = _unix_nanos(int(value) if isinstance(value, str) and value else value or 0)
    return format_nanos(nanos) if nanos > 0 else None


def _unix_nanos(time: int) -> int:
    """A Unix time of any unit in nanoseconds."""
    if type(time) is not int or time >= 2**64:
        raise ValueError
    unit = _SECOND
    while unit > 1 and abs(time) * unit >= _MOST_SECONDS * _SECOND:
        unit //= 1000
    return time * unit


_PARTY = _Value("hex, nor a name like 'network'", _party)
_COUNT = _Value("a whole number of 64 bits", _whole, 0)
_AMOUNT = _Value("an amount of tokens", _tokens, "0")
_WORDS = _Value("text", _text, "")
_BAN = _Value("a time", _time)
_COUNTERS = {
    "countForEpoch": _COUNT,
    "maxForEpoch": _COUNT,
    "bannedUntil": _BAN,
    "minTokensRequired": _AMOUNT,
}
_VOTE = {"proposal": _WORDS, "countForEpoch": _COUNT, "minTokensRequired": _AMOUNT}
_BLOCK_STATE = {
    "blockHeight": _COUNT,
    "blockHash": _WORDS,
    "transactionsSeen": _COUNT,
    "expectedDifficulty": replace(_COUNT, default=None),
    "hashFunction": _WORDS,
    "difficulty": _COUNT,
    "txPerBlock": _COUNT,
    "increasingDifficulty": _Value("true or false", _boolean, default=False),
}
_STATISTICS = {
    "proposals": _COUNTERS,
    "delegations": _COUNTERS,
    "transfers": _COUNTERS,
    "nodeAnnouncements": _COUNTERS,
    "votes": {"statistics": [_VOTE], "maxForEpoch": _COUNT, "bannedUntil": _BAN},
    "pow": {"blockStates": [_BLOCK_STATE], "bannedUntil": _BAN, "numberOfPastBlocks": _COUNT},
    "issueSignatures": _COUNTERS,
    "epochSeq": replace(_COUNT, default=None),
}
