"""Money comes in and goes out: deposits, withdrawals and the validators' signatures for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from random import Random

from tests.sample.money import Accounts, AccountType
from tests.sample.participants import Asset, Participants, digest
from tests.sample.record import Recorder
from tests.sample.text import Cell, jsonb

_FIRST_DEPOSITS_OVER_BLOCKS = 40
_CONFIRMATION_BLOCKS = 9
_FIRST_DEPOSIT = 2_000_000
_WHALE_DEPOSIT = 1_234_567_890_123_456_789_012_345_678_901_234_567_890
_ONE_IN = 40
_ONE_REFUSED_IN = 7


class Funding:
    """Deposits and withdrawals, each opened in one block and finished some blocks later."""

    def __init__(
        self, participants: Participants, recorder: Recorder, accounts: Accounts, rng: Random
    ) -> None:
        self._participants = participants
        self._recorder = recorder
        self._accounts = accounts
        self._rng = rng
        self._due: dict[int, list[Callable[[], None]]] = defaultdict(list)
        self._count = 0

    def act(self) -> None:
        """What one block brings."""
        for finish in self._due.pop(self._recorder.height, ()):
            self._recorder.begin_transaction()
            finish()
        if 1 < self._recorder.height <= 1 + _FIRST_DEPOSITS_OVER_BLOCKS:
            self._first_deposits(self._recorder.height - 2)
            return
        for _ in range(self._participants.scale):
            if self._rng.randrange(_ONE_IN) == 0:
                party, asset = (
                    self._rng.choice(self._participants.parties),
                    self._rng.choice(self._participants.assets),
                )
                amount = asset.whole(self._rng.randrange(1, 5_000)) // 4
                start = self._rng.choice((self._deposit, self._withdraw))
                start(party, asset, amount)

    def _first_deposits(self, turn: int) -> None:
        for party in self._participants.parties[turn::_FIRST_DEPOSITS_OVER_BLOCKS]:
            self._recorder.begin_transaction()
            self._recorder.put("parties", party, id=party, alias="", metadata=None)
            for asset in self._participants.assets:
                self._deposit(party, asset, asset.whole(_FIRST_DEPOSIT))
        if turn == _FIRST_DEPOSITS_OVER_BLOCKS - 1:
            # More digits than a decimal of 38 holds: such amounts are real on test networks.
            self._deposit(
                self._participants.parties[0], self._participants.assets[1], _WHALE_DEPOSIT
            )

    def _new_id(self, what: str) -> str:
        self._count += 1
        self._recorder.begin_transaction()
        return digest(self._participants.seed, what, self._count)

    def _later(self, finish: Callable[[], None]) -> None:
        self._due[self._recorder.height + _CONFIRMATION_BLOCKS].append(finish)

    def _deposit(self, party: str, asset: Asset, amount: int) -> None:
        deposit = self._new_id("deposit")
        cells: dict[str, Cell] = {
            "id": deposit,
            "party_id": party,
            "asset": asset.id,
            "amount": amount,
            "foreign_tx_hash": f"0x{digest(deposit, 'foreign')}",
            "created_timestamp": self._recorder.time,
        }
        opened = {**cells, "status": "STATUS_OPEN", "credited_timestamp": 0}
        self._recorder.put("deposits", deposit, **opened)
        self._later(partial(self._finish_deposit, cells, party, asset, amount))

    def _finish_deposit(
        self, cells: dict[str, Cell], party: str, asset: Asset, amount: int
    ) -> None:
        now: dict[str, Cell] = {"credited_timestamp": self._recorder.time}
        self._recorder.put("deposits", cells["id"], status="STATUS_FINALIZED", **cells, **now)
        outside = self._accounts.account(AccountType.EXTERNAL, asset)
        self._accounts.move(outside, self._accounts.general(party, asset), amount, "DEPOSIT")

    def _withdraw(self, party: str, asset: Asset, amount: int) -> None:
        withdrawal = self._new_id("withdrawal")
        general = self._accounts.general(party, asset)
        refused = self._accounts.balance(general) < amount or self._count % _ONE_REFUSED_IN == 0
        cells: dict[str, Cell] = {
            "id": withdrawal,
            "party_id": party,
            "amount": amount,
            "asset": asset.id,
            "ref": str(self._count),
            "created_timestamp": self._recorder.time,
            "ext": jsonb({"erc20": {"receiverAddress": self._participants.address(party)}}),
        }
        opened = {**cells, "status": "STATUS_REJECTED" if refused else "STATUS_OPEN"}
        unset: dict[str, Cell] = {"withdrawn_timestamp": 0, "foreign_tx_hash": ""}
        self._recorder.put("withdrawals", withdrawal, **opened, **unset)
        if not refused:
            outside = self._accounts.account(AccountType.EXTERNAL, asset)
            self._accounts.move(general, outside, amount, "WITHDRAW")
            self.sign(withdrawal, "ASSET_WITHDRAWAL")
            self._later(partial(self._finish_withdrawal, cells))

    def _finish_withdrawal(self, cells: dict[str, Cell]) -> None:
        done: dict[str, Cell] = {
            "status": "STATUS_FINALIZED",
            "withdrawn_timestamp": self._recorder.time,
            "foreign_tx_hash": f"0x{digest(cells['id'], 'foreign')}",
        }
        self._recorder.put("withdrawals", cells["id"], **cells, **done)

    def sign(self, resource: str, kind: str) -> None:
        """Every validator signs for a resource."""
        for node in self._participants.nodes:
            signature = digest(node, resource, "r") + digest(node, resource, "s") + "00"
            self._recorder.put(
                "node_signatures",
                (resource, signature),
                resource_id=resource,
                sig=signature,
                kind=f"NODE_SIGNATURE_KIND_{kind}",
            )
