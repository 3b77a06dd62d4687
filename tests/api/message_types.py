"""The messages that tests write records of, and those that they ask with."""

from __future__ import annotations

from api.core.descriptors import TRADING_DATA, message, message_class
from api.queries.export_request import TABLES

_PACKAGE = TRADING_DATA.rpartition(".")[0]
ORDER = message("vega.Order")
WITHDRAWAL = message("vega.Withdrawal")
ORACLE_DATA = message("vega.OracleData")
NODE_SIGNATURE = message("vega.commands.v1.NodeSignature")
LIQUIDITY_PROVISION = message("vega.LiquidityProvision")
SPAM_RESPONSE = message("vega.api.v1.GetSpamStatisticsResponse")
INFO = message("datanode.api.v2.InfoResponse")

LIST_WITHDRAWALS = message_class(f"{_PACKAGE}.ListWithdrawalsRequest")
LIST_PROVISIONS = message_class(f"{_PACKAGE}.ListLiquidityProvisionsRequest")
OBSERVE_PROVISIONS = message_class(f"{_PACKAGE}.ObserveLiquidityProvisionsRequest")
LIST_ORDER_VERSIONS = message_class(f"{_PACKAGE}.ListOrderVersionsRequest")
LIST_SEGMENTS = message_class(f"{_PACKAGE}.ListAllNetworkHistorySegmentsRequest")
EXPORT_HISTORY = message_class(f"{_PACKAGE}.ExportNetworkHistoryRequest")
TABLE_NUMBERS = {table: number for number, table in TABLES.items()}
