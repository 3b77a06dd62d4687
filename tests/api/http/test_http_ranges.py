from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from api.http.file_answers import Selection, select
from tests.cases import each_of

_SIZE = 1000
_TAG = '"abc"'
_WHOLE = Selection(200, 0, _SIZE)


@each_of(
    ("headers", "expected"),
    [
        ({}, _WHOLE),
        ({"range": "bytes=0-"}, Selection(206, 0, 1000)),
        ({"range": "bytes=0-0"}, Selection(206, 0, 1)),
        ({"range": "bytes=999-"}, Selection(206, 999, 1000)),
        ({"range": "bytes=10-5000"}, Selection(206, 10, 1000)),
        ({"range": "bytes=-5"}, Selection(206, 995, 1000)),
        ({"range": "bytes=-5000"}, Selection(206, 0, 1000)),
        ({"range": "Bytes = 1 - 2 "}, Selection(206, 1, 3)),
        ({"range": "bytes=1000-"}, Selection(416)),
        ({"range": "bytes=-0"}, Selection(416)),
        ({"range": "bytes=5-4"}, _WHOLE),
        ({"range": "bytes=-"}, _WHOLE),
        ({"range": "bytes=a-b"}, _WHOLE),
        ({"range": "lines=1-2"}, _WHOLE),
        ({"range": "bytes=0-1,5-6"}, _WHOLE),
        ({"range": "bytes=" + "9" * 5000 + "-"}, _WHOLE),
        ({"range": "bytes=5-9", "if-range": _TAG}, Selection(206, 5, 10)),
        ({"range": "bytes=5-9", "if-range": '"other"'}, _WHOLE),
        ({"range": "bytes=5-9", "if-range": f"W/{_TAG}"}, _WHOLE),
        ({"range": "bytes=5-9", "if-range": "Wed, 21 Oct 2015 07:28:00 GMT"}, _WHOLE),
        ({"if-none-match": _TAG}, Selection(304)),
        ({"if-none-match": f"W/{_TAG}"}, Selection(304)),
        ({"if-none-match": f'"x", {_TAG}'}, Selection(304)),
        ({"if-none-match": "*"}, Selection(304)),
        ({"if-none-match": '"x"'}, _WHOLE),
        ({"if-none-match": _TAG, "range": "bytes=0-1"}, Selection(304)),
        ({"if-match": _TAG}, _WHOLE),
        ({"if-match": "*"}, _WHOLE),
        ({"if-match": '"x"'}, Selection(412)),
        ({"if-match": f"W/{_TAG}"}, Selection(412)),
        ({"if-match": '"x"', "if-none-match": _TAG}, Selection(412)),
    ],
)
def test_conditions_and_ranges_select_as_rfc_9110_says(
    headers: dict[str, str], expected: Selection
) -> None:
    assert select("GET", Headers(headers), _SIZE, _TAG) == expected


def test_a_range_means_nothing_to_head() -> None:
    assert select("HEAD", Headers({"range": "bytes=5-9"}), _SIZE, _TAG) == _WHOLE


def test_an_empty_file_has_no_ranges() -> None:
    assert select("GET", Headers({"range": "bytes=0-"}), 0, _TAG) == Selection(416)
    assert select("GET", Headers({}), 0, _TAG) == Selection(200, 0, 0)


@given(st.text("bytes=0123456789-, ", max_size=20), st.integers(0, 50))
def test_whatever_is_asked_the_selection_lies_inside_the_file(text: str, size: int) -> None:
    selection = select("GET", Headers({"range": text}), size, _TAG)
    assert selection.status in (200, 206, 416)
    assert 0 <= selection.start <= selection.stop <= size
    if selection.status == 206:
        assert selection.start < selection.stop
