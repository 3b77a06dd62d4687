from __future__ import annotations

from api.core.recent import Recent


def test_a_value_is_made_once_while_it_is_asked_for() -> None:
    made: list[str] = []
    recent = Recent[str](2)

    def value(key: str) -> str:
        def make() -> str:
            made.append(key)
            return key.upper()

        return recent.get(key, make)

    assert [value(key) for key in "aba"] == ["A", "B", "A"]
    assert made == ["a", "b"]
    assert [value(key) for key in "caab"] == ["C", "A", "A", "B"]
    assert made == ["a", "b", "c", "b"]
