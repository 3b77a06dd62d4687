"""The messages that are answered: their fields in the order of declaration (spec section 2).

A record is a tuple of a message's values in this order. Its values are: text; whole numbers, times
as Unix nanoseconds; enum values by name, or the number where it has none; bytes as lower-case hex;
a message as a record or None; a list of any of these. None for what is optional and not set.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Kind(Enum):
    """The types of single values that are not messages."""

    TEXT = auto()
    WHOLE64 = auto()
    WHOLE32 = auto()
    TRUTH = auto()
    ENUM = auto()
    BYTES = auto()


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its name with underscores, its type, whether it is a list or may be absent."""

    name: str
    type: Kind | Message
    repeated: bool = False
    optional: bool = False

    @property
    def json_name(self) -> str:
        """The name in JSON."""
        first, *rest = self.name.split("_")
        return first + "".join(word.capitalize() for word in rest)


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A message type, by its full name. There is one object of each."""

    name: str
    fields: tuple[Field, ...]


def _message(name: str, fields: str, **parts: Message) -> Message:
    """Read `<field> <type>` pairs; a type may end in `*` (a list) or `?` (optional)."""
    kinds: dict[str, Kind | Message] = {kind.name.lower(): kind for kind in Kind}
    kinds |= parts
    read = []
    for pair in fields.split(","):
        field, kind = pair.split()
        read.append(Field(field, kinds[kind.rstrip("*?")], kind.endswith("*"), kind.endswith("?")))
    return Message(name, tuple(read))


_PEGGED_ORDER = _message("vega.PeggedOrder", "reference enum, offset text")
ORDER = _message(
    "vega.Order",
    """
    id text, market_id text, party_id text, side enum, price text, size whole64, remaining whole64,
    time_in_force enum, type enum, created_at whole64, status enum, expires_at whole64,
    reference text, reason enum?, updated_at whole64, version whole64, batch_id whole64,
    pegged_order pegged, liquidity_provision_id text, post_only truth, reduce_only truth
    """,
    pegged=_PEGGED_ORDER,
)
_ERC20 = _message("vega.Erc20WithdrawExt", "receiver_address text")
WITHDRAWAL = _message(
    "vega.Withdrawal",
    """
    id text, party_id text, amount text, asset text, status enum, ref text, tx_hash text,
    created_timestamp whole64, withdrawn_timestamp whole64, ext ext
    """,
    ext=_message("vega.WithdrawExt", "erc20 erc20?", erc20=_ERC20),
)
_SIGNER = _message(
    "vega.data.v1.Signer",
    "pub_key key?, eth_address address?",
    key=_message("vega.data.v1.PubKey", "key text"),
    address=_message("vega.data.v1.ETHAddress", "address text"),
)
_DATA = _message(
    "vega.data.v1.Data",
    "signers signer*, data property*, matched_spec_ids text*, broadcast_at whole64",
    signer=_SIGNER,
    property=_message("vega.data.v1.Property", "name text, value text"),
)
ORACLE_DATA = _message(
    "vega.OracleData",
    "external_data external",
    external=_message("vega.data.v1.ExternalData", "data data", data=_DATA),
)
NODE_SIGNATURE = _message("vega.commands.v1.NodeSignature", "id text, sig bytes, kind enum")
_LIQUIDITY_ORDER = _message(
    "vega.LiquidityOrder", "reference enum, proportion whole32, offset text"
)
LIQUIDITY_PROVISION = _message(
    "vega.LiquidityProvision",
    """
    id text, party_id text, created_at whole64, updated_at whole64, market_id text,
    commitment_amount text, fee text, sells order*, buys order*, version whole64, status enum,
    reference text
    """,
    order=_message(
        "vega.LiquidityOrderReference",
        "order_id text, liquidity_order order",
        order=_LIQUIDITY_ORDER,
    ),
)
SEGMENT = _message(
    "datanode.api.v2.HistorySegment",
    """
    from_height whole64, to_height whole64, history_segment_id text,
    previous_history_segment_id text, database_version whole64, chain_id text
    """,
)
_COUNTERS = _message(
    "vega.api.v1.SpamStatistic",
    """
    count_for_epoch whole64, max_for_epoch whole64, banned_until text?, min_tokens_required text
    """,
)
_VOTE = _message(
    "vega.api.v1.VoteSpamStatistic",
    "proposal text, count_for_epoch whole64, min_tokens_required text",
)
_VOTES = _message(
    "vega.api.v1.VoteSpamStatistics",
    "statistics vote*, max_for_epoch whole64, banned_until text?",
    vote=_VOTE,
)
_BLOCK_STATE = _message(
    "vega.api.v1.PoWBlockState",
    """
    block_height whole64, block_hash text, transactions_seen whole64,
    expected_difficulty whole64?, hash_function text, difficulty whole64, tx_per_block whole64,
    increasing_difficulty truth
    """,
)
_PROOF_OF_WORK = _message(
    "vega.api.v1.PoWStatistic",
    "block_states state*, banned_until text?, number_of_past_blocks whole64",
    state=_BLOCK_STATE,
)
SPAM_STATISTICS = _message(
    "vega.api.v1.SpamStatistics",
    """
    proposals counters, delegations counters, transfers counters, node_announcements counters,
    votes votes, pow work, issue_signatures counters, epoch_seq whole64
    """,
    counters=_COUNTERS,
    votes=_VOTES,
    work=_PROOF_OF_WORK,
)
SPAM_RESPONSE = _message(
    "vega.api.v1.GetSpamStatisticsResponse",
    "chain_id text, statistics statistics",
    statistics=SPAM_STATISTICS,
)
VEGA_TIME = _message("datanode.api.v2.GetVegaTimeResponse", "timestamp whole64")
INFO = _message("datanode.api.v2.InfoResponse", "version text, commit_hash text")
