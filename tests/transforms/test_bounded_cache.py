"""What is kept in memory because it may be asked for again, and what goes."""

from __future__ import annotations

from transforms.bounded_cache import BoundedCache


def test_what_nobody_asked_for_longest_goes_first() -> None:
    cache = BoundedCache[str](100)
    for key in "abc":
        cache.put(key, key.upper(), 30)
    assert cache.get("a") == "A"
    cache.put("d", "D", 30)
    assert [cache.get(key) for key in "abcd"] == ["A", None, "C", "D"]


def test_a_value_takes_the_place_and_the_room_of_the_earlier_one() -> None:
    cache = BoundedCache[str](100)
    cache.put("a", "old", 90)
    cache.put("a", "new", 50)
    cache.put("b", "B", 50)
    assert [cache.get(key) for key in "ab"] == ["new", "B"]


def test_what_is_larger_than_the_bound_is_not_kept() -> None:
    cache = BoundedCache[str](100)
    cache.put("small", "S", 10)
    cache.put("large", "L", 101)
    assert [cache.get(key) for key in ("small", "large")] == [None, None]
    cache.put("small", "S", 100)
    assert cache.get("small") == "S"
