"""The export and the provisions as streams of messages: whole, slow, damaged, ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import httpx2
import pytest

from api.core.server_settings import Limits
from exporters.zips.layout import Layout
from tests.api.message_types import TABLE_NUMBERS
from tests.api.rpc.kit import (
    Client,
    FailedCallError,
    as_json,
    client,
    client_of,
    messages,
    outcome,
)
from tests.api.server_kit import Served, serving, settings
from tests.api.site_kit import CHAIN, MARKETS, PARTIES, SECOND, Site
from tests.cases import each_of
from tests.damage_kit import rot
from tests.waiting import wait_until
from transforms.block_range import BlockRange
from transforms.tables.registry import HISTORY_TABLES

_MIB = 2**20
_PATH = "/api/v2/networkhistory/export"
_ORDERS: dict[str, Any] = {"from_block": 1, "to_block": 40, "table": "TABLE_ORDERS"}
# Without it a client makes room for megabytes that nobody has asked for yet.
_SMALL_WINDOW = ("grpc.http2.bdp_probe", 0)


@pytest.fixture(scope="module")
def wide(wide_site: Site) -> Iterator[Served]:
    with serving(settings(wide_site.locations, grpc=True)) as found:
        yield found


@pytest.fixture(scope="module")
def built(built_site: Site) -> Iterator[Served]:
    with serving(settings(built_site.locations, grpc=True)) as found:
        yield found


def _rest(served: Served, first: int, last: int, table: str | int) -> httpx2.Response:
    with served.client() as http:
        return http.get(f"{_PATH}?fromBlock={first}&toBlock={last}&table={table}")


# The export


def test_an_export_is_the_zip_of_rest_in_messages_of_a_mebibyte(wide: Served) -> None:
    whole = _rest(wide, 1, 40, "TABLE_ORDERS")
    with client_of(wide) as rpc:
        call = rpc.stream("ExportNetworkHistory", **_ORDERS)
        found = [*messages(call)]
        headers = dict(call.initial_metadata())
    assert b"".join(message.data for message in found) == whole.content
    assert [len(message.data) for message in found[:-1]] == [_MIB] * (len(found) - 1)
    assert len(found) == -(-len(whole.content) // _MIB) > 1
    assert {message.content_type for message in found} == {"application/zip"}
    assert headers["content-disposition"] == f"attachment;filename={CHAIN}-orders-1-40.zip"
    assert "x-request-id" in headers
    assert "x-block-height" not in headers  # as the data node: of single answers only


@each_of("table", HISTORY_TABLES)
def test_every_table_is_exported_as_by_rest(built: Served, table: str) -> None:
    number = TABLE_NUMBERS[table]
    with client_of(built) as rpc:
        call = rpc.stream("ExportNetworkHistory", from_block=1, to_block=20, table=number)
        found = b"".join(message.data for message in messages(call))
    assert found == _rest(built, 1, 20, number).content


@each_of(
    ("first", "last", "table"),
    [(1, 50, 0), (41, 40, 5), (2, 20, 5), (1, 49, 5), (-1, 20, 5), (51, 60, 5), (1, 60, 5)],
)
def test_what_cannot_be_exported_is_told_as_by_rest(
    built: Served, first: int, last: int, table: int
) -> None:
    with client_of(built) as rpc:
        call = rpc.stream("ExportNetworkHistory", from_block=first, to_block=last, table=table)
        found = outcome(lambda: [*messages(call)])
    assert isinstance(found, FailedCallError)
    assert found.body == _rest(built, first, last, table).json()["error"]
    assert "content-disposition" not in found.headers


@pytest.mark.parametrize("table", [16, 99, -1])
def test_a_table_that_there_is_not_is_refused_as_by_rest(built: Served, table: int) -> None:
    with client_of(built) as rpc:
        call = rpc.stream("ExportNetworkHistory", from_block=1, to_block=20, table=table)
        found = outcome(lambda: [*messages(call)])
    assert isinstance(found, FailedCallError)
    assert found.body == _rest(built, 1, 20, table).json()


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [_flip, rot])
def test_a_part_that_is_lost_under_way_and_everywhere_ends_the_call_with_an_error(
    wide_site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    damage: Callable[[Path], None],
) -> None:
    monkeypatch.setattr("api.queries.export_request._PROVE_BYTES", 0)
    site = wide_site.copied(tmp_path / "site")
    site.publish()
    path = site.root / "archive" / CHAIN / "orders" / f"{CHAIN}-orders-{SECOND}.zip"
    got = bytearray()
    with serving(settings(site.locations, grpc=True)) as served, client_of(served) as rpc:
        whole = _rest(served, 1, 40, 5).content
        damage(path)
        for rows in (site.warehouse.cache / "data" / "orders").iterdir():
            rows.unlink()
        parts = messages(rpc.stream("ExportNetworkHistory", **_ORDERS))
        with pytest.raises(FailedCallError) as caught:
            _receive(parts, got)
    assert caught.value.code == 13
    assert caught.value.headers["x-request-id"] in caught.value.details[0]["inner"]
    assert str(site.root) not in str(caught.value.body)
    assert 0 < len(got) < len(whole)
    assert got == whole[: len(got)]
    with pytest.raises(BadZipFile):
        ZipFile(BytesIO(got))


def _receive(parts: Iterator[Any], got: bytearray) -> None:
    for part in parts:
        got += part.data


class _Endless:
    """Stands for a ZIP that is larger than all memory; counts the blocks that are read of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read = 0
        monkeypatch.setattr(Layout, "size", 2**60)
        monkeypatch.setattr(Layout, "block", self._block)

    def _block(self, start: int, stop: int) -> bytes:
        self.read += 1
        return bytes(stop - start)


