"""Data that is lost or damaged: never fewer rows, but a sentence with the file and what to do."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import httpx2
import pytest
from websockets.sync.client import connect

from exporters.locations import Locations
from exporters.zips.staging import PartStage
from pipelines.cli import main
from tests.api.chain_kit import chain_folder
from tests.api.rpc.kit import FailedCallError, client_of, messages
from tests.api.server_kit import Served, ServerProcess, serving, settings
from tests.api.site_kit import Site
from tests.s3_kit import BucketServer, bucket_server
from tests.waiting import wait_until
from transforms.block_range import BlockRange
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse

_ROWS = "/api/v2/withdrawals"
_ORDERS = "/api/v2/oracle/data"
_STREAM = "/api/v2/stream/liquidity-provisions"
_SEGMENTS = "/api/v2/networkhistory/segments"
_PUBLISHED = "/api/v2/networkhistory/export?fromBlock=1&toBlock=20&table=TABLE_ORDERS"
_WAITING = "/api/v2/networkhistory/export?fromBlock=21&toBlock=30&table=TABLE_ORDERS"
_UNAVAILABLE = 14
_SECONDS = 30
_HOUR = 3600.0
_MANY = 30

Harm = Callable[[Path], object]


def _cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def _flip(path: Path) -> None:
    """Bits all over it, and no other length."""
    data = bytearray(path.read_bytes())
    for at in range(len(data) // 3, len(data), 97):
        data[at] ^= 4
    path.write_bytes(data)


def _file_of(folder: Path, kind: str) -> Path:
    """The last file of a kind; of the data files one that both kinds of requests are about."""
    return sorted(folder.joinpath(kind).iterdir())[-1]


@contextmanager
def _serving(locations: Locations) -> Iterator[tuple[Served, httpx2.Client]]:
    with serving(settings(locations, grpc=True)) as served, served.client() as client:
        yield served, client


def _rows(client: httpx2.Client) -> Any:
    answer = client.get(_ROWS)
    assert answer.status_code == 200
    return answer.json()


def _reason(client: httpx2.Client) -> str:
    """Wait until the server says that it is not ready, asking rows meanwhile; returns why."""

    def is_said() -> bool:
        if client.get("/ready").status_code != 200:
            return True
        for path in (_ROWS, _ORDERS):
            client.get(path)
        return False

    wait_until(is_said, _SECONDS)
    ready = client.get("/ready").json()
    assert ready["ready"] is False
    return str(ready["reason"])


def _refuses(served: Served, client: httpx2.Client, reason: str) -> None:
    """Every way to ask for rows gets the sentence; the process lives."""
    assert client.get("/health").status_code == 200
    assert client.get("/ready").json()["reason"] == reason
    for path in (_ROWS, _ORDERS, _STREAM):
        answer = client.get(path)
        body = answer.json()
        body = body.get("error", body)
        assert (answer.status_code, body["code"], body["message"]) == (503, _UNAVAILABLE, reason)
    with client_of(served) as rpc:
        for ask in (
            lambda: rpc.ask("ListWithdrawals"),
            lambda: [*messages(rpc.stream("ObserveLiquidityProvisions"))],
        ):
            with pytest.raises(FailedCallError) as caught:
                ask()
            assert (caught.value.code, caught.value.message) == (_UNAVAILABLE, reason)
    assert _metric(client) > 0


def _metric(client: httpx2.Client) -> float:
    found = re.search(r"^strata_lost_files (\S+)$", client.get("/metrics").text, re.MULTILINE)
    assert found
    return float(found[1])


def _follow(reason: str, locations: Locations, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the commands that a sentence names."""
    monkeypatch.setenv("STRATA_SOURCE", locations.source)
    monkeypatch.setenv("STRATA_WAREHOUSE", str(locations.warehouse))
    if locations.cache is not None:
        monkeypatch.setenv("STRATA_CACHE", str(locations.cache))
    commands = re.findall(r"strata ([a-z]+)", reason)
    assert commands
    for command in commands:
        with pytest.raises(SystemExit) as done:
            main([command])
        assert done.value.code in (0, 5)  # a repair says that there was something to repair


