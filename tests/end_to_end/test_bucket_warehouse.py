"""A warehouse in a bucket, used by several machines through the commands and the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from polars.testing import assert_frame_equal

import strata
from exporters.locations import Locations
from tests.api.server_kit import ServerProcess
from tests.archive_kit import without_old_shards, without_records
from tests.end_to_end.machines_kit import Machine, objects
from tests.fault_proxy import PASS, Request
from tests.s3_kit import BucketServer, bucket_server
from tests.segments_kit import KIT_CHAIN, table_rows
from tests.transforms.warehouse_kit import history_segment, state_segment
from tests.waiting import wait_until
from transforms.warehouse.questions.queries import query_rows
from transforms.warehouse.warehouse_address import open_warehouse

CAPTURE = {"partyId": "a1" * 32, "chainId": KIT_CHAIN, "statistics": {"epochSeq": 7}}


@dataclass(frozen=True)
class Cloud:
    """The buckets that all machines share."""

    server: BucketServer
    source: str
    warehouse: str
    archive: str
    root: Path

    @property
    def places(self) -> dict[str, str]:
        return {
            "STRATA_SOURCE": f"s3://{self.source}/segments",
            "STRATA_WAREHOUSE": f"s3://{self.warehouse}/some/prefix",
            "STRATA_ARCHIVE": f"s3://{self.archive}/exports",
            "AWS_ENDPOINT_URL": self.server.url,
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def machine(self, name: str) -> Machine:
        return Machine(self.root / name, self.places)

    def add(self, *segments: Path) -> None:
        for path in segments:
            self.server.client.upload_file(str(path), self.source, f"segments/{path.name}")

    def held(self) -> dict[str, bytes]:
        """Everything in the buckets of the warehouse and of the archive."""
        return {**objects(self.server, self.warehouse), **objects(self.server, self.archive)}

    def locations(self, name: str) -> Locations:
        """Where a server on a machine finds all this."""
        places = self.places
        return Locations(
            source=places["STRATA_SOURCE"],
            warehouse=places["STRATA_WAREHOUSE"],
            archive=places["STRATA_ARCHIVE"],
            cache=self.machine(name).cache,
        )


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", running.url)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield running


def make_cloud(server: BucketServer, root: Path) -> Cloud:
    return Cloud(server, server.bucket(), server.bucket(), server.bucket(), root)


def segment(folder: Path, first: int, last: int, *, states: bool = False) -> Path:
    orders = table_rows("orders", {}, {"reference": 'a,"b"\r\n'}, first=first)
    build = state_segment if states else history_segment
    return build(folder, first=first, last=last, tables={"orders": orders})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A machine with folders only, which loaded and published the same four segments."""
    root = tmp_path_factory.mktemp("folder")
    source = root / "source"
    source.mkdir()
    for first, last in ((1, 10), (11, 25), (26, 30), (31, 40)):
        segment(source, first, last, states=last == 40)
    places = {name: str(root / name) for name in ("source", "warehouse", "archive")}
    machine = Machine(root, {f"STRATA_{name.upper()}": place for name, place in places.items()})
    machine.strata("load")
    machine.strata("publish")
    return machine


@pytest.fixture(scope="module")
def cloud(server: BucketServer, folder: Machine, tmp_path_factory: pytest.TempPathFactory) -> Cloud:
    """Two segments loaded on a, published on b; two more loaded and published by Dagster on b."""
    made = make_cloud(server, tmp_path_factory.mktemp("cloud"))
    *first, last, newest = sorted((folder.folder / "source").iterdir(), key=_first_block)
    made.add(*first)
    a, b = made.machine("a"), made.machine("b")
    a.strata("load")
    b.strata("publish")
    made.add(last, newest)
    b.strata("run")
    return made


@pytest.fixture(scope="module")
def whole(folder: Machine) -> bytes:
    """All orders, as the machine with folders exports them."""
    return folder.export("orders", 1, 40)


def _first_block(path: Path) -> int:
    return int(path.stem.split("-")[-2])


def test_what_several_machines_published_is_what_one_with_folders_publishes(
    cloud: Cloud, folder: Machine
) -> None:
    archive = folder.folder / "archive"
    wanted = {
        f"exports/{path.relative_to(archive)}": path.read_bytes()
        for path in archive.rglob("*")
        if path.is_file() and path.parent.name != ".strata-scratch"
    }

    assert len([key for key in wanted if key.endswith(".zip")]) == 4 * 15
    assert _without_lake(objects(cloud.server, cloud.archive)) == _without_lake(wanted)


def _without_lake(objects: dict[str, bytes]) -> dict[str, bytes]:
    """All but the lake, whose logs and files depend on when and in which runs it was published."""
    files = {key: data for key, data in objects.items() if "/lake/" not in key}
    return without_records(without_old_shards(files))


