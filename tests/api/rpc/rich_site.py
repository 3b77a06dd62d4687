"""A site of one segment in which every field of every message has a value somewhere."""

from __future__ import annotations

import json
from pathlib import Path

from tests.api.chain_kit import (
    ALICE,
    BOB,
    MARKET,
    ORDER,
    RESOURCE,
    bytea,
    order_row,
    provision_row,
    withdrawal_row,
)
from tests.api.site_kit import Site
from tests.segments_kit import Table, block_time, build_segment, table_rows
from tests.transforms.warehouse_kit import STATE_TABLES
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.warehouse.capture_file import load_captures

LAST = 10
SPEC, CAPTURED, UNSEEN = "f1" * 32, "aa" * 32, "cc" * 32
WITHDRAWAL = "01" * 32
_EPOCH = 9
_NASTY = 'ref<&>"\\ \u2028 \U0001f600 é'
_PARAMETERS = {
    "spam.protection.max.proposals": "3",
    "spam.pow.numberOfPastBlocks": "100",
    "spam.pow.difficulty": "15",
    "spam.pow.hashFunction": "sha3_24_rounds",
    "spam.pow.numberOfTxPerBlock": "2",
    "spam.pow.increaseDifficulty": "1",
}
_BANNED = {
    "countForEpoch": "18446744073709551615",
    "maxForEpoch": "8",
    "bannedUntil": "2033-05-03T12:00:00.5Z",
    "minTokensRequired": "11",
}
_WORK_STATE = {
    "blockHeight": "4",
    "blockHash": "h",
    "transactionsSeen": "9",
    "expectedDifficulty": "16",
    "hashFunction": "sha3",
    "difficulty": "15",
    "txPerBlock": 2,
    "increasingDifficulty": True,
}


def rich_site(root: Path) -> Site:
    """Write the segment and the captures, load and publish them."""
    site = Site(root)
    state = _state()
    tables = {**_history(), **state}
    omitted = {*STATE_TABLES} - state.keys()
    build_segment(site.source_folder, last=LAST, tables=tables, omit=omitted)
    captures = site.source_folder / "spam" / f"kit-chain-{_EPOCH}.ndjson"
    captures.parent.mkdir()
    captures.write_text(_capture())
    site.load()
    load_captures(site.warehouse, Source(FolderStore(site.source_folder)))
    site.publish()
    return site


def _history() -> dict[str, Table]:
    orders = [
        order_row(
            ORDER,
            number,
            2,
            number,
            side=str(number % 3),
            size="18446744073709551615" if number == 1 else "7",
            time_in_force=str(number % 7),
            type=str(number % 4),
            status=str(number % 9),
            reason=str(number % 51),
            pegged_reference=str(number % 4),
            pegged_offset="5.50",
            reference=_NASTY,
            batch_id="3",
            lp_id=bytea(MARKET),
            post_only="t",
            reduce_only="f" if number % 2 else "t",
            expires_at=block_time(9),
        )
        for number in range(1, 60)
    ]
    orders.append(order_row(ORDER, 99, 2, 99, status="99", reason=None, pegged_reference=None))
    erc20 = json.dumps({"erc20": {"receiverAddress": "0xABC"}})
    withdrawals = [
        withdrawal_row(WITHDRAWAL, ALICE, 2, "FINALIZED", ext=erc20, amount="1" + "0" * 60),
        withdrawal_row("02" * 32, BOB, 3, "REJECTED", ext="{}", ref=_NASTY),
        withdrawal_row("03" * 32, "03", 4, "OPEN", foreign_tx_hash="0xdd"),
    ]
    shape = {"order_id": ORDER, "liquidity_order": {"reference": 2, "proportion": 9, "offset": "5"}}
    provisions = [
        {
            **provision_row(bytes([number]).hex() * 32, ALICE, MARKET, 2 + number, status),
            "sells": json.dumps([shape, {"liquidity_order": {}}, {}]),
            "buys": json.dumps([shape]),
            "fee": "0.0100000000000000",
        }
        for number, status in enumerate(("ACTIVE", "PENDING", "CANCELLED", "STOPPED"))
    ]
    return {
        "orders": table_rows("orders", *orders),
        "withdrawals": table_rows("withdrawals", *withdrawals),
        "liquidity_provisions": table_rows("liquidity_provisions", *provisions),
    }


def _state() -> dict[str, Table]:
    signatures = [
        {"resource_id": bytea(RESOURCE), "sig": bytea(sig), "kind": f"NODE_SIGNATURE_KIND_{kind}"}
        for sig, kind in (("01", "ASSET_NEW"), ("0102ff", "ASSET_UPDATE"), ("00ff", "UNSPECIFIED"))
    ]
    data = [
        {
            "signers": f'{{"\\\\x00{b"key".hex()}","\\\\x01{b"abcd".hex()}","\\\\x05"}}',
            "data": json.dumps([{"Name": name, "Value": _NASTY}]),
            "matched_spec_ids": f'{{"\\\\x{SPEC}"}}',
            "broadcast_at": block_time(3),
            "vega_time": block_time(3 + number),
            "seq_num": str(number),
        }
        for number, name in enumerate(("a.b", "lone \ud800"))
    ]
    parameters = [
        {"key": key, "value": value, "vega_time": block_time(1)}
        for key, value in _PARAMETERS.items()
    ]
    return {
        "node_signatures": table_rows("node_signatures", *signatures),
        "oracle_data": table_rows("oracle_data", *data),
        "oracle_data_current": table_rows("oracle_data_current", *data),
        "network_parameters": table_rows("network_parameters", *parameters),
        "epochs": table_rows("epochs", {"id": str(_EPOCH), "vega_time": block_time(2)}),
    }


def _capture() -> str:
    vote = {"proposal": "p1", "countForEpoch": "3", "minTokensRequired": "70"}
    statistics = {
        "proposals": _BANNED,
        "transfers": None,
        "votes": {"statistics": [vote], "maxForEpoch": "3", "bannedUntil": _BANNED["bannedUntil"]},
        "pow": {"blockStates": [_WORK_STATE], "numberOfPastBlocks": "500"},
        "epochSeq": str(_EPOCH),
    }
    capture = {"partyId": CAPTURED, "chainId": "kit-chain", "statistics": statistics}
    return json.dumps(capture) + "\n"
