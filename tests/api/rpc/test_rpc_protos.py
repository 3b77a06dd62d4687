"""The `.proto` files: compiled as committed, and in step with what REST writes."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from api.core.descriptors import POOL, is_optional, json_name, message_class
from api.operations import CALLS
from tests.api.rpc.protos import COMPILED, compiled
from tests.cases import each_of
from transforms.tables.column_facts import enum_names

_TYPES = {
    "text": {FieldDescriptor.TYPE_STRING},
    "whole64": {FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_UINT64},
    "whole32": {FieldDescriptor.TYPE_UINT32},
    "truth": {FieldDescriptor.TYPE_BOOL},
    "enum": {FieldDescriptor.TYPE_ENUM},
    "bytes": {FieldDescriptor.TYPE_BYTES},
}

_DECLARED = {
    "datanode.api.v2.GetNetworkHistoryBootstrapPeersResponse": "bootstrap_peers text*",
    "datanode.api.v2.GetNetworkHistoryStatusResponse": """
        ipfs_address text, swarm_key text, swarm_key_seed text, connected_peers text*
    """,
    "datanode.api.v2.InfoResponse": "version text, commit_hash text",
    "vega.LiquidityProvision": """
        id text, party_id text, created_at whole64, updated_at whole64, market_id text,
        commitment_amount text, fee text, sells vega.LiquidityOrderReference*, buys
        vega.LiquidityOrderReference*, version whole64, status enum, reference text
    """,
    "vega.LiquidityOrderReference": "order_id text, liquidity_order vega.LiquidityOrder",
    "vega.LiquidityOrder": "reference enum, proportion whole32, offset text",
    "vega.commands.v1.NodeSignature": "id text, sig bytes, kind enum",
    "vega.OracleData": "external_data vega.data.v1.ExternalData",
    "vega.data.v1.ExternalData": "data vega.data.v1.Data",
    "vega.data.v1.Data": """
        signers vega.data.v1.Signer*, data vega.data.v1.Property*, matched_spec_ids text*,
        broadcast_at whole64
    """,
    "vega.data.v1.Signer": "pub_key vega.data.v1.PubKey?, eth_address vega.data.v1.ETHAddress?",
    "vega.data.v1.PubKey": "key text",
    "vega.data.v1.ETHAddress": "address text",
    "vega.data.v1.Property": "name text, value text",
    "vega.Order": """
        id text, market_id text, party_id text, side enum, price text, size whole64, remaining
        whole64, time_in_force enum, type enum, created_at whole64, status enum, expires_at
        whole64, reference text, reason enum?, updated_at whole64, version whole64, batch_id
        whole64, pegged_order vega.PeggedOrder, liquidity_provision_id text, post_only truth,
        reduce_only truth
    """,
    "vega.PeggedOrder": "reference enum, offset text",
    "datanode.api.v2.HistorySegment": """
        from_height whole64, to_height whole64, history_segment_id text,
        previous_history_segment_id text, database_version whole64, chain_id text
    """,
    "vega.api.v1.GetSpamStatisticsResponse": """
        chain_id text, statistics vega.api.v1.SpamStatistics
    """,
    "vega.api.v1.SpamStatistics": """
        proposals vega.api.v1.SpamStatistic, delegations vega.api.v1.SpamStatistic, transfers
        vega.api.v1.SpamStatistic, node_announcements vega.api.v1.SpamStatistic, votes
        vega.api.v1.VoteSpamStatistics, pow vega.api.v1.PoWStatistic, issue_signatures
        vega.api.v1.SpamStatistic, epoch_seq whole64
    """,
    "vega.api.v1.SpamStatistic": """
        count_for_epoch whole64, max_for_epoch whole64, banned_until text?, min_tokens_required
        text
    """,
    "vega.api.v1.VoteSpamStatistics": """
        statistics vega.api.v1.VoteSpamStatistic*, max_for_epoch whole64, banned_until text?
    """,
    "vega.api.v1.VoteSpamStatistic": """
        proposal text, count_for_epoch whole64, min_tokens_required text
    """,
    "vega.api.v1.PoWStatistic": """
        block_states vega.api.v1.PoWBlockState*, banned_until text?, number_of_past_blocks
        whole64
    """,
    "vega.api.v1.PoWBlockState": """
        block_height whole64, block_hash text, transactions_seen whole64, expected_difficulty
        whole64?, hash_function text, difficulty whole64, tx_per_block whole64,
        increasing_difficulty truth
    """,
    "datanode.api.v2.GetVegaTimeResponse": "timestamp whole64",
    "vega.Withdrawal": """
        id text, party_id text, amount text, asset text, status enum, ref text, tx_hash text,
        created_timestamp whole64, withdrawn_timestamp whole64, ext vega.WithdrawExt
    """,
    "datanode.api.v2.GetWithdrawalResponse": "withdrawal vega.Withdrawal",
    "datanode.api.v2.ListAllNetworkHistorySegmentsResponse": """
        segments datanode.api.v2.HistorySegment*
    """,
    "datanode.api.v2.PageInfo": """
        has_next_page truth, has_previous_page truth, start_cursor text, end_cursor text
    """,
    "vega.WithdrawExt": "erc20 vega.Erc20WithdrawExt?",
    "vega.Erc20WithdrawExt": "receiver_address text",
}
"""What REST writes: names and types in order; `*` is a list, `?` what may be absent."""
_API = "datanode.api.v2"
_PAGES = {
    "ListLiquidityProvisions": """
        liquidity_provisions LiquidityProvisions LiquidityProvisions vega.LiquidityProvision
    """,
    "ListNodeSignatures": "signatures NodeSignatures NodeSignature vega.commands.v1.NodeSignature",
    "ListOracleData": "oracle_data OracleData OracleData vega.OracleData",
    "ListOrderVersions": "orders Order Order vega.Order",
    "ListWithdrawals": "withdrawals Withdrawals Withdrawal vega.Withdrawal",
}
for _method, _text in _PAGES.items():
    _field, _page, _edge, _node = _text.split()
    _DECLARED[f"{_API}.{_method}Response"] = f"{_field} {_API}.{_page}Connection"
    _DECLARED[f"{_API}.{_page}Connection"] = f"edges {_API}.{_edge}Edge*, page_info {_API}.PageInfo"
    _DECLARED[f"{_API}.{_edge}Edge"] = f"node {_node}, cursor text"


def _known() -> dict[str, Descriptor]:
    """Every message that records are made of, by its full name."""
    found: dict[str, Descriptor] = {}

    def add(message: Descriptor) -> None:
        found[message.full_name] = message
        for field in message.fields:
            if field.message_type:
                add(field.message_type)

    for operation in CALLS:
        if operation.path:
            add(operation.method.output_type)
    return found


_MESSAGES = _known()


def test_the_compiled_file_is_what_the_proto_files_say() -> None:
    assert COMPILED.read_bytes() == compiled(), "run `make protos`"


def test_every_message_that_is_written_is_declared_here() -> None:
    assert {*_MESSAGES} == {*_DECLARED}


@each_of("name", _MESSAGES)
def test_a_message_has_the_fields_that_rest_writes(name: str) -> None:
    wanted = [pair.split() for pair in _DECLARED[name].split(",")]
    found = _MESSAGES[name].fields
    assert [field.name for field in found] == [name for name, _ in wanted]
    for field, (_, kind) in zip(found, wanted, strict=True):
        first, *rest = field.name.split("_")
        assert json_name(field) == first + "".join(word.capitalize() for word in rest)
        assert field.is_repeated == kind.endswith("*")
        assert is_optional(field) == kind.endswith("?")
        if field.message_type:
            assert field.message_type is _MESSAGES[kind.rstrip("*?")]
        else:
            assert field.type in _TYPES[kind.rstrip("*?")]
            assert field.has_presence == is_optional(field)


def _enums() -> Iterator[tuple[str, str]]:
    order = message_class("vega.Order").DESCRIPTOR.fields_by_name
    for name in ("side", "time_in_force", "type", "status", "reason"):
        yield name, order[name].enum_type.full_name
    yield "pegged_reference", "vega.PeggedReference"


@each_of(("column", "enum"), [*_enums()])
def test_an_enum_has_the_names_that_the_tables_have(column: str, enum: str) -> None:
    declared = POOL.FindEnumTypeByName(enum).values_by_number
    assert {number: value.name for number, value in declared.items()} == enum_names(
        "orders", column
    )
