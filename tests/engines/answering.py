"""How an engine's process answers: values become texts, so that answers compare exactly.

It runs in the engines' own environment: it must import nothing of the product.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Protocol

from tests.engines.questions import LIMITS, QUESTIONS

Rows = Iterable[Sequence[object]]
Answer = Callable[[], Rows]


class Engine(Protocol):
    """An engine with every table of the lake at hand."""

    @property
    def own(self) -> Mapping[str, Answer]:
        """Questions that it answers otherwise than by SQL, if it must."""

    @property
    def names(self) -> Mapping[str, object]:
        """What the manual's lines take as given, beside `lake`."""

    def sql(self, query: str) -> Rows:
        """The rows of a query."""

    def rows(self, table: str, columns: Sequence[str]) -> Rows:
        """Some columns of a whole table, in order of `_segment` and `_row`."""


def text(value: object) -> str | None:
    """A value as text: equal values of any engine have the same one."""
    match value:
        case None | str():
            return value
        case bool():
            return str(value).lower()
        case Decimal():
            return (
                format(value, "f").rstrip("0").rstrip(".") if "." in f"{value:f}" else f"{value:f}"
            )
        case datetime():
            return (
                (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
            )
        case Mapping():
            return text(list(value.items()))
        case list() if value and isinstance(value[0], dict):
            return json.dumps([list(entry.values()) for entry in value])
        case list():  # a map's entries, which have no order
            return json.dumps(sorted(value))
    return str(value)


def texts(rows: Rows) -> list[list[str | None]]:
    """Rows as texts."""
    return [[text(value) for value in row] for row in rows]


REFUSED: list[list[str | None]] = [["refused"]]
"""The answer where an engine has none."""


def answer_all(opened: Callable[[str, Mapping[str, Sequence[str]]], Engine]) -> None:
    """Open the lake that the first argument describes, a JSON file, and write to the second what
    was asked: every question, every limit, every table that it names columns of, and what
    the manual's lines give.
    """
    request = json.loads(Path(sys.argv[1]).read_text())
    engine = opened(request["lake"], request["tables"])
    answers = {
        "questions": {name: texts(_answer(engine, name, QUESTIONS[name])) for name in QUESTIONS},
        "limits": {name: _tried(engine, name, LIMITS[name]) for name in LIMITS},
        "tables": {
            table: texts(engine.rows(table, columns))
            for table, columns in request["tables"].items()
            if columns
        },
        "page": texts(_run(request["page"], {**engine.names, "lake": request["lake"]})),
    }
    Path(sys.argv[2]).write_text(json.dumps(answers))


def _answer(engine: Engine, name: str, query: str) -> Rows:
    return engine.own[name]() if name in engine.own else engine.sql(query)


def _tried(engine: Engine, name: str, query: str) -> list[list[str | None]]:
    try:
        return texts(_answer(engine, name, query))
    except Exception as error:  # noqa: BLE001 - each engine has errors of its own
        print(f"{name}: {error}")
        return REFUSED


def _run(lines: str, names: dict[str, object]) -> Rows:
    """What lines of Python leave in `answer`, as rows."""
    exec(lines, names)
    return rows_of(names["answer"])


def rows_of(answer: object) -> Rows:
    """The rows of what an engine gives, whatever that is."""
    if isinstance(answer, list):
        return [list(row.values()) if isinstance(row, dict) else row for row in answer]
    return rows_of(answer.to_pylist())  # type: ignore[attr-defined]
