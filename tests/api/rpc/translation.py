"""Requests of REST as calls of gRPC: the method, and the message with the same values."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any
from urllib.parse import parse_qsl, unquote

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from tests.api.rpc.kit import declared

_METHODS = {
    "/api/v2/order/versions/(.*)": ("ListOrderVersions", "order_id"),
    "/api/v2/withdrawals()": ("ListWithdrawals", ""),
    "/api/v2/withdrawal/(.*)": ("GetWithdrawal", "id"),
    "/api/v2/oracle/data()": ("ListOracleData", ""),
    "/api/v2/node/signatures()": ("ListNodeSignatures", ""),
    "/api/v2/liquidity/provisions()": ("ListLiquidityProvisions", ""),
    "/api/v2/networkhistory/segments()": ("ListAllNetworkHistorySegments", ""),
    "/api/v2/networkhistory()": ("GetNetworkHistoryStatus", ""),
    "/api/v2/networkhistory/bootstrap()": ("GetNetworkHistoryBootstrapPeers", ""),
    "/api/v2/networkhistory/export()": ("ExportNetworkHistory", ""),
    "/api/v2/vega/time()": ("GetVegaTime", ""),
    "/api/v2/info()": ("Info", ""),
    "(?:/api/v2)?/statistics/spam/(.*)": ("GetSpamStatistics", "party_id"),
}
_TRUTHS = {"1": True, "true": True, "True": True, "t": True, "T": True, "TRUE": True}
_TRUTHS |= {"0": False, "false": False, "False": False, "f": False, "F": False, "FALSE": False}


class UntranslatableError(Exception):
    """What is asked can be written in a query string only: no message has such a value."""


def method_of(request: str) -> str | None:
    """The method that answers what a path asks; None where gRPC has none."""
    path = request.partition("?")[0]
    found = (name for pattern, (name, _) in _METHODS.items() if re.fullmatch(pattern, path))
    return next(found, None)


def translate(request: str) -> Message:
    """The message for a path with its query. Raises `UntranslatableError`."""
    path, _, query = request.partition("?")
    for pattern, (method, field) in _METHODS.items():
        match = re.fullmatch(pattern, path)
        if match:
            message = declared(method)[1]()
            _fill(message, query)
            if field:
                setattr(message, field, unquote(match[1]))
            return message
    raise AssertionError(f"no method answers {path}")


def _fill(message: Message, query: str) -> None:
    if re.search("%(?![0-9A-Fa-f]{2})|;", query):
        raise UntranslatableError(query)
    pairs = parse_qsl(query, keep_blank_values=True)
    if max(Counter(name for name, _ in pairs).values(), default=0) > 1:
        raise UntranslatableError(query)
    filled: set[str] = set()
    for name, value in pairs:
        _set(message, name.partition("[")[0] if "[" in name else name, value, filled)


def _set(message: Any, name: str, value: str, filled: set[str]) -> None:
    """Set a field by its path; unknown ones are passed over, as REST does."""
    *above, leaf = name.split(".")
    for part in above:
        field = _field(message, part)
        if field is None:
            return
        if field.message_type is None:
            raise UntranslatableError(name)
        message = getattr(message, field.name)
    field = _field(message, leaf)
    if field is None:
        return
    place = f"{'.'.join(above)}.{field.name}"
    if field.message_type is not None or place in filled:
        raise UntranslatableError(name)
    filled.add(place)
    try:
        setattr(message, field.name, _value(field, value))
    except (KeyError, ValueError):
        raise UntranslatableError(f"{name}={value}") from None


def _field(message: Any, part: str) -> Any:
    fields = message.DESCRIPTOR.fields
    return next((field for field in fields if part in (field.name, field.json_name)), None)


def _value(field: FieldDescriptor, text: str) -> object:
    if field.type == FieldDescriptor.TYPE_STRING:
        return text
    if field.type == FieldDescriptor.TYPE_BOOL:
        return _TRUTHS[text]
    if field.enum_type is not None and text in field.enum_type.values_by_name:
        return field.enum_type.values_by_name[text].number
    if not re.fullmatch("[+-]?[0-9]+", text):
        raise ValueError(text)
    number = int(text)
    if field.enum_type is not None and number not in field.enum_type.values_by_number:
        raise ValueError(text)
    return number
