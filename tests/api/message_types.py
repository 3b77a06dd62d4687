"""The messages that tests write records of."""

from __future__ import annotations

from api.core.descriptors import message

ORDER = message("vega.Order")
WITHDRAWAL = message("vega.Withdrawal")
ORACLE_DATA = message("vega.OracleData")
NODE_SIGNATURE = message("vega.commands.v1.NodeSignature")
LIQUIDITY_PROVISION = message("vega.LiquidityProvision")
SPAM_RESPONSE = message("vega.api.v1.GetSpamStatisticsResponse")
INFO = message("datanode.api.v2.InfoResponse")
