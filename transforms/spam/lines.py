"""One line of a spam capture: checked, and brought into one form (spec 2.7).

A capture is a core node's report of a party's spam counters. Whole numbers may come as text or
as numbers and times as RFC 3339 or Unix nanoseconds; here they become numbers and RFC 3339 in UTC.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from transforms.tables.column_facts import HEX_OF

MAX_LINE_BYTES = 2**20

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = re.compile(r"[0-9]{1,78}", re.ASCII)
_HEX = re.compile(r"([0-9a-fA-F]{2})+")
_HALF = re.compile(r"[\ud800-\udfff]")
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_SECOND = 10**9

Statistics = dict[str, Any]
_Reader = Callable[[Any, str], Any]
_Fields = Mapping[str, tuple[_Reader, Any]]


class CaptureLineError(ValueError):
    """A line that is no capture; the message says which value of it is wrong."""


@dataclass(frozen=True, slots=True)
class Capture:
    """What was captured of one party: its id in lower-case hex, the epoch, the statistics."""

    party_id: str
    epoch: int
    statistics: Statistics


def parse_capture(line: bytes, chain_id: str) -> Capture:
    """Read one line of a capture of a chain. Raises `CaptureLineError`."""
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
    party = _party(document.get("partyId"))
    statistics = document.get("statistics")
    if not isinstance(statistics, dict) or statistics.get("epochSeq") is None:
        raise CaptureLineError("its statistics have no epochSeq")
    fields = _object(_STATISTICS)(statistics, "statistics")
    return Capture(party, fields["epochSeq"], fields)


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


def _party(value: object) -> str:
    if isinstance(value, str) and value in HEX_OF:
        return HEX_OF[value]
    if not isinstance(value, str) or not _HEX.fullmatch(value):
        raise CaptureLineError(f"its partyId {value!r:.80} is not hex, nor a name like 'network'")
    return value.lower()


def _whole(value: object, where: str) -> int:
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if type(value) is not int or not 0 <= value < 2**64:
        raise CaptureLineError(f"{where} is {value!r:.80}, not a whole number of 64 bits")
    return value


def _tokens(value: object, where: str) -> str:
    if type(value) is int and value >= 0:
        return str(value)
    if not isinstance(value, str) or not _DIGITS.fullmatch(value):
        raise CaptureLineError(f"{where} is {value!r:.80}, not an amount of tokens")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise CaptureLineError(f"{where} is {value!r:.80}, not text")
    if _HALF.search(value):
        raise CaptureLineError(f"{where} is {value!r:.80}: half a surrogate pair is no text")
    return value


def _boolean(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise CaptureLineError(f"{where} is {value!r:.80}, not true or false")
    return value


def _timestamp(value: object, where: str) -> str | None:
    """A time as RFC 3339, None for a party that is not banned."""
    try:
        if isinstance(value, str) and value and not _DIGITS.fullmatch(value):
            return format_nanos(parse_nanos(value))
        nanos = _whole(value or 0, where)
        return format_nanos(nanos) if nanos else None
    except (ValueError, OverflowError):
        raise CaptureLineError(f"{where} is {value!r:.80}, not a time") from None


def _object(fields: _Fields) -> _Reader:
    """Reads an object: known fields by their rules, absent ones as their default, others not."""

    def read(value: object, where: str) -> Statistics:
        if not isinstance(value, dict):
            raise CaptureLineError(f"{where} is {value!r:.80}, not an object")
        return {
            name: rule(value[name], f"{where}.{name}") if value.get(name) is not None else default
            for name, (rule, default) in fields.items()
        }

    return read


def _several(rule: _Reader) -> _Reader:
    def read(value: object, where: str) -> list[Any]:
        if not isinstance(value, list):
            raise CaptureLineError(f"{where} is {value!r:.80}, not a list")
        return [rule(item, f"{where}[{i}]") for i, item in enumerate(value)]

    return read


_BANNED: _Fields = {"bannedUntil": (_timestamp, None)}
_COUNTERS: _Fields = {
    "countForEpoch": (_whole, 0),
    "maxForEpoch": (_whole, 0),
    **_BANNED,
    "minTokensRequired": (_tokens, "0"),
}
_VOTE: _Fields = {
    "proposal": (_text, ""),
    "countForEpoch": (_whole, 0),
    "minTokensRequired": (_tokens, "0"),
}
_VOTES: _Fields = {
    "statistics": (_several(_object(_VOTE)), []),
    "maxForEpoch": (_whole, 0),
    **_BANNED,
}
_BLOCK_STATE: _Fields = {
    "blockHeight": (_whole, 0),
    "blockHash": (_text, ""),
    "transactionsSeen": (_whole, 0),
    "expectedDifficulty": (_whole, None),
    "hashFunction": (_text, ""),
    "difficulty": (_whole, 0),
    "txPerBlock": (_whole, 0),
    "increasingDifficulty": (_boolean, False),
}
_WORK: _Fields = {
    "blockStates": (_several(_object(_BLOCK_STATE)), []),
    **_BANNED,
    "numberOfPastBlocks": (_whole, 0),
}
_STATISTICS: _Fields = {
    "proposals": (_object(_COUNTERS), None),
    "delegations": (_object(_COUNTERS), None),
    "transfers": (_object(_COUNTERS), None),
    "nodeAnnouncements": (_object(_COUNTERS), None),
    "votes": (_object(_VOTES), None),
    "pow": (_object(_WORK), None),
    "issueSignatures": (_object(_COUNTERS), None),
    "epochSeq": (_whole, 0),
}
