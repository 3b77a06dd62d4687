"""The sample market's accounts: every movement of money is a ledger entry and two new balances."""

from __future__ import annotations

from enum import IntEnum

from tests.sample.participants import NETWORK_PARTY, Asset, digest
from tests.sample.record import Recorder


class AccountType(IntEnum):
    """The network's numbers for the kinds of account that the sample uses."""

    INSURANCE = 1
    SETTLEMENT = 2
    MARGIN = 3
    GENERAL = 4
    FEES_INFRASTRUCTURE = 5
    FEES_LIQUIDITY = 6
    FEES_MAKER = 7
    BOND = 9
    EXTERNAL = 10
    GLOBAL_REWARD = 12


class Accounts:
    """All accounts and their balances, in each asset's smallest unit."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._ids: dict[tuple[str, str, str, AccountType], str] = {}
        self._balances: dict[str, int] = {}
        self._outside: set[str] = set()
        self._touched: dict[str, str] = {}

    def account(
        self, kind: AccountType, asset: Asset, party: str = NETWORK_PARTY, market: str = ""
    ) -> str:
        """The id of an account, which is opened when it is first asked for."""
        owner = (party, asset.id, market, kind)
        if owner not in self._ids:
            self._ids[owner] = account = digest(party, asset.id, market, int(kind))
            self._balances[account] = 0
            if kind is AccountType.EXTERNAL:
                self._outside.add(account)
            self._recorder.put(
                "accounts",
                account,
                id=account,
                party_id=party,
                asset_id=asset.id,
                market_id=market,
                type=int(kind),
            )
        return self._ids[owner]

    def general(self, party: str, asset: Asset) -> str:
        """A party's account for an asset that is not set aside for anything."""
        return self.account(AccountType.GENERAL, asset, party)

    def balance(self, account: str) -> int:
        """What an account holds."""
        return self._balances[account]

    def move(self, source: str, target: str, amount: int, reason: str) -> None:
        """Move an amount; nothing happens where it is 0. The world outside always shows 0."""
        if amount == 0:
            return
        self._balances[source] -= amount
        self._balances[target] += amount
        for account in (source, target):
            self._touched[account] = self._recorder.tx_hash
            if account in self._outside:
                self._balances[account] = 0
        self._recorder.put(
            "ledger",
            account_from_id=source,
            account_to_id=target,
            quantity=amount,
            transfer_time=self._recorder.time,
            account_from_balance=self._balances[source],
            account_to_balance=self._balances[target],
            type=f"TRANSFER_TYPE_{reason}",
        )

    def close_block(self) -> None:
        """Note the balances that the block has changed, each with its last transaction."""
        for account, tx_hash in self._touched.items():
            self._recorder.put(
                "balances", account_id=account, balance=self._balances[account], tx_hash=tx_hash
            )
        self._touched.clear()
