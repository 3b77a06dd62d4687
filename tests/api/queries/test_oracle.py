"""Oracle data: the same answers from every schema version (spec 4.2; decision 21)."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import pytest

from api.core.open_snapshots import OpenSnapshots, Reading
from tests.api.answers_kit import Json, ask, load, page, reading_of
from tests.segments_kit import Table, block_time, build_segment, table_rows
from transforms.tables.registry import known_table, known_tables
from transforms.warehouse.warehouse_address import open_warehouse

_PATH = "/api/v2/oracle/data"
_DATA = "oracle_data"
_ONE, _TWO = "f1" * 32, "f2" * 32
_KEY = "0042324232"

Fact = tuple[int, int, Sequence[str], str, Sequence[str]]
"""Block, sequence number, signers, name of the data, specs that matched."""

_BEFORE: Sequence[Fact] = (
    (1, 0, [_KEY], "a", [_ONE]),
    (2, 0, [_KEY], "a", [_ONE]),  # the same again: only this one is the latest
    (2, 1, [_KEY, "0141"], "b", [_ONE, _TWO]),
)
_AFTER: Sequence[Fact] = (
    (11, 0, [_KEY], "c", [_ONE]),
    (11, 1, [_KEY], "d", [_TWO]),  # ties with the one before, but for the sequence number
    (12, 0, [], "e", []),
)


def _array(elements: Sequence[str]) -> str:
    return "{" + ",".join(f'"\\\\x{element}"' for element in elements) + "}"


def _tables(version: int, facts: Sequence[Fact]) -> dict[str, Table]:
    """The facts as the tables of a schema version hold them."""
    known = known_table("oracle_data", version)
    assert known is not None
    named = "matched_spec_ids" in known.schema.names
    rows = [
        {
            "signers": _array(signers),
            "data": json.dumps([{"Name": name, "Value": "1"}]),
            "broadcast_at": block_time(block),
            "vega_time": block_time(block),
            "seq_num": str(seq),
            **({"matched_spec_ids": _array(specs)} if named else {}),
        }
        for block, seq, signers, name, specs in facts
    ]
    tables: dict[str, Table] = {"oracle_data": table_rows("oracle_data", *rows, version=version)}
    if not named:
        matches = [
            {"vega_time": block_time(block), "seq_num": str(seq), "spec_id": f"\\x{spec}"}
            for block, seq, _, _, specs in facts
            for spec in specs
        ]
        tables["oracle_data_oracle_specs"] = table_rows(
            "oracle_data_oracle_specs", *matches, version=version
        )
    return tables


def _segment(folder: Path, version: int, first: int, facts: Sequence[Fact]) -> None:
    tables = _tables(version, facts)
    state = {
        table
        for table in known_tables(version)
        if (known := known_table(table, version)) and known.kind != "history"
    }
    omit = state - tables.keys()
    build_segment(folder, version=version, first=first, last=first + 9, tables=tables, omit=omit)


# Version of each of two segments; whether they are loaded together, into one volume.
_CHAINS = {
    "version 1": (1, 1, True),
    "version 25": (21, 25, True),
    "join table": (25, 37, True),
    "history after a join table": (37, 42, False),
    "history after named specs, in one volume": (36, 123, True),
    "history from the beginning": (42, 42, True),
}


@pytest.fixture(scope="module", params=_CHAINS.values(), ids=[*_CHAINS])
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain, loaded."""
    earlier, later, together = request.param
    root = tmp_path_factory.mktemp("oracle")
    _segment(root / "source", earlier, 1, _BEFORE)
    if not together:
        load(root / "source", root / "warehouse")
    known = known_table("oracle_data", later)
    whole = known is not None and known.kind != "history"
    _segment(root / "source", later, 11, [*(_BEFORE if whole else ()), *_AFTER])
    load(root / "source", root / "warehouse")
    return root / "warehouse"


