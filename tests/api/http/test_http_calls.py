"""What every call has in common: methods, headers, limits, failures."""

from __future__ import annotations

import gzip
import json
import re
import socket
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from api.core.server_settings import Access, Limits
from tests.api.rpc.kit import as_json, client_of
from tests.api.server_kit import Served, occupied, serving, settings
from tests.api.site_kit import PARTIES, Site
from tests.cases import each_of
from tests.waiting import wait_until
from transforms.block_range import BlockRange

_LIST = "/api/v2/withdrawals"
_EXPORT = "/api/v2/networkhistory/export"
_STREAM = "/api/v2/stream/liquidity-provisions"
_TIME = "/api/v2/vega/time"
_PARTY = "c1" * 32
_CALLS = (
    "/api/v2/oracle/data",
    f"/api/v2/node/signatures?id={_PARTY}",
    f"/api/v2/order/versions/{_PARTY}",
    _LIST,
    f"/api/v2/liquidity/provisions?partyId={_PARTY}",
    "/api/v2/networkhistory/segments",
    "/api/v2/networkhistory",
    "/api/v2/networkhistory/bootstrap",
    f"/api/v2/statistics/spam/{_PARTY}",
    f"/statistics/spam/{_PARTY}",
    _TIME,
    "/api/v2/info",
)


@each_of("path", _CALLS)
def test_every_call_answers_json_with_the_newest_block(served: Served, path: str) -> None:
    with served.client() as client:
        answer = client.get(path)
    assert answer.status_code == 200, answer.text
    assert answer.headers.get_list("content-type") == ["application/json"]
    assert answer.headers["x-block-height"] == "50"
    assert answer.headers["x-block-timestamp"] == "1672531250000000000"
    assert answer.json()


@each_of("path", ["/nope", f"{_LIST}/", "/API/v2/withdrawals", "/api/v2"])
def test_an_unknown_path_is_answered_as_by_the_gateway(served: Served, path: str) -> None:
    with served.client() as client:
        answer = client.get(path)
    assert answer.status_code == 404
    assert answer.json() == {"code": 5, "message": "Not Found", "details": []}
    assert "x-block-height" not in answer.headers


@each_of("path", [_LIST, _EXPORT, _STREAM, "/ready", "/openapi.json"])
@each_of("method", ["PUT", "DELETE", "PATCH", "POST"])
def test_another_method_is_answered_as_by_the_gateway(
    served: Served, method: str, path: str
) -> None:
    with served.client() as client:
        answer = client.request(method, path)
    assert answer.status_code == 501
    assert answer.json() == {"code": 12, "message": "Method Not Allowed", "details": []}


@pytest.mark.parametrize("path", [_TIME, "/", "/nope"])
def test_a_websocket_on_any_path_but_the_streams_is_refused(served: Served, path: str) -> None:
    with (
        pytest.raises(InvalidStatus, match="403"),
        connect(f"ws://127.0.0.1:{served.port}{path}", open_timeout=30),
    ):
        pass


def test_a_list_knows_no_head(served: Served) -> None:
    with served.client() as client:
        assert client.head(_LIST).status_code == 501


def test_health_is_ok_to_any_method(served: Served) -> None:
    with served.client() as client:
        for method in ("GET", "POST", "DELETE"):
            answer = client.request(method, "/health")
            assert (answer.status_code, answer.text) == (200, "ok")
            assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_a_posted_form_is_read_like_the_query_of_a_url(served: Served) -> None:
    with served.client() as client:
        asked = client.get(f"{_LIST}?pagination.first=1&pagination.newestFirst=false")
        form = {"pagination.first": "1"}
        posted = client.post(f"{_LIST}?pagination.newestFirst=false", data=form)
        assert posted.json() == asked.json()
        twice = client.post(f"{_LIST}?pagination.first=2", data=form)
    assert twice.json()["message"] == 'too many values for field "first": 1, 2'


def test_a_posted_form_asks_for_an_export_or_a_stream(served: Served) -> None:
    form = {"fromBlock": "1", "table": "TABLE_ORDERS"}
    with served.client() as client:
        asked = client.get(f"{_EXPORT}?fromBlock=1&toBlock=50&table=TABLE_ORDERS")
        posted = client.post(f"{_EXPORT}?toBlock=50", data=form)
        assert (posted.status_code, posted.content) == (200, asked.content)
        assert posted.headers["content-disposition"] == asked.headers["content-disposition"]
        with (
            client.stream("GET", f"{_STREAM}?partyId={PARTIES[1]}") as got,
            client.stream("POST", _STREAM, data={"partyId": PARTIES[1]}) as told,
        ):
            assert next(told.iter_lines()) == next(got.iter_lines())


