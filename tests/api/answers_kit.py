"""The query layer asked as a client would ask: a path and a query in, a status and JSON out.

A thin stand-in for the shells, so that recorded requests can be replayed without a server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from api.core.api_errors import ApiError
from api.core.snapshots import Reading, Snapshots
from api.http import request_parameters
from api.queries import requests
from api.queries.liquidity import list_liquidity_provisions
from api.queries.messages import (
    INFO,
    LIQUIDITY_PROVISION,
    NODE_SIGNATURE,
    ORACLE_DATA,
    ORDER,
    SEGMENT,
    SPAM_RESPONSE,
    VEGA_TIME,
    WITHDRAWAL,
)
from api.queries.network import info, segments_page, vega_time
from api.queries.oracle import list_oracle_data
from api.queries.orders import list_order_versions
from api.queries.protojson import error_json, page_json, record_json, records_json
from api.queries.requests import ListSegments
from api.queries.signatures import list_node_signatures
from api.queries.spam import get_spam_statistics
from api.queries.withdrawals import get_withdrawal, list_withdrawals
from tests.transforms.warehouse_kit import MemorySink
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.warehouse.log.document import Document
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse

Json = Any
_Route = Callable[[Reading, str, request_parameters.QueryPairs], str | bytes]

_ROUTES: dict[str, _Route] = {
    "/api/v2/order/versions/(.*)": lambda reading, order_id, query: page_json(
        "orders",
        ORDER,
        list_order_versions(reading, request_parameters.read_order_versions(order_id, query)),
    ),
    "/api/v2/withdrawals()": lambda reading, _, query: page_json(
        "withdrawals",
        WITHDRAWAL,
        list_withdrawals(reading, request_parameters.read_withdrawals(query)),
    ),
    "/api/v2/withdrawal/(.*)": lambda reading, id_, _: (
        f'{{"withdrawal":{record_json(WITHDRAWAL, get_withdrawal(reading, _withdrawal(id_)))}}}'
    ),
    "/api/v2/oracle/data()": lambda reading, _, query: page_json(
        "oracleData",
        ORACLE_DATA,
        list_oracle_data(reading, request_parameters.read_oracle_data(query)),
    ),
    "/api/v2/node/signatures()": lambda reading, _, query: page_json(
        "signatures",
        NODE_SIGNATURE,
        list_node_signatures(reading, request_parameters.read_node_signatures(query)),
    ),
    "/api/v2/liquidity/provisions()": lambda reading, _, query: page_json(
        "liquidityProvisions",
        LIQUIDITY_PROVISION,
        list_liquidity_provisions(reading, request_parameters.read_liquidity_provisions(query)),
    ),
    "/api/v2/networkhistory/segments()": lambda reading, _, __: (
        f'{{"segments":{records_json(SEGMENT, segments_page(reading.snapshot, ListSegments()))}}}'
    ),
    "/api/v2/vega/time()": lambda reading, _, __: record_json(
        VEGA_TIME, vega_time(reading.snapshot)
    ),
    "/api/v2/info()": lambda _, __, ___: record_json(INFO, info()),
    "(?:/api/v2)?/statistics/spam/(.*)": lambda reading, party, _: record_json(
        SPAM_RESPONSE, get_spam_statistics(reading, requests.GetSpamStatistics(party))
    ),
}


def _withdrawal(id_: str) -> requests.GetWithdrawal:
    return requests.GetWithdrawal(id_)


def ask(reading: Reading, request: str) -> tuple[int, Json]:
    """Ask for a path with its query; returns the HTTP status and the body."""
    path, _, query = request.partition("?")
    for pattern, route in _ROUTES.items():
        match = re.fullmatch(pattern, path)
        if match:
            try:
                pairs = parse_qsl(query, keep_blank_values=True)
                return 200, json.loads(route(reading, unquote(match[1]), pairs))
            except ApiError as error:
                return error.status, json.loads(error_json(error))
    raise AssertionError(f"no operation at {path}")


def page(reading: Reading, request: str) -> tuple[list[Json], Json]:
    """Ask for a page that is there: its edges and its page info."""
    status, body = ask(reading, request)
    assert status == 200, body
    (found,) = body.values()
    return found["edges"], found["pageInfo"]


def load(folder: Path, root: Path) -> Warehouse:
    """Load what is new in a folder of segments."""
    warehouse = open_warehouse(root)
    source = Source(FolderStore(folder))
    survey = warehouse.survey(source)
    report = warehouse.load(source, survey.pending, MemorySink())
    assert report.failures == []
    return warehouse


def drop_lookups(root: Path, only: int | None = None) -> None:
    """Take from volumes of a warehouse what answers look-ups fastest, as if it never was."""

    def changed(newest: Document) -> Document:
        history = newest.history()
        chosen = history if only is None else [history[only]]
        keys = {volume.key for volume in chosen}
        return newest.with_volumes(
            replace(volume, index=None) if volume.key in keys else volume
            for volume in newest.volumes
        )

    open_warehouse(root).backing.log.commit(changed)


@contextmanager
def reading_of(folder: Path, root: Path) -> Iterator[Reading]:
    """Load a folder of segments and read it."""
    load(folder, root)
    with Snapshots.open(open_warehouse(root)) as snapshots, snapshots.reading() as reading:
        yield reading
