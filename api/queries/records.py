"""Records from rows: which columns a message is made of, and how (spec section 2).

Rows come as `RowColumns` say: ids in hex, times in microseconds, numbers as exact text. A value
that no network writes (hostile JSON, infinite times) becomes the default, never an error: a cell of
JSON that cannot be read is shown as NULL is, and so is what no type held.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

from api.core.open_snapshots import nanos
from api.queries.cursors import bytes_of, show_id
from api.queries.pagination import Record, Row
from transforms.tables.column_facts import NAMES, enum_names

_ELEMENT = re.compile(r'"\\\\x([0-9a-f]*)"')
_PUB_KEY, _ETH_ADDRESS = "00", "01"


def _names(column: str) -> Mapping[int, str]:
    return enum_names("orders", column) or {}


_SIDE = _names("side")
_TIME_IN_FORCE = _names("time_in_force")
_TYPE = _names("type")
_STATUS = _names("status")
_REASON = _names("reason")
_PEGGED = _names("pegged_reference")


def order(row: Row) -> Record:
    """A `vega.Order` from a row of `ORDER`."""
    created, id_, _, version, _, market, party, side, price, size, remaining = row[:11]
    in_force, type_, status, expires, reference, reason, updated = row[11:18]
    batch, pegged, offset, lp, post_only, reduce_only = row[18:]
    return (
        show_id(id_),
        NAMES.get(market, market) or "",
        NAMES.get(party, party) or "",
        _SIDE.get(side or 0, side),
        plain_number(price),
        unsigned(size),
        unsigned(remaining),
        _TIME_IN_FORCE.get(in_force or 0, in_force),
        _TYPE.get(type_ or 0, type_),
        nanos(created),
        _STATUS.get(status or 0, status),
        nanos(expires),
        reference or "",
        _REASON.get(reason, reason) if reason else None,
        nanos(updated),
        unsigned(version),
        unsigned(batch),
        (_PEGGED.get(pegged, pegged), plain_number(offset)) if pegged else None,
        lp or "",
        bool(post_only),
        bool(reduce_only),
    )


def withdrawal(row: Row) -> Record:
    """A `vega.Withdrawal` from a row of `WITHDRAWAL`."""
    _, id_, party, amount, asset, status, ref, foreign_hash, created, withdrawn, ext = row
    return (
        show_id(id_),
        NAMES.get(party, party) or "",
        plain_number(amount),
        NAMES.get(asset, asset) or "",
        status or "STATUS_UNSPECIFIED",
        ref or "",
        foreign_hash or "",
        nanos(created),
        nanos(withdrawn),
        _extension(ext),
    )


def node_signature(row: Row) -> Record:
    """A `NodeSignature` from a row of `SIGNATURE`."""
    id_, signature, kind = row
    return show_id(id_), bytes_of(signature).hex(), kind or "NODE_SIGNATURE_KIND_UNSPECIFIED"


def liquidity_provision(row: Row) -> Record:
    """A `vega.LiquidityProvision` from a row of `PROVISION`."""
    _, id_, party, created, updated, market, amount, fee, sells, buys, version, status, ref = row
    return (
        show_id(id_),
        NAMES.get(party, party) or "",
        nanos(created),
        nanos(updated),
        NAMES.get(market, market) or "",
        plain_number(amount),
        plain_number(fee),
        [_shape_entry(entry) for entry in _objects(sells)],
        [_shape_entry(entry) for entry in _objects(buys)],
        unsigned(version),
        status or "STATUS_UNSPECIFIED",
        ref or "",
    )


def oracle_data(row: Row) -> Record:
    """A `vega.OracleData` from a row of `transforms.lookups.oracle_rows.SHOWN`.

    Signers and spec ids are PostgreSQL's text of a byte array, of the signers without its end.
    """
    _, signers, _, data, spec_ids, broadcast = row[:6]
    value = _read(data)
    properties = [
        (_text(entry.get("Name")), _text(entry.get("Value")))
        for entry in (value if isinstance(value, list) else ())
        if isinstance(entry, dict)
    ]
    # Without data the network forgets the specs too.
    specs = () if value is None or spec_ids is None else elements(spec_ids)
    return (((_signers(signers), properties, specs, nanos(broadcast)),),)


@lru_cache(maxsize=1024)  # rows name the same signers and specs over and over
def elements(array: str) -> tuple[str, ...]:
    """The elements of PostgreSQL's text of a byte array, in hex; what is none is left out."""
    return tuple(element for element in _ELEMENT.findall(array) if len(element) % 2 == 0)


def unsigned(value: int | None) -> int:
    """A number as unsigned 64 bits, as the network meant it when it stored it signed."""
    return (value or 0) % 2**64


def plain_number(text: str | None) -> str:
    """A number's text without the zeros behind its last decimal."""
    if text is None:
        return ""
    return text.rstrip("0").rstrip(".") if "." in text else text


@lru_cache(maxsize=1024)
def _signers(signers: str) -> tuple[Record, ...]:
    return tuple(_signer(element[:2], element[2:]) for element in elements(signers))


def _signer(tag: str, rest: str) -> Record:
    text = bytes.fromhex(rest).decode("utf-8", "replace")
    if tag == _PUB_KEY:
        return (text,), None
    if tag == _ETH_ADDRESS:
        return None, (f"0x{text}",)
    return None, None


def _read(cell: str | None) -> object:
    """What a cell of JSON says; None for one that cannot be read."""
    if cell is None:
        return None
    try:
        return orjson.loads(cell)
    except (ValueError, RecursionError):
        # The standard library takes a little more: lone surrogates, deeper levels.
        try:
            return json.loads(cell)
        except (ValueError, RecursionError):
            return None


@lru_cache(maxsize=1024)  # a party withdraws to the same address over and over
def _extension(ext: str | None) -> Record:
    """The foreign chain's part of a withdrawal: with or without an `erc20`."""
    value = _read(ext)
    erc20 = value.get("erc20") if isinstance(value, dict) else None
    if not isinstance(erc20, dict):
        return (None,)
    return ((_text(erc20.get("receiverAddress")),),)


def _objects(array: str | None) -> list[dict[str, Any]]:
    value = _read(array)
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _shape_entry(entry: dict[str, Any]) -> Record:
    order = entry.get("liquidity_order")
    shown = None
    if isinstance(order, dict):
        reference = _number(order.get("reference"), 2**31)
        proportion = _number(order.get("proportion"), 2**32)
        shown = (_PEGGED.get(reference, reference), proportion, _text(order.get("offset")))
    return _text(entry.get("order_id")), shown


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object, end: int) -> int:
    return value if type(value) is int and 0 <= value < end else 0
