"""What the chain starts with: parameters, assets, validators, the network's own party."""

from __future__ import annotations

from tests.sample.funding import Funding
from tests.sample.participants import NETWORK_PARTY, Asset, Participants, digest
from tests.sample.record import Recorder
from tests.sample.text import Cell

PARAMETERS = {
    "governance.proposal.market.requiredMajority": "0.66",
    "market.fee.factors.infrastructureFee": "0.0005",
    "market.fee.factors.makerFee": "0.0002",
    "market.margin.scalingFactors": (
        '{"search_level": 1.1, "initial_margin": 1.2, "collateral_release": 1.4}'
    ),
    "network.checkpoint.timeElapsedBetweenCheckpoints": "2m",
    "network.markPriceUpdateMaximumFrequency": "60s",
    "reward.staking.delegation.minimumValidatorStake": "3000000000000000000000",
    "snapshot.interval.length": "1000",
    "spam.pow.difficulty": "15",
    "spam.pow.hashFunction": "sha3_24_rounds",
    "spam.pow.increaseDifficulty": "1",
    "spam.pow.numberOfPastBlocks": "100",
    "spam.pow.numberOfTxPerBlock": "2",
    "spam.protection.delegation.min.tokens": "100000000000000000",
    "spam.protection.max.delegations": "390",
    "spam.protection.max.proposals": "3",
    "spam.protection.max.votes": "3",
    "spam.protection.maxUserTransfersPerEpoch": "20",
    "spam.protection.minMultisigUpdates": "100000000000000000000",
    "spam.protection.proposal.min.tokens": "100000000000000000000000",
    "spam.protection.voting.min.tokens": "100000000000000000",
    "validators.epoch.length": "5m",
}


def write_genesis(participants: Participants, recorder: Recorder, funding: Funding) -> None:
    """Everything that the first block sets up."""
    recorder.put("chain", 0, id=participants.chain_id, onerow_check=True)
    network: dict[str, Cell] = {"id": NETWORK_PARTY, "tx_hash": "01", "vega_time": None}
    recorder.put("parties", NETWORK_PARTY, alias="network", metadata=None, **network)
    recorder.put(
        "network_limits",
        **dict.fromkeys(("can_propose_market", "can_propose_asset", "genesis_loaded"), True),
        **dict.fromkeys(("propose_market_enabled", "propose_asset_enabled"), True),
        **dict.fromkeys(("propose_market_enabled_from", "propose_asset_enabled_from"), 0),
    )
    for key, value in PARAMETERS.items():
        recorder.put("network_parameters", key=key, value=value)
    for asset in participants.assets:
        _list_asset(asset, recorder)
        funding.sign(asset.id, "ASSET_NEW")
    for node, name in participants.nodes.items():
        _announce_node(participants, recorder, node, name)


def _list_asset(asset: Asset, recorder: Recorder) -> None:
    recorder.put(
        "assets",
        id=asset.id,
        name=asset.name,
        symbol=asset.symbol,
        decimals=asset.decimals,
        quantum=asset.whole(1),
        source="",
        erc20_contract=asset.contract,
        lifetime_limit=asset.whole(1_000_000),
        withdraw_threshold=asset.whole(1),
        status="STATUS_ENABLED",
    )


def _announce_node(participants: Participants, recorder: Recorder, node: str, name: str) -> None:
    recorder.put(
        "nodes",
        node,
        id=node,
        vega_pub_key=digest(node, "vega"),
        tendermint_pub_key=digest(node, "tendermint"),
        ethereum_address=participants.address(node),
        info_url=f"https://{name.lower()}.example",
        location="",
        status="NODE_STATUS_VALIDATOR",
        name=name,
        avatar_url="",
    )
    recorder.put("nodes_announced", node_id=node, epoch_seq=0, added=True)
