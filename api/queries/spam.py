"""Spam statistics of one party (spec 4.6 and 2.7).

What a core node said of the party, if it was captured; else what the network would answer for a
party that it has not seen this epoch, from its parameters.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from api.core.api_errors import InvalidArgumentError, Reason
from api.core.descriptors import Message, Request, json_name, message
from api.core.open_snapshots import OpenSnapshot, Reading
from api.queries.cursors import asked_id
from api.queries.pagination import Record
from transforms.spam.capture_lines import parse_nanos

_COUNTERS = {
    "proposals": (
        "spam.protection.max.proposals",
        "spam.protection.proposal.min.tokens",
    ),
    "delegations": (
        "spam.protection.max.delegations",
        "spam.protection.delegation.min.tokens",
    ),
    "transfers": ("spam.protection.maxUserTransfersPerEpoch", None),
    "nodeAnnouncements": (None, "reward.staking.delegation.minimumValidatorStake"),
    "issueSignatures": (None, "spam.protection.minMultisigUpdates"),
}
"""Group to the parameters of its maximum (None: 1) and of its least tokens (None: none)."""

_STATISTICS = message("vega.api.v1.SpamStatistics")
_MOST_DIGITS = 100
_MAX_VOTES = "spam.protection.max.votes"

_Statistics = dict[str, Any]


def get_spam_statistics(reading: Reading, request: Request) -> Record:
    """One party's statistics. Raises `InvalidArgumentError`."""
    if not request.party_id:
        raise InvalidArgumentError(Reason.MISSING_PARTY_ID)
    party = asked_id(request.party_id, Reason.INVALID_PARTY_ID, "")
    epoch = _epoch(reading)
    statistics = _captured(reading, party)
    if statistics is None:
        statistics = _unseen(reading, epoch)
    elif statistics["epochSeq"] < epoch:
        statistics = _of_new_epoch(statistics, epoch, reading.snapshot)
    return reading.snapshot.catalog.snapshot.chain_id, _record(_STATISTICS, statistics)


def _captured(reading: Reading, party: str) -> _Statistics | None:
    file = reading.snapshot.captures
    if file is None:
        return None
    sql = f"select statistics from {file}.main.captures where party_id = $1"  # noqa: S608 - ours
    for (text,) in reading.rows(sql, [party]):
        statistics: _Statistics = json.loads(text)
        return statistics
    return None


def _epoch(reading: Reading) -> int:
    """The newest epoch of the newest current state."""
    table = reading.snapshot.state("epochs")
    if table is None:
        return 0
    ((epoch,),) = reading.rows(f"select max(id) from {table.source}")  # noqa: S608 - ours
    return epoch or 0


def _of_new_epoch(captured: _Statistics, epoch: int, snapshot: OpenSnapshot) -> _Statistics:
    """A capture of an older epoch: its limits hold on, its counts do not, nor bans that ended."""
    now = snapshot.newest.time if snapshot.newest else 0
    return _reset(captured, now) | {
        "epochSeq": epoch,
        "pow": _work_of_new_epoch(captured["pow"], snapshot, now),
    }


def _reset(group: _Statistics, now: int) -> _Statistics:
    fresh: _Statistics = {}
    for name, value in group.items():
        if name == "countForEpoch":
            fresh[name] = 0
        elif name == "bannedUntil":
            fresh[name] = value if value and parse_nanos(value) > now else None
        elif isinstance(value, dict):
            fresh[name] = _reset(value, now)
        elif isinstance(value, list):
            fresh[name] = [_reset(item, now) for item in value]
        else:
            fresh[name] = value
    return fresh


def _work_of_new_epoch(
    captured: _Statistics | None, snapshot: OpenSnapshot, now: int
) -> _Statistics | None:
    """Proof of work for the newest block, with the limits of the last one that was captured."""
    if captured is None:
        return None
    states = sorted(captured["blockStates"], key=lambda state: state["blockHeight"])[-1:]
    newest = {"transactionsSeen": 0, **_block(snapshot)}
    return _reset(captured, now) | {"blockStates": [state | newest for state in states]}


def _block(snapshot: OpenSnapshot) -> _Statistics:
    if snapshot.newest is None:
        return {"blockHeight": 0, "blockHash": ""}
    return {"blockHeight": snapshot.newest.height, "blockHash": snapshot.newest.hash}


def _unseen(reading: Reading, epoch: int) -> _Statistics:
    """What the network answers for a party that it has not seen this epoch."""
    parameters = _parameters(reading)
    statistics: _Statistics = {
        group: {
            "countForEpoch": 0,
            "maxForEpoch": _whole(parameters, most) if most else 1,
            "bannedUntil": None,
            "minTokensRequired": str(_whole(parameters, least)) if least else "0",
        }
        for group, (most, least) in _COUNTERS.items()
    }
    votes = {"statistics": [], "maxForEpoch": _whole(parameters, _MAX_VOTES), "bannedUntil": None}
    difficulty = _whole(parameters, "spam.pow.difficulty")
    state = {
        **_block(reading.snapshot),
        "transactionsSeen": 0,
        "expectedDifficulty": difficulty,
        "hashFunction": parameters.get("spam.pow.hashFunction", ""),
        "difficulty": difficulty,
        "txPerBlock": _whole(parameters, "spam.pow.numberOfTxPerBlock"),
        "increasingDifficulty": _whole(parameters, "spam.pow.increaseDifficulty") != 0,
    }
    work = {
        "blockStates": [state],
        "bannedUntil": None,
        "numberOfPastBlocks": _whole(parameters, "spam.pow.numberOfPastBlocks"),
    }
    return statistics | {"votes": votes, "pow": work, "epochSeq": epoch}


def _parameters(reading: Reading) -> Mapping[str, str]:
    """The network's parameters, of each the latest value."""
    table = reading.snapshot.state("network_parameters")
    if table is None:
        return {}
    rows = reading.rows(
        f"select key, arg_max(value, vega_time) from {table.source} group by key"  # noqa: S608
    )
    return {key: value or "" for key, value in rows}


def _whole(parameters: Mapping[str, str], key: str) -> int:
    """A parameter as a whole number, what follows the point cut off; 0 where it is none.

    Nor is one of very many digits, which would take memory, or fail, when it is written.
    """
    try:
        number = Decimal(parameters.get(key, "0"))
        return max(0, int(number)) if number.adjusted() < _MOST_DIGITS else 0
    except (InvalidOperation, ValueError, OverflowError):
        return 0


def _record(message: Message, values: Mapping[str, Any]) -> Record:
    """The record of a message from values by their names in JSON."""
    record = []
    for field in message.fields:
        value, kind = values.get(json_name(field)), field.message_type
        if kind and value is not None:
            value = [_record(kind, v) for v in value] if field.is_repeated else _record(kind, value)
        record.append(value)
    return tuple(record)
