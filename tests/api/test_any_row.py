"""Any row whatsoever becomes a record that both shells can write, and they say the same of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor
from hypothesis import example, given
from hypothesis import strategies as st

from api.core.descriptors import message_class
from api.queries.cursors import BYTES, ID, NUMBER, TIME, CursorFormat
from api.queries.messages import record_json
from api.queries.pagination import Cut, Record, Row
from api.queries.records import liquidity_provision, node_signature, oracle_data, order, withdrawal
from api.rpc.wire import write_record
from tests.api.message_types import (
    LIQUIDITY_PROVISION,
    NODE_SIGNATURE,
    ORACLE_DATA,
    ORDER,
    WITHDRAWAL,
)
from tests.api.rpc.kit import as_json

_KEYS = st.sampled_from(
    [
        "erc20",
        "receiverAddress",
        "Name",
        "Value",
        "order_id",
        "liquidity_order",
        "reference",
        "proportion",
        "offset",
    ]
)
_ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
_NUMBERS = st.integers() | st.integers(0, 2**33) | st.floats()
_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)
_WRITTEN = st.builds(json.dumps, _JSON, ensure_ascii=st.booleans())
_DEEP = st.builds(
    lambda ends, levels, cell: f"{ends[0] * levels}{cell}{ends[1] * levels}",
    st.sampled_from([("[", "]"), ('{"erc20":', "}"), ('[{"liquidity_order":', "}]")]),
    st.sampled_from([1, 2, 3, 3000, 100_000]),
    _WRITTEN,
)
_LONG = st.builds(
    lambda start, digits, end: f"{start}{'7' * digits}{end}",
    st.sampled_from(['{"erc20":', '[{"liquidity_order":{"proportion":', "["]),
    st.integers(4000, 6000),
    st.sampled_from(["}", "}}]", "]", "e7}"]),
)
_TWICE = st.builds(
    lambda key, one, other: f'{{"{key}":{one},"{key}":{other}}}', _KEYS, _WRITTEN, _WRITTEN
)
_CELL = st.none() | _ANY_TEXT | _WRITTEN | _DEEP | _LONG | _TWICE

_TEXT = st.none() | st.text(max_size=8)
_ID = _TEXT | st.binary(max_size=4).map(bytes.hex)
_TIME = st.none() | st.integers(-(2**63), 2**63 - 1)
_WHOLE = st.none() | st.integers(-(2**63), 2**63 - 1)
_ENUM = st.none() | st.integers(-(2**31), 2**31 - 1)
_STATUS = st.sampled_from([None, "", "STATUS_UNSPECIFIED"])
_ARRAY = st.text(max_size=20) | st.lists(_ID, max_size=3).map(
    lambda ids: "{" + ",".join(f'"\\\\x{id_}"' for id_ in ids) + "}"
)
_FLAG = st.none() | st.booleans()

_ROWS: dict[str, tuple[Descriptor, Callable[[Row], Record], st.SearchStrategy[Row]]] = {
    "order": (
        ORDER,
        order,
        st.tuples(
            _TIME, _ID, _TIME, _WHOLE, _WHOLE, _ID, _ID, _ENUM, _TEXT, _WHOLE, _WHOLE, _ENUM,
            _ENUM, _ENUM, _TIME, _TEXT, _ENUM, _TIME, _WHOLE, _ENUM, _TEXT, _ID, _FLAG, _FLAG,
        ),
    ),
    "withdrawal": (
        WITHDRAWAL,
        withdrawal,
        st.tuples(
            _TIME, _ID, _ID, _TEXT, _ID, _STATUS, _TEXT, _TEXT, _TIME, _TIME, _CELL
        ),
    ),
    "provision": (
        LIQUIDITY_PROVISION,
        liquidity_provision,
        st.tuples(
            _TIME, _ID, _ID, _TIME, _TIME, _ID, _TEXT, _TEXT, _CELL, _CELL, _WHOLE, _STATUS, _TEXT
        ),
    ),
    "oracle data": (
        ORACLE_DATA,
        oracle_data,
        st.tuples(_TIME, _ARRAY, _WHOLE, _CELL, st.none() | _ARRAY, _TIME),
    ),
    "signature": (NODE_SIGNATURE, node_signature, st.tuples(_ID, _ID, st.none() | st.just(""))),
}  # fmt: skip


@pytest.mark.parametrize("kind", _ROWS)
@given(data=st.data())
def test_any_row_is_a_record_that_both_shells_can_write(kind: str, data: st.DataObject) -> None:
    message, record_of, rows = _ROWS[kind]
    record = record_of(data.draw(rows))
    wire = message_class(message.full_name)
    found = wire.FromString(write_record(message, record))
    assert as_json(found) == json.loads(record_json(message, record))


@given(cell=_CELL)
@example(cell='{"erc20": {"receiverAddress": null}}')
def test_what_json_can_be_read_is_shown(cell: str | None) -> None:
    try:
        read = json.loads(cell or "null")
    except (ValueError, RecursionError):
        read = None
    erc20 = read.get("erc20") if isinstance(read, dict) else None
    address = erc20.get("receiverAddress") if isinstance(erc20, dict) else None
    shown = address if isinstance(address, str) else ""
    *_, ext = withdrawal((0, "", "", "", "", "", "", "", 0, 0, cell))
    assert ext == (((shown,),) if isinstance(erc20, dict) else (None,))


@given(
    st.lists(st.tuples(_TIME, _ID, _WHOLE, st.none() | st.binary().map(bytes.hex)), max_size=5),
    st.booleans(),
)
def test_any_row_has_a_cursor_that_is_text(rows: list[Row], beside: bool) -> None:
    cursors = CursorFormat(("time", TIME), ("id", ID), ("number", NUMBER), ("sig", BYTES), extra=2)
    found = Cut(rows, rows[0] if beside and rows else None, None).cursors(cursors)
    assert len(found) == len(rows)
    mains = [cursors.encode(row[:2]) for row in rows]
    around = [*(mains[:1] if beside else [""]), *mains, ""]
    for at, text in enumerate(found):
        is_tied = mains[at] in (around[at], around[at + 2])
        assert text == (cursors.encode(rows[at]) if is_tied else mains[at])
