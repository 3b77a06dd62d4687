"""Epochs and what happens at their ends: delegations, rewards; and the regular checkpoints."""

from __future__ import annotations

from tests.sample.money import Accounts, AccountType
from tests.sample.participants import Participants, digest
from tests.sample.record import Recorder

_EPOCH_BLOCKS = 300
_EPOCH_MICROSECONDS = 300_000_000
_CHECKPOINT_BLOCKS = 120
_ONE_DELEGATOR_IN = 3


class Epochs:
    """Counts epochs; every third trader delegates to a validator and is rewarded for it."""

    def __init__(self, participants: Participants, recorder: Recorder, accounts: Accounts) -> None:
        self._participants = participants
        self._recorder = recorder
        self._accounts = accounts
        self._epoch = 0
        self._started = 0

    def act(self) -> None:
        """What one block brings."""
        if self._recorder.height % _CHECKPOINT_BLOCKS == 0:
            self._checkpoint()
        if self._recorder.height % _EPOCH_BLOCKS == 0:
            self._write_row(self._recorder.time)
            self._reward()
            self._epoch += 1
            self.start()

    def start(self) -> None:
        """Begin the present epoch: its delegations take effect."""
        self._started = self._recorder.time
        self._write_row(None)
        nodes = tuple(self._participants.nodes)
        for number, party in enumerate(self._delegators):
            self._recorder.put(
                "delegations",
                party_id=party,
                node_id=nodes[number % len(nodes)],
                epoch_id=self._epoch,
                amount=self._participants.assets[2].whole(100 + number),
            )

    @property
    def _delegators(self) -> tuple[str, ...]:
        return self._participants.parties[::_ONE_DELEGATOR_IN]

    def _write_row(self, ended: int | None) -> None:
        self._recorder.put(
            "epochs",
            (self._epoch, self._recorder.time),
            id=self._epoch,
            start_time=self._started,
            expire_time=self._started + _EPOCH_MICROSECONDS,
            end_time=ended,
        )

    def _reward(self) -> None:
        """Share out the infrastructure fees among the delegators, half of them equally."""
        for asset in self._participants.assets:
            pool = self._accounts.account(AccountType.FEES_INFRASTRUCTURE, asset)
            share = self._accounts.balance(pool) // 2 // len(self._delegators)
            if share == 0:
                continue
            for party in self._delegators:
                self._recorder.put(
                    "rewards",
                    party_id=party,
                    asset_id=asset.id,
                    market_id="",
                    reward_type="ACCOUNT_TYPE_FEES_INFRASTRUCTURE",
                    epoch_id=self._epoch,
                    amount=share,
                    percent_of_total=_float_text(100 / len(self._delegators)),
                    timestamp=self._recorder.time,
                )
                general = self._accounts.general(party, asset)
                self._accounts.move(pool, general, share, "REWARD_PAYOUT")

    def _checkpoint(self) -> None:
        self._recorder.put(
            "checkpoints",
            hash=digest(self._recorder.block_hash, "checkpoint"),
            block_hash=self._recorder.block_hash.upper(),
            block_height=self._recorder.height,
        )


def _float_text(value: float) -> str:
    """PostgreSQL's shortest text of a number between 0.0001 and 10^15."""
    return repr(value).removesuffix(".0")
