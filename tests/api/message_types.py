"""The messages that tests write records of, and those that they ask with."""

from __future__ import annotations

from api.core.descriptors import TRADING_DATA, message, request_class
from api.queries.export_request import TABLES

ORDER = message("vega.Order")
WITHDRAWAL = message("vega.Withdrawal")
ORACLE_DATA = message("vega.OracleData")
NODE_SIGNATURE = message("vega.commands.v1.NodeSignature")
LIQUIDITY_PROVISION = message("vega.LiquidityProvision")
SPAM_RESPONSE = message("vega.api.v1.GetSpamStatisticsResponse")
INFO = message("datanode.api.v2.InfoResponse")

LIST_WITHDRAWALS = request_class(f"{TRADING_DATA}/ListWithdrawals")
LIST_PROVISIONS = request_class(f"{TRADING_DATA}/ListLiquidityProvisions")
OBSERVE_PROVISIONS = request_class(f"{TRADING_DATA}/ObserveLiquidityProvisions")
LIST_ORDER_VERSIONS = request_class(f"{TRADING_DATA}/ListOrderVersions")
LIST_SEGMENTS = request_class(f"{TRADING_DATA}/ListAllNetworkHistorySegments")
EXPORT_HISTORY = request_class(f"{TRADING_DATA}/ExportNetworkHistory")
TABLE_NUMBERS = {table: number for number, table in TABLES.items()}
