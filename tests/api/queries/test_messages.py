"""Proto-JSON, and what columns become in it (decision 12; spec 2.2 to 2.7)."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st

from api.core.api_errors import (
    CancelledError,
    DeadlineError,
    FailedError,
    InvalidArgumentError,
    MalformedParameterError,
    NotFoundError,
    Reason,
    UnavailableError,
)
from api.core.descriptors import TRADING_DATA, is_optional, json_name, service
from api.core.open_snapshots import nanos
from api.queries.messages import error_json
from api.queries.messages import record_json as written_json
from api.queries.pagination import Page, Record
from api.queries.records import (
    elements,
    liquidity_provision,
    node_signature,
    oracle_data,
    order,
    plain_number,
    unsigned,
    withdrawal,
)
from tests.api.message_types import (
    INFO,
    LIQUIDITY_PROVISION,
    NODE_SIGNATURE,
    ORACLE_DATA,
    ORDER,
    SPAM_RESPONSE,
    WITHDRAWAL,
)
from tests.cases import each_of

_ID = "a1" * 32
_ORDER_ROW = (
    1682935200500000, _ID, 1682935209000001, 4, 7, "b2" * 32, "03", 1, "1000", 10, -1,
    3, 1, 6, None, 'say "<hi>"', 14, 0, 2, 1, "15", "ee", True, False,
)  # fmt: skip


def record_json(message: Descriptor, record: Record) -> str:
    return written_json(message, record).decode()


def test_an_order_has_its_fields_in_the_order_of_declaration() -> None:
    text = record_json(ORDER, order(_ORDER_ROW))
    assert text == (
        f'{{"id":"{_ID}","marketId":"{"b2" * 32}","partyId":"network","side":"SIDE_BUY",'
        '"price":"1000","size":"10","remaining":"18446744073709551615",'
        '"timeInForce":"TIME_IN_FORCE_IOC","type":"TYPE_LIMIT",'
        '"createdAt":"1682935200500000000","status":"STATUS_REJECTED","expiresAt":"0",'
        '"reference":"say \\"\\u003chi\\u003e\\"","reason":"ORDER_ERROR_MARGIN_CHECK_FAILED",'
        '"updatedAt":"0","version":"4","batchId":"2",'
        '"peggedOrder":{"reference":"PEGGED_REFERENCE_MID","offset":"15"},'
        '"liquidityProvisionId":"ee","postOnly":true,"reduceOnly":false}'
    )


def test_what_is_not_set_is_absent_null_or_the_default_as_its_kind_demands() -> None:
    unset = order((None, _ID, 0, 0, 0, *[None] * 19))
    read = json.loads(record_json(ORDER, unset))
    assert "reason" not in read
    assert read["peggedOrder"] is None
    assert (read["side"], read["status"]) == ("SIDE_UNSPECIFIED", "STATUS_UNSPECIFIED")
    assert (read["marketId"], read["reference"], read["size"]) == ("", "", "0")
    assert (read["createdAt"], read["postOnly"]) == ("0", False)
    assert len(read) == len(ORDER.fields) - 1


def test_an_enum_without_a_name_stays_a_number() -> None:
    row = list(_ORDER_ROW)
    row[13], row[16], row[18] = 99, 77, 88
    row[19] = 55
    read = json.loads(record_json(ORDER, order(tuple(row))))
    assert (read["status"], read["reason"], read["peggedOrder"]["reference"]) == (99, 77, 55)


@each_of(
    ("ext", "shown"),
    [
        ('{"erc20": {"receiverAddress": "0xABC"}}', {"erc20": {"receiverAddress": "0xABC"}}),
        ('{"erc20": {}}', {"erc20": {"receiverAddress": ""}}),
        ('{"erc20": {"receiverAddress": 5}}', {"erc20": {"receiverAddress": ""}}),
        ("{}", {}),
        ('{"other": 1}', {}),
        ("null", {}),
        ("[1]", {}),
        (None, {}),
    ],
)
def test_the_extension_of_a_withdrawal_is_shown(ext: str | None, shown: Any) -> None:
    row = (5, _ID, "03", "5.50", "0b", "STATUS_OPEN", None, "0xf", 1, None, ext)
    read = json.loads(record_json(WITHDRAWAL, withdrawal(row)))
    assert read["ext"] == shown
    assert (read["amount"], read["asset"], read["txHash"], read["ref"]) == (
        "5.5",
        "fEURO",
        "0xf",
        "",
    )


@each_of(
    ("signers", "shown"),
    [
        ('{"\\\\x0042324232"', [{"pubKey": {"key": "B2B2"}}]),
        ('{"\\\\x0161626364"', [{"ethAddress": {"address": "0xabcd"}}]),
        (
            '{"\\\\x00433046464545","\\\\x0141624364"',
            [{"pubKey": {"key": "C0FFEE"}}, {"ethAddress": {"address": "0xAbCd"}}],
        ),
        ('{"\\\\x","\\\\x07ff"', [{}, {}]),
        ("{", []),
        ("~", []),
    ],
)
def test_signers_are_known_by_their_first_byte(signers: str, shown: Any) -> None:
    row = (0, signers, 1, '[{"Name": "n", "Value": "1"}, {"Name": "m"}]', '{"\\\\xf1"}', 2)
    assert json.loads(record_json(ORACLE_DATA, oracle_data(row))) == {
        "externalData": {
            "data": {
                "signers": shown,
                "data": [{"name": "n", "value": "1"}, {"name": "m", "value": ""}],
                "matchedSpecIds": ["f1"],
                "broadcastAt": "2000",
            }
        }
    }


@pytest.mark.parametrize("data", [None, "null"])
def test_without_data_there_are_no_specs_either(data: str | None) -> None:
    (((_, named, specs, _),),) = oracle_data((0, "{", 1, data, '{"\\\\xf1"}', 2))
    assert (named, specs) == ([], ())


@each_of("data", ["12.50", '"s"', "{}", "[1, null]"])
def test_data_that_no_network_writes_is_none(data: str) -> None:
    (((_, named, specs, _),),) = oracle_data((0, "{", 1, data, '{"\\\\xf1"}', 2))
    assert (named, specs) == ([], ("f1",))


def test_a_provision_shows_its_orders() -> None:
    sells = '[{"liquidity_order": {}}, {"order_id": "dd", "liquidity_order": null}, 3]'
    buys = (
        '[{"order_id": "dd", "liquidity_order": {"offset": "5", "reference": 2, "proportion": 10}}]'
    )
    row = (0, _ID, "03", 1, 0, None, "1000", "0.0100000000000000", sells, buys, 1, None, "r")
    read = json.loads(record_json(LIQUIDITY_PROVISION, liquidity_provision(row)))
    assert read["fee"] == "0.01"
    assert read["status"] == "STATUS_UNSPECIFIED"
    assert read["sells"] == [
        {
            "orderId": "",
            "liquidityOrder": {
                "reference": "PEGGED_REFERENCE_UNSPECIFIED",
                "proportion": 0,
                "offset": "",
            },
        },
        {"orderId": "dd", "liquidityOrder": None},
    ]
    assert read["buys"][0]["liquidityOrder"] == {
        "reference": "PEGGED_REFERENCE_BEST_BID",
        "proportion": 10,
        "offset": "5",
    }


def test_bytes_are_base64_with_padding() -> None:
    record = node_signature((_ID, "ff", None))
    assert record_json(NODE_SIGNATURE, record) == (
        f'{{"id":"{_ID}","sig":"/w==","kind":"NODE_SIGNATURE_KIND_UNSPECIFIED"}}'
    )


@each_of(
    ("text", "plain"),
    [
        ("0", "0"),
        ("5.50", "5.5"),
        ("0.0100000000000000", "0.01"),
        ("100", "100"),
        ("1.000", "1"),
        ("-123.30", "-123.3"),
        ("1" + "0" * 40, "1" + "0" * 40),
        (None, ""),
    ],
)
def test_numbers_lose_only_the_zeros_behind_the_point(text: str | None, plain: str) -> None:
    assert plain_number(text) == plain


@each_of(
    ("micros", "shown"),
    [
        (None, 0),
        (0, 0),
        (1, 1000),
        (1685581323456789, 1685581323456789000),
        (-62135596800000000, -6795364578871345152),  # year 1: what 64 bits make of it
    ],
)
def test_times_are_nanoseconds_that_fit_64_bits(micros: int | None, shown: int) -> None:
    assert nanos(micros) == shown


def test_stored_numbers_are_unsigned() -> None:
    assert [unsigned(value) for value in (None, 5, -1)] == [0, 5, 2**64 - 1]


@given(st.lists(st.binary(max_size=5)))
def test_the_elements_of_a_byte_array_are_found(parts: list[bytes]) -> None:
    array = "{" + ",".join(f'"\\\\x{part.hex()}"' for part in parts) + "}"
    assert elements(array) == tuple(part.hex() for part in parts)


def text_json(text: str) -> str:
    """A text as it stands in an answer."""
    return (
        record_json(INFO, (text, "")).removeprefix('{"version":').removesuffix(',"commitHash":""}')
    )


@given(st.text())
def test_any_text_is_a_json_string_that_html_can_hold(text: str) -> None:
    written = text_json(text)
    assert json.loads(written) == text
    assert not {*"<>&\u2028\u2029"} & {*written}


def test_every_character_is_written_as_one_would_by_hand() -> None:
    text = "".join(map(chr, range(0x110000)))
    assert text_json(text) == _plain_text(text)
    whole = "".join(char for char in text if not "\ud800" <= char <= "\udfff")
    assert text_json(whole) == _plain_text(whole)


_ANY_TEXT = st.text(st.characters(exclude_categories=()) | st.sampled_from('<>&"\\\n\u2028\ud800'))
_WHOLE64 = (FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_UINT64)
_VALUES: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_STRING: _ANY_TEXT,
    **dict.fromkeys(_WHOLE64, st.integers(-(2**63), 2**64 - 1) | st.integers()),
    FieldDescriptor.TYPE_UINT32: st.integers(0, 2**32 - 1) | st.integers(),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_ENUM: st.sampled_from(["STATUS_OPEN", 7]) | _ANY_TEXT | st.integers(),
    FieldDescriptor.TYPE_BYTES: st.binary().map(bytes.hex),
}


def _records(message: Descriptor) -> st.SearchStrategy[Any]:
    values = []
    for field in message.fields:
        kind = field.message_type
        value = _records(kind) if kind else _VALUES[field.type]
        if field.is_repeated:
            value = st.lists(value, max_size=3)
        elif is_optional(field) or kind:
            value = st.none() | value
        values.append(value)
    return st.tuples(*values)


_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\b": "\\b"}


def _plain_char(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char in _SHORT:
        return _SHORT[char]
    if char < " " or char in "<>&\u2028\u2029":
        return f"\\u{ord(char):04x}"
    return "?" if "\ud800" <= char <= "\udfff" else char


def _plain_text(text: str) -> str:
    return f'"{"".join(map(_plain_char, text))}"'


def _plain_value(field: FieldDescriptor, value: Any) -> str:
    """A value as decision 12 has it, written out without a library."""
    if field.message_type:
        return "null" if value is None else _plain_record(field.message_type, value)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return "true" if value else "false"
    if field.type == FieldDescriptor.TYPE_BYTES:
        return f'"{base64.b64encode(bytes.fromhex(value)).decode()}"'
    if field.type in _WHOLE64:
        return f'"{value}"'
    return _plain_text(value) if isinstance(value, str) else str(value)


def _plain_record(message: Descriptor, record: Record) -> str:
    members = []
    for field, value in zip(message.fields, record, strict=True):
        if is_optional(field) and value is None:
            continue
        if field.is_repeated:
            written = f"[{','.join(_plain_value(field, item) for item in value)}]"
        else:
            written = _plain_value(field, value)
        members.append(f'"{json_name(field)}":{written}')
    return f"{{{','.join(members)}}}"


_PAGES = {
    ORDER: ("ListOrderVersions", "orders"),
    WITHDRAWAL: ("ListWithdrawals", "withdrawals"),
    ORACLE_DATA: ("ListOracleData", "oracleData"),
    LIQUIDITY_PROVISION: ("ListLiquidityProvisions", "liquidityProvisions"),
    NODE_SIGNATURE: ("ListNodeSignatures", "signatures"),
}


def _page(message: Descriptor, page: Page) -> str:
    """An answer with a page of some message, and only what is under its one name."""
    method, name = _PAGES[message]
    answer = service(TRADING_DATA).methods_by_name[method].output_type
    written = record_json(answer, (page.record,))
    assert written.startswith(f'{{"{name}":')
    return written.removeprefix(f'{{"{name}":').removesuffix("}")


@pytest.mark.parametrize(
    "message",
    [ORDER, WITHDRAWAL, ORACLE_DATA, LIQUIDITY_PROVISION, NODE_SIGNATURE, SPAM_RESPONSE],
    ids=lambda message: message.name,
)
@given(data=st.data())
def test_whatever_records_hold_is_written_as_one_would_by_hand(
    message: Descriptor, data: st.DataObject
) -> None:
    records = data.draw(st.lists(_records(message), max_size=4))
    plain = [_plain_record(message, record) for record in records]
    assert [record_json(message, record) for record in records] == plain
    if message not in _PAGES:
        return
    cursors = [f"cursor{number}" for number in range(len(records))]
    edges = ",".join(
        f'{{"node":{node},"cursor":"{cursor}"}}'
        for node, cursor in zip(plain, cursors, strict=True)
    )
    first, last = (cursors[0], cursors[-1]) if cursors else ("", "")
    assert _page(message, Page(records, cursors, has_next=True)) == (
        f'{{"edges":[{edges}],"pageInfo":{{"hasNextPage":true,"hasPreviousPage":false,'
        f'"startCursor":"{first}","endCursor":"{last}"}}}}'
    )


def test_a_page_is_edges_and_what_lies_around_them() -> None:
    record = node_signature((_ID, "ff", "NODE_SIGNATURE_KIND_ASSET_NEW"))
    node = record_json(NODE_SIGNATURE, record)
    assert _page(NODE_SIGNATURE, Page([record], ["Yw=="], has_next=True)) == (
        f'{{"edges":[{{"node":{node},"cursor":"Yw=="}}],"pageInfo":'
        '{"hasNextPage":true,"hasPreviousPage":false,"startCursor":"Yw==","endCursor":"Yw=="}}'
    )
    assert json.loads(_page(ORDER, Page())) == {
        "edges": [],
        "pageInfo": {
            "hasNextPage": False,
            "hasPreviousPage": False,
            "startCursor": "",
            "endCursor": "",
        },
    }


@pytest.mark.parametrize(
    ("error", "status", "body"),
    [
        (
            MalformedParameterError('parsing field "first"'),
            400,
            '{"code":3,"message":"parsing field \\"first\\"","details":[]}',
        ),
        (
            InvalidArgumentError(Reason.INVALID_PAGINATION, "because"),
            400,
            '{"code":3,"message":"InvalidArgument error","details":[{"@type":'
            '"type.googleapis.com/vega.ErrorDetail","code":10028,"message":"invalid pagination",'
            '"inner":"because"}]}',
        ),
        (
            NotFoundError(Reason.WITHDRAWAL, "none"),
            404,
            '{"code":5,"message":"NotFound error","details":[{"@type":'
            '"type.googleapis.com/vega.ErrorDetail","code":150001,'
            '"message":"failed to get withdrawal","inner":"none"}]}',
        ),
        (
            FailedError(Reason.LAST_BLOCK),
            500,
            '{"code":13,"message":"Internal error","details":[{"@type":'
            '"type.googleapis.com/vega.ErrorDetail","code":360001,'
            '"message":"failed to get last block","inner":""}]}',
        ),
        (UnavailableError("later"), 503, '{"code":14,"message":"later","details":[]}'),
        (CancelledError(), 408, '{"code":1,"message":"context canceled","details":[]}'),
        (DeadlineError(), 504, '{"code":4,"message":"context deadline exceeded","details":[]}'),
    ],
    ids=lambda value: value.__class__.__name__ if isinstance(value, Exception) else None,
)
def test_an_error_is_a_status_with_a_detail(error: Any, status: int, body: str) -> None:
    assert (error.status, error_json(error)) == (status, body.encode())