def test_an_error_that_reached_the_data_has_both_types_of_the_gateway(served: Served) -> None:
    with served.client() as client:
        answer = client.get(f"{_LIST}?partyId=zz")
        malformed = client.get(f"{_LIST}?pagination.first=x")
    assert answer.headers.get_list("content-type") == ["application/json", "application/grpc"]
    assert answer.headers["x-block-height"] == "50"
    assert malformed.status_code == 400
    assert malformed.headers.get_list("content-type") == ["application/json"]
    assert "x-block-height" not in malformed.headers


def test_pretty_is_the_same_answer_indented(served: Served) -> None:
    with served.client() as client:
        plain, pretty = client.get(_LIST), client.get(f"{_LIST}?pretty")
        accepted = client.get(_LIST, headers={"accept": "application/json+pretty"})
    assert pretty.json() == plain.json()
    assert accepted.content == pretty.content
    assert pretty.text.startswith('{\n "withdrawals": {\n  "edges": [')


# Compression


@each_of("path", [_LIST, "/nope", "/health", "/docs", f"{_LIST}?partyId=zz"])
def test_what_is_asked_for_compressed_is_the_same_compressed(served: Served, path: str) -> None:
    with served.client() as client:
        plain = client.get(path, headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        with client.stream("GET", path, headers={"accept-encoding": "deflate, gzip"}) as answer:
            body = b"".join(answer.iter_raw())
            assert answer.headers["content-encoding"] == "gzip"
            assert int(answer.headers["content-length"]) == len(body)
            assert "Accept-Encoding" in answer.headers.get_list("vary")
            assert answer.status_code == plain.status_code
    assert gzip.decompress(body) == plain.content


@each_of("accepted", ["identity", "br", "gzip;q=0", "gzip; q=0.000", ""])
def test_nothing_is_compressed_unasked(served: Served, accepted: str) -> None:
    with (
        served.client() as client,
        client.stream("GET", _LIST, headers={"accept-encoding": accepted}) as answer,
    ):
        assert "content-encoding" not in answer.headers


def test_a_compressed_stream_gives_each_line_at_once(served: Served) -> None:
    path = "/api/v2/stream/liquidity-provisions"
    with (
        served.client() as client,
        client.stream("GET", path, headers={"accept-encoding": "gzip"}) as answer,
    ):
        assert answer.headers["content-encoding"] == "gzip"
        assert "content-length" not in answer.headers
        assert "result" in json.loads(next(answer.iter_lines()))


# Cross-origin requests


def test_a_preflight_is_answered_as_by_the_gateway(served: Served) -> None:
    with served.client() as client:
        answer = client.options(
            _LIST,
            headers={
                "Origin": "https://app.example",
                "Access-Control-Request-Method": "GET",
                "Access-Control-Request-Headers": "authorization, x-own",
            },
        )
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert answer.headers["access-control-allow-methods"] == "GET"
    assert answer.headers["access-control-allow-headers"] == "authorization, x-own"
    assert answer.headers["access-control-max-age"] == "7200"
    assert answer.headers.get_list("vary") == [
        "Origin",
        "Access-Control-Request-Method",
        "Access-Control-Request-Headers",
    ]


def test_a_page_of_any_origin_may_read_answers_and_errors(served: Served) -> None:
    with served.client() as client:
        for path in (_LIST, "/nope", "/api/v2/networkhistory/export"):
            answer = client.get(path, headers={"Origin": "http://a.example"})
            assert answer.headers["access-control-allow-origin"] == "http://a.example"
            assert answer.headers["access-control-expose-headers"] == "*"
            assert "Origin" in answer.headers.get_list("vary")
        alone = client.get(_LIST)
    assert "access-control-allow-origin" not in alone.headers
    assert "Origin" in alone.headers.get_list("vary")


def test_only_the_origins_of_the_settings_may_read(built_site: Site) -> None:
    access = Access(rate=0.0, origins=("https://good.example",))
    with (
        serving(settings(built_site.locations, access=access)) as served,
        served.client() as client,
    ):
        for origin, granted in (
            ("https://good.example", True),
            ("http://good.example", True),
            ("https://evil.example", False),
        ):
            answer = client.get(_TIME, headers={"Origin": origin})
            assert ("access-control-allow-origin" in answer.headers) is granted


# Limits


def test_a_client_beyond_its_rate_is_told_when_it_may_ask_again(built_site: Site) -> None:
    access = Access(rate=0.001, burst=3)
    with (
        serving(settings(built_site.locations, access=access)) as served,
        served.client() as client,
    ):
        passed = [client.get(_TIME) for _ in range(3)]
        refused = client.get(_TIME)
        shut_out = [client.get(_TIME) for _ in range(3)][-1]
        assert client.get("/health").status_code == 200
        elsewhere = client.get(_TIME, headers={"X-Forwarded-For": "192.0.2.9"})
    assert [answer.headers["ratelimit-remaining"] for answer in passed] == ["2", "1", "0"]
    assert refused.status_code == 429
    body = {"code": 8, "message": "api request rate limit exceeded", "details": []}
    assert refused.json() == body
    assert refused.headers["x-block-height"] == "50"
    assert refused.headers["retry-after"] == "1"
    assert shut_out.status_code == 403
    assert shut_out.json()["code"] == 7
    assert shut_out.headers["ratelimit-retry-after"] == "600"
    assert elsewhere.status_code == 200
    assert elsewhere.headers["ratelimit-request-remote-addr"] == "192.0.2.9"


def test_beyond_the_queue_a_request_is_refused_at_once(built_site: Site) -> None:
    given = settings(built_site.locations, Limits(threads=1, queue=1))
    with serving(given) as served, served.client() as client:
        with occupied(served, 2):
            refused = client.get(_TIME)
            assert refused.status_code == 503
            assert refused.json()["code"] == 14
            assert refused.headers["retry-after"] == "1"
            assert client.get("/health").status_code == 200
        assert client.get(_TIME).status_code == 200
        assert "strata_refused_total 1.0" in client.get("/metrics").text


def test_a_request_beyond_its_time_is_given_up(built_site: Site) -> None:
    given = settings(built_site.locations, Limits(threads=1, query_seconds=0.05))
    with serving(given) as served, served.client() as client:
        with occupied(served, 1):
            late = client.get(_TIME)
        assert late.status_code == 504
        body = {"code": 4, "message": "context deadline exceeded", "details": []}
        assert late.json() == body
        assert client.get(_TIME).status_code == 200
        assert "strata_timed_out_total 1.0" in client.get("/metrics").text


def test_a_client_may_ask_for_a_shorter_time(built_site: Site) -> None:
    given = settings(built_site.locations, Limits(threads=1))
    with serving(given) as served, served.client() as client:
        with occupied(served, 1):
            assert client.get(_TIME, headers={"Grpc-Timeout": "50m"}).status_code == 504
        assert client.get(_TIME, headers={"Grpc-Timeout": "5S"}).status_code == 200
        malformed = client.get(_TIME, headers={"Grpc-Timeout": "abc"})
    assert malformed.status_code == 400
    assert malformed.json()["message"] == "invalid grpc-timeout: abc"


def test_a_request_whose_client_leaves_makes_room(built_site: Site) -> None:
    given = settings(built_site.locations, Limits(threads=1, queue=5))
    with serving(given) as served, occupied(served, 1):
        with socket.create_connection(("127.0.0.1", served.port)) as connection:
            connection.sendall(f"GET {_LIST} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            wait_until(lambda: served.service.queries.pending >= 2)
        wait_until(lambda: served.service.queries.pending <= 1)


# Tokens


def test_with_tokens_only_their_owners_are_served(built_site: Site) -> None:
    access = Access(rate=0.0, tokens=("first-secret", "second-secret"))
    with (
        serving(settings(built_site.locations, access=access)) as served,
        served.client() as client,
    ):
        for path in (_LIST, "/", "/metrics", "/archive/chains.json", "/nope"):
            refused = client.get(path)
            assert refused.status_code == 401
            assert refused.json()["code"] == 16
            assert refused.headers["www-authenticate"] == "Bearer"
        for given in ("Bearer wrong", "Basic first-secret", "Bearer", "first-secret"):
            assert client.get(_LIST, headers={"Authorization": given}).status_code == 401
        for given in ("Bearer first-secret", "bearer second-secret"):
            assert client.get(_LIST, headers={"Authorization": given}).status_code == 200
        assert client.get("/health").status_code == 200
        assert client.get("/ready").status_code == 200


def test_a_page_gives_its_token_in_the_place_of_a_websocket_protocol(built_site: Site) -> None:
    access = Access(rate=0.0, tokens=("secret",))
    path = "/api/v2/stream/liquidity-provisions"
    with serving(settings(built_site.locations, access=access)) as served:
        url = f"ws://127.0.0.1:{served.port}{path}"
        with connect(url, subprotocols=[Subprotocol("Bearer"), Subprotocol("secret")]) as opened:
            assert opened.subprotocol == "Bearer"
            assert "result" in json.loads(opened.recv(timeout=30))
        with pytest.raises(InvalidStatus) as caught, connect(url):
            pass
    assert caught.value.response.status_code == 401


# Request ids and failures


def test_an_answer_carries_the_id_that_a_proxy_gave_unless_it_is_odd(served: Served) -> None:
    with served.client() as client:
        given = client.get(_TIME, headers={"X-Request-Id": "edge-1.2_3"})
        odd = client.get(_TIME, headers={"X-Request-Id": 'a"b'})
        own = client.get("/nope")
    assert given.headers["x-request-id"] == "edge-1.2_3"
    assert re.fullmatch(r"[0-9a-f]{16}", odd.headers["x-request-id"])
    assert re.fullmatch(r"[0-9a-f]{16}", own.headers["x-request-id"])


def test_an_unexpected_failure_leaks_nothing_but_its_id(
    site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise RuntimeError(f"an unforeseen failure in {site.root}")

    monkeypatch.setattr("api.http.own_pages.archive_page", fail)
    with serving(settings(site.locations)) as served, served.client() as client:
        answer = client.get("/", headers={"X-Request-Id": "failing", "Origin": "http://a"})
    assert answer.status_code == 500
    body = answer.json()
    assert body["code"] == 13
    assert body["details"][0]["inner"] == "request failing"
    assert str(site.root) not in answer.text
    assert answer.headers["access-control-allow-origin"] == "http://a"
    assert answer.headers["connection"] == "close"  # as the server closes then
    assert any("an unforeseen failure" in (record.exc_text or "") for record in caplog.records)


def test_without_data_the_server_says_so_and_serves_it_once_it_is_there(
    built_site: Site, site: Site
) -> None:
    empty = Site(site.root / "empty")
    with serving(settings(empty.locations)) as served, served.client() as client:
        assert client.get(_TIME).status_code == 503
        ready = client.get("/ready")
        assert (ready.status_code, ready.json()["ready"]) == (503, False)
        assert client.get("/").status_code == 200
        empty.load(site.source_folder)
        wait_until(lambda: client.get(_TIME).status_code != 503)
        assert client.get("/ready").json()["segments"] == 3


def test_ready_counts_the_blocks_that_the_source_is_ahead(site: Site) -> None:
    site.add_segment(BlockRange(51, 60), orders=1)
    with serving(settings(site.locations)) as served, served.client() as client:
        wait_until(lambda: client.get("/ready").json()["blocksBehind"] is not None)
        ready = client.get("/ready").json()
    assert ready["blocksBehind"] == 10
    assert ready["blockHeight"] == 50
    assert ready["chainId"] == "kit-chain"


def test_before_the_first_load_the_server_says_what_it_is(tmp_path: Path) -> None:
    with serving(settings(Site(tmp_path).locations, grpc=True)) as empty:
        with empty.client() as client:
            answer = client.get("/api/v2/info")
            assert client.get(_TIME).status_code == 503
            assert client.get("/ready").status_code == 503
        with client_of(empty) as grpc:
            message = grpc.ask("Info").message
            for method in (
                "Ping",
                "GetNetworkHistoryBootstrapPeers",
                "GetActiveNetworkHistoryPeerAddresses",
            ):
                assert grpc.ask(method).headers["x-block-height"] == "0"
    assert answer.status_code == 200
    assert answer.headers["x-block-height"] == "0"
    assert answer.json() == as_json(message)
    assert answer.json()["version"].startswith("v")
