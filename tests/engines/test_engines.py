"""Engines that are not ours read the lake in a bucket: they answer as DuckDB of the warehouse."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.engines.answering import REFUSED
from tests.engines.asking import Answered, Warehouse, ask
from tests.engines.history import BLOCKS, CHAIN, TABLES, VERSIONS, write_segments
from tests.engines.questions import LIMITS, MANIFESTS, PAGE, QUESTIONS
from tests.segments_kit import entry_bytes, tokens
from tests.weed_kit import shared_server
from transforms.tables.registry import TableSchema, known_table, known_tables

pytestmark = pytest.mark.engines

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "lake.md"
Rows = list[list[str | None]]
_ENGINES = {
    "Polars": ["polars"],
    "Daft": ["daft"],
    "Spark": ["spark"],
    "pyarrow": ["pyarrow"],
    "delta-rs": ["delta_rs"],
    "DuckDB": ["duckdb", "duckdb_arrow", "duckdb_delta"],
}
"""The columns of the manual's table of limits: each engine, and the ways that it is asked in."""
_EXACT: dict[str, Rows] = {
    "a long number in a filter": [["2347"]],
    "a product of decimals": [["15565025877.2489249293219392"]],
}
_INEXACT: dict[str, Rows] = {
    "float": [["1190"]],
    "refused": REFUSED,
    "rounded": [["15565025877.248924"]],
    "UTC": [["4006"]],
    "wrong": [["-40282366920938463463374607431768211459"]],
}
"""The words of that table: what an engine answers then."""


@dataclass(frozen=True)
class Published:
    """A history that is published: its segments, its warehouse, and where its lake lies."""

    segments: Sequence[Path]
    warehouse: Warehouse
    lake: str


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    """Loaded and published twice, so that the tables have several files and a later schema."""
    home = tmp_path_factory.mktemp("history")
    made = write_segments(home / "made")
    with shared_server() as server:
        archive = f"s3://{server.bucket()}/exports"
        places = {
            "STRATA_SOURCE": str(home / "source"),
            "STRATA_WAREHOUSE": str(home / "warehouse"),
            "STRATA_ARCHIVE": archive,
        }
        (home / "source").mkdir()
        for batch in (made[:2], made[2:]):
            for segment in batch:
                segment.rename(home / "source" / segment.name)
            for command in ("load", "publish"):
                _strata(command, places)
        segments = [home / "source" / segment.name for segment in made]
        yield Published(segments, Warehouse(home / "warehouse"), f"{archive}/{CHAIN}/lake")


def _strata(command: str, places: dict[str, str]) -> None:
    program = Path(sys.executable).with_name("strata")
    done = subprocess.run(
        [program, command],
        env={**os.environ, **places},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module", params=sorted(itertools.chain(*_ENGINES.values())))
def answered(
    request: pytest.FixtureRequest, published: Published, tmp_path_factory: pytest.TempPathFactory
) -> Answered:
    """What one engine answers, all in one process."""
    engine = str(request.param)
    own = ("_segment", "_row", "_raw")
    tables: dict[str, list[str]] = {table: [*_schema(table).names, *own] for table in TABLES}
    tables["manifests"] = []
    folder = tmp_path_factory.mktemp(engine)
    return ask(engine, published.lake, tables, _lines(engine), folder)


def _schema(table: str, version: int = VERSIONS[-1]) -> TableSchema:
    known = known_table(table, version)
    assert known is not None
    return known.schema


def _lines(engine: str) -> str:
    """The lines of the manual for an engine: a block of Python that it marks with its name, after
    the one that is for all.
    """
    page = _PAGE.read_text()
    block = re.compile(r"^```python\n# (\w+)\n(.*?)^```$", re.M | re.S)
    lines: dict[str, str] = dict(block.findall(page))
    return lines["all"] + lines[engine]


def test_every_question_has_the_answer_of_the_warehouse(
    answered: Answered, published: Published
) -> None:
    asked = QUESTIONS.keys() - {MANIFESTS}
    expected = {name: published.warehouse.question(name) for name in asked}
    assert all(expected.values()), "a question without rows shows nothing"
    assert {name: answered.questions[name] for name in asked} == expected


def test_the_receipts_are_those_of_the_segments(answered: Answered, published: Published) -> None:
    expected: list[list[Any]] = []
    for table in sorted({*itertools.chain(*map(known_tables, VERSIONS))}):
        for number, segment in enumerate(published.segments):
            version = VERSIONS[number]
            known = known_table(table, version)
            if known is None or known.kind != "history":
                continue
            data = entry_bytes(segment, table)
            blocks = (number * BLOCKS + 1, (number + 1) * BLOCKS)
            rows = sum(1 for _ in tokens(data)) - 1
            columns = [[column.name, column.type] for column in _schema(table, version).columns]
            sha256 = hashlib.sha256(data).hexdigest()
            receipt = [table, json.dumps(columns), rows, len(data), sha256]
            expected.append([*map(str, (*blocks, version)), receipt])
    receipts = [
        [*row, receipt[:-1]]
        for *row, texts in answered.questions[MANIFESTS]
        for receipt in json.loads(texts or "")
    ]
    assert sorted(receipts, key=lambda row: (row[-1][0], int(row[0]))) == expected


@pytest.mark.parametrize("table", TABLES)
def test_every_cell_of_a_table_is_that_of_the_warehouse(
    answered: Answered, published: Published, table: str
) -> None:
    expected = published.warehouse.table(table, _schema(table).columns)
    assert answered.tables[table] == expected


def test_the_lines_of_the_manual_give_the_sizes_by_market(
    answered: Answered, published: Published
) -> None:
    assert answered.page == published.warehouse.question(PAGE)


def test_what_an_engine_cannot_is_what_the_manual_says(
    answered: Answered, request: pytest.FixtureRequest
) -> None:
    engine = request.node.callspec.params["answered"]
    assert answered.limits == _limits(engine)


def _limits(engine: str) -> dict[str, Rows]:
    """What the manual's table says that an engine makes of each of `LIMITS`."""
    (header,) = re.findall(r"^\| \| (.*Polars.*) \|$", _PAGE.read_text(), re.M)
    (column,) = (n for n, title in enumerate(header.split(" | ")) if engine in _ENGINES[title])
    said = {}
    for limit in LIMITS:
        (line,) = re.findall(rf"^\| {limit}\b.*? \| (.*) \|$", _PAGE.read_text(), re.M)
        word = line.split(" | ")[column]
        said[limit] = _EXACT[limit] if word == "exact" else _INEXACT[word]
    return said
