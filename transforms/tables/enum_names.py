"""Which columns are enums, and the names of values that are numbers (spec 2.5 and 7.2).

Enums that PostgreSQL knows as types are names in a segment already, as are some columns of text.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from transforms.tables.meanings import is_enum
from transforms.tables.registry import Column


def _named(prefix: str, names: str) -> Mapping[int, str]:
    """Number the names from 0; `-` stands for a number that the network reserves."""
    return MappingProxyType(
        {number: prefix + name for number, name in enumerate(names.split()) if name != "-"}
    )


_SIDE = _named("SIDE_", "UNSPECIFIED BUY SELL")
_ORDER_TYPE = _named("TYPE_", "UNSPECIFIED LIMIT MARKET NETWORK")
_ORDER_STATUS = _named(
    "STATUS_",
    "UNSPECIFIED ACTIVE EXPIRED CANCELLED STOPPED FILLED REJECTED PARTIALLY_FILLED PARKED",
)
_TIME_IN_FORCE = _named("TIME_IN_FORCE_", "UNSPECIFIED GTC GTT IOC FOK GFA GFN")
_PEGGED_REFERENCE = _named("PEGGED_REFERENCE_", "UNSPECIFIED MID BEST_BID BEST_ASK")
_TRADE_TYPE = _named("TYPE_", "UNSPECIFIED DEFAULT NETWORK_CLOSE_OUT_GOOD NETWORK_CLOSE_OUT_BAD")
# The last three came with later releases than the specification describes.
_ORDER_ERROR = _named(
    "ORDER_ERROR_",
    """
    UNSPECIFIED
    INVALID_MARKET_ID
    INVALID_ORDER_ID
    OUT_OF_SEQUENCE
    INVALID_REMAINING_SIZE
    TIME_FAILURE
    REMOVAL_FAILURE
    INVALID_EXPIRATION_DATETIME
    INVALID_ORDER_REFERENCE
    EDIT_NOT_ALLOWED
    AMEND_FAILURE
    NOT_FOUND
    INVALID_PARTY_ID
    MARKET_CLOSED
    MARGIN_CHECK_FAILED
    MISSING_GENERAL_ACCOUNT
    INTERNAL_ERROR
    INVALID_SIZE
    INVALID_PERSISTENCE
    INVALID_TYPE
    SELF_TRADING
    INSUFFICIENT_FUNDS_TO_PAY_FEES
    INCORRECT_MARKET_TYPE
    INVALID_TIME_IN_FORCE
    CANNOT_SEND_GFN_ORDER_DURING_AN_AUCTION
    CANNOT_SEND_GFA_ORDER_DURING_CONTINUOUS_TRADING
    CANNOT_AMEND_TO_GTT_WITHOUT_EXPIRYAT
    EXPIRYAT_BEFORE_CREATEDAT
    CANNOT_HAVE_GTC_AND_EXPIRYAT
    CANNOT_AMEND_TO_FOK_OR_IOC
    CANNOT_AMEND_TO_GFA_OR_GFN
    CANNOT_AMEND_FROM_GFA_OR_GFN
    CANNOT_SEND_IOC_ORDER_DURING_AUCTION
    CANNOT_SEND_FOK_ORDER_DURING_AUCTION
    MUST_BE_LIMIT_ORDER
    MUST_BE_GTT_OR_GTC
    WITHOUT_REFERENCE_PRICE
    BUY_CANNOT_REFERENCE_BEST_ASK_PRICE
    -
    -
    OFFSET_MUST_BE_GREATER_OR_EQUAL_TO_ZERO
    SELL_CANNOT_REFERENCE_BEST_BID_PRICE
    OFFSET_MUST_BE_GREATER_THAN_ZERO
    INSUFFICIENT_ASSET_BALANCE
    CANNOT_AMEND_PEGGED_ORDER_DETAILS_ON_NON_PEGGED_ORDER
    UNABLE_TO_REPRICE_PEGGED_ORDER
    UNABLE_TO_AMEND_PRICE_ON_PEGGED_ORDER
    NON_PERSISTENT_ORDER_OUT_OF_PRICE_BOUNDS
    TOO_MANY_PEGGED_ORDERS
    POST_ONLY_ORDER_WOULD_TRADE
    REDUCE_ONLY_ORDER_WOULD_NOT_REDUCE_POSITION
    ISOLATED_MARGIN_CHECK_FAILED
    PEGGED_ORDERS_NOT_ALLOWED_IN_ISOLATED_MARGIN_MODE
    PRICE_NOT_IN_TICK_SIZE
    """,
)
_ACCOUNT_TYPE = _named(
    "ACCOUNT_TYPE_",
    """
    UNSPECIFIED
    INSURANCE
    SETTLEMENT
    MARGIN
    GENERAL
    FEES_INFRASTRUCTURE
    FEES_LIQUIDITY
    FEES_MAKER
    -
    BOND
    EXTERNAL
    GLOBAL_INSURANCE
    GLOBAL_REWARD
    PENDING_TRANSFERS
    REWARD_MAKER_PAID_FEES
    REWARD_MAKER_RECEIVED_FEES
    REWARD_LP_RECEIVED_FEES
    REWARD_MARKET_PROPOSERS
    HOLDING
    LP_LIQUIDITY_FEES
    LIQUIDITY_FEES_BONUS_DISTRIBUTION
    NETWORK_TREASURY
    VESTING_REWARDS
    VESTED_REWARDS
    REWARD_AVERAGE_POSITION
    REWARD_RELATIVE_RETURN
    REWARD_RETURN_VOLATILITY
    REWARD_VALIDATOR_RANKING
    PENDING_FEE_REFERRAL_REWARD
    ORDER_MARGIN
    """,
)

_MARGIN_MODE = _named("MARGIN_MODE_", "UNSPECIFIED CROSS_MARGIN ISOLATED_MARGIN")
_SIZE_OVERRIDE = _named("SIZE_OVERRIDE_SETTING_", "UNSPECIFIED NONE POSITION")
_DISPATCH_METRIC = _named(
    "DISPATCH_METRIC_",
    "UNSPECIFIED MAKER_FEES_PAID MAKER_FEES_RECEIVED LP_FEES_RECEIVED MARKET_VALUE",
)

_ORDERS = {
    "side": _SIDE,
    "time_in_force": _TIME_IN_FORCE,
    "type": _ORDER_TYPE,
    "status": _ORDER_STATUS,
    "reason": _ORDER_ERROR,
    "pegged_reference": _PEGGED_REFERENCE,
}
_NAMES: Mapping[str, Mapping[str, Mapping[int, str]]] = {
    "orders": _ORDERS,
    "orders_live": _ORDERS,
    "trades": {"aggressor": _SIDE, "type": _TRADE_TYPE},
    "accounts": {"type": _ACCOUNT_TYPE},
    "party_margin_modes": {"margin_mode": _MARGIN_MODE},
    "stop_orders": {"size_override_setting": _SIZE_OVERRIDE},
    "stop_orders_live": {"size_override_setting": _SIZE_OVERRIDE},
    "transfers": {"dispatch_metric": _DISPATCH_METRIC},
}
_TEXTS = frozenset({("ledger", "type"), ("rewards", "reward_type")})
"""Enums that the network's database keeps as the names, in columns of text."""


def enum_names(table: str, column: str) -> Mapping[int, str] | None:
    """The full name of each number in a column, or None where the column holds no enum number.

    A number without a name comes from a newer network and stays a number.
    """
    return _NAMES.get(table, {}).get(column)


def is_enum_name(table: str, column: Column) -> bool:
    """Whether a column holds the names of an enum's values."""
    return is_enum(column.type) or (table, column.name) in _TEXTS