def _wait(client: httpx2.Client) -> None:
    """Wait until the server is ready, and has counted that nothing is lost."""
    wait_until(lambda: client.get("/ready").status_code == 200 and _metric(client) == 0, _SECONDS)


def _wait_for(client: httpx2.Client, rows: Any) -> None:
    """Wait until the server has followed the load to its end: repair made a snapshot before."""
    wait_until(lambda: _rows(client) == rows, _SECONDS)


def _check_log(caplog: pytest.LogCaptureFixture, place: str) -> None:
    """The log names the file first; then, perhaps, what a repair takes away with it, and lacks."""
    first, *others = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert place in first.getMessage()
    repaired = (place, "/manifests/", " lacks the ")
    assert all(any(text in line.getMessage() for text in repaired) for line in others)
    assert not any(line.exc_info for line in (first, *others))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Three segments with something of everything; the first two are published."""
    site = Site(tmp_path_factory.mktemp("built"))
    chain_folder(site.source_folder, 0, 1, 2)
    site.load()
    site.publish([BlockRange(1, 10), BlockRange(11, 20)])
    return site


@pytest.fixture
def site(built: Site, tmp_path: Path) -> Site:
    """A copy to be harmed, of which nothing was served before."""
    return built.copied(tmp_path / "site")


@pytest.fixture(scope="module")
def answers(built: Site) -> tuple[Any, bytes]:
    """The rows and the export of the sound site."""
    with _serving(built.locations) as (_, client):
        return _rows(client), client.get(_PUBLISHED).content


@pytest.mark.parametrize(
    ("kind", "harm", "when"),
    [
        ("data/orders", Path.unlink, "before"),
        ("data/orders", _cut, "while"),
        ("data/orders", _flip, "while"),
        ("manifests", _cut, "before"),
        ("manifests", _flip, "before"),
        ("manifests", Path.unlink, "while"),
        # Of these only that they are looked at: they are missed as data files are.
        ("state", Path.unlink, "before"),
        ("state", _cut, "while"),
        ("index", Path.unlink, "before"),
        ("index", _cut, "while"),
        ("index", _flip, "while"),
        ("log", _flip, "before"),
        ("log", _flip, "while"),
    ],
)
def test_lost_data_is_said_and_nothing_less_is_served_until_the_remedy_was_followed(
    site: Site,
    answers: tuple[Any, bytes],
    kind: str,
    harm: Harm,
    when: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bad = _file_of(site.warehouse.cache, kind)
    if when == "before":
        harm(bad)
    with _serving(site.locations) as (served, client):
        if when == "while":
            _wait(client)
            harm(bad)
        reason = _reason(client)
        assert f"{kind}/{bad.name}" in reason
        assert str(site.root) not in reason
        _refuses(served, client, reason)
        if kind not in ("log", "manifests"):  # these say which parts there are
            assert client.get(_PUBLISHED).content == answers[1]
        if kind == "data/orders":
            for path in site.stage.root.glob("*/*/*.zip"):
                path.unlink()
            refused = client.get(_WAITING)
            assert (refused.status_code, refused.json()["error"]["message"]) == (503, reason)
        _follow(reason, site.locations, monkeypatch)
        _wait(client)
        _wait_for(client, answers[0])
        assert client.get(_PUBLISHED).content == answers[1]
    _check_log(caplog, str(bad))


@pytest.mark.parametrize("harm", [Path.unlink, _cut])
def test_streams_end_with_the_sentence_when_files_are_lost(site: Site, harm: Harm) -> None:
    with _serving(site.locations) as (served, client), client_of(served) as rpc:
        _wait(client)
        stream = f"{_STREAM}?snapshot=false"
        with (
            client.stream("GET", stream) as lines,
            connect(f"{served.url.replace('http', 'ws', 1)}{stream}") as frames,
        ):
            call = rpc.stream("ObserveLiquidityProvisions", metadata={"x-snapshot": "false"})
            call.initial_metadata()
            harm(_file_of(site.warehouse.cache, "data/orders"))
            (line,) = [*lines.iter_lines()]
            reason = client.get("/ready").json()["reason"]
            for told in (line, frames.recv(_SECONDS)):
                found = json.loads(told)["error"]
                assert (found["code"], found["message"]) == (_UNAVAILABLE, reason)
            with pytest.raises(FailedCallError) as caught:
                [*messages(call)]
            assert (caught.value.code, caught.value.message) == (_UNAVAILABLE, reason)


def test_a_request_that_needs_a_damaged_manifest_is_refused_with_its_name(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/api/v2/networkhistory/export?fromBlock=1&toBlock=90&table=TABLE_ORDERS"
    given = settings(site.locations)
    rarely = replace(given.limits, lag_seconds=_HOUR)
    with serving(replace(given, limits=rarely)) as served, served.client() as client:
        _wait(client)
        bad = _file_of(site.warehouse.cache, "manifests")
        _flip(bad)
        answer = client.get(path)
        assert answer.status_code == 503
        assert f"manifests/{bad.name} is damaged" in answer.text
        assert client.get("/ready").status_code == 503
        _run("repair", site.locations, monkeypatch)
        _run("load", site.locations, monkeypatch)
        _wait(client)
        assert client.get(path).status_code in (200, 404)


def test_every_process_of_a_server_refuses_rows_and_recovers(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ServerProcess(
        site.locations, "--workers", "2", POLL_SECONDS="0.1", LAG_SECONDS="0.2"
    ) as two:
        until = monotonic() + _SECONDS
        _await_all(two, 200, until)
        _file_of(site.warehouse.cache, "data/orders").unlink()
        _await_all(two, 503, until)
        _run("repair", site.locations, monkeypatch)
        for _ in range(20):
            assert httpx2.get(two.url + _ROWS).status_code == 503
        _run("load", site.locations, monkeypatch)
        _await_all(two, 200, until)


def _await_all(process: ServerProcess, status: int, until: float) -> None:
    """Wait until many requests in a row, each on a connection of its own, are answered so."""
    same = 0
    while same < _MANY:
        assert monotonic() < until
        found = httpx2.get(process.url + _ROWS, timeout=_SECONDS).status_code
        assert found in (200, 503)
        same = same + 1 if found == status else 0


def _run(command: str, locations: Locations, monkeypatch: pytest.MonkeyPatch) -> None:
    _follow(f"strata {command}", locations, monkeypatch)


@pytest.mark.parametrize(
    ("kind", "harm", "what"),
    [
        ("data/blocks", Path.unlink, "the blocks 1 to 30"),
        ("data/blocks", _flip, "the blocks 1 to 30"),
        ("state", Path.unlink, "the current state at block 30"),
    ],
)
def test_what_repair_no_longer_names_is_missed_until_it_was_loaded_again(
    site: Site,
    answers: tuple[Any, bytes],
    kind: str,
    harm: Harm,
    what: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remedy = (
        "run strata load; strata load --archive ARCHIVE brings back what the source no longer has"
    )
    sentence = f"the warehouse lacks {what}, which had been loaded and were lost: {remedy}"
    with _serving(site.locations) as (served, client):
        _wait(client)
        states = client.get(_ORDERS).json()
        harm(_file_of(site.warehouse.cache, kind))
        _run("repair", site.locations, monkeypatch)
        wait_until(lambda: client.get("/ready").json()["reason"] == sentence, _SECONDS)
        _refuses(served, client, sentence)
        with _serving(site.locations) as (second, other):
            _refuses(second, other, sentence)
            refused = other.get(_PUBLISHED)
            if kind == "data/blocks":
                message = refused.json()["error"]["message"]
                assert (refused.status_code, message) == (503, sentence)
            else:
                assert refused.content == answers[1]
        _run("load", site.locations, monkeypatch)
        _wait(client)
        _wait_for(client, answers[0])
        assert client.get(_ORDERS).json() == states
        assert client.get(_PUBLISHED).content == answers[1]


@pytest.fixture(scope="module")
def bucket(
    built: Site, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[BucketServer, Locations]]:
    """The site with its warehouse in a bucket, which is whole again after each test."""
    folder = tmp_path_factory.mktemp("bucket")
    with bucket_server() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", server.url)
        patch.setenv("AWS_REGION", "us-east-1")
        place = f"s3://{server.bucket()}/w"
        locations = replace(built.locations, warehouse=place, cache=folder / "first")
        warehouse = _warehouse(locations)
        source = Source(FolderStore(built.source_folder))
        warehouse.load(source, warehouse.survey(source).pending, PartStage(folder / "parts"))
        yield server, locations


@pytest.fixture
def place(bucket: tuple[BucketServer, Locations], tmp_path: Path) -> tuple[BucketServer, Locations]:
    """The same, with a cache that has every file."""
    server, locations = bucket
    locations = replace(locations, cache=tmp_path / "cache")
    with _warehouse(locations).views():
        return server, locations


def _warehouse(locations: Locations) -> Warehouse:
    options = locations.store_options
    return open_warehouse(locations.warehouse, locations.cache, options=options)


@pytest.mark.parametrize(
    ("harm", "when"), [(Path.unlink, "before"), (_cut, "while"), (_flip, "while")]
)
def test_a_copy_of_a_buckets_file_is_fetched_anew(
    place: tuple[BucketServer, Locations], answers: tuple[Any, bytes], harm: Harm, when: str
) -> None:
    _, locations = place
    assert locations.cache
    copy = _file_of(locations.cache / "copies", "data/orders")
    data = copy.read_bytes()
    if when == "before":
        harm(copy)
    with _serving(locations) as (_, client):
        _wait(client)
        if when == "while":
            harm(copy)
        wait_until(lambda: _is_answered(client), _SECONDS)
        assert (_rows(client), client.get(_PUBLISHED).content) == answers
        _wait(client)
    assert when == "while" or copy.read_bytes() == data


def _is_answered(client: httpx2.Client) -> bool:
    """Whether rows are given; until then they are refused, and nothing else."""
    status = client.get(_ROWS).status_code
    assert status in (200, 503)
    return status == 200


@pytest.mark.parametrize("harm", ["gone", "gone while serving", "damaged"])
def test_an_object_that_is_lost_in_a_bucket_is_said_though_this_machine_has_a_copy(
    place: tuple[BucketServer, Locations],
    answers: tuple[Any, bytes],
    harm: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, locations = place
    assert locations.cache
    copy = _file_of(locations.cache / "copies", "data/orders")
    name = locations.warehouse.removeprefix("s3://").removesuffix("/w")
    key = f"w/data/orders/{copy.name}"
    if harm == "gone":
        server.client.delete_object(Bucket=name, Key=key)
    elif harm == "damaged":
        _flip(copy)
        server.client.put_object(Bucket=name, Key=key, Body=copy.read_bytes())
        copy.unlink()
    with _serving(locations) as (served, client):
        if harm == "gone while serving":
            _wait(client)
            server.client.delete_object(Bucket=name, Key=key)
        reason = _reason(client)
        assert f"data/orders/{copy.name}" in reason
        _refuses(served, client, reason)
        assert client.get(_PUBLISHED).content == answers[1]
        _follow(reason, locations, monkeypatch)
        _wait(client)
        _wait_for(client, answers[0])
        assert client.get(_PUBLISHED).content == answers[1]
    _check_log(caplog, key)
