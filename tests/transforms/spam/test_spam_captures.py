"""Spam captures: which lines are taken, and which of a party's captures counts."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import each_of
from transforms.duck import read_only_connection
from transforms.machine_errors import MemoryLimitError
from transforms.segments.source import Source
from transforms.spam.capture_lines import (
    CaptureLineError,
    format_nanos,
    parse_capture,
    parse_nanos,
)
from transforms.spam.capture_tables import RefusedLine, write_captures
from transforms.stores.folder_store import FolderStore
from transforms.warehouse.capture_file import captures_path, load_captures
from transforms.warehouse.warehouse_address import open_warehouse

_CHAIN = "kit-chain"
_PARTY = "ab" * 32
_COUNTERS = {
    "countForEpoch": "1",
    "maxForEpoch": 3,
    "bannedUntil": "2023-05-03T12:00:00Z",
    "minTokensRequired": "100",
}


def _line(party: str = _PARTY, epoch: Any = 5, chain: str = _CHAIN, **groups: Any) -> str:
    statistics = {"epochSeq": epoch, **groups}
    return json.dumps({"partyId": party, "chainId": chain, "statistics": statistics})


def _parsed(**groups: Any) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(parse_capture(_line(**groups).encode(), _CHAIN)["statistics"])
    return read


def test_numbers_may_be_text_and_absent_values_have_their_default() -> None:
    read = _parsed(epoch="18446744073709551615", proposals=_COUNTERS, transfers={})
    assert read["epochSeq"] == 2**64 - 1
    assert read["proposals"] == {**_COUNTERS, "countForEpoch": 1}
    assert read["transfers"] == {
        "countForEpoch": 0,
        "maxForEpoch": 0,
        "bannedUntil": None,
        "minTokensRequired": "0",
    }
    assert (read["votes"], read["pow"]) == (None, None)


@each_of(
    ("party", "id_"), [("network", "03"), ("03", "03"), ("XYZbeta", "05"), ("AB" * 32, "ab" * 32)]
)
def test_a_party_may_be_named_as_the_api_names_it(party: str, id_: str) -> None:
    assert parse_capture(_line(party).encode(), _CHAIN)["party_id"] == id_


def test_votes_and_blocks_are_lists_and_unknown_values_are_passed_over() -> None:
    state = {"blockHeight": "7", "expectedDifficulty": None, "increasingDifficulty": True}
    votes = {"statistics": [{"proposal": "p", "countForEpoch": 2}], "maxForEpoch": 3, "new": 1}
    read = _parsed(votes=votes, pow={"blockStates": [state]}, later={"x": 1})
    assert read["votes"]["statistics"] == [
        {"proposal": "p", "countForEpoch": 2, "minTokensRequired": "0"}
    ]
    (block,) = read["pow"]["blockStates"]
    assert (block["blockHeight"], block["increasingDifficulty"]) == (7, True)
    assert block["expectedDifficulty"] is None
    assert "later" not in read


@each_of(
    ("given", "shown"),
    [
        ("2023-05-03T12:00:00Z", "2023-05-03T12:00:00Z"),
        ("2023-05-03T12:00:00.120Z", "2023-05-03T12:00:00.12Z"),
        ("2023-05-03T14:00:00.000000001+02:00", "2023-05-03T12:00:00.000000001Z"),
        ("1683115200000000000", "2023-05-03T12:00:00Z"),
        (1683115200000000001, "2023-05-03T12:00:00.000000001Z"),
        (1683115200, "2023-05-03T12:00:00Z"),
        ("1683115200001", "2023-05-03T12:00:00.001Z"),
        (1683115200000001, "2023-05-03T12:00:00.000001Z"),
        ("99999999999", "5138-11-16T09:46:39Z"),
        (100_000_000_000, "1973-03-03T09:46:40Z"),
        (1, "1970-01-01T00:00:01Z"),
        (2**64 - 1, "2554-07-21T23:34:33.709551615Z"),
        # Go's time of nothing, in each form.
        ("0001-01-01T00:00:00Z", None),
        ("0001-01-01T00:00:00+14:00", None),
        (-62135596800, None),
        ("-6795364578871345152", None),
        ("1970-01-01T00:00:00Z", None),
        ("", None),
        ("0", None),
        (0, None),
        (None, None),
    ],
)
def test_a_ban_is_a_time_of_either_form(given: Any, shown: str | None) -> None:
    read = _parsed(proposals={"bannedUntil": given})
    assert read["proposals"]["bannedUntil"] == shown


@given(st.integers(-(2**62), 2**63 - 1))
def test_nanoseconds_are_shown_and_read_back(nanos: int) -> None:
    assert parse_nanos(format_nanos(nanos)) == nanos


@each_of(
    ("line", "why"),
    [
        ("nonsense", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a JSON object"),
        (_line(chain="other"), "its chainId is 'other', not 'kit-chain'"),
        (_line(party="zz"), "partyId is 'zz', not hex, nor a name like 'network'"),
        (_line(party=""), "not hex"),
        (json.dumps({"partyId": _PARTY, "chainId": _CHAIN}), "no epochSeq"),
        (json.dumps({"partyId": _PARTY, "chainId": _CHAIN, "statistics": 5}), "not an object"),
        (_line(epoch=None), "no epochSeq"),
        (_line(epoch=-1), "statistics.epochSeq is -1, not a whole number"),
        (_line(epoch=2**64), "not a whole number of 64 bits"),
        (_line(epoch="1e3"), "statistics.epochSeq is '1e3'"),
        (_line(epoch=1.0), "statistics.epochSeq is 1.0"),
        (_line(epoch=True), "statistics.epochSeq is True"),
        (_line(proposals=[]), "statistics.proposals is [], not an object"),
        (_line(proposals={"countForEpoch": "x"}), "statistics.proposals.countForEpoch is 'x'"),
        (_line(transfers={"minTokensRequired": "1.5"}), "not an amount of tokens"),
        (_line(transfers={"bannedUntil": "soon"}), "statistics.transfers.bannedUntil is 'soon'"),
        (_line(transfers={"bannedUntil": "2023-13-03T12:00:00Z"}), "not a time"),
        (_line(transfers={"bannedUntil": 2**64}), "not a time"),
        (_line(transfers={"bannedUntil": True}), "not a time"),
        (_line(transfers={"bannedUntil": 1683115200.5}), "not a time"),
        (_line(votes={"statistics": {}}), "statistics.votes.statistics is {}, not a list"),
        (
            _line(votes={"statistics": [{}, {"proposal": 5}]}),
            "statistics.votes.statistics[1].proposal is 5, not text",
        ),
        (
            _line(pow={"blockStates": [{"increasingDifficulty": "true"}]}),
            "not true or false",
        ),
        (_line(votes={"statistics": [{"proposal": "x" * 2**20}]}), "longer than"),
        (
            _line(votes={"statistics": [{"proposal": "p\ud800"}]}),
            "statistics[0].proposal is 'p\\ud800', not text",
        ),
        (_line(pow={"blockStates": [{"blockHash": "\udfff"}]}), "blockHash is '\\udfff', not text"),
        (_line(party="\ud800"), "not hex"),
    ],
)
def test_a_line_that_is_no_capture_says_what_is_wrong(line: str, why: str) -> None:
    with pytest.raises(CaptureLineError) as caught:
        parse_capture(line.encode(), _CHAIN)
    assert why in str(caught.value)


@given(st.binary(max_size=80))
def test_any_line_is_a_capture_or_refused(line: bytes) -> None:
    with pytest.raises(CaptureLineError):
        parse_capture(line, _CHAIN)


class _Source:
    """A folder of captures, and a warehouse that loads them."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "source" / "spam"
        self.folder.mkdir(parents=True)
        self.warehouse = open_warehouse(root / "warehouse")
        # The first load of segments names the chain.
        self.warehouse.backing.log.commit(lambda empty: replace(empty, chain_id=_CHAIN))

    def write(self, name: str, *lines: str) -> None:
        data = "".join(f"{line}\n" for line in lines).encode()
        (self.folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)

    def load(self) -> list[RefusedLine]:
        return load_captures(self.warehouse, Source(FolderStore(self.folder.parent)))

    def file(self) -> Path | None:
        return captures_path(self.warehouse.backing, self.warehouse.snapshot())

    def captures(self) -> dict[str, tuple[int, int]]:
        """Party to epoch and height."""
        file = self.file()
        assert file is not None
        with read_only_connection(file) as con:
            rows = con.execute("select party_id[:2], epoch, height from captures").fetchall()
        return {party: (epoch, height) for party, epoch, height in rows}


