"""Engines in processes of their own: what they answer, and what DuckDB says of the warehouse."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.engines.answering import texts
from tests.engines.questions import QUESTIONS
from transforms.tables.registry import Column

_ROOT = Path(__file__).resolve().parents[2]
_PYTHON = _ROOT / ".venv" / "engines" / "bin" / "python"
_EXTENSIONS = _ROOT / ".venv" / "duckdb-extensions"
_SECONDS = 900
_READABLE = (
    "between timestamptz '0001-01-01 00:00:00+00' and timestamptz '9999-12-31 23:59:59.999+00'"
)
_OWN = ("_segment", "_row", "_raw")

Answers = dict[str, list[list[str | None]]]


@dataclass(frozen=True)
class Answered:
    """Rows of texts: of every question, limit and table, and of the manual's lines."""

    questions: Answers
    limits: Answers
    tables: Answers
    page: list[list[str | None]]


def ask(
    engine: str, lake: str, tables: Mapping[str, Sequence[str]], page: str, folder: Path
) -> Answered:
    """What an engine answers; `page` has the lines of the manual."""
    if not _PYTHON.exists():
        pytest.fail(f"{_PYTHON} is not there: run `make engines`")
    if engine == "spark" and not shutil.which("java"):
        pytest.fail("Spark wants Java 17: apt-get install openjdk-17-jre-headless")
    asked, said = folder / "request.json", folder / "answers.json"
    asked.write_text(json.dumps({"lake": lake, "tables": tables, "page": page}))
    environment = {
        **os.environ,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": os.environ["AWS_DEFAULT_REGION"],
        "PYSPARK_PYTHON": str(_PYTHON),
        "RAY_USAGE_STATS_ENABLED": "0",
        "TZ": "UTC",
    }
    if engine == "duckdb_delta":
        environment["PYTHONPATH"] = str(_EXTENSIONS)
    command = [str(_PYTHON), "-m", f"tests.engines.ask_{engine}", str(asked), str(said)]
    status = _run(command, environment, folder / "log")
    logged = (folder / "log").read_text(errors="replace")
    assert status == 0, f"{engine} failed: {logged[-4000:]}"
    return Answered(**json.loads(said.read_text()))


def _run(command: Sequence[str], environment: Mapping[str, str], log: Path) -> int:
    """Run a command; whatever it started ends with it."""
    with log.open("wb") as written:
        process = subprocess.Popen(
            command,
            cwd=_ROOT,
            env=environment,
            stdout=written,
            stderr=written,
            start_new_session=True,
        )
        try:
            return process.wait(_SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


class Warehouse:
    """What DuckDB says of the warehouse."""

    def __init__(self, folder: Path) -> None:
        self._connection = duckdb.connect(folder / "current.duckdb", read_only=True)
        self._connection.execute("set timezone = 'UTC'")
        time = f"case when expires_at {_READABLE} then expires_at end as expires_at"
        self._connection.execute(
            f"create temp view orders as select * replace ({time}) from current.main.orders"
        )

    def question(self, name: str) -> list[list[str | None]]:
        """The answer to a question; times that engines cannot read are NULL."""
        return texts(self._fetched(QUESTIONS[name]))

    def table(self, name: str, columns: Sequence[Column]) -> list[list[str | None]]:
        """A whole table as the lake has it: times that engines cannot read are texts in `_raw`."""
        times = [column.name for column in columns if column.type.startswith("timestamp")]
        values = [_value(name, column) for column in columns]
        odd = [
            f'case when not (t."{time}" {_READABLE}) then t."{time}"::text end' for time in times
        ]
        rows = self._fetched(
            f"select {', '.join([*values, 't._segment', 't._row', 't._raw', *odd])} "
            f"from current.main.{name} t join current.exact.{name} e using (_segment, _row) "
            "order by _segment, _row"
        )
        width = len(columns) + len(_OWN) - 1
        return texts((*row[:width], _with(row[width], times, row[width + 1 :])) for row in rows)

    def _fetched(self, query: str) -> list[Any]:
        return self._connection.execute(query).fetchall()


def _value(table: str, column: Column) -> str:
    name = f'"{column.name}"'
    if column.type.startswith("timestamp"):
        return f"case when t.{name} {_READABLE} then t.{name} end"
    is_text = column.type == "numeric" and table != "withdrawals"
    return f"e.{name}" if is_text else f"t.{name}"


def _with(
    raw: Mapping[str, str] | None, times: Sequence[str], odd: Sequence[str | None]
) -> dict[str, str] | None:
    """A row's `_raw` map together with the texts of its times."""
    both = {**(raw or {}), **{time: text for time, text in zip(times, odd, strict=True) if text}}
    return both or None
