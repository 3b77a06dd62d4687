"""The query layer asked as a client would ask: a path and a query in, a status and JSON out.

A thin stand-in for the shells, so that recorded requests can be replayed without a server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from api.core.api_errors import ApiError
from api.core.open_snapshots import OpenSnapshots, Reading
from api.http.parameters import QueryPairs, read_request
from api.operations import CALLS
from api.queries.messages import error_json, record_json
from api.queries.operation import Operation
from tests.transforms.warehouse_kit import load_folder
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse

Json = Any


def ask(reading: Reading, request: str) -> tuple[int, Json]:
    """Ask for a path with its query; returns the HTTP status and the body."""
    path, _, query = request.partition("?")
    for operation in CALLS:
        match = re.fullmatch(re.sub(r"{(\w+)}", r"(?P<\1>.*)", operation.path), path)
        if match:
            pairs = parse_qsl(query, keep_blank_values=True)
            in_path = {name: unquote(text) for name, text in match.groupdict().items()}
            try:
                return 200, json.loads(_answer(operation, reading, pairs, in_path))
            except ApiError as error:
                return error.status, json.loads(error_json(error))
    raise AssertionError(f"no operation at {path}")


def _answer(
    operation: Operation, reading: Reading, query: QueryPairs, path: dict[str, str]
) -> bytes:
    request = read_request(operation, query, path)
    return operation.answer(reading, request, record_json)[0]


def page(reading: Reading, request: str) -> tuple[list[Json], Json]:
    """Ask for a page that is there: its edges and its page info."""
    status, body = ask(reading, request)
    assert status == 200, body
    (found,) = body.values()
    return found["edges"], found["pageInfo"]


def load(folder: Path, root: Path) -> Warehouse:
    """Load what is new in a folder of segments."""
    assert load_folder(root, folder).failures == []
    return open_warehouse(root)


@contextmanager
def reading_of(folder: Path, root: Path) -> Iterator[Reading]:
    """Load a folder of segments and read it."""
    load(folder, root)
    with OpenSnapshots.open(open_warehouse(root)) as snapshots, snapshots.reading() as reading:
        yield reading
