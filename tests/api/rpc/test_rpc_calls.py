"""What every call has in common: metadata, limits, tokens, failures."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import httpx2
import pytest

from api.core.api_errors import Code
from api.core.descriptors import TRADING_DATA
from api.core.open_snapshots import Reading
from api.core.server_settings import Access, Limits
from tests.api.rpc.kit import (
    SECONDS,
    Client,
    FailedCallError,
    client,
    client_of,
    declared,
    outcome,
)
from tests.api.server_kit import Served, occupied, serving, settings
from tests.api.site_kit import Site
from tests.waiting import wait_until
from transforms.lookups.index_file import IndexFile

_FOREVER = "select sum(a.range * b.range) from range(10000000) a, range(10000000) b"


@pytest.fixture(scope="module")
def built(built_site: Site) -> Iterator[Served]:
    with serving(settings(built_site.locations, grpc=True)) as found:
        yield found


def _failure(ask: Any) -> FailedCallError:
    found = outcome(ask)
    assert isinstance(found, FailedCallError), found
    return found


def test_an_answer_is_preceded_by_the_newest_block_and_an_id(built: Served) -> None:
    with client_of(built) as rpc:
        found = rpc.ask("GetVegaTime", metadata={"x-request-id": "edge-1.2_3"})
        other = rpc.ask("GetVegaTime", metadata={"x-request-id": 'a"b'})
    assert found.message.timestamp == 1672531250000000000
    assert found.headers["x-block-height"] == "50"
    assert found.headers["x-block-timestamp"] == "1672531250000000000"
    assert found.headers["x-request-id"] == "edge-1.2_3"
    assert re.fullmatch("[0-9a-f]{16}", str(other.headers["x-request-id"]))


def test_an_error_has_the_same_metadata_and_the_detail_of_rest(built: Served) -> None:
    with client_of(built) as rpc, built.client() as http:
        found = _failure(lambda: rpc.ask("ListWithdrawals", party_id="zz"))
        assert found.body == http.get("/api/v2/withdrawals?partyId=zz").json()
    assert found.headers["x-block-height"] == "50"
    assert "x-request-id" in found.headers


def test_codes_have_the_numbers_of_grpc() -> None:
    for name, code in Code.__members__.items():
        assert code == grpc.StatusCode[name].value[0], name


def test_the_text_of_an_error_is_cut_to_what_metadata_holds(built: Served) -> None:
    with client_of(built) as rpc:
        found = _failure(lambda: rpc.ask("ListOracleData", oracle_spec_id="zé" * 50_000))
    assert found.code == 3
    assert found.details[0]["code"] == 190003
    assert len(found.details[0]["inner"]) < 1100


def _raw(served: Served, path: str, data: bytes) -> Any:
    with grpc.insecure_channel(f"127.0.0.1:{served.grpc_port}") as channel:
        call: Any = channel.unary_unary(path)
        with pytest.raises(grpc.RpcError) as caught:
            call(data, timeout=SECONDS)
        return caught.value


def test_bytes_that_are_no_message_are_refused_with_the_newest_block(built: Served) -> None:
    for data in (b"\xff", b"\x0a\xff", b"\x0a\x01\xff"):
        error = _raw(built, f"/{TRADING_DATA}/GetWithdrawal", data)
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert dict(error.initial_metadata())["x-block-height"] == "50"


@pytest.mark.parametrize("path", [f"/{TRADING_DATA}/ListAccounts", "/no.Service/Method", "/x"])
def test_a_method_that_there_is_not_is_unimplemented(built: Served, path: str) -> None:
    assert _raw(built, path, b"").code() is grpc.StatusCode.UNIMPLEMENTED


# Limits


def test_a_client_beyond_its_rate_is_told_so_whichever_face_it_asks(built_site: Site) -> None:
    access = Access(rate=0.001, burst=3)
    given = settings(built_site.locations, access=access, grpc=True)
    with serving(given) as served, served.client() as http, client_of(served) as rpc:
        passed = [rpc.ask("GetVegaTime"), rpc.ask("Ping")]
        assert http.get("/api/v2/vega/time").headers["ratelimit-remaining"] == "0"
        refused = _failure(lambda: rpc.ask("GetVegaTime"))
        shut_out = [_failure(lambda: rpc.ask("GetVegaTime")) for _ in range(3)][-1]
        forwarded = {"x-forwarded-for": "192.0.2.9"}
        elsewhere = rpc.ask("GetVegaTime", metadata=forwarded)
    assert [found.headers["ratelimit-remaining"] for found in passed] == ["2", "1"]
    assert (refused.code, refused.message) == (8, "api request rate limit exceeded")
    assert refused.headers["x-block-height"] == "50"
    assert refused.headers["retry-after"] == "1"
    assert shut_out.code == 7
    assert shut_out.headers["ratelimit-retry-after"] == "600"
    assert elsewhere.headers["ratelimit-request-remote-addr"] == "192.0.2.9"


def test_beyond_the_queue_a_call_is_refused_at_once(built_site: Site) -> None:
    given = settings(built_site.locations, Limits(threads=1, queue=1), grpc=True)
    with serving(given) as served, client_of(served) as rpc, served.client() as http:
        with occupied(served, 2):
            refused = _failure(lambda: rpc.ask("GetVegaTime"))
        assert (refused.code, refused.headers["retry-after"]) == (14, "1")
        assert rpc.ask("GetVegaTime").message.timestamp
        assert "strata_refused_total 1.0" in http.get("/metrics").text


def test_a_call_beyond_the_time_of_the_settings_is_given_up(built_site: Site) -> None:
    given = settings(built_site.locations, Limits(threads=1, query_seconds=0.05), grpc=True)
    with serving(given) as served, client_of(served) as rpc, served.client() as http:
        with occupied(served, 1):
            late = _failure(lambda: rpc.ask("GetVegaTime"))
        assert late.body == {"code": 4, "message": "context deadline exceeded", "details": []}
        assert late.headers["x-block-height"] == "50"
        assert "strata_timed_out_total 1.0" in http.get("/metrics").text


class _Slow:
    """Makes every query of the server one that DuckDB never ends by itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began = threading.Event()

        def check_interrupt(reading: Reading) -> None:
            self.began.set()
            reading.session.rows(_FOREVER)

        monkeypatch.setattr(Reading, "check_interrupt", check_interrupt)


