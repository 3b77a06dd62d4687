"""`strata serve` as a process: how it starts, stops, and serves with several workers."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner

from api.serve import serve
from exporters.locations import Locations
from tests.api.server_kit import ServerProcess
from tests.api.site_kit import Site
from tests.waiting import wait_until
from transforms.block_range import BlockRange
from transforms.errors import ConfigError
from transforms.sealed import seal

_TIME = "/api/v2/vega/time"
_EXPORT = "/api/v2/networkhistory/export?fromBlock=1&toBlock=40&table=5"


def test_it_says_where_it_listens_and_logs_each_request_as_json(built_site: Site) -> None:
    with ServerProcess(built_site.locations) as process:
        assert re.fullmatch(r"Listening on http://127\.0\.0\.1:\d+\n", process.greeting)
        headers = {"User-Agent": "me", "Accept-Encoding": "identity"}
        answer = httpx2.get(process.url + "/nope?a=b", headers=headers)
        process.terminate()
        code, logged = process.finish()
    assert code == 0
    (entry,) = map(json.loads, logged.splitlines())
    assert entry["request"] == answer.headers["x-request-id"]
    wanted = {"method": "GET", "path": "/nope", "query": "a=b", "status": 404, "agent": "me"}
    assert {name: entry[name] for name in wanted} == wanted
    assert entry["bytes"] == len(answer.content)


_COLLECTED = """
import asyncio, gc, sys
from api.core.server_settings import read_settings
from api.serve import worker_app

async def main():
    app = worker_app(read_settings(warehouse=sys.argv[1], archive=sys.argv[2], grpc_port=0))
    async with app.lifespan_context(app):
        print(gc.get_freeze_count(), len(gc.get_objects()))

asyncio.run(main())
"""


def test_collections_do_not_go_over_what_was_loaded_at_the_start(built_site: Site) -> None:
    places = built_site.locations
    command = [sys.executable, "-c", _COLLECTED, str(places.warehouse), places.archive]
    made = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert made.returncode == 0, made.stderr
    kept, collected = map(int, made.stdout.split())
    assert kept > 20 * collected


def test_a_stop_finishes_running_requests_and_ends_streams(wide_site: Site) -> None:
    with ServerProcess(wide_site.locations) as process:
        whole = httpx2.get(process.url + _EXPORT).content
        port = int(process.url.rpartition(":")[2])
        with (
            httpx2.stream("GET", f"{process.url}/api/v2/stream/liquidity-provisions") as stream,
            socket.socket() as slow,
        ):
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", port))
            slow.sendall(f"GET {_EXPORT} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            got = bytearray(slow.recv(1000))
            process.terminate()
            last = [*stream.iter_lines()][-1]
            assert json.loads(last)["error"]["code"] == 14
            while block := slow.recv(65536):
                got += block
        code, _ = process.finish()
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(process.url + _TIME)
    assert code == 0
    assert bytes(got).partition(b"\r\n\r\n")[2] == whole


@pytest.fixture(scope="module")
def two_workers(built_site: Site) -> Iterator[ServerProcess]:
    """A server of two workers, which stops as it should after all that tests did to it."""
    with ServerProcess(built_site.locations, "--workers", "2") as process:
        yield process
        process.terminate()
        assert process.finish()[0] == 0


def test_two_workers_share_a_port_and_their_counters(two_workers: ServerProcess) -> None:
    for _ in range(20):
        assert httpx2.get(two_workers.url + _TIME).status_code == 200
    text = httpx2.get(two_workers.url + "/metrics").text
    counted = re.search(r'requests_total\{operation="vega_time",status="200"\} (\d+)', text)
    assert counted
    assert counted[1] == "20"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the kernel spreads nothing")
def test_connections_that_come_together_are_spread_over_the_processes(
    two_workers: ServerProcess,
) -> None:
    with ExitStack() as connections:
        for _ in range(60):
            client = socket.create_connection(("127.0.0.1", two_workers.port), timeout=30)
            connections.enter_context(client)
            client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(4096).startswith(b"HTTP/1.1 200")
        taken = [_connections(worker, two_workers.port) for worker in two_workers.workers()]
    assert sum(taken) == 60
    assert min(taken) > 10  # fewer come once in ten million times


def _connections(pid: int, port: int) -> int:
    """How many established connections to a port a process has."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    theirs = {row[9] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "01"}
    links = [str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()]
    return sum(link.removeprefix("socket:[").rstrip("]") in theirs for link in links)


def test_a_worker_that_dies_is_replaced(two_workers: ServerProcess) -> None:
    httpx2.get(two_workers.url + _TIME)
    dead = two_workers.workers()[0]
    os.kill(dead, signal.SIGKILL)
    wait_until(lambda: _has_ended(dead))  # what reaches it before that is reset
    wait_until(lambda: _is_whole(two_workers, dead))


