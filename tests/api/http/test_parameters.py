"""Query parameters, read as the network's gateway reads them (decision 12)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.core.api_errors import Code, MalformedParameterError
from api.http.parameters import read_parameters, read_request
from api.operations import CALLS, STREAM
from tests.api.message_types import (
    EXPORT_HISTORY,
    LIST_PROVISIONS,
    LIST_WITHDRAWALS,
    OBSERVE_PROVISIONS,
)
from tests.cases import each_of

_CALLS = {operation.name: operation for operation in CALLS}


@each_of(
    ("query", "read"),
    [
        ([], {}),
        ([("partyId", "a")], {"party_id": "a"}),
        ([("party_id", "a")], {"party_id": "a"}),
        ([("partyId", "")], {"party_id": ""}),
        ([("pagination.first", "5")], {"pagination": {"first": 5}}),
        ([("pagination.newestFirst", "f")], {"pagination": {"newest_first": False}}),
        ([("pagination.newest_first", "TRUE")], {"pagination": {"newest_first": True}}),
        ([("pagination.first", "+7")], {"pagination": {"first": 7}}),
        ([("pagination.first", "-0")], {"pagination": {"first": 0}}),
        ([("pagination.first", "0" * 5000 + "1")], {"pagination": {"first": 1}}),
        ([("pagination.last", "-2147483648")], {"pagination": {"last": -(2**31)}}),
        ([("pagination.after", "a=b")], {"pagination": {"after": "a=b"}}),
        (
            [("dateRange.start_timestamp", "1"), ("date_range.endTimestamp", "-9")],
            {"date_range": {"start_timestamp": 1, "end_timestamp": -9}},
        ),
        ([("table", "TABLE_ORDERS")], {"table": 5}),
        ([("table", "05")], {"table": 5}),
        ([("unknown", "1"), ("partyID", "x"), ("pagination.After", "x")], {}),
        ([("unknown.first", "1")], {}),
        ([("partyId", "a"), ("other", "1"), ("other", "2")], {"party_id": "a"}),
    ],
)
def test_names_come_in_both_spellings_and_unknown_ones_are_passed_over(
    query: list[tuple[str, str]], read: dict[str, Any]
) -> None:
    message = EXPORT_HISTORY if "table" in read else LIST_WITHDRAWALS
    request = message()
    read_parameters(request, query)
    assert request == message(**read)


@each_of(
    ("query", "message"),
    [
        ([("pagination.first", "1"), ("pagination.first", "2")], "too many values for field"),
        ([("partyId", "a"), ("party_id", "b")], 'field already set for oneof "_party_id"'),
        ([("pagination", "1")], 'unsupported message type: "datanode.api.v2.Pagination"'),
        ([("pagination[first]", "1")], 'too many values for field "pagination": first, 1'),
        ([("pagination.first.x", "1")], 'invalid path: "first" is not a message'),
        ([("pagination.first", "abc")], 'parsing field "first": strconv.ParseInt: parsing "abc"'),
        ([("pagination.first", "")], 'parsing "": invalid syntax'),
        ([("pagination.first", "1_0")], 'parsing "1_0": invalid syntax'),
        ([("pagination.first", "٣")], "invalid syntax"),
        ([("pagination.first", "2147483648")], "value out of range"),
        ([("pagination.first", "9" * 5000)], "value out of range"),
        ([("dateRange.endTimestamp", str(2**63))], "value out of range"),
        ([("pagination.newestFirst", "yes")], 'strconv.ParseBool: parsing "yes": invalid syntax'),
        ([("table", "orders")], 'parsing field "table": "orders" is not a valid value'),
        ([("table", "16")], '"16" is not a valid value'),
        ([("table", "")], '"" is not a valid value'),
        ([("table", "9" * 5000)], "is not a valid value"),
    ],
)
def test_what_is_not_of_its_type_is_refused_by_name(
    query: list[tuple[str, str]], message: str
) -> None:
    request = EXPORT_HISTORY() if query[0][0] == "table" else LIST_WITHDRAWALS()
    with pytest.raises(MalformedParameterError) as caught:
        read_parameters(request, query)
    assert message in caught.value.message
    assert (caught.value.code, caught.value.status) == (Code.INVALID_ARGUMENT, 400)
    assert caught.value.detail is None


@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), max_size=5))
def test_any_query_is_read_or_refused(query: list[tuple[str, str]]) -> None:
    request = LIST_WITHDRAWALS()
    try:
        read_parameters(request, query)
    except MalformedParameterError:
        return
    assert LIST_WITHDRAWALS.FromString(request.SerializeToString()) == request


def test_requests_are_what_the_parameters_say() -> None:
    assert read_request(
        _CALLS["withdrawals"], [("partyId", "ab"), ("dateRange.startTimestamp", "5")]
    ) == LIST_WITHDRAWALS(party_id="ab", date_range={"start_timestamp": 5})
    oracle_data = read_request(_CALLS["oracle_data"], [("oracle_spec_id", "f1")])
    assert oracle_data.oracle_spec_id == "f1"
    assert read_request(
        _CALLS["liquidity_provisions"], [("marketId", "m"), ("live", "true"), ("reference", "r")]
    ) == LIST_PROVISIONS(market_id="m", reference="r", live=True)
    assert read_request(STREAM, []) == OBSERVE_PROVISIONS()
    assert read_request(STREAM, [("partyId", ""), ("snapshot", "false")]) == OBSERVE_PROVISIONS(
        party_id="", snapshot=False
    )


def test_a_parameter_of_the_path_has_no_place_in_the_query() -> None:
    query, path = [("orderId", "a"), ("order_id", "b")], {"orderId": "c"}
    assert read_request(_CALLS["order_versions"], query, path).order_id == "c"
    assert read_request(_CALLS["order_versions"], query).order_id == ""
