"""The liquidity provision stream where a volume cannot be read: damage that comes, goes, or stays.

The damage is real: a byte of each block on disk that holds provisions is changed, under the server.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import grpc
import pytest
from websockets.sync.client import connect

from tests.api.rpc.kit import client_of, failed
from tests.api.server_kit import Served, serving, settings
from tests.api.site_kit import Site
from tests.waiting import wait_until
from transforms.block_range import BlockRange

_PATH = "/api/v2/stream/liquidity-provisions"
_HOUR = 3600.0
Lines = Iterator[Any]


@pytest.fixture
def served(site: Site) -> Iterator[Served]:
    """A server that looks at its files once: the streams meet the damage, not the look."""
    chosen = settings(site.locations, grpc=True)
    limits = replace(chosen.limits, lag_seconds=_HOUR)
    with serving(replace(chosen, limits=limits)) as server:
        with server.client() as client:
            wait_until(lambda: client.get("/ready").json()["blocksBehind"] is not None)
        yield server


@contextmanager
def _reading(served: Served, query: str = "snapshot=false") -> Iterator[Lines]:
    with served.client() as client, client.stream("GET", f"{_PATH}?{query}") as answer:
        assert answer.status_code == 200
        yield map(json.loads, answer.iter_lines())


def _numbers(message: Any) -> list[int]:
    return [int(found["id"], 16) for found in message["result"]["liquidityProvisions"]]


def _load(site: Site, first: int, *provisions: int) -> None:
    site.add_segment(BlockRange(first, first + 9), provisions, orders=1)
    site.load()


class _Damage:
    """The provisions of a site's first volume, which can be turned over and back."""

    def __init__(self, site: Site) -> None:
        provisions = site.warehouse.cache / "data" / "liquidity_provisions"
        (self._file,) = provisions.glob("000000001-*.parquet")
        size = self._file.stat().st_size
        self._places = range(size - 4, size)

    def turn(self) -> None:
        """Turn the bytes over: damaged, or sound again."""
        with self._file.open("r+b") as file:
            for place in self._places:
                file.seek(place)
                (byte,) = file.read(1)
                file.seek(place)
                file.write(bytes([byte ^ 255]))


def _error_of(lines: Lines) -> dict[str, Any]:
    """The error in the last of the lines."""
    *_, last = lines
    error: dict[str, Any] = last["error"]
    return error


def test_a_reader_that_misses_a_change_is_told_why_and_the_next_change_is_told_as_ever(
    site: Site, served: Served
) -> None:
    damage = _Damage(site)
    damage.turn()
    with _reading(served) as lines, client_of(served) as client:
        call = client.stream("ObserveLiquidityProvisions", metadata={"x-snapshot": "false"})
        assert call.initial_metadata()
        _load(site, 51, 7)
        error = _error_of(lines)
        assert error["code"] == 14
        assert "is damaged: it has other bytes than when it was written" in error["message"]
        with pytest.raises(grpc.RpcError) as raised:
            list(call)
        assert failed(raised.value).body == error
    damage.turn()
    _load(site, 61, 8)  # with a new snapshot the files are looked at again
    with served.client() as client:
        wait_until(lambda: client.get("/ready").status_code == 200)
    with _reading(served) as lines:
        _load(site, 71, 9)
        # Whoever connects before the changes that could not be read are told gets them, too.
        while (told := _numbers(next(lines))) != [9]:
            assert told == [7, 8]


def test_provisions_that_cannot_be_read_are_an_error_line_and_not_a_broken_connection(
    site: Site, served: Served
) -> None:
    _Damage(site).turn()
    with _reading(served, "") as lines:
        error = _error_of(lines)
    assert error["code"] == 14
    assert "is damaged: it has other bytes than when it was written" in error["message"]
    assert "strata repair" in error["message"]
    with connect(f"ws://127.0.0.1:{served.port}{_PATH}", open_timeout=30) as connection:
        assert json.loads(connection.recv(timeout=30))["error"] == error
