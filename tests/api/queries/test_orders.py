"""Order versions over generated segments (spec 4.5; decision 19)."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from urllib.parse import quote

import pytest

from api.core.open_snapshots import Reading
from tests.api.answers_kit import Json, ask, page, reading_of
from tests.api.chain_kit import (
    LONG_ORDER,
    LONG_VERSIONS,
    ODD_ORDER,
    ORDER,
    TIED_ORDER,
    order_row,
    small_chain,
)
from tests.segments_kit import Cell, block_time, table_rows
from tests.transforms.warehouse_kit import history_segment

_PATH = f"/api/v2/order/versions/{ORDER}"


@pytest.fixture
def chain() -> Reading:
    return small_chain()


def _write_orders(folder: Path, first: int, rows: Sequence[Mapping[str, Cell]]) -> None:
    """Write a segment of ten blocks with rows of orders."""
    tables = {"orders": table_rows("orders", *rows)}
    history_segment(folder, first=first, last=first + 9, tables=tables)


def _versions(edges: list[Json]) -> list[str]:
    return [edge["node"]["version"] for edge in edges]


def _cursor(block: int, order_id: str = ORDER, **extra: object) -> str:
    times = [block_time(height).replace(" ", "T").replace("+00", "Z") for height in (1, block)]
    fields = {"createdAt": times[0], "id": order_id, "vegaTime": times[1], **extra}
    return quote(base64.b64encode(json.dumps(fields).encode()))


def test_there_is_one_row_per_version_the_last_one_written(chain: Reading) -> None:
    edges, info = page(chain, _PATH)
    assert _versions(edges) == ["4", "3", "2", "1"]
    assert [edge["node"]["remaining"] for edge in edges] == ["0", "6", "0", "8"]
    assert (info["hasNextPage"], info["hasPreviousPage"]) == (False, False)


def test_oldest_first_turns_them_round(chain: Reading) -> None:
    edges, _ = page(chain, f"{_PATH}?pagination.newestFirst=false")
    assert _versions(edges) == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("query", "versions", "previous", "following"),
    [
        ("first=2", ["4", "3"], False, True),
        ("last=1", ["1"], True, False),
        ("last=3", ["3", "2", "1"], True, False),
        (f"last=1&pagination.before={_cursor(5)}", ["2"], True, True),
        (f"first=1&pagination.after={_cursor(12)}", ["1"], True, False),
        (f"first=5&pagination.after={_cursor(25, version=3)}", ["2", "1"], True, False),
        # The cursor's row was written again since: its version stays where it was.
        (f"first=1&pagination.after={_cursor(12, version=3)}", ["2"], True, True),
        (f"first=1&pagination.after={_cursor(26)}", ["3"], True, True),
        # No row has this time (any more): what is older follows.
        (f"first=5&pagination.after={_cursor(20)}", ["2", "1"], True, False),
        (f"first=5&pagination.after={_cursor(0)}", [], True, False),
        (f"first=5&pagination.after={_cursor(29)}", ["4", "3", "2", "1"], False, False),
        (f"last=5&pagination.before={_cursor(29)}", [], False, True),
        (
            f"first=5&pagination.after={_cursor(13)}&pagination.newestFirst=false",
            ["3", "4"],
            True,
            False,
        ),
    ],
)
def test_pages_go_both_ways_from_any_cursor(
    chain: Reading, query: str, versions: list[str], previous: bool, following: bool
) -> None:
    edges, info = page(chain, f"{_PATH}?pagination.{query}")
    assert _versions(edges) == versions
    assert (info["hasPreviousPage"], info["hasNextPage"]) == (previous, following)


def _walk(chain: Reading, order_id: str, size: int, *, forward: bool, newest: bool) -> list[str]:
    seen: list[str] = []
    query = f"pagination.newestFirst={str(newest).lower()}&pagination."
    query += f"first={size}" if forward else f"last={size}"
    at = ""
    while True:
        edges, info = page(chain, f"/api/v2/order/versions/{order_id}?{query}{at}")
        seen = [*seen, *_versions(edges)] if forward else [*_versions(edges), *seen]
        if not info["hasNextPage" if forward else "hasPreviousPage"]:
            return seen
        place, cursor = ("after", "endCursor") if forward else ("before", "startCursor")
        at = f"&pagination.{place}={quote(info[cursor])}"


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize(
    ("order_id", "versions", "sizes"),
    [
        (ORDER, range(1, 5), (1, 2, 3, 4, 9)),
        (TIED_ORDER, range(1, 4), (1, 2)),
        (ODD_ORDER, range(1, 3), (1, 2)),
        # Too many rows to fetch: the pages are cut by the database.
        (LONG_ORDER, range(LONG_VERSIONS), (7, 66, 5000)),
    ],
)
def test_walking_visits_every_version_once(
    chain: Reading,
    order_id: str,
    versions: range,
    sizes: tuple[int, ...],
    forward: bool,
    newest: bool,
) -> None:
    wanted = [str(version) for version in versions]
    for size in sizes:
        seen = _walk(chain, order_id, size, forward=forward, newest=newest)
        assert seen == (wanted[::-1] if newest else wanted)


def test_a_foreign_cursor_works_in_an_order_with_very_many_rows(chain: Reading) -> None:
    edges, _ = page(chain, f"/api/v2/order/versions/{LONG_ORDER}?pagination.first=3")
    fields = json.loads(base64.b64decode(edges[0]["cursor"]))
    assert fields.pop("version") == LONG_VERSIONS - 1
    cursor = quote(base64.b64encode(json.dumps(fields).encode()))
    rest, info = page(
        chain, f"/api/v2/order/versions/{LONG_ORDER}?pagination.first=2&pagination.after={cursor}"
    )
    assert rest == edges[1:]
    assert (info["hasPreviousPage"], info["hasNextPage"]) == (True, True)
    behind = _cursor(0, LONG_ORDER)
    path = f"/api/v2/order/versions/{LONG_ORDER}?pagination.after={behind}"
    assert page(chain, path)[0] == []


def test_every_cursor_has_its_version(chain: Reading) -> None:
    for order_id in (ORDER, TIED_ORDER, LONG_ORDER):
        edges, _ = page(chain, f"/api/v2/order/versions/{order_id}?pagination.first=3")
        cursors = [json.loads(base64.b64decode(edge["cursor"])) for edge in edges]
        assert [str(cursor["version"]) for cursor in cursors] == _versions(edges)


def test_versions_that_are_written_again_between_two_pages_come_once(tmp_path: Path) -> None:
    # Each order has five versions in five blocks. Some are written again before the second page.
    rewritten = {ORDER: (1,), TIED_ORDER: (2, 3), ODD_ORDER: (1, 2, 3, 4, 5)}
    rows = [order_row(order_id, n, 2 * n) for order_id in rewritten for n in range(1, 6)]
    _write_orders(tmp_path / "source", 1, rows)
    walks = [*product(rewritten, (True, False), (True, False))]
    with reading_of(tmp_path / "source", tmp_path / "warehouse") as reading:
        first_pages = [page(reading, f"{_walked(*walk)}=2") for walk in walks]
    again = [order_row(order_id, n, 29 - n) for order_id, all_ in rewritten.items() for n in all_]
    _write_orders(tmp_path / "source", 21, again)
    with reading_of(tmp_path / "source", tmp_path / "warehouse") as reading:
        for walk, (edges, info) in zip(walks, first_pages, strict=True):
            _, forward, newest = walk
            place, cursor = ("after", "endCursor") if forward else ("before", "startCursor")
            request = f"{_walked(*walk)}=9&pagination.{place}={quote(info[cursor])}"
            rest, _ = page(reading, request)
            seen = _versions([*edges, *rest] if forward else [*rest, *edges])
            assert seen == [*("54321" if newest else "12345")], walk


def _walked(order_id: str, forward: bool, newest: bool) -> str:
    """The request for a page, without its size."""
    query = f"pagination.newestFirst={str(newest).lower()}"
    return f"/api/v2/order/versions/{order_id}?{query}&pagination.{'first' if forward else 'last'}"


@pytest.mark.parametrize(
    ("order_id", "code", "message"),
    [
        ("", 10012, "missing orderID parameter"),
        ("zz", 10000, "invalid orderID parameter"),
        ("ab", 10000, "invalid orderID parameter"),
        ("network", 10000, "invalid orderID parameter"),
    ],
)
def test_an_id_that_can_be_none_is_refused(
    chain: Reading, order_id: str, code: int, message: str
) -> None:
    status, body = ask(chain, f"/api/v2/order/versions/{order_id}?pagination.first=0")
    assert (status, body["code"]) == (400, 3)
    assert (body["details"][0]["code"], body["details"][0]["message"]) == (code, message)


def test_an_order_that_nobody_placed_has_an_empty_page_and_any_case_will_do(chain: Reading) -> None:
    assert page(chain, f"/api/v2/order/versions/{'9' * 64}")[0] == []
    assert page(chain, f"/api/v2/order/versions/{ORDER.upper()}") == page(chain, _PATH)


@pytest.mark.parametrize(
    "cursor", [_cursor(5, LONG_ORDER), quote(base64.b64encode(b'{"resource_id":"03","sig":""}'))]
)
def test_a_cursor_of_another_listing_is_refused(chain: Reading, cursor: str) -> None:
    status, body = ask(chain, f"{_PATH}?pagination.after={cursor}")
    assert (status, body["code"], body["details"][0]["code"]) == (400, 3, 10028)
