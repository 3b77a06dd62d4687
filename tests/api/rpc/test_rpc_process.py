"""`strata serve` with gRPC: ports, workers, faces that are switched off, the stop."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner

from api.core.server_settings import Listen, read_settings
from api.core.sockets import host_and_port, reserved
from api.serve import serve
from tests.api.rpc.kit import SECONDS, Client, FailedCallError, client, messages, outcome
from tests.api.server_kit import ServerProcess
from tests.api.site_kit import Site
from tests.waiting import wait_until
from transforms.errors import ConfigError

_EXPORT: dict[str, Any] = {"from_block": 1, "to_block": 40, "table": 5}
_REST_EXPORT = "/api/v2/networkhistory/export?fromBlock=1&toBlock=40&table=5"


@contextmanager
def _clients(port: int, count: int) -> Iterator[list[Client]]:
    """Clients with a connection each."""
    opened = [client(port) for _ in range(count)]
    try:
        yield [each.__enter__() for each in opened]
    finally:
        for each in opened:
            each.__exit__(None, None, None)


def _listeners(port: int) -> int:
    """How many sockets listen on a port, by the kernel's own list."""
    listening, wanted = "0A", f":{port:04X}"
    tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = (line.split() for table in tables for line in table)
    return sum(row[1].endswith(wanted) and row[3] == listening for row in rows)


def test_both_addresses_are_told_and_calls_are_logged_as_json(built_site: Site) -> None:
    with ServerProcess(built_site.locations) as process:
        assert process.greeting.startswith("Listening on http://127.0.0.1:")
        with client(process.grpc_port) as rpc:
            answer = rpc.ask("GetVegaTime", metadata={"x-request-id": "mine"})
        assert httpx2.get(f"{process.url}/api/v2/vega/time").json() == {
            "timestamp": str(answer.message.timestamp)
        }
        process.terminate()
        code, logged = process.finish()
    assert code == 0
    called, got = map(json.loads, logged.splitlines())
    assert (called["request"], called["method"], called["status"]) == ("mine", "GRPC", "OK")
    assert (called["operation"], called["path"]) == (
        got["operation"],
        "/datanode.api.v2.TradingDataService/GetVegaTime",
    )


def test_two_workers_share_the_port_and_their_counters(built_site: Site) -> None:
    with ServerProcess(built_site.locations, "--workers", "2") as process:
        wait_until(lambda: _listeners(process.grpc_port) >= 2)
        with _clients(process.grpc_port, 20) as clients:
            for each in clients:
                assert each.ask("GetVegaTime").message.timestamp
            text = httpx2.get(f"{process.url}/metrics").text
        assert 'requests_total{operation="vega_time",status="OK"} 20.0' in text
        process.terminate()
        code, _ = process.finish()
    assert code == 0


def test_a_stop_finishes_running_calls_and_tells_streams(wide_site: Site) -> None:
    with ServerProcess(wide_site.locations) as process:
        whole = httpx2.get(process.url + _REST_EXPORT).content
        # A small window: the export still runs, as the client takes nothing, when the stop comes.
        with client(process.grpc_port, ("grpc.http2.bdp_probe", 0)) as rpc:
            stream = rpc.stream("ObserveLiquidityProvisions")
            stream.initial_metadata()  # it is connected
            call = rpc.stream("ExportNetworkHistory", **_EXPORT)
            got = bytearray(next(call).data)
            process.terminate()
            ended = outcome(lambda: [*messages(stream)])
            assert isinstance(ended, FailedCallError)
            assert (ended.code, ended.message) == (
                14,
                "the server is about to stop: connect again",
            )
            for message in messages(call):
                got += message.data
        code, _ = process.finish()
        assert code == 0
        assert bytes(got) == whole
        assert _listeners(process.grpc_port) == 0


def test_a_stop_waits_no_longer_than_it_is_told_to(wide_site: Site) -> None:
    with ServerProcess(wide_site.locations, STOP_SECONDS="1") as process:
        with client(process.grpc_port, ("grpc.http2.bdp_probe", 0)) as rpc:
            call = rpc.stream("ExportNetworkHistory", **_EXPORT)
            next(call)
            process.terminate()
            assert process.finish()[0] == 0
            ended = outcome(lambda: [*messages(call)])
        assert isinstance(ended, FailedCallError)


def test_without_http_only_grpc_is_served_until_a_signal(built_site: Site) -> None:
    with ServerProcess(built_site.locations, "--no-http") as process:
        assert process.url == ""
        assert process.greeting == f"Listening on 127.0.0.1:{process.grpc_port} for gRPC\n"
        with client(process.grpc_port) as rpc:
            assert rpc.ask("GetVegaTime").message.timestamp
        process.terminate()
        assert process.finish()[0] == 0


def test_a_port_that_another_server_has_is_named_with_what_to_do(built_site: Site) -> None:
    with ServerProcess(built_site.locations) as process:
        with client(process.grpc_port) as rpc:
            rpc.ask("Ping")
        given = ["--port", "0", "--grpc-port", str(process.grpc_port)]
        found = CliRunner().invoke(serve, given)
    assert isinstance(found.exception, ConfigError)
    assert f"cannot listen on port {process.grpc_port} of 127.0.0.1 for gRPC" in str(
        found.exception
    )
    assert "--grpc-port" in str(found.exception)
    assert "--no-grpc" in str(found.exception)


def test_a_port_is_held_from_the_beginning() -> None:
    with reserved("127.0.0.1", 0) as port:
        with pytest.raises(ConfigError, match=f"port {port}"), reserved("127.0.0.1", port):
            pass
        with pytest.raises(OSError, match="in use"):
            socket.create_server(("127.0.0.1", port))
    with reserved("127.0.0.1", port) as again:
        assert again == port


def test_a_port_that_is_no_port_is_a_sentence_too() -> None:
    with pytest.raises(ConfigError, match="port 99999 of 127"), reserved("127.0.0.1", 99999):
        pass


def test_an_address_is_written_as_clients_take_it() -> None:
    assert host_and_port("127.0.0.1", 5) == "127.0.0.1:5"
    assert host_and_port("::1", 5) == "[::1]:5"
    with reserved("::1", 0) as port:
        assert port > 0


# Settings


def test_each_face_has_its_switch() -> None:
    found = read_settings({"STRATA_API_HTTP": "0", "STRATA_API_GRPC_PORT": "1"}).listen
    assert (found.http, found.grpc, found.grpc_port) == (False, True, 1)
    assert read_settings({"STRATA_API_GRPC": "0"}).listen == Listen(grpc=False)
    assert read_settings({"STRATA_API_GRPC": "0"}, grpc=True).listen.grpc
    with pytest.raises(ConfigError, match="STRATA_API_GRPC is 'no': give 1"):
        read_settings({"STRATA_API_GRPC": "no"})
    with pytest.raises(ConfigError, match="leave one of them on"):
        read_settings({"STRATA_API_GRPC": "0"}, http=False)


def test_the_foreign_code_of_other_releases_may_be_loaded_beside_ours() -> None:
    command = (
        "import sys; sys.path.append(sys.prefix + '/stubs');"
        "import vega_sim.proto.data_node.api.v2, api.core.descriptors as ours;"
        "print(ours.message_class('vega.Order').DESCRIPTOR.file.pool is ours.POOL)"
    )
    made = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, timeout=SECONDS
    )
    assert made.stdout == "True\n", made.stderr
