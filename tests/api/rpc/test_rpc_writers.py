"""Records as messages: what is set, what is not, and what hostile data becomes."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor

from api.core.descriptors import message, message_class
from api.queries.pagination import Page, Record
from api.rpc.wire import write_record
from tests.api.message_types import NODE_SIGNATURE, ORDER, WITHDRAWAL
from tests.cases import each_of

_ORDER: dict[str, Any] = {
    **dict.fromkeys((field.name for field in ORDER.fields), 0),
    **dict.fromkeys(("id", "market_id", "party_id", "price", "reference"), "x"),
    "liquidity_provision_id": "",
    "reason": None,
    "pegged_order": None,
    "post_only": False,
    "reduce_only": True,
}


def _written(message: Descriptor, record: Record) -> Any:
    wire = message_class(message.full_name)
    return wire.FromString(write_record(message, record))


def _order(**values: object) -> Any:
    return _written(ORDER, tuple({**_ORDER, **values}.values()))


def test_what_is_optional_and_none_is_not_set() -> None:
    unset = _order()
    assert not unset.HasField("reason")
    assert not unset.HasField("pegged_order")
    given = _order(reason="ORDER_ERROR_UNSPECIFIED", pegged_order=("PEGGED_REFERENCE_MID", ""))
    assert given.HasField("reason")
    assert given.pegged_order.reference == 1


@pytest.mark.parametrize(
    ("ext", "has_ext", "has_erc20"),
    [(None, False, False), ((None,), True, False), ((("0x1",),), True, True)],
)
def test_a_message_without_content_is_still_there(
    ext: Record | None, has_ext: bool, has_erc20: bool
) -> None:
    found = _written(WITHDRAWAL, ("", "", "", "", "STATUS_OPEN", "", "", 0, 0, ext))
    assert found.HasField("ext") is has_ext
    assert found.ext.HasField("erc20") is has_erc20


@each_of(
    ("field", "value", "expected"),
    [
        ("status", 99, 99),
        ("status", "STATUS_FILLED", 5),
        ("status", "STATUS_OF_A_LATER_RELEASE", 0),
        ("status", 2**32 - 1, -1),
        ("reference", "a\ud800b", "a?b"),
        ("size", 2**64 - 1, 2**64 - 1),
        ("size", 2**64 + 5, 5),
        ("created_at", -(2**63), -(2**63)),
        ("created_at", 2**63, -(2**63)),
    ],
)
def test_a_value_that_does_not_fit_is_made_to_fit(
    field: str, value: object, expected: object
) -> None:
    assert getattr(_order(**{field: value}), field) == expected


def test_bytes_are_read_from_hex() -> None:
    kind = "NODE_SIGNATURE_KIND_ASSET_NEW"
    assert _written(NODE_SIGNATURE, ("id", "0102ff", kind)).sig == b"\x01\x02\xff"


def test_one_hostile_row_spoils_no_other() -> None:
    shape = ("", ("PEGGED_REFERENCE_MID", 9, "5")), ("o\udc00", None), ("", (4294967295, 0, ""))
    rows: list[Record] = [
        (str(number), "p", 0, 0, "m", "1", "0.1", [*shape], [], 1, "STATUS_ACTIVE", "r")
        for number in range(3)
    ]
    response = message_class("datanode.api.v2.ListLiquidityProvisionsResponse")
    page = Page(rows, ["a", "b", "c"], has_next=True).record
    found: Any = response.FromString(write_record(message(response.DESCRIPTOR.full_name), (page,)))
    edges = found.liquidity_provisions.edges
    assert [(edge.node.id, edge.cursor) for edge in edges] == [("0", "a"), ("1", "b"), ("2", "c")]
    first, second, third = edges[0].node.sells
    assert (first.liquidity_order.reference, first.liquidity_order.proportion) == (1, 9)
    assert (second.order_id, second.HasField("liquidity_order")) == ("o?", False)
    assert third.liquidity_order.reference == -1
    info = found.liquidity_provisions.page_info
    assert (info.has_next_page, info.start_cursor, info.end_cursor) == (True, "a", "c")
