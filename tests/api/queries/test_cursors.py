"""Cursors and ids: the network's own texts, and nothing else (decisions 17 and 23)."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.queries.cursors import (
    BYTES,
    ID,
    MAX_MICROS,
    MIN_MICROS,
    NUMBER,
    TIME,
    CursorError,
    CursorFormat,
    IdError,
    Values,
    parse_id,
    parse_key,
    show_id,
    show_time,
    take_time,
)
from tests.cases import each_of
from transforms.tables.column_facts import NAMES

_WITHDRAWALS = CursorFormat(("vegaTime", TIME), ("id", ID), ("partyId", ID), extra=1)
_SIGNATURES = CursorFormat(("resource_id", ID), ("sig", BYTES))
_ORDERS = CursorFormat(
    ("createdAt", TIME), ("id", ID), ("vegaTime", TIME), ("version", NUMBER), extra=1
)


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@each_of(
    ("cursors", "values", "text"),
    [
        (
            _WITHDRAWALS,
            (1685581323456789, "53" * 32),
            '{"vegaTime":"2023-06-01T01:02:03.456789Z","id":"' + "53" * 32 + '"}',
        ),
        (
            _ORDERS,
            (1682935200500000, "a1" * 32, 1682935209000001),
            '{"createdAt":"2023-05-01T10:00:00.5Z","id":"' + "a1" * 32 + '",'
            '"vegaTime":"2023-05-01T10:00:09.000001Z"}',
        ),
        (
            _ORDERS,
            (0, "03", 0, 7),
            '{"createdAt":"1970-01-01T00:00:00Z","id":"network",'
            '"vegaTime":"1970-01-01T00:00:00Z","version":7}',
        ),
        (_SIGNATURES, ("cd" * 32, "0102ff"), '{"resource_id":"' + "cd" * 32 + '","sig":"AQL/"}'),
    ],
)
def test_a_cursor_is_the_text_that_the_network_writes(
    cursors: CursorFormat, values: Values, text: str
) -> None:
    assert cursors.encode(values) == _encoded(text)
    assert cursors.decode(_encoded(text)) == values


@given(
    st.integers(MIN_MICROS, MAX_MICROS),
    st.binary(max_size=33).map(bytes.hex),
    st.none() | st.binary(max_size=33).map(bytes.hex),
)
def test_what_was_encoded_is_decoded(time: int, id_: str, party: str | None) -> None:
    values = (time, id_) if party is None else (time, id_, party)
    assert _WITHDRAWALS.decode(_WITHDRAWALS.encode(values)) == values


def test_times_of_any_zone_are_taken() -> None:
    text = '{"vegaTime":"2023-05-31T21:02:03.4567891-04:00","id":"VOTE"}'
    assert _WITHDRAWALS.decode(_encoded(text)) == (1685581323456789, "00")


def test_an_object_without_keys_stands_nowhere() -> None:
    assert _WITHDRAWALS.decode(_encoded("{}")) == ()


@each_of(
    ("text", "why"),
    [
        ("zzz", "illegal base64 data at input byte 0"),
        ("YWJj*", "illegal base64 data at input byte 4"),
        ("YQ=", "illegal base64 data at input byte 0"),
        ("é", "illegal base64"),
        ("abcd", "parsing cursor"),
        (_encoded("[" * 50_000), "parsing cursor"),
        (_encoded("[]"), "not an object"),
        (_encoded('"x"'), "not an object"),
        (_encoded('{"vegaTime":"2023-01-01T00:00:00Z"}'), "keys"),
        (_encoded('{"vegaTime":"2023-01-01T00:00:00Z","signers":[]}'), "keys"),
        (_encoded('{"vegaTime":"2023-01-01T00:00:00Z","id":"03","version":1}'), "keys"),
        (_encoded('{"vegaTime":"x","id":"03"}'), "not a time"),
        (_encoded('{"vegaTime":"2023-13-01T00:00:00Z","id":"03"}'), "month"),
        (_encoded('{"vegaTime":1,"id":"03"}'), "not a time"),
        (_encoded('{"vegaTime":"2023-01-01T00:00:00Z","id":"zz"}'), "not a valid hex id"),
        (_encoded('{"vegaTime":"2023-01-01T00:00:00Z","id":3}'), "not an id"),
        (_encoded('{"vegaTime":"2023-01-01T00:00:00Z","id":"\\ud800"}'), "not a valid hex id"),
        (_encoded('{"vegaTime":"\\udfff","id":"03"}'), "not a time"),
        (_encoded('{"\\ud800":1}'), "keys"),
    ],
)
def test_any_other_text_is_refused(text: str, why: str) -> None:
    with pytest.raises(CursorError, match=why) as raised:
        _WITHDRAWALS.decode(text)
    assert str(raised.value).encode()


@each_of("version", ['"1"', "1.5", "true", "-1", str(2**63), "null"])
def test_a_number_in_a_cursor_is_a_whole_one(version: str) -> None:
    times = '"createdAt":"1970-01-01T00:00:00Z","vegaTime":"1970-01-01T00:00:00Z"'
    with pytest.raises(CursorError, match="not a number"):
        _ORDERS.decode(_encoded(f'{{{times},"id":"03","version":{version}}}'))


@given(st.text() | st.binary().map(lambda data: base64.b64encode(data).decode()))
def test_garbage_is_refused_and_never_breaks(text: str) -> None:
    try:
        assert _SIGNATURES.decode(text) == ()
    except CursorError:
        return
    assert json.loads(base64.b64decode(text)) == {}


@given(st.integers(MIN_MICROS, MAX_MICROS))
def test_a_time_is_shown_and_taken_back(micros: int) -> None:
    text = show_time(micros)
    assert take_time(text) == micros
    assert text.endswith("Z")
    assert not text.endswith("0Z") or "." not in text


@each_of(("text", "name"), NAMES.items())
def test_an_id_of_one_byte_has_a_name_both_ways(text: str, name: str) -> None:
    assert parse_id(name) == parse_id(text) == text
    assert show_id(text) == name


@each_of(("text", "hex_text"), [("AbCd", "abcd"), ("", ""), ("01", "01"), ("F" * 64, "f" * 64)])
def test_an_id_is_hex_of_any_case(text: str, hex_text: str) -> None:
    assert parse_id(text) == hex_text
    assert show_id(hex_text) == hex_text


@each_of("text", ["zz", "abc", "0x01", " 01", "Network", "01\n", "é"])
def test_what_is_no_hex_is_no_id(text: str) -> None:
    with pytest.raises(IdError, match="not a valid hex id"):
        parse_id(text)


@each_of("text", ["", "ab", "a" * 63, "a" * 65, "network", "g" * 64, "a" * 64 + "\n"])
def test_a_key_has_32_bytes(text: str) -> None:
    with pytest.raises(IdError):
        parse_key(text)
    assert parse_key("A" * 64) == "a" * 64