def test_a_machine_that_only_reads_answers_everything_and_writes_nothing(
    cloud: Cloud, whole: bytes
) -> None:
    c, before = cloud.machine("c"), cloud.held()
    cloud.server.door.requests.clear()

    status = c.json("status")
    counted = c.json("sql", "select count(*) from orders")
    exported = c.export("orders", 1, 40)
    c.strata("verify")

    assert status["segments"]["published"] == ["1-10", "11-25", "26-30", "31-40"]
    assert status["segments"]["to_do"] == []
    assert counted["rows"] == [[8]]
    assert exported == whole
    assert cloud.held() == before
    assert {request.split()[0] for request in cloud.server.door.requests} == {"GET", "HEAD"}


def test_a_query_about_one_table_fetches_files_of_it_only(cloud: Cloud) -> None:
    f = cloud.machine("f")

    counted = f.json("sql", "with o as (from Orders) select count(*) from o")

    assert counted["rows"] == [[8]]
    assert {path.parent.name for path in f.cache.glob("copies/data/*/*")} == {"orders"}
    assert not list(f.cache.glob("copies/state/*"))
    f.strata("sql", "from (show tables)")
    assert {path.parent.name for path in f.cache.glob("copies/data/*/*")} > {"orders"}


def test_python_fetches_what_is_asked_for_and_all_of_one_snapshot(
    cloud: Cloud, folder: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tables() -> set[str]:
        return {path.parent.name for path in tmp_path.glob("copies/data/*/*")}

    with ExitStack() as stack:
        local = stack.enter_context(strata.open(folder.folder / "warehouse"))
        monkeypatch.setenv("STRATA_CACHE", str(tmp_path))
        distant = stack.enter_context(strata.open(cloud.places["STRATA_WAREHOUSE"]))
        assert (distant.tables, tables()) == (local.tables, set())
        few, expected = (opened.table("orders", blocks=(11, 12)) for opened in (distant, local))
        assert few.arrow() == expected.arrow()
        assert len(list(tmp_path.glob("copies/data/orders/*"))) == 1
        assert tables() == {"blocks", "orders"}
        nothing = distant.table("orders", days=("1999-01-01", "1999-01-02"))
        assert nothing.arrow().num_rows == 0
        everything = distant.table("orders").polars().collect()
        assert_frame_equal(everything, local.table("orders").polars().collect())
        assert tables() == {"blocks", "orders"}
        assert not list(tmp_path.glob("copies/state/*"))
        # What another process of this machine shows is of a later snapshot, and stays.
        shown = tmp_path / "current.duckdb"
        shown.write_bytes(b"of a later snapshot")
        joined = distant.table("orders").relation().join(distant.table("trades").relation(), "id")
        assert len(joined) == 0
        assert list(tmp_path.glob("copies/state/*"))
        assert shown.read_bytes() == b"of a later snapshot"


@pytest.mark.parametrize(
    "query",
    [
        "select count(*), max(size) from exact.orders",
        "with b as (from blocks) select count(*) from b join orders using (vega_time)",
        "with orders as (from blocks) select count(*) from orders",
        "select count(*) from (select id from orders union all select range::text from range(3))",
        "select (select count(*) from trades), utc(max(vega_time)) from blocks",
        "select count(*) from parties",
        "select count(*) from duckdb_views() where not internal",
        "select count(*) from (show all tables), blocks",
        "select count(*) from information_schema.tables, blocks",
        "select count(*) from orders, strata.receipts, strata.segments",
        "select count(*) from blocks, query_table('orders')",
        "describe orders",
        "pivot orders on side_name using count(*)",
    ],
)
def test_a_machine_that_has_nothing_yet_answers_as_one_with_folders(
    cloud: Cloud, folder: Machine, tmp_path: Path, query: str
) -> None:
    distant = open_warehouse(cloud.places["STRATA_WAREHOUSE"], tmp_path / "cache")
    local = open_warehouse(str(folder.folder / "warehouse"))
    with query_rows(distant, query) as (_, rows), query_rows(local, query) as (_, expected):
        assert sorted(rows, key=repr) == sorted(expected, key=repr)


def test_damage_in_a_bucket_is_found(cloud: Cloud) -> None:
    key = f"exports/{KIT_CHAIN}/orders/{KIT_CHAIN}-orders-11-25.zip"
    good = objects(cloud.server, cloud.archive)[key]
    middle = len(good) // 2
    bad = good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :]
    cloud.server.client.put_object(Bucket=cloud.archive, Key=key, Body=bad)
    try:
        done = cloud.machine("c").run("verify")
        assert done.returncode == 5
        assert f"{KIT_CHAIN}-orders-11-25.zip" in done.stdout + done.stderr
    finally:
        cloud.server.client.put_object(Bucket=cloud.archive, Key=key, Body=good)


