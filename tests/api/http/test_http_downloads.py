"""The export as real clients meet it: cut, resumed, conditional, damaged."""

from __future__ import annotations

import hashlib
import random
import shutil
import socket
import subprocess
from io import BytesIO
from pathlib import Path
from urllib.parse import urlencode
from zipfile import BadZipFile, ZipFile

import httpx2
import pytest

from api.core.server_settings import Limits
from tests import zip_readers
from tests.api.message_types import TABLE_NUMBERS
from tests.api.server_kit import Served, serving, settings
from tests.api.site_kit import CHAIN, SECOND, Site
from tests.cases import each_of
from tests.damage_kit import rot
from tests.segments_kit import expected_member, table_rows
from tests.transforms.warehouse_kit import history_segment
from transforms.block_range import BlockRange
from transforms.bounds import both_bounds, rfc3339
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.questions.range_choice import choose_range, segment_times
from transforms.warehouse.warehouse_address import open_warehouse

_PATH = "/api/v2/networkhistory/export"
_ALL = f"{_PATH}?fromBlock=1&toBlock=50&table=TABLE_ORDERS"
_TWO = f"{_PATH}?fromBlock=1&toBlock=40&table=TABLE_ORDERS"
_NAME = f"{CHAIN}-orders-1-50.zip"


def _orders(site: Site) -> bytes:
    """The CSV of all orders, as the segments have it."""
    segments = sorted(site.source_folder.glob("*.zip"), key=lambda p: int(p.stem.split("-")[-2]))
    return expected_member(segments, "orders")


def _fetch(served: Served, path: str = _ALL, **headers: str) -> httpx2.Response:
    with served.client() as client:
        return client.get(path, headers={name.replace("_", "-"): v for name, v in headers.items()})


