"""Spam statistics: captures, and what the network says of a party it has not seen (spec 2.7)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.core.open_snapshots import OpenSnapshots
from tests.api.answers_kit import Json, ask, load
from tests.segments_kit import block_time, build_segment, table_rows
from tests.transforms.warehouse_kit import STATE_TABLES
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.warehouse.capture_file import load_captures
from transforms.warehouse.warehouse_address import open_warehouse

_SEEN, _EARLIER, _UNSEEN = "aa" * 32, "bb" * 32, "cc" * 32
_EPOCH, _HEIGHT = 9, 10
_PARAMETERS = {
    "spam.protection.max.proposals": "3",
    "spam.protection.proposal.min.tokens": "100000000000000000000000.9",
    "spam.protection.max.delegations": "390",
    "spam.protection.delegation.min.tokens": "1000000000000000000",
    "spam.protection.maxUserTransfersPerEpoch": "20",
    "reward.staking.delegation.minimumValidatorStake": "3000",
    "spam.protection.minMultisigUpdates": "",
    "spam.protection.max.votes": "4",
    "spam.protection.voting.min.tokens": "7",
    "spam.pow.numberOfPastBlocks": "100",
    "spam.pow.difficulty": "15",
    "spam.pow.hashFunction": "sha3_24_rounds",
    "spam.pow.numberOfTxPerBlock": "2",
    "spam.pow.increaseDifficulty": "1",
}


def _capture(party: str, epoch: int) -> str:
    past = block_time(5).replace(" ", "T").replace("+00", "Z")
    state = {"blockHash": "h", "hashFunction": "sha3", "difficulty": "15", "txPerBlock": 3}
    groups = {
        "proposals": {
            "countForEpoch": "2",
            "maxForEpoch": "8",
            "bannedUntil": "2033-05-03T12:00:00.5Z",
            "minTokensRequired": "11",
        },
        "delegations": {"countForEpoch": 5, "maxForEpoch": 6, "bannedUntil": past},
        "transfers": None,
        "votes": {
            "statistics": [{"proposal": "p1", "countForEpoch": "3", "minTokensRequired": "70"}],
            "maxForEpoch": "3",
        },
        "pow": {
            "blockStates": [
                {**state, "blockHeight": "4", "transactionsSeen": "9", "txPerBlock": 2},
                {**state, "blockHeight": "6", "transactionsSeen": "1", "expectedDifficulty": "16"},
            ],
            "numberOfPastBlocks": "500",
        },
    }
    statistics = {"epochSeq": str(epoch), **groups}
    return json.dumps({"partyId": party, "chainId": "kit-chain", "statistics": statistics})


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSnapshots]:
    root = tmp_path_factory.mktemp("spam")
    parameters = [
        {"key": key, "value": value, "vega_time": block_time(height)}
        for key, value in _PARAMETERS.items()
        for height, value in ((1, "12345"), (2, value))
    ]
    epochs = [{"id": str(epoch), "vega_time": block_time(epoch)} for epoch in (_EPOCH - 1, _EPOCH)]
    build_segment(
        root / "source",
        last=_HEIGHT,
        tables={
            "network_parameters": table_rows("network_parameters", *parameters),
            "epochs": table_rows("epochs", *epochs),
        },
        omit={*STATE_TABLES} - {"network_parameters", "epochs"},
    )
    captures = root / "source" / "spam" / "kit-chain-9.ndjson"
    captures.parent.mkdir()
    captures.write_text(f"{_capture(_SEEN, _EPOCH)}\n{_capture(_EARLIER, _EPOCH - 2)}\n")
    load(root / "source", root / "warehouse")
    load_captures(open_warehouse(root / "warehouse"), Source(FolderStore(root / "source")))
    with OpenSnapshots.open(open_warehouse(root / "warehouse")) as opened:
        yield opened


def _statistics(snapshots: OpenSnapshots, party: str) -> Json:
    with snapshots.reading() as reading:
        status, body = ask(reading, f"/api/v2/statistics/spam/{party}")
        assert ask(reading, f"/statistics/spam/{party}") == (status, body)
    assert (status, body["chainId"]) == (200, "kit-chain")
    return body["statistics"]


def test_a_captured_party_gets_what_was_captured(snapshots: OpenSnapshots) -> None:
    shown = _statistics(snapshots, _SEEN)
    assert [*shown] == [
        "proposals",
        "delegations",
        "transfers",
        "nodeAnnouncements",
        "votes",
        "pow",
        "issueSignatures",
        "epochSeq",
    ]
    assert shown["epochSeq"] == str(_EPOCH)
    assert shown["proposals"] == {
        "countForEpoch": "2",
        "maxForEpoch": "8",
        "bannedUntil": "2033-05-03T12:00:00.5Z",
        "minTokensRequired": "11",
    }
    assert shown["delegations"]["bannedUntil"] == "2023-01-01T00:00:05Z"
    assert (shown["transfers"], shown["issueSignatures"]) == (None, None)
    assert shown["votes"]["statistics"] == [
        {"proposal": "p1", "countForEpoch": "3", "minTokensRequired": "70"}
    ]
    assert [state["blockHeight"] for state in shown["pow"]["blockStates"]] == ["4", "6"]
    assert "expectedDifficulty" not in shown["pow"]["blockStates"][0]
    assert shown["pow"]["numberOfPastBlocks"] == "500"


def test_a_capture_of_an_older_epoch_keeps_its_limits_and_loses_its_counts(
    snapshots: OpenSnapshots,
) -> None:
    shown = _statistics(snapshots, _EARLIER.upper())
    assert shown["epochSeq"] == str(_EPOCH)
    assert shown["proposals"] == {
        "countForEpoch": "0",
        "maxForEpoch": "8",
        "bannedUntil": "2033-05-03T12:00:00.5Z",
        "minTokensRequired": "11",
    }
    # This ban is over by the newest block.
    assert shown["delegations"] == {
        "countForEpoch": "0",
        "maxForEpoch": "6",
        "minTokensRequired": "0",
    }
    assert shown["transfers"] is None
    assert shown["votes"]["statistics"] == [
        {"proposal": "p1", "countForEpoch": "0", "minTokensRequired": "70"}
    ]
    (state,) = shown["pow"]["blockStates"]
    assert (state["blockHeight"], state["transactionsSeen"]) == (str(_HEIGHT), "0")
    assert (state["txPerBlock"], state["expectedDifficulty"]) == ("3", "16")


def test_an_unseen_party_gets_the_networks_limits_and_no_counts(snapshots: OpenSnapshots) -> None:
    shown = _statistics(snapshots, _UNSEEN)

    def counters(most: str, least: str) -> dict[str, Any]:
        return {"countForEpoch": "0", "maxForEpoch": most, "minTokensRequired": least}

    block_hash = shown["pow"]["blockStates"][0]["blockHash"]
    assert shown == {
        "proposals": counters("3", "100000000000000000000000"),
        "delegations": counters("390", "1000000000000000000"),
        "transfers": counters("20", "0"),
        "nodeAnnouncements": counters("1", "3000"),
        "votes": {"statistics": [], "maxForEpoch": "4"},
        "pow": {
            "blockStates": [
                {
                    "blockHeight": str(_HEIGHT),
                    "blockHash": block_hash,
                    "transactionsSeen": "0",
                    "expectedDifficulty": "15",
                    "hashFunction": "sha3_24_rounds",
                    "difficulty": "15",
                    "txPerBlock": "2",
                    "increasingDifficulty": True,
                }
            ],
            "numberOfPastBlocks": "100",
        },
        "issueSignatures": counters("1", "0"),
        "epochSeq": str(_EPOCH),
    }
    assert len(block_hash) == 64


def test_a_parameter_that_is_no_number_counts_as_nought(tmp_path: Path) -> None:
    odd = ("1e999999", "9" * 5000, "NaN", "-Infinity", "1e-999999", "oops", "\u0661", "-5")
    rows = [
        {"key": key, "value": value, "vega_time": block_time(1)}
        for key, value in zip(_PARAMETERS, odd, strict=False)
    ]
    tables = {"network_parameters": table_rows("network_parameters", *rows)}
    build_segment(
        tmp_path / "source", last=2, tables=tables, omit={*STATE_TABLES} - {"network_parameters"}
    )
    load(tmp_path / "source", tmp_path / "warehouse")
    with OpenSnapshots.open(open_warehouse(tmp_path / "warehouse")) as opened:
        shown = _statistics(opened, _UNSEEN)
    assert (shown["proposals"]["maxForEpoch"], shown["proposals"]["minTokensRequired"]) == (
        "0",
        "0",
    )
    assert shown["delegations"]["maxForEpoch"] == "0"


def test_new_captures_are_picked_up_without_a_new_snapshot(tmp_path: Path) -> None:
    build_segment(tmp_path / "source", last=2, omit=STATE_TABLES)
    load(tmp_path / "source", tmp_path / "warehouse")
    with OpenSnapshots.open(open_warehouse(tmp_path / "warehouse")) as opened:
        assert _statistics(opened, _SEEN)["epochSeq"] == "0"
        for epoch in (3, 4):
            captures = tmp_path / "source" / "spam" / f"kit-chain-{epoch}.ndjson"
            captures.parent.mkdir(exist_ok=True)
            captures.write_text(_capture(_SEEN, epoch))
            load_captures(
                open_warehouse(tmp_path / "warehouse"), Source(FolderStore(tmp_path / "source"))
            )
            assert opened.refresh()
            assert not opened.refresh()
            assert _statistics(opened, _SEEN)["epochSeq"] == str(epoch)


@pytest.mark.parametrize(("party", "code"), [("", 10006), ("zz", 10000)])
def test_a_party_that_can_be_none_is_refused(
    snapshots: OpenSnapshots, party: str, code: int
) -> None:
    with snapshots.reading() as reading:
        status, body = ask(reading, f"/api/v2/statistics/spam/{party}")
    assert (status, body["code"], body["details"][0]["code"]) == (400, 3, code)