def test_a_check_fetches_a_damaged_copy_of_this_machine_again(cloud: Cloud) -> None:
    machine = cloud.machine("checking")
    machine.strata("verify")
    (copy, *_) = (machine.cache / "copies" / "data" / "orders").iterdir()
    whole = copy.read_bytes()
    copy.chmod(0o644)
    copy.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    machine.strata("verify")
    assert copy.read_bytes() == whole


def test_a_bucket_that_is_not_there_is_named_in_one_sentence(cloud: Cloud) -> None:
    done = cloud.machine("c").run("publish", "--archive", "s3://no-such-bucket-here/x")
    assert done.returncode not in (0, 1)
    (line,) = done.stderr.splitlines()
    assert "no-such-bucket-here" in line


def test_captures_and_compaction_on_one_machine_are_seen_on_another(cloud: Cloud) -> None:
    a, c = cloud.machine("a"), cloud.machine("c")
    cloud.server.client.put_object(
        Bucket=cloud.source,
        Key=f"segments/spam/{KIT_CHAIN}-9.ndjson",
        Body=json.dumps(CAPTURE).encode(),
    )

    a.strata("load")
    assert a.json("compact")["volumes"] == 2  # too few to be worth it
    merged = open_warehouse(a.places["STRATA_WAREHOUSE"], a.cache).compact(most_partial=1)

    assert c.json("sql", "select count(*) from spam_captures")["rows"] == [[1]]
    assert len(merged) == 1
    there = open_warehouse(c.places["STRATA_WAREHOUSE"], c.cache).loaded_catalog()
    assert len(there.snapshot.history) == 1
    c.strata("verify")


_TIME = "/api/v2/vega/time"
_POLLS = {"POLL_SECONDS": "0.1", "LAG_SECONDS": "1"}
_OUTAGES = ("opening the newest snapshot failed", "looking at the source failed")


def export_path(first: int, last: int) -> str:
    return f"/api/v2/networkhistory/export?fromBlock={first}&toBlock={last}&table=5"


def get(process: ServerProcess, path: str) -> httpx2.Response:
    return httpx2.get(process.url + path, timeout=60)


def download(process: ServerProcess, first: int, last: int) -> bytes:
    """The ZIP of a range of orders, as soon as the server has all of it."""
    path = export_path(first, last)
    wait_until(lambda: get(process, path).status_code != 404)
    answer = get(process, path)
    assert answer.status_code == 200, answer.text
    return answer.content


def outages(process: ServerProcess) -> list[int]:
    """How often the log names each kind of failure."""
    return [process.logged().count(what) for what in _OUTAGES]


def test_a_server_follows_the_log_and_outlives_the_bucket(
    server: BucketServer, folder: Machine, tmp_path: Path
) -> None:
    cloud = make_cloud(server, tmp_path)
    a = cloud.machine("a")
    (first, second, third, _) = sorted((folder.folder / "source").iterdir(), key=_first_block)
    cloud.add(first)
    a.strata("load")
    a.strata("publish")
    with ServerProcess(cloud.locations("server"), "--no-grpc", **_POLLS) as process:
        download(process, 1, 10)
        cloud.add(second)
        a.strata("load")
        wanted = download(process, 1, 25)
        assert wanted == folder.export("orders", 1, 25)
        with server.away():
            wait_until(lambda: 0 not in outages(process))
            newest = get(process, _TIME).json()
            assert download(process, 1, 25) == wanted
            assert get(process, "/archive/index.json").status_code == 503
            tried = len(server.door.requests)
            wait_until(lambda: len(server.door.requests) > tried + 12)
            assert get(process, "/ready").status_code == 200
            assert outages(process) == [1, 1]
        cloud.add(third)
        a.strata("load")
        download(process, 1, 30)
        assert get(process, _TIME).json() != newest
        assert outages(process) == [1, 1]


def test_a_server_that_starts_while_the_bucket_is_away_says_so(cloud: Cloud) -> None:
    with cloud.server.away():
        started = cloud.machine("c").run("serve", "--port", "0", "--no-grpc")
    assert started.returncode == 7
    assert started.stderr.startswith("strata: ")
    assert "is overloaded or failing" in started.stderr
    assert len(started.stderr.splitlines()) == 1


def test_a_run_ends_well_if_the_bucket_refuses_the_look_after_it(
    server: BucketServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second listing of the source follows the publication, and each request has four tries."""
    cloud = make_cloud(server, tmp_path)
    cloud.add(segment(tmp_path / "made", 1, 10))
    listings = 0

    def refused(request: Request) -> str:
        nonlocal listings
        is_listing = request.path.strip("/") == cloud.source and "list-type" in request.query
        listings += is_listing
        return "503 SlowDown" if is_listing and 2 <= listings <= 5 else PASS

    monkeypatch.setattr(server.door, "on_request", refused)
    done = Machine(tmp_path / "machine", {**cloud.places, "STRATA_LAKE": "0"}).run("run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert listings == 6
    assert "15 tables in 15 ZIPs" in done.stdout