def _cut_after(served: Served, count: int) -> bytes:
    """What a client has whose connection is lost after so many bytes of the body."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as connection:
        connection.sendall(f"GET {_ALL} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        got = b""
        while b"\r\n\r\n" not in got or len(got.partition(b"\r\n\r\n")[2]) < count:
            got += connection.recv(min(4096, count + 1))
        return got.partition(b"\r\n\r\n")[2][:count]


def test_a_range_of_segments_is_one_zip_with_the_very_rows_of_the_source(
    served: Served, built_site: Site, tmp_path: Path
) -> None:
    answer = _fetch(served)

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"] == f"attachment;filename={_NAME}"
    assert int(answer.headers["content-length"]) == len(answer.content)
    path = tmp_path / _NAME
    path.write_bytes(answer.content)
    with ZipFile(path) as archive:
        assert archive.namelist() == [f"{CHAIN}-orders-1-1-50.csv"]
        assert archive.read(archive.namelist()[0]) == _orders(built_site)
    zip_readers.check(path)


@pytest.mark.parametrize(("timeout", "status"), [("1n", 504), ("abc", 400), ("20S", 200)])
def test_an_export_is_planned_within_the_time_that_its_client_gives(
    built_site: Site, timeout: str, status: int
) -> None:
    with serving(settings(built_site.locations)) as served, served.client() as client:
        answer = client.get(_ALL, headers={"Grpc-Timeout": timeout})
    assert answer.status_code == status


def test_a_range_may_be_given_by_times_and_snaps_to_segments(
    served: Served, built_site: Site
) -> None:
    held = open_warehouse(built_site.locations.warehouse).loaded_catalog()
    chosen = choose_range(held, *both_bounds("15", "25")).blocks
    times = [
        ends
        for volume in held.snapshot.history
        for block, *ends in segment_times(held, volume)
        if chosen.first <= block <= chosen.last
    ]
    first, last = rfc3339(times[0][0]), rfc3339(times[-1][1])

    for start, end in (("5", "33"), (first, last), (last, None), (None, first)):
        wanted = choose_range(held, *both_bounds(start, end)).blocks
        asked = {"table": "TABLE_ORDERS", "from": start or "", "to": end or ""}
        answer = _fetch(served, f"{_PATH}?{urlencode(asked)}")
        named = f"attachment;filename={CHAIN}-orders-{wanted}.zip"
        assert answer.headers["content-disposition"] == named, asked
    for wrong in (
        "from=" + "9" * 5000,
        "from=1&to=" + "1" * 19,
        "from=soon",
        "from=2001-01-01&to=2001-01-02",
        "from=5&toBlock=10",
        "from=9&to=5",
    ):
        answer = _fetch(served, f"{_PATH}?{wrong}&table=TABLE_ORDERS")
        assert answer.status_code == 400, wrong


def test_rows_that_no_query_can_find_are_exported_too(tmp_path: Path) -> None:
    """A segment whose orders have no id."""
    site = Site(tmp_path)
    names, rows = table_rows("orders", {}, {})
    at = names.index("id")
    without = [[*row[:at], *row[at + 1 :]] for row in rows]
    orders = ((*names[:at], *names[at + 1 :]), without)
    segment = history_segment(site.source_folder, last=10, tables={"orders": orders})
    site.load()
    with serving(settings(site.locations)) as served:
        answer = _fetch(served, f"{_PATH}?fromBlock=1&toBlock=10&table=TABLE_ORDERS")
    assert answer.status_code == 200
    with ZipFile(BytesIO(answer.content)) as archive:
        assert archive.read(archive.namelist()[0]) == expected_member([segment], "orders")


@each_of("table", HISTORY_TABLES)
def test_every_table_is_exported_by_name_and_by_number(served: Served, table: str) -> None:
    by_name = _fetch(served, f"{_PATH}?fromBlock=1&toBlock=20&table=TABLE_{table.upper()}")
    by_number = _fetch(served, f"{_PATH}?from_block=1&to_block=20&table={TABLE_NUMBERS[table]}")
    assert by_name.status_code == by_number.status_code == 200
    assert by_name.content == by_number.content
    assert by_name.headers["content-disposition"].endswith(f"={CHAIN}-{table}-1-20.zip")


@each_of(
    ("query", "status", "code", "text"),
    [
        ("fromBlock=1&toBlock=50", 400, 3, "empty table name"),
        ("fromBlock=1&toBlock=50&table=0", 400, 3, "empty table name"),
        ("fromBlock=1&toBlock=50&table=TABLE_UNSPECIFIED", 400, 3, "empty table name"),
        ("fromBlock=41&toBlock=40&table=5", 400, 3, "starts at block 41, after its end"),
        ("fromBlock=2&toBlock=20&table=5", 400, 3, "the nearest are 1 and 21"),
        ("fromBlock=1&toBlock=49&table=5", 400, 3, "the nearest are 40 and 50"),
        ("fromBlock=-1&toBlock=20&table=5", 400, 3, "block -1 is negative"),
        ("fromBlock=51&toBlock=60&table=5", 404, 5, "no segment holds 51-60"),
        ("fromBlock=1&toBlock=60&table=5", 404, 5, "no segment holds 51-60"),
        ("table=5", 404, 5, "no segment holds 0-0"),
    ],
)
def test_what_cannot_be_exported_is_told_before_the_first_byte(
    served: Served, query: str, status: int, code: int, text: str
) -> None:
    answer = _fetch(served, f"{_PATH}?{query}")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert text in error["details"][0]["inner"]


@each_of(
    ("query", "message"),
    [
        ("table=orders", 'parsing field "table": "orders" is not a valid value'),
        ("table=16", 'parsing field "table": "16" is not a valid value'),
        (
            "fromBlock=abc&table=5",
            'parsing field "from_block": strconv.ParseInt: parsing "abc": invalid syntax',
        ),
        ("table=%zz", 'invalid URL escape "%zz"'),
    ],
)
def test_a_malformed_parameter_is_named(served: Served, query: str, message: str) -> None:
    answer = _fetch(served, f"{_PATH}?{query}")
    assert answer.status_code == 400
    assert answer.json() == {"code": 3, "message": message, "details": []}


def test_head_tells_everything_but_the_bytes(served: Served) -> None:
    whole = _fetch(served)
    with served.client() as client:
        head = client.head(_ALL)
    assert head.status_code == 200
    assert head.content == b""
    for name in ("content-length", "etag", "content-disposition", "accept-ranges", "content-type"):
        assert head.headers[name] == whole.headers[name]


def test_a_download_cut_at_any_byte_is_resumed_to_the_same_bytes(served: Served) -> None:
    whole = _fetch(served)
    tag, size = whole.headers["etag"], len(whole.content)
    for count in (1, size - 1, *random.Random(size).sample(range(2, size - 1), 8)):
        got = _cut_after(served, count)
        rest = _fetch(served, range=f"bytes={count}-", if_range=tag)
        assert rest.status_code == 206
        assert rest.headers["content-range"] == f"bytes {count}-{size - 1}/{size}"
        assert got + rest.content == whole.content


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_resumes_by_itself(served: Served, tmp_path: Path) -> None:
    whole = _fetch(served).content
    path = tmp_path / "export.zip"
    path.write_bytes(whole[: len(whole) // 3])
    subprocess.run(["curl", "-fsS", "-C", "-", "-o", path, served.url + _ALL], check=True)
    assert path.read_bytes() == whole


def test_a_changed_export_is_sent_whole_instead_of_a_wrong_rest(served: Served) -> None:
    answer = _fetch(served, range="bytes=5-", if_range='"another"')
    assert answer.status_code == 200
    assert len(answer.content) == int(answer.headers["content-length"])


def test_a_client_that_has_the_bytes_is_told_so(served: Served) -> None:
    tag = _fetch(served).headers["etag"]
    answer = _fetch(served, if_none_match=tag)
    assert (answer.status_code, answer.content) == (304, b"")
    assert answer.headers["etag"] == tag


def test_a_range_beyond_the_end_is_refused_with_the_length(served: Served) -> None:
    size = len(_fetch(served).content)
    answer = _fetch(served, range=f"bytes={size}-")
    assert answer.status_code == 416
    assert answer.headers["content-range"] == f"bytes */{size}"


def test_who_wants_another_version_of_a_file_is_told_that_it_changed(served: Served) -> None:
    answer = _fetch(served, if_match='"another"')
    assert answer.status_code == 412
    assert answer.json()["message"] == "the file is another one by now"


def test_a_zip_is_never_compressed_again(served: Served) -> None:
    answer = _fetch(served, accept_encoding="gzip")
    assert "content-encoding" not in answer.headers
    assert answer.headers["accept-ranges"] == "bytes"


def test_the_bytes_and_their_tag_do_not_depend_on_where_the_parts_lie(site: Site) -> None:
    seen = set()

    def look() -> None:
        with serving(settings(site.locations)) as served:
            answer = _fetch(served)
        assert answer.status_code == 200
        seen.add((answer.headers["etag"], hashlib.sha256(answer.content).hexdigest()))

    look()  # two segments published, one waiting
    for path in site.stage.root.glob("*/orders/*.zip"):
        path.unlink()
    look()  # two published, one rendered
    assert list((site.warehouse.cache / "rendered").glob("*/orders/*.zip"))
    shutil.rmtree(site.root / "archive")
    look()  # all rendered
    assert len(seen) == 1


def test_rendered_parts_are_kept_within_their_bound(site: Site) -> None:
    shutil.rmtree(site.root / "archive")
    for path in site.stage.root.glob("*/*/*.zip"):
        path.unlink()
    with serving(settings(site.locations, Limits(rendered_bytes=0))) as served:
        whole = _fetch(served, f"{_PATH}?fromBlock=1&toBlock=20&table=5")
        again = _fetch(served, f"{_PATH}?fromBlock=21&toBlock=40&table=5")
    assert whole.status_code == again.status_code == 200
    assert len(list((site.warehouse.cache / "rendered").glob("*/*/*.zip"))) == 1


def _flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def _published(site: Site, blocks: BlockRange) -> Path:
    return site.root / "archive" / CHAIN / "orders" / f"{CHAIN}-orders-{blocks}.zip"


@pytest.fixture
def lazily(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every ZIP only the first copy is proven before its first byte is sent."""
    monkeypatch.setattr("api.queries.export_request._PROVE_BYTES", 0)