def _slots(served: Served) -> int:
    return sum(served.service.slots._counts.values())


def test_what_a_client_does_not_take_is_not_read_and_the_stalled_call_ends(
    built_site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    endless = _Endless(monkeypatch)
    given = settings(built_site.locations, Limits(stall_seconds=1.0), grpc=True)
    with serving(given) as served, client(served.grpc_port, _SMALL_WINDOW) as rpc:
        taken = messages(rpc.stream("ExportNetworkHistory", **_ORDERS))
        next(taken)
        wait_until(lambda: "a client took nothing for 1 seconds" in caplog.text)
        # Two messages on their way, and what the two ends of a connection hold.
        assert endless.read <= 8
        assert _slots(served) == 1
        ended = outcome(lambda: [*taken])
        assert isinstance(ended, FailedCallError)
        assert (ended.code, ended.message) == (10, "nothing was taken for 1 seconds: connect again")
        wait_until(lambda: not _slots(served))


def test_a_stalled_client_that_leaves_frees_its_slot(
    built_site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _Endless(monkeypatch)
    given = settings(built_site.locations, Limits(stall_seconds=0.2), grpc=True)
    with serving(given) as served:
        with client(served.grpc_port, _SMALL_WINDOW) as rpc:
            call = rpc.stream("ExportNetworkHistory", **_ORDERS)
            next(call)
            wait_until(lambda: "a client took nothing" in caplog.text)
        wait_until(lambda: not _slots(served))
    assert "Traceback" not in caplog.text


def test_a_client_that_leaves_ends_its_export(
    built_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    _Endless(monkeypatch)
    given = settings(built_site.locations, Limits(streams_per_client=1), grpc=True)
    with serving(given) as served, client_of(served) as rpc:
        call = rpc.stream("ExportNetworkHistory", **_ORDERS)
        next(call)
        assert _slots(served) == 1
        refused = outcome(lambda: next(messages(rpc.stream("ExportNetworkHistory", **_ORDERS))))
        assert isinstance(refused, FailedCallError)
        assert (refused.code, refused.message) == (8, "client reached max subscription allowed")
        call.cancel()
        wait_until(lambda: not _slots(served))


def test_the_deadline_of_a_client_ends_its_export(
    built_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    _Endless(monkeypatch)
    with serving(settings(built_site.locations, grpc=True)) as served, client_of(served) as rpc:
        call = rpc.stream("ExportNetworkHistory", timeout=0.5, **_ORDERS)
        found = outcome(lambda: sum(1 for _ in messages(call)))
        assert isinstance(found, FailedCallError)
        assert found.code == 4
        wait_until(lambda: not _slots(served))


# The provisions


class Live:
    """A server over a site that grows."""

    def __init__(self, site: Site, served: Served, rpc: Client) -> None:
        self.served = served
        self.rpc = rpc
        self._site = site
        self._first = 51

    def load(self, *provisions: int) -> None:
        """Load one more segment, in which these provisions change."""
        blocks = BlockRange(self._first, self._first + 9)
        self._site.add_segment(blocks, provisions, orders=1)
        self._site.load()
        self._first += 10

    @contextmanager
    def reading(self, *, snapshot: bool = True, **fields: Any) -> Iterator[Iterator[Any]]:
        """Read the stream for the length of a block."""
        metadata: dict[str, str] = {} if snapshot else {"x-snapshot": "false"}
        call = self.rpc.stream("ObserveLiquidityProvisions", metadata=metadata, **fields)
        call.initial_metadata()  # it is connected
        try:
            yield messages(call)
        finally:
            call.cancel()


@contextmanager
def _live(site: Site, limits: Limits | None = None) -> Iterator[Live]:
    given = settings(site.locations, limits, grpc=True)
    with serving(given) as served, client(served.grpc_port, _SMALL_WINDOW) as rpc:
        yield Live(site, served, rpc)


@pytest.fixture
def live(site: Site) -> Iterator[Live]:
    with _live(site) as found:
        yield found


def _numbers(*found: Any) -> list[int]:
    return [int(item.id, 16) for message in found for item in message.liquidity_provisions]


def test_a_reader_gets_what_is_there_and_then_what_changes(live: Live) -> None:
    with live.reading() as stream, live.served.client() as http:
        path = "/api/v2/stream/liquidity-provisions"
        with http.stream("GET", path) as rest:
            lines = rest.iter_lines()
            first, second = next(stream), next(stream)
            assert sorted(_numbers(first, second)) == [*range(60)]
            for message in (first, second):
                assert {"result": as_json(message)} == _json(next(lines))
            live.load(7, 8)
            changed = next(stream)
            assert sorted(_numbers(changed)) == [7, 8]
            assert {"result": as_json(changed)} == _json(next(lines))


def _json(line: str) -> Any:
    return httpx2.Response(200, text=line).json()


def test_without_a_snapshot_only_changes_are_sent(live: Live) -> None:
    with live.reading(snapshot=False) as stream:
        live.load(7)
        assert _numbers(next(stream)) == [7]


def test_filters_hold_for_the_snapshot_and_for_changes(live: Live) -> None:
    with live.reading(market_id=MARKETS[1], party_id=PARTIES[0].upper()) as stream:
        assert sorted(_numbers(next(stream))) == [*range(1, 60, 4)]
        live.load(2, 3, 4, 5)
        assert _numbers(next(stream)) == [5]


def test_more_than_fifty_changes_are_several_messages(live: Live) -> None:
    with live.reading(snapshot=False) as stream:
        live.load(*range(200, 320))
        found = [next(stream) for _ in range(3)]
    assert [len(message.liquidity_provisions) for message in found] == [50, 50, 20]


@pytest.mark.parametrize("field", ["market_id", "party_id"])
def test_what_is_no_filter_is_refused_as_by_rest(built: Served, field: str) -> None:
    with client_of(built) as rpc, built.client() as http:
        wanted: dict[str, Any] = {field: "zz"}
        call = rpc.stream("ObserveLiquidityProvisions", **wanted)
        found = outcome(lambda: next(messages(call)))
        rest = http.get(f"/api/v2/stream/liquidity-provisions?{field}=zz")
    assert isinstance(found, FailedCallError)
    assert found.body == rest.json()["error"]


def test_a_slow_reader_is_dropped_with_an_error_and_the_others_go_on(site: Site) -> None:
    with (
        _live(site, Limits(stream_buffer=5000)) as live,
        client(live.served.grpc_port) as other,
        live.reading(snapshot=False) as slow,
    ):
        metadata = {"x-snapshot": "false"}
        call = other.stream("ObserveLiquidityProvisions", metadata=metadata)
        call.initial_metadata()
        fast = messages(call)
        for count in (2000, 50, 50):  # the first is more than a connection holds
            live.load(*range(count))
            got = 0
            while got < count:
                got += len(next(fast).liquidity_provisions)
        with pytest.raises(FailedCallError) as caught:
            for _ in slow:
                pass
        assert (caught.value.code, caught.value.details[0]["code"]) == (13, 10010)
        call.cancel()


def test_a_reader_that_takes_nothing_is_told_so_and_forgotten(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    with _live(site, Limits(stall_seconds=0.2)) as live, live.reading(snapshot=False) as slow:
        live.load(*range(2000))  # more than a connection holds
        wait_until(lambda: "a client took nothing" in caplog.text)
        wait_until(lambda: "strata_streams_closed_total 1.0" in _metrics(live.served))
        found = outcome(lambda: [*slow])
    assert isinstance(found, FailedCallError)
    assert found.code == 10


def _metrics(served: Served) -> str:
    with served.client() as http:
        return http.get("/metrics").text


def test_streams_end_with_a_reason_when_the_server_stops(built_site: Site) -> None:
    with serving(settings(built_site.locations, grpc=True)) as served, client_of(served) as rpc:
        stream = messages(rpc.stream("ObserveLiquidityProvisions"))
        next(stream)
        served.stop_streams()
        with pytest.raises(FailedCallError) as caught:
            for _ in stream:
                pass
    assert caught.value.code == 14
    assert caught.value.message == "the server is about to stop: connect again"