@pytest.fixture(scope="module", params=["loaded", "merged"])
def reading(root: Path, request: pytest.FixtureRequest) -> Iterator[Reading]:
    """The chain in a form, open to be asked: answers are the same."""
    form: str = request.param
    place = root.with_name(form)
    shutil.copytree(root, place, symlinks=True)
    if form == "merged":
        open_warehouse(place).compact(most_partial=1)
    with OpenSnapshots.open(open_warehouse(place)) as snapshots, snapshots.reading() as opened:
        yield opened


def _shown(edges: list[Json]) -> list[tuple[str, int, list[str]]]:
    """Name, block and specs of each."""
    read = [edge["node"]["externalData"]["data"] for edge in edges]
    genesis = 1672531200 * 10**9
    return [
        (
            data["data"][0]["name"],
            (int(data["broadcastAt"]) - genesis) // 10**9,
            [spec[:2] for spec in data["matchedSpecIds"]],
        )
        for data in read
    ]


_LATEST = [
    ("e", 12, []),
    ("d", 11, ["f2"]),
    ("c", 11, ["f1"]),
    ("b", 2, ["f1", "f2"]),
    ("a", 2, ["f1"]),
]


def test_without_a_spec_the_latest_of_each_specs_and_data_is_listed(reading: Reading) -> None:
    assert _shown(page(reading, _PATH)[0]) == _LATEST
    assert _shown(page(reading, f"{_PATH}?pagination.newestFirst=false")[0]) == _LATEST[::-1]
    assert page(reading, f"{_PATH}?oracleSpecId=") == page(reading, _PATH)


def test_with_a_spec_all_that_matched_it_is_listed(reading: Reading) -> None:
    edges, _ = page(reading, f"{_PATH}?oracleSpecId={_ONE.upper()}")
    assert _shown(edges) == [*_LATEST[2:], ("a", 1, ["f1"])]
    edges, _ = page(reading, f"{_PATH}?oracleSpecId={_TWO}")
    assert [name for name, _, _ in _shown(edges)] == ["d", "b"]
    assert page(reading, f"{_PATH}?oracleSpecId=f1")[0] == []


def test_walking_visits_every_row_once(reading: Reading) -> None:
    for newest in ("true", "false"):
        seen: list[tuple[str, int, list[str]]] = []
        at = ""
        while True:
            query = f"pagination.last=1&pagination.newestFirst={newest}{at}"
            edges, info = page(reading, f"{_PATH}?oracleSpecId={_ONE}&{query}")
            seen = _shown(edges) + seen
            if not info["hasPreviousPage"]:
                break
            at = f"&pagination.before={quote(info['startCursor'])}"
        shown = [*_LATEST[2:], ("a", 1, ["f1"])]
        assert seen == (shown if newest == "true" else shown[::-1])


def test_only_tied_rows_have_their_number_in_the_cursor(reading: Reading) -> None:
    edges, _ = page(reading, _PATH)
    cursors = [json.loads(base64.b64decode(edge["cursor"])) for edge in edges]
    assert [cursor.get("seqNum") for cursor in cursors] == [None, 1, 0, None, None]
    assert cursors[0]["signers"] == []
    assert cursors[3]["signers"] == ["AEIyQjI=", "AUE="]


def test_what_is_no_id_is_refused(reading: Reading) -> None:
    status, body = ask(reading, f"{_PATH}?oracleSpecId=zz")
    (detail,) = body["details"]
    assert (status, detail["code"]) == (400, 190003)
    assert "decoding 'zz': not a valid hex id" in detail["inner"]


def test_a_row_without_a_time_which_no_network_writes_is_not_listed(tmp_path: Path) -> None:
    row = {"signers": "{}", "data": "[]", "matched_spec_ids": _array([_ONE]), "seq_num": "1"}
    timed, timeless = ({**row, "vega_time": time} for time in (block_time(1), "infinity"))
    tables = {"oracle_data": table_rows("oracle_data", timed, timeless)}
    state = {t for t in known_tables(1) if (k := known_table(t, 1)) and k.kind != "history"}
    build_segment(tmp_path / "source", last=10, tables=tables, omit=state - tables.keys())
    with reading_of(tmp_path / "source", tmp_path / "warehouse") as reading:
        for path in (_PATH, f"{_PATH}?oracleSpecId={_ONE}"):
            assert len(page(reading, path)[0]) == 1
