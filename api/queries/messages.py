"""The messages that records are made of (spec section 2).

A record is a tuple of a message's values in the order of declaration. Its values are: text; whole
numbers, times as Unix nanoseconds; enum values by name, or the number where it has none; bytes as
lower-case hex; a message as a record or None; a list of any of these. None for what is optional and
not set.
"""

from __future__ import annotations

from api.core.descriptors import message

ORDER = message("vega.Order")
WITHDRAWAL = message("vega.Withdrawal")
ORACLE_DATA = message("vega.OracleData")
NODE_SIGNATURE = message("vega.commands.v1.NodeSignature")
LIQUIDITY_PROVISION = message("vega.LiquidityProvision")
SEGMENT = message("datanode.api.v2.HistorySegment")
HISTORY_STATUS = message("datanode.api.v2.GetNetworkHistoryStatusResponse")
BOOTSTRAP_PEERS = message("datanode.api.v2.GetNetworkHistoryBootstrapPeersResponse")
SPAM_STATISTICS = message("vega.api.v1.SpamStatistics")
SPAM_RESPONSE = message("vega.api.v1.GetSpamStatisticsResponse")
VEGA_TIME = message("datanode.api.v2.GetVegaTimeResponse")
INFO = message("datanode.api.v2.InfoResponse")