def _has_ended(process: int) -> bool:
    """Whether a process that was killed has let go of its sockets, waited for or not."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return status.rpartition(") ")[2].startswith(("Z", "X"))


def _is_whole(process: ServerProcess, dead: int) -> bool:
    """Whether there are two workers without the dead one; a request meanwhile must be answered."""
    assert "x-block-height" in _headers(process)
    workers = process.workers()
    return len(workers) == 2 and dead not in workers


def test_workers_end_when_the_process_that_began_them_is_killed(built_site: Site) -> None:
    with ServerProcess(built_site.locations, "--workers", "2") as process:
        assert httpx2.get(process.url + _TIME).status_code == 200
        assert len(process.workers()) == 2
        process.kill()
        process.finish()  # which waits for all who hold its output open


def _write_newer(site: Site) -> None:
    """A snapshot of the warehouse's log that a later release wrote."""
    path = sorted((site.warehouse.cache / "log").glob("*.json"))[-1]
    newer = path.with_name(f"{int(path.stem) + 1:020d}.json")
    newer.write_bytes(seal({"format": 99, "whatever": []}))


@pytest.mark.parametrize("workers", ["1", "2"])
def test_what_cannot_be_served_at_the_start_is_a_sentence_and_an_exit_code(
    site: Site, workers: str
) -> None:
    _write_newer(site)
    places = ("--warehouse", str(site.warehouse.cache), "--archive", site.locations.archive)
    command = "from pipelines.cli import main; main()"
    ports = ("--port", "0", "--grpc-port", "0", "--workers", workers)
    done = subprocess.run(
        [sys.executable, "-c", command, "serve", *ports, *places],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""  # that it listens is said once it does
    lines = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    (sentence,) = lines
    assert sentence.startswith("strata: ")
    assert "newer" in sentence


def test_a_worker_that_cannot_be_replaced_for_now_leaves_the_others_at_work(site: Site) -> None:
    with ServerProcess(site.locations, "--workers", "2") as process:
        wait_until(lambda: _listening(process.grpc_port) >= 2)
        _write_newer(site)
        os.kill(process.workers()[0], signal.SIGKILL)
        wait_until(lambda: "a process could not start and is started again" in process.logged())
        assert _headers(process)["x-block-height"] == "50"
        process.terminate()
        assert process.finish()[0] == 0


def _listening(port: int) -> int:
    """How many workers have started: each listens on the port for gRPC itself."""
    tables = [Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table.splitlines()[1:]]
    return sum(1 for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A")


def _headers(process: ServerProcess) -> httpx2.Headers:
    """Those of an answer; a worker that was killed may have had the connection."""
    with httpx2.Client(transport=httpx2.HTTPTransport(retries=9)) as client:
        return client.get(process.url + _TIME, timeout=60).headers


def test_new_snapshots_drop_no_request(site: Site) -> None:
    answers: list[int] = []
    heights: list[int] = []
    stop = threading.Event()

    def ask(url: str) -> None:
        while not stop.is_set():  # a new connection each time: either worker may get it
            answer = httpx2.get(f"{url}/api/v2/withdrawals?pagination.first=5")
            answers.append(answer.status_code)
            heights.append(int(answer.headers["x-block-height"]))

    with ServerProcess(site.locations, "--workers", "2", POLL_SECONDS="0.02") as process:
        thread = threading.Thread(target=ask, args=[process.url])
        thread.start()
        try:
            for first in (51, 61):
                site.add_segment(BlockRange(first, first + 9), orders=1)
                site.load()
            wait_until(lambda: httpx2.get(process.url + _TIME).headers["x-block-height"] == "70")
        finally:
            stop.set()
            thread.join()
    assert set(answers) == {200}
    assert len(set(heights)) > 1


def test_a_port_in_use_is_named_with_what_to_do(built_site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        found = CliRunner().invoke(serve, ["--port", str(port)])
    assert isinstance(found.exception, ConfigError)
    assert f"cannot listen on port {port} of 127.0.0.1" in str(found.exception)
    assert "--port" in str(found.exception)


def test_a_hangup_lets_running_requests_finish(built_site: Site) -> None:
    with ServerProcess(built_site.locations) as process:
        url = f"{process.url}/api/v2/stream/liquidity-provisions"
        with httpx2.stream("GET", url, timeout=60) as stream:
            process.send(signal.SIGHUP)
            last = [*stream.iter_lines()][-1]
        assert json.loads(last)["error"]["code"] == 14
        assert process.finish()[0] == 0


def test_nohup_keeps_a_server_running(built_site: Site) -> None:
    with ServerProcess(built_site.locations, through=("nohup",)) as process:
        process.send(signal.SIGHUP)
        assert httpx2.get(process.url + _TIME).status_code == 200


def test_places_that_are_not_there_are_said(tmp_path: Path) -> None:
    places = Locations(warehouse=str(tmp_path / "w"), archive=str(tmp_path / "a"))
    with ServerProcess(places) as process:
        for name, place in (("warehouse", places.warehouse), ("archive", places.archive)):
            assert process.read_line().startswith(f"There is no {name} {place}: name another, or")


def test_the_whole_address_is_told_that_it_is_open(built_site: Site) -> None:
    with ServerProcess(built_site.locations, "--host", "0.0.0.0") as process:
        assert process.read_line() == (
            "Anyone who reaches this address may read: see STRATA_API_TOKENS.\n"
        )
        port = process.url.rpartition(":")[2]
        answer = httpx2.get(f"http://127.0.0.1:{port}{_TIME}")
        assert answer.headers["ratelimit-limit"] == "20"
