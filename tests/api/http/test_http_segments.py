"""The list of segments over REST and gRPC: everything, or page by page where there are many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.rpc.kit import FailedCallError, as_json, client_of
from tests.api.server_kit import Served, serving, settings
from tests.api.site_kit import Site
from tests.cases import each_of

_PATH = "/api/v2/networkhistory/segments"
_METHOD = "ListAllNetworkHistorySegments"
_NEXT = "x-next-to-block"


@pytest.fixture(scope="module")
def served(built_site: Site) -> Iterator[Served]:
    with serving(settings(built_site.locations, grpc=True)) as found:
        yield found


def _asked(served: Served, to_block: str | None) -> tuple[list[tuple[str, str]], str | None]:
    """The ranges of a page, and what asks for the next one: the same over REST and gRPC."""
    with served.client() as http, client_of(served) as grpc:
        answer = http.get(_PATH, params={"toBlock": to_block} if to_block else {})
        call = grpc.ask(_METHOD, metadata={"x-to-block": to_block} if to_block else {})
        # Who has our `.proto` files gives it as a field.
        fields: dict[str, Any] = {"to_block": int(to_block)} if to_block else {}
        own = grpc.ask(_METHOD, **fields)
    assert own.message == call.message
    assert answer.status_code == 200
    assert as_json(call.message) == answer.json()
    assert call.headers.get(_NEXT) == answer.headers.get(_NEXT)
    shown = [(found["fromHeight"], found["toHeight"]) for found in answer.json()["segments"]]
    return shown, answer.headers.get(_NEXT)


def test_a_client_of_the_node_gets_everything(served: Served) -> None:
    assert _asked(served, None) == ([("41", "50"), ("21", "40"), ("1", "20")], None)


@each_of(
    ("to_block", "last"),
    [("50", "50"), ("49", "40"), ("40", "40"), ("20", "20"), ("999999999999999999", "50")],
)
def test_only_segments_that_end_at_a_block_or_before(
    served: Served, to_block: str, last: str
) -> None:
    shown, following = _asked(served, to_block)
    assert (shown[0][1], shown[-1][0], following) == (last, "1", None)


def test_before_the_first_segment_there_is_none(served: Served) -> None:
    assert _asked(served, "19") == ([], None)


def test_where_there_are_more_a_header_says_how_to_go_on(
    built_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.queries.network.MOST_SEGMENTS", 2)
    with serving(settings(built_site.locations, grpc=True)) as served:
        shown, following = _asked(served, None)
        assert (shown, following) == ([("41", "50"), ("21", "40")], "20")
        assert _asked(served, following) == ([("1", "20")], None)
        assert _asked(served, None) == (shown, following)


def test_what_is_no_block_is_refused(served: Served) -> None:
    with served.client() as http, client_of(served) as grpc:
        assert http.get(_PATH, params={"toBlock": "x"}).json()["code"] == 3
        for wrong in ("x", "-1", "1" * 19, "1.0"):
            with pytest.raises(FailedCallError) as raised:
                grpc.ask(_METHOD, metadata={"x-to-block": wrong})
            assert raised.value.code == 3
            assert "x-to-block" in raised.value.message
