"""One answer about oracle data from pages, from tables without pages, and from mixtures of both.

In one chain data repeats over volumes and ties in a block; in the other rows are written again
under the same key in other segments, so that volumes' times overlap, as no network writes them.
What is right is computed here from the rows themselves.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.core.open_snapshots import OpenSnapshots, Reading
from api.queries.oracle import prepare
from tests.api.answers_kit import load, page
from tests.segments_kit import block_time, build_segment, table_rows
from transforms.tables.registry import known_table, known_tables
from transforms.warehouse.warehouse_address import open_warehouse

_VERSION = 123
_SEGMENTS, _ROWS = 3, 400
_SPECS = ["a1" * 32, "a2" * 32, "a2" * 31 + "a3", "03"]
_SIGNERS = ['{"\\\\x0041"}', '{"\\\\x0041","\\\\x0142"}', "{}"]
_STATE = {
    table
    for table in known_tables(_VERSION)
    if (known := known_table(table, _VERSION)) and known.kind != "history"
}
_FORMS = ("loaded", "partly merged", "merged")


@dataclass(frozen=True)
class _Fact:
    """A row; `serial` is told by its answer."""

    block: int
    seq: int
    signers: str
    data: str
    specs: tuple[str, ...]
    serial: int

    @property
    def place(self) -> tuple[int, str, int]:
        return self.block, self.signers.replace("}", ""), self.seq


@dataclass(frozen=True)
class _Chain:
    """A chain in several forms, and the rows of its segments, whose times may overlap."""

    facts: tuple[_Fact, ...]
    readings: Mapping[str, Reading]

    def __repr__(self) -> str:
        return "a chain"

    def serials(self, spec: str) -> list[int]:
        """The rows of a spec, or the latest of all, ascending."""
        matches = (fact for fact in self.facts if not spec or spec in fact.specs)
        newest = {(fact.block, fact.seq): fact for fact in matches}
        facts = [fact for _, fact in sorted(newest.items(), key=lambda item: item[0])]
        if not spec:
            facts = [*{(fact.specs, fact.data): fact for fact in facts}.values()]
        return [fact.serial for fact in sorted(facts, key=lambda fact: fact.place)]


def _facts(chance: random.Random, segment: int) -> Iterator[_Fact]:
    keys = set[tuple[int, int]]()
    for number in range(_ROWS):
        block, seq = segment * 100 + chance.randrange(1, 40), chance.randrange(20)
        if (block, seq) in keys:
            continue
        keys.add((block, seq))
        data = json.dumps([{"Name": "ü", "Value": str(chance.randrange(30))}])
        specs = tuple(sorted(chance.sample(_SPECS, chance.choice([0, 1, 1, 2]))))
        serial = segment * _ROWS + number
        yield _Fact(block, seq, chance.choice(_SIGNERS), data, specs, serial)


def _segment(folder: Path, segment: int, facts: list[_Fact]) -> None:
    data = [
        {
            "vega_time": block_time(fact.block),
            "seq_num": str(fact.seq),
            "signers": fact.signers,
            "data": fact.data,
            "broadcast_at": block_time(1, fact.serial),
        }
        for fact in facts
    ]
    specs = [
        {
            "vega_time": block_time(fact.block),
            "seq_num": str(fact.seq),
            "spec_id": f"\\x{spec}",
        }
        for fact in facts
        for spec in fact.specs
    ]
    tables = {
        "oracle_data": table_rows("oracle_data", *data, version=_VERSION),
        "oracle_data_oracle_specs": table_rows(
            "oracle_data_oracle_specs", *specs, version=_VERSION
        ),
    }
    first = segment * 100 + 1
    build_segment(
        folder, version=_VERSION, first=first, last=first + 99, tables=tables, omit=_STATE
    )


def _made(folder: Path, kept: ExitStack) -> _Chain:
    chance = random.Random(7)
    facts: list[_Fact] = []
    for segment in range(_SEGMENTS):
        facts += (fresh := [*_facts(chance, segment)])
        _segment(folder / f"source{segment}", segment, fresh)
        load(folder / f"source{segment}", folder / "loaded")
        if segment == 1:
            shutil.copytree(folder / "loaded", folder / "partly merged", symlinks=True)
    shutil.copytree(folder / "loaded", folder / "merged", symlinks=True)
    open_warehouse(folder / "merged").compact(most_partial=1)
    open_warehouse(folder / "partly merged").compact(most_partial=1)
    load(folder / f"source{_SEGMENTS - 1}", folder / "partly merged")
    readings = {}
    for form in _FORMS:
        snapshots = kept.enter_context(OpenSnapshots.open(open_warehouse(folder / form)))
        readings[form] = kept.enter_context(snapshots.reading())
    return _Chain(tuple(facts), readings)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Chain]:
    with ExitStack() as kept:
        yield _made(tmp_path_factory.mktemp("oracle"), kept)


def test_the_forms_are_what_they_are_called(chain: _Chain) -> None:
    assert {
        form: len(reading.snapshot.history("oracle_data"))
        for form, reading in chain.readings.items()
    } == {
        "loaded": 3,
        "partly merged": 2,
        "merged": 1,
    }


def _path(wanted: Mapping[str, str | int | None]) -> str:
    given = (f"{name}={quote(str(value))}" for name, value in wanted.items() if value is not None)
    return f"/api/v2/oracle/data?{'&'.join(given)}"


@given(
    spec=st.sampled_from(["", *_SPECS, "a9"]),
    at=st.none() | st.integers(0, 1200),
    size=st.sampled_from([1, 2, 20, 63, 64, 65, 200, 5000]),
    end=st.sampled_from(["first", "last"]),
    newest=st.sampled_from(["true", "false"]),
)
@settings(max_examples=60, deadline=None)
def test_a_page_is_the_same_from_every_form(
    chain: _Chain, spec: str, at: int | None, size: int, end: str, newest: str
) -> None:
    shown = chain.serials(spec)[:: -1 if newest == "true" else 1]
    about = {"oracleSpecId": spec or None, "pagination.newestFirst": newest}
    cursor = None
    begin, stop = (0, size) if end == "first" else (max(0, len(shown) - size), len(shown))
    if at is not None and shown:
        at %= len(shown)
        edges, _ = page(chain.readings["merged"], _path({**about, "pagination.first": 5000}))
        cursor = edges[at]["cursor"]
        begin, stop = (at + 1, at + 1 + size) if end == "first" else (max(0, at - size), at)
    side = "after" if end == "first" else "before"
    path = _path({**about, f"pagination.{end}": size, f"pagination.{side}": cursor})
    answers = {form: page(reading, path) for form, reading in chain.readings.items()}
    edges, _ = answers["merged"]
    told = [edge["node"]["externalData"]["data"]["broadcastAt"] for edge in edges]
    assert [int(nanos) % 10**9 // 1000 for nanos in told] == shown[begin:stop]
    assert all(answer == answers["merged"] for answer in answers.values())


def _never(_snapshot: object) -> object:
    raise AssertionError("it was not found before")


def test_what_a_snapshot_needs_is_found_before_it_is_asked_for(chain: _Chain) -> None:
    reading = chain.readings["loaded"]
    prepare(reading)
    assert reading.snapshot.once(("spans", "oracle_data"), _never)
    assert reading.snapshot.once("oracle_data written again", _never)