def _wait_until_idle(served: Served) -> None:
    """Returns when no query runs: one that is not interrupted would run for years."""
    wait_until(lambda: not served.service.queries.pending)


def test_the_deadline_of_a_client_interrupts_its_query(
    built_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        serving(settings(built_site.locations, Limits(query_seconds=900), grpc=True)) as served,
        client_of(served) as rpc,
        served.client() as http,
    ):
        slow = _Slow(monkeypatch)
        late = _failure(lambda: rpc.ask("ListWithdrawals", timeout=0.5))
        assert late.code == 4
        assert slow.began.is_set()
        _wait_until_idle(served)
        assert _counted(http) == {"DEADLINE_EXCEEDED": 1}


def test_a_client_that_cancels_interrupts_its_query(
    built_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, asked, _ = declared("ListWithdrawals")
    with (
        serving(settings(built_site.locations, Limits(query_seconds=900), grpc=True)) as served,
        grpc.insecure_channel(f"127.0.0.1:{served.grpc_port}") as channel,
        served.client() as http,
    ):
        slow = _Slow(monkeypatch)
        method: Any = channel.unary_unary(path)
        call = method.future(asked().SerializeToString())
        assert slow.began.wait(SECONDS)
        call.cancel()
        _wait_until_idle(served)
        assert _counted(http) == {"CANCELLED": 1}


def test_a_client_whose_connection_is_lost_interrupts_its_query(
    built_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, asked, _ = declared("ListWithdrawals")
    given = settings(built_site.locations, Limits(query_seconds=900), grpc=True)
    with serving(given) as served:
        slow = _Slow(monkeypatch)
        with grpc.insecure_channel(f"127.0.0.1:{served.grpc_port}") as channel:
            method: Any = channel.unary_unary(path)
            call = method.future(asked().SerializeToString())
            assert slow.began.wait(SECONDS)
            assert not call.done()
        _wait_until_idle(served)


def _counted(http: httpx2.Client) -> dict[str, int]:
    """How many requests for withdrawals ended how, once one has."""
    pattern = re.compile(r'requests_total\{operation="withdrawals",status="(\w+)"\} (\d+)')
    wait_until(lambda: pattern.search(_metrics(http)))
    return {status: int(count) for status, count in pattern.findall(_metrics(http))}


def _metrics(http: httpx2.Client) -> str:
    return http.get("/metrics").text


# Tokens


def test_with_tokens_only_their_owners_are_served(built_site: Site) -> None:
    access = Access(rate=0.0, tokens=("first-secret", "second-secret"))
    with (
        serving(settings(built_site.locations, access=access, grpc=True)) as served,
        client_of(served) as rpc,
    ):
        for given in ("", "Bearer wrong", "Basic first-secret", "Bearer", "first-secret"):
            metadata = {"authorization": given} if given else {}
            refused = _failure(lambda m=metadata: rpc.ask("Ping", metadata=m))
            assert refused.code == 16
            assert "Bearer" in refused.message
        for given in ("Bearer first-secret", "bearer second-secret"):
            rpc.ask("Ping", metadata={"authorization": given})


# Failures and the log


def test_an_unexpected_failure_leaks_nothing_but_its_id(
    built: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def rows(*_: object, **__: object) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(IndexFile, "pages", rows)
    with client_of(built) as rpc:
        found = _failure(lambda: rpc.ask("ListWithdrawals", metadata={"x-request-id": "failing"}))
    assert (found.code, found.message) == (13, "Internal error")
    assert found.details[0]["inner"] == "request failing"
    assert "secret" not in str(found.body)
    assert any("a secret" in (record.exc_text or "") for record in caplog.records)


def test_every_call_is_a_line_of_the_log_and_is_counted(
    built: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "strata.access")
    with client(built.grpc_port, ("grpc.primary_user_agent", "me")) as rpc:
        answer = rpc.ask("GetVegaTime")
        _failure(lambda: rpc.ask("GetWithdrawal", id="zz"))
    while len(lines := _lines_of(caplog, "me ")) < 2:
        pass  # a call is logged when all of its answer has left
    first, second = lines
    assert first["method"] == "GRPC"
    assert first["path"] == f"/{TRADING_DATA}/GetVegaTime"
    assert (first["operation"], first["status"]) == ("vega_time", "OK")
    assert first["bytes"] == answer.message.ByteSize()
    assert first["client"] == "127.0.0.1"
    assert (second["operation"], second["status"]) == ("withdrawal", "INVALID_ARGUMENT")
    with built.client() as http:
        text = _metrics(http)
    assert re.search(r'requests_total\{operation="vega_time",status="OK"\} \d', text)
    counted = r'requests_total\{operation="withdrawal",status="INVALID_ARGUMENT"\} \d'
    assert re.search(counted, text)


def _lines_of(caplog: pytest.LogCaptureFixture, agent: str) -> list[dict[str, Any]]:
    lines = [vars(record).get("fields", {}) for record in [*caplog.records]]
    return [line for line in lines if line.get("agent", "").startswith(agent)]


def test_without_data_the_server_says_so_and_serves_it_once_it_is_there(
    built_site: Site, site: Site
) -> None:
    empty = Site(site.root / "empty")
    with serving(settings(empty.locations, grpc=True)) as served, client_of(served) as rpc:
        assert _failure(lambda: rpc.ask("GetVegaTime")).code == 14
        empty.load(site.source_folder)
        while isinstance(found := outcome(lambda: rpc.ask("GetVegaTime")), FailedCallError):
            assert found.code == 14
        assert found.headers["x-block-height"] == "50"


def test_a_page_of_any_size_passes_to_a_client_that_takes_it(built: Served) -> None:
    with client(built.grpc_port, ("grpc.max_receive_message_length", 100)) as rpc:
        assert _failure(lambda: rpc.ask("ListWithdrawals")).code == 8
        assert isinstance(rpc, Client)
