from __future__ import annotations

from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.core.api_errors import MalformedParameterError
from api.http.parameters import parse_query
from tests.cases import each_of


@each_of(
    ("query", "pairs"),
    [
        (b"", []),
        (b"&&", []),
        (b"a=1&b=2&a=3", [("a", "1"), ("b", "2"), ("a", "3")]),
        (b"a", [("a", "")]),
        (b"=x", [("", "x")]),
        (b"a=b=c", [("a", "b=c")]),
        (b"a+b=c+d", [("a b", "c d")]),
        (b"a%2Eb=%2b%3D", [("a.b", "+=")]),
        (b"a=%c3%a9", [("a", "é")]),
        (b"a=%ff", [("a", "�")]),
    ],
)
def test_a_query_is_read_as_the_gateway_reads_it(
    query: bytes, pairs: list[tuple[str, str]]
) -> None:
    assert parse_query(query) == pairs


@each_of(
    ("query", "message"),
    [
        (b"a=%zz", 'invalid URL escape "%zz"'),
        (b"a=%", 'invalid URL escape "%"'),
        (b"a=%1", 'invalid URL escape "%1"'),
        (b"%g=1", 'invalid URL escape "%g"'),
        (b"a=1;b=2", "invalid semicolon separator in query"),
    ],
)
def test_what_cannot_be_read_is_named(query: bytes, message: str) -> None:
    with pytest.raises(MalformedParameterError) as caught:
        parse_query(query)
    assert caught.value.message == message


@given(st.lists(st.tuples(st.text(), st.text())))
def test_every_query_that_is_written_is_read_back(pairs: list[tuple[str, str]]) -> None:
    encodable = [
        (name.encode("utf-8", "replace").decode(), value.encode("utf-8", "replace").decode())
        for name, value in pairs
    ]
    assert parse_query(urlencode(encodable).encode()) == encodable