@pytest.fixture
def source(tmp_path: Path) -> _Source:
    return _Source(tmp_path)


def test_the_newest_capture_of_the_newest_epoch_counts(source: _Source) -> None:
    source.write("kit-chain-100.ndjson", _line(epoch=5), _line(party="cd" * 32, epoch=5))
    source.write("kit-chain-300.ndjson.gz", _line(epoch=5), _line(epoch=5, party="ee"))
    source.write("kit-chain-200.ndjson", _line(party="CD" * 32, epoch=6), "", "  ")
    assert source.load() == []
    assert source.captures() == {"ab": (5, 300), "cd": (6, 200), "ee": (5, 300)}
    source.write("kit-chain-400.ndjson", _line(epoch=4))
    assert source.load() == []
    assert source.captures()["ab"] == (5, 300)


def test_a_file_is_read_once_until_it_changes(source: _Source) -> None:
    source.write("kit-chain-100.ndjson", _line(epoch=5))
    source.load()
    first = source.file()
    assert source.load() == []
    assert source.file() == first
    source.write("kit-chain-100.ndjson", _line(epoch=3), _line(party="cd"))
    assert source.load() == []
    assert source.captures() == {"ab": (3, 100), "cd": (5, 100)}


def test_content_that_json_or_duckdb_could_not_hold_refuses_its_line_and_no_other(
    source: _Source,
) -> None:
    plain = _line(epoch="?").encode()
    bad = {
        "limit .4300 digits. for integer": plain.replace(b'"?"', b"1" + b"0" * 5000),
        "epochSeq is inf,": plain.replace(b'"?"', b"1e400"),
        "epochSeq is nan,": plain.replace(b'"?"', b"NaN"),
        "longer than": b'{"a": "' + b"y" * 200_000_000 + b'"}',
        "Expecting value": b"\0" * 100,
        "not hex": _line(party="ab\0").encode(),
        "can't decode byte": b"\xff\xfe" + plain,
        "maximum recursion depth": b"[" * 100_000 + b"]" * 100_000,
        "recursion depth": plain.replace(b'"?"', b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
        "not text": _line(votes={"statistics": [{"proposal": "\ud800"}]}).encode(),
        "its chainId is": _line(chain="\ud800").encode(),
        "too many votes or blocks": _line(votes={"statistics": [{}] * 200_000}).encode(),
    }
    for height, line in enumerate(bad.values(), start=100):
        path = source.folder / f"kit-chain-{height}.ndjson"
        path.write_bytes(line + b"\n" + _line(party="cd", epoch=height).encode())
    source.write("kit-chain-99.ndjson", _line(votes={"statistics": [{"proposal": "a\0b"}]}))
    refused = source.load()
    for known, reason in zip(refused, bad, strict=True):
        assert re.search(reason, known.reason), (reason, known.reason)
    assert source.captures()["cd"] == (99 + len(bad), 99 + len(bad))


def test_a_file_of_a_name_that_cannot_be_fetched_holds_up_no_other(source: _Source) -> None:
    source.write("kit-chain-1\n2.ndjson", _line())
    source.write("kit-chain-5.ndjson", _line())
    (refused,) = source.load()
    assert "it is not named spam/kit-chain-<height>" in refused.reason
    assert source.captures() == {"ab": (5, 5)}


@pytest.mark.parametrize("megabytes", [4, 10])
def test_lines_that_take_too_much_memory_are_told_and_more_loads_them(
    source: _Source, megabytes: int
) -> None:
    long = {"statistics": [{"proposal": random.Random(1).randbytes(450_000).hex()}]}
    source.write("kit-chain-5.ndjson", *(_line(epoch=epoch, votes=long) for epoch in range(80)))
    root = source.folder.parents[1] / "warehouse"
    source.warehouse = open_warehouse(root, memory_mb=megabytes)
    with pytest.raises(MemoryLimitError, match="captures of all parties: DuckDB has no more"):
        source.load()
    source.warehouse = open_warehouse(root, memory_mb=400)
    assert source.load() == []
    assert source.captures() == {"ab": (79, 5)}


def test_bad_lines_are_kept_aside_with_file_and_line_and_the_rest_is_loaded(
    source: _Source,
) -> None:
    long = "x" * (2**20 + 10)
    source.write("kit-chain-7.ndjson", "nonsense", _line(), long, "", _line(party="zz"))
    refused = source.load()
    assert [(line.file, line.line) for line in refused] == [
        ("spam/kit-chain-7.ndjson", 1),
        ("spam/kit-chain-7.ndjson", 3),
        ("spam/kit-chain-7.ndjson", 5),
    ]
    assert refused[1].reason == "it is longer than 1048576 bytes"
    source.write("kit-chain-7.ndjson", _line())
    assert source.load() == []


@pytest.mark.parametrize("name", ["other-7.ndjson", "kit-chain-x.ndjson", "kit-chain.ndjson"])
def test_a_file_of_another_name_or_chain_is_refused_whole(source: _Source, name: str) -> None:
    source.write(name, _line())
    source.write("kit-chain-1.txt", "is no capture at all")
    (refused,) = source.load()
    assert (refused.file, refused.line) == (f"spam/{name}", 0)
    assert "it is not named spam/kit-chain-<height>.ndjson" in refused.reason


def test_a_file_whose_name_is_no_utf_8_is_refused_once(source: _Source) -> None:
    source.write(os.fsdecode(b"kit-chain-\xff7.ndjson"), _line())
    (refused,) = source.load()
    assert refused.file == "spam/kit-chain-\\xff7.ndjson"
    first = source.file()
    assert source.load() == [refused]
    assert source.file() == first
    source.write("kit-chain-8.ndjson", _line())
    assert source.load() == [refused]
    assert source.captures() == {"ab": (5, 8)}


def test_a_damaged_archive_gives_what_can_be_unpacked(source: _Source) -> None:
    source.write("kit-chain-9.ndjson.gz", *(_line(party=f"{n:04x}") for n in range(3000)))
    path = source.folder / "kit-chain-9.ndjson.gz"
    path.write_bytes(path.read_bytes()[:-2000])
    (refused,) = source.load()
    file = source.file()
    assert file is not None
    with read_only_connection(file) as con:
        ((count,),) = con.execute("select count(*) from captures").fetchall()
    assert 0 < count < 3000
    assert refused.line == 0
    assert "cannot be unpacked after line" in refused.reason


def test_a_file_that_grows_all_the_time_does_not_keep_a_load(
    source: _Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs = iter(range(1, 4))

    def growing(*arguments: Any) -> None:
        write_captures(*arguments)
        source.write("kit-chain-100.ndjson", *(_line(epoch=n) for n in range(next(epochs) + 1)))

    monkeypatch.setattr("transforms.warehouse.capture_file.write_captures", growing)
    source.write("kit-chain-100.ndjson", _line(epoch=0))
    for epoch in range(3):
        assert source.load() == []
        assert source.captures() == {"ab": (epoch, 100)}


def test_a_source_without_captures_leaves_no_trace(source: _Source) -> None:
    before = source.warehouse.snapshot()
    assert source.load() == []
    assert source.file() is None
    assert source.warehouse.snapshot() == before


_KILLED = """
import os, sys
from pathlib import Path
import transforms.warehouse.capture_file as captures
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.warehouse.capture_file import captures_path
from transforms.warehouse.log.log import Log
from transforms.warehouse.warehouse_address import open_warehouse
if sys.argv[3] == "before":
    captures.store_file = lambda *_: os._exit(9)
else:
    Log.commit = lambda *_: os._exit(9)
captures.load_captures(open_warehouse(sys.argv[1]), Source(FolderStore(Path(sys.argv[2]))))
"""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_load_that_is_killed_is_done_by_the_next_one(source: _Source, moment: str) -> None:
    source.write("kit-chain-100.ndjson", _line())
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, source.warehouse.cache, source.folder.parent, moment],
        check=False,
    )
    assert killed.returncode == 9
    assert source.file() is None
    assert source.load() == []
    assert source.captures() == {"ab": (5, 100)}