@pytest.fixture
def published_site(wide_site: Site, tmp_path: Path) -> Site:
    """Two segments, published; the first ZIP is larger than what is proven before it is sent."""
    site = wide_site.copied(tmp_path / "site")
    site.publish()
    return site


@pytest.mark.usefixtures("lazily")
@pytest.mark.parametrize("how", ["flipped", "rotten", "gone"])
def test_a_copy_found_damaged_under_way_breaks_the_connection_and_is_not_taken_again(
    published_site: Site, how: str
) -> None:
    path = _published(published_site, SECOND)
    with serving(settings(published_site.locations)) as served:
        whole = _fetch(served, _TWO)
        if how == "flipped":
            _flip(path, path.stat().st_size // 2)
        elif how == "rotten":
            rot(path)
        else:
            path.unlink()
        got = bytearray()
        with served.client() as client, pytest.raises(httpx2.RemoteProtocolError):
            _receive(client, _TWO, got)
        again = _fetch(served, _TWO)
        assert _damaged(served) == 2
    assert 0 < len(got) < len(whole.content)
    assert got == whole.content[: len(got)]
    with pytest.raises(BadZipFile):
        ZipFile(BytesIO(got))
    assert again.content == whole.content
    assert again.headers["etag"] == whole.headers["etag"]


def _damaged(served: Served) -> float:
    """How many damaged copies the server has counted."""
    with served.client() as client:
        (line,) = (
            line
            for line in client.get("/metrics").text.splitlines()
            if line.startswith("strata_damaged_parts_total ")
        )
    return float(line.split()[1])


def _receive(client: httpx2.Client, path: str, got: bytearray) -> None:
    with client.stream("GET", path) as answer:
        assert answer.status_code == 200
        for block in answer.iter_raw():
            got += block


def test_one_client_has_only_so_many_downloads_at_once(built_site: Site) -> None:
    with (
        serving(settings(built_site.locations, Limits(streams_per_client=1))) as served,
        served.client() as client,
        client.stream("GET", "/api/v2/stream/liquidity-provisions") as stream,
    ):
        assert stream.status_code == 200
        answer = _fetch(served)
        assert answer.status_code == 429
        error = answer.json()["error"]
        assert (error["code"], error["message"]) == (8, "client reached max subscription allowed")
