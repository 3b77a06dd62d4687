"""The sample chain, block by block: who acts in which order."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import count
from random import Random

from tests.sample.epochs import Epochs
from tests.sample.funding import Funding
from tests.sample.genesis import write_genesis
from tests.sample.listing import Listing
from tests.sample.margin import mark_to_market
from tests.sample.market import Market
from tests.sample.money import Accounts
from tests.sample.oracle import Oracle
from tests.sample.participants import Participants, digest
from tests.sample.quotes import write_market_data
from tests.sample.record import Recorder
from tests.sample.text import Row
from tests.sample.traders import Traders

_GENESIS = 1_685_577_600_000_000  # 2023-06-01 00:00 UTC, in microseconds
_BLOCK_MICROSECONDS = (700_000, 1_500_000)
_MARKET_DATA_BLOCKS = 10
_MARK_TO_MARKET_BLOCKS = 300
_BLOCKS_BETWEEN_MARKETS = 40
_QUOTE_BLOCKS = 250
_FIRST_VERSION_WITH_ICEBERGS = 6


class Simulation:
    """The chain from its first block on; the same participants give the same blocks."""

    def __init__(self, participants: Participants) -> None:
        rng = Random(participants.seed)
        recorder = Recorder(rng)
        self._participants = participants
        self._rng = rng
        self._recorder = recorder
        self._time = _GENESIS
        self._releases = (f"v0.{minor}.0" for minor in count(71))
        self._release = next(self._releases)
        self._oracle = Oracle(participants, recorder)
        self._accounts = accounts = Accounts(recorder)
        self._funding = Funding(participants, recorder, accounts, rng)
        self._epochs = Epochs(participants, recorder, accounts)
        markets = [Market(terms, recorder, accounts) for terms in participants.markets]
        self._listings = [Listing(market, participants, self._oracle) for market in markets]
        self._traders = [Traders(market, participants.parties, rng) for market in markets]

    def use_version(self, version: int) -> None:
        """Go on with the tables, and the kinds of order, of a schema version."""
        self._recorder.use_version(version)
        for traders in self._traders:
            traders.icebergs = version >= _FIRST_VERSION_WITH_ICEBERGS

    def simulate_block(self, height: int) -> Mapping[str, Collection[Row]]:
        """Simulate one block; returns its history rows by table."""
        self._time += self._rng.randrange(*_BLOCK_MICROSECONDS)
        self._recorder.open_block(height, self._time)
        if height == 1:
            write_genesis(self._participants, self._recorder, self._funding)
            self._epochs.start()
        self._funding.act()
        for listing, traders in zip(self._listings, self._traders, strict=True):
            listing.act()
            if listing.open:
                traders.trade()
        self._recorder.end_transactions()
        self._end_block(height)
        for listing in self._listings:
            listing.market.close_block()
        self._accounts.close_block()
        return self._recorder.close_block()

    def _end_block(self, height: int) -> None:
        for number, listing in enumerate(self._listings):
            if not listing.open:
                continue
            if height % _MARK_TO_MARKET_BLOCKS == _BLOCKS_BETWEEN_MARKETS * number:
                mark_to_market(listing.market)
            if height % _MARKET_DATA_BLOCKS == number:
                write_market_data(listing)
            if height % _QUOTE_BLOCKS == number:
                self._oracle.quote(listing.market.terms, listing.market.last_price)
                self._recorder.end_transactions()
        self._epochs.act()
        if height == self._participants.last * 2 // 3:
            self._recorder.put("network_parameters", key="spam.protection.max.votes", value="5")

    def end_segment(self, first: int, *, upgraded: bool) -> Mapping[str, Collection[Row]]:
        """Take the snapshot that ends a segment; returns the rows of every current-state table.

        `upgraded`: the validators have agreed that another release takes over from here.
        """
        recorder = self._recorder
        recorder.put(
            "core_snapshots",
            block_height=recorder.height,
            block_hash=recorder.block_hash,
            vega_core_version=self._release,
        )
        if upgraded:
            self._release = next(self._releases)
            approvers = ",".join(digest(node, "tendermint") for node in self._participants.nodes)
            recorder.put(
                "protocol_upgrade_proposals",
                upgrade_block_height=recorder.height,
                vega_release_tag=self._release,
                approvers=f"{{{approvers}}}",
                status="PROTOCOL_UPGRADE_PROPOSAL_STATUS_APPROVED",
            )
        return recorder.current_state(first)
