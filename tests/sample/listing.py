"""A market's life outside its order book: proposal, votes, liquidity, opening, settlement."""

from __future__ import annotations

from tests.sample.book import Status
from tests.sample.margin import close_positions, mark_to_market
from tests.sample.market import Market
from tests.sample.oracle import Oracle
from tests.sample.participants import Participants
from tests.sample.provisions import Provisions
from tests.sample.terms import market_cells, proposal_terms

_NO_AUCTION, _AUCTION, _TRADING = "NO_TRADING", "OPENING_AUCTION", "CONTINUOUS"


class Listing:
    """Takes one market from its proposal to its settlement, block by block."""

    def __init__(self, market: Market, participants: Participants, oracle: Oracle) -> None:
        self.market = market
        self.open = False
        self.provisions = Provisions(market, participants)
        self._participants = participants
        self._oracle = oracle
        self._recorder = market.recorder
        self._terms = market.terms
        self._times: dict[str, int] = {}
        opens, settles = self._terms.opens, self._terms.settles
        self._steps = {
            opens - 40: self._propose,
            opens - 30: self.provisions.pledge,
            opens - 20: self._pass,
            opens: self._start,
            opens + participants.last // 2: self._amend,
        }
        if settles is not None:
            self._steps |= {settles - 20: self._terminate, settles: self._settle}

    def act(self) -> None:
        """What is due in the present block."""
        if step := self._steps.get(self._recorder.height):
            self._recorder.begin_transaction()
            step()

    def _write_row(self, state: str, mode: str) -> None:
        self._times.setdefault(state, self._recorder.time)
        self._recorder.put(
            "markets",
            self._terms.id,
            trading_mode=f"TRADING_MODE_{mode}",
            state=f"STATE_{state}",
            **market_cells(self._terms, self._times),
        )

    def _propose(self) -> None:
        self._write_row("PROPOSED", _NO_AUCTION)
        self._oracle.declare(self._terms)
        self._proposal("OPEN")
        for party in self._participants.providers:
            self._recorder.begin_transaction()
            self._recorder.put(
                "votes",
                (self._terms.id, party),
                proposal_id=self._terms.id,
                party_id=party,
                value="VALUE_YES",
                total_governance_token_balance=self._participants.assets[2].whole(1_000),
                total_governance_token_weight="0.3333333333333333",
                total_equity_like_share_weight="0.0000000000000000",
                initial_time=self._recorder.time,
            )

    def _proposal(self, state: str) -> None:
        self._recorder.put(
            "proposals",
            id=self._terms.id,
            reference=f"new market {self._terms.code}",
            party_id=self._participants.providers[0],
            state=f"STATE_{state}",
            reason="PROPOSAL_ERROR_UNSPECIFIED",
            error_details="",
            proposal_time=self._times["PROPOSED"],
            required_majority="0.6600000000000000",
            required_participation="0.0000100000000000",
            required_lp_majority="0.0000000000000000",
            required_lp_participation="0.0000000000000000",
            **proposal_terms(self._terms, self._times["PROPOSED"]),
        )

    def _pass(self) -> None:
        self._proposal("PASSED")
        self._write_row("PENDING", _AUCTION)

    def _start(self) -> None:
        self.open = True
        self._proposal("ENACTED")
        self._write_row("ACTIVE", _TRADING)
        self._recorder.put(
            "market_lineage", market_id=self._terms.id, parent_market_id="", root_id=self._terms.id
        )
        self._recorder.put(
            "risk_factors",
            market_id=self._terms.id,
            short="0.0552995358916739",
            long="0.0526284506210587",
        )
        self.provisions.deploy()

    def _amend(self) -> None:
        if self.open:
            self.provisions.amend()

    def _terminate(self) -> None:
        self.open = False
        self._oracle.terminate(self._terms)
        self._recorder.end_transactions()
        for order in list(self.market.book.live):
            self.market.close(order, Status.STOPPED)
        self._write_row("TRADING_TERMINATED", _NO_AUCTION)

    def _settle(self) -> None:
        self._oracle.settle(self._terms, self.market.last_price)
        self._recorder.end_transactions()
        mark_to_market(self.market)
        close_positions(self.market)
        self.provisions.stop()
        self._write_row("SETTLED", _NO_AUCTION)
