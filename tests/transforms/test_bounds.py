"""Ends of ranges as people write them."""

from __future__ import annotations

import pytest

from tests.cases import each_of
from transforms.bounds import lower_bound, rfc3339, upper_bound
from transforms.errors import RangeError

_DAY = 24 * 3600 * 10**6
_JUNE = 1685577600 * 10**6  # 2023-06-01T00:00:00Z


@each_of(
    ("text", "lower", "upper"),
    [
        ("2023-06-01", _JUNE, _JUNE + _DAY - 1),
        ("2023-06-01T00:00:00Z", _JUNE, _JUNE),
        ("2023-06-01 00:00", _JUNE, _JUNE),
        ("2023-06-01T02:00:00.000001+02:00", _JUNE + 1, _JUNE + 1),
        ("1970-01-01", 0, _DAY - 1),
    ],
)
def test_a_time_is_utc_and_a_date_is_a_whole_day(text: str, lower: int, upper: int) -> None:
    assert (lower_bound(text).micros, upper_bound(text).micros) == (lower, upper)
    assert (lower_bound(text).block, upper_bound(text).block) == (None, None)


@pytest.mark.parametrize("text", ["0", "5000", " 20230601 "])
def test_digits_alone_are_a_height(text: str) -> None:
    for bound in (lower_bound(text), upper_bound(text)):
        assert (bound.block, bound.micros) == (int(text), None)


@each_of("text", ["", "-5", "now", "2023-6-1", "2023-02-30", "٣", "1-2", "12:30"])
def test_anything_else_is_refused_in_words(text: str) -> None:
    with pytest.raises(RangeError, match="give a height like 5000"):
        lower_bound(text)


def test_a_time_is_written_as_it_is_read() -> None:
    assert rfc3339(_JUNE + 1325067) == "2023-06-01T00:00:01.325067Z"
    assert lower_bound(rfc3339(_JUNE + 1)).micros == _JUNE + 1
