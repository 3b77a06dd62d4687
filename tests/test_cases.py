"""One test over a table of cases runs them all, and names those that differ."""

from __future__ import annotations

import pytest

from tests.cases import each_of


def test_every_case_runs_and_those_that_differ_are_named() -> None:
    seen = []

    @each_of("number", range(3))
    @each_of(("text", "length"), [("a", 1), ("bcd", 2)])
    def tested(number: int, text: str, length: int) -> None:
        seen.append((number, text))
        assert len(text) == length
        with pytest.raises(ZeroDivisionError):
            assert 1 / number

    with pytest.raises(BaseExceptionGroup, match="3 of 3 cases") as raised:
        tested()

    assert seen == [(number, text) for number in range(3) for text in ("a", "bcd")]
    assert [one.__notes__ for one in raised.value.exceptions] == [
        [f"the case is {{'number': {number}}}"] for number in range(3)
    ]
    assert "the case is {'length': 2, 'text': 'bcd'}" in _notes(raised.value)
    assert any("DID NOT RAISE" in str(leaf) for leaf in _leaves(raised.value))


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]


def _notes(error: BaseException) -> list[str]:
    return [note for leaf in _leaves(error) for note in leaf.__notes__]


def test_fixtures_are_given_to_each_case(tmp_path_factory: pytest.TempPathFactory) -> None:
    @each_of("name", ["a", "b"])
    def tested(name: str, factory: pytest.TempPathFactory) -> None:
        assert factory is tmp_path_factory

    tested(factory=tmp_path_factory)
