"""The messages of the API, field by field in the order in which they are sent (spec section 2).

A line is a field and its type. `int64` and `uint64` are decimal text in JSON; `[T]` is a list; a
`?` marks what is absent when unset, a `!` what is null then. Names in capitals are messages below.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_MESSAGES = {
    "Order": """
        id string, marketId string, partyId string, side enum, price decimal, size uint64,
        remaining uint64, timeInForce enum, type enum, createdAt time, status enum, expiresAt time,
        reference string, reason enum?, updatedAt time, version uint64, batchId uint64,
        peggedOrder PeggedOrder!, liquidityProvisionId string, postOnly boolean, reduceOnly boolean
    """,
    "PeggedOrder": "reference enum, offset decimal",
    "Withdrawal": """
        id string, partyId string, amount decimal, asset string, status enum, ref string,
        txHash string, createdTimestamp time, withdrawnTimestamp time, ext WithdrawExt!
    """,
    "WithdrawExt": "erc20 Erc20WithdrawExt?",
    "Erc20WithdrawExt": "receiverAddress string",
    "OracleData": "externalData ExternalData",
    "ExternalData": "data Data",
    "Data": "signers [Signer], data [Property], matchedSpecIds [string], broadcastAt time",
    "Signer": "pubKey PubKey?, ethAddress ETHAddress?",
    "PubKey": "key string",
    "ETHAddress": "address string",
    "Property": "name string, value string",
    "NodeSignature": "id string, sig base64, kind enum",
    "LiquidityProvision": """
        id string, partyId string, createdAt time, updatedAt time, marketId string,
        commitmentAmount decimal, fee decimal, sells [LiquidityOrderReference],
        buys [LiquidityOrderReference], version uint64, status enum, reference string
    """,
    "LiquidityOrderReference": "orderId string, liquidityOrder LiquidityOrder!",
    "LiquidityOrder": "reference enum, proportion integer, offset decimal",
    "HistorySegment": """
        fromHeight int64, toHeight int64, historySegmentId string, previousHistorySegmentId string,
        databaseVersion int64, chainId string
    """,
    "PageInfo": """
        hasNextPage boolean, hasPreviousPage boolean, startCursor string, endCursor string
    """,
    "SpamStatisticsResponse": "chainId string, statistics SpamStatistics",
    "SpamStatistics": """
        proposals SpamStatistic!, delegations SpamStatistic!, transfers SpamStatistic!,
        nodeAnnouncements SpamStatistic!, votes VoteSpamStatistics!, pow PoWStatistic!,
        issueSignatures SpamStatistic!, epochSeq uint64
    """,
    "SpamStatistic": """
        countForEpoch uint64, maxForEpoch uint64, bannedUntil date-time?, minTokensRequired decimal
    """,
    "VoteSpamStatistics": """
        statistics [VoteSpamStatistic], maxForEpoch uint64, bannedUntil date-time?
    """,
    "VoteSpamStatistic": "proposal string, countForEpoch uint64, minTokensRequired decimal",
    "PoWStatistic": """
        blockStates [PoWBlockState], bannedUntil date-time?, numberOfPastBlocks uint64
    """,
    "PoWBlockState": """
        blockHeight uint64, blockHash string, transactionsSeen uint64, expectedDifficulty uint64?,
        hashFunction string, difficulty uint64, txPerBlock uint64, increasingDifficulty boolean
    """,
    "ErrorDetail": "@type string, code integer, message string, inner string",
    "Error": "code integer, message string, details [ErrorDetail]",
}
_DIGITS = "^-?[0-9]+$"
_SCALARS: dict[str, Schema] = {
    "string": {"type": "string"},
    "boolean": {"type": "boolean"},
    "integer": {"type": "integer"},
    "int64": {"type": "string", "format": "int64", "pattern": _DIGITS},
    "uint64": {"type": "string", "format": "uint64", "pattern": _DIGITS},
    "time": {
        "type": "string",
        "pattern": _DIGITS,
        "description": "Unix nanoseconds; 0 when unset.",
    },
    "date-time": {"type": "string", "description": "RFC 3339 with nanoseconds."},
    "decimal": {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$|^$"},
    "base64": {"type": "string", "contentEncoding": "base64"},
    "enum": {
        "type": ["string", "integer"],
        "description": "The value's name; its number where the network has not named it.",
    },
}


def message_schemas() -> dict[str, Schema]:
    """The JSON Schema of every message, by name."""
    return {name: _message(fields) for name, fields in _MESSAGES.items()}


def reference(name: str) -> Schema:
    """A reference to a message's schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def page_schema(message: str) -> Schema:
    """A page of records (spec 2.1)."""
    edge = _object({"node": reference(message), "cursor": _SCALARS["string"]})
    return _object({"edges": {"type": "array", "items": edge}, "pageInfo": reference("PageInfo")})


def wrapped(key: str, schema: Schema) -> Schema:
    """An object with one field."""
    return _object({key: schema})


def listed(schema: Schema) -> Schema:
    """A list of something."""
    return {"type": "array", "items": schema}


def _message(fields: str) -> Schema:
    properties: dict[str, Schema] = {}
    optional = set()
    for field in fields.split(","):
        name, kind = field.split()
        if kind.endswith("?"):
            optional.add(name)
        properties[name] = _type(kind)
    return _object(properties, optional)


def _object(properties: dict[str, Schema], optional: set[str] = frozenset()) -> Schema:  # type: ignore[assignment]
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def _type(kind: str) -> Schema:
    plain = kind.rstrip("?!")
    if plain.startswith("["):
        return listed(_type(plain.strip("[]")))
    schema = _SCALARS.get(plain) or reference(plain)
    return {"anyOf": [schema, {"type": "null"}]} if kind.endswith("!") else schema
