"""The calls of decision 11: each path with how its request is read and answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from api.calls import Operation
from api.messages import ORDER
from api.protojson import page_json
from api.queries.orders import list_order_versions
from api.requests import read_order_versions

OPERATIONS: Sequence[Operation[Any]] = (
    Operation(
        "order_versions",
        "/api/v2/order/versions/{order_id}",
        lambda path, query: read_order_versions(path.get("order_id", ""), query),
        lambda reading, request: page_json("orders", ORDER, list_order_versions(reading, request)),
    ),
)
