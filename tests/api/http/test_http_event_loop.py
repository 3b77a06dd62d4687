"""Nothing large is made on the event loop: who wants a few bytes waits for nobody who wants many.

What runs is watched by the interpreter itself, in the very threads of the server.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from tests.api.server_kit import Served, serving, settings
from tests.api.site_kit import MARKETS, THIRD, Site
from transforms.block_range import BlockRange

_LARGE = 100_000
_WATCHED = ("compress", "_written")


class Watch:
    """Which of the watched functions ran, and whether on the event loop, which has no pool."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, bool]] = set()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        name = argument.__name__ if event == "c_call" else frame.f_code.co_name
        if event in ("call", "c_call") and name in _WATCHED:
            self.seen.add((name, threading.current_thread().name.startswith("Thread-")))


@contextmanager
def _watched(site: Site) -> Iterator[tuple[Served, Watch]]:
    """A server whose threads, which all begin now, are watched."""
    watch = Watch()
    threading.setprofile(watch)
    try:
        with serving(settings(site.locations, grpc=True)) as served:
            yield served, watch
    finally:
        threading.setprofile(None)


@pytest.fixture(scope="module")
def many(built_site: Site, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A site with a page of provisions of some hundred kilobytes."""
    site = built_site.copied(tmp_path_factory.mktemp("many") / "site")
    site.add_segment(BlockRange(THIRD.last + 1, THIRD.last + 10), range(2000), orders=1)
    site.load()
    return site


def test_large_answers_are_made_indented_and_compressed_in_threads(many: Site) -> None:
    path = f"/api/v2/liquidity/provisions?marketId={MARKETS[0]}&pretty"
    squeezed = {"Accept-Encoding": "gzip"}
    with (
        _watched(many) as (served, watch),
        served.client() as client,
        client.stream("GET", path, headers=squeezed) as answer,
    ):
        body = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == "gzip"
    plain = gzip.decompress(body)
    assert len(plain) > _LARGE
    assert plain.startswith(b'{\n "liquidityProvisions"')
    assert len(json.loads(plain)["liquidityProvisions"]["edges"]) == 1000
    assert watch.seen == {(name, False) for name in _WATCHED}


def test_what_is_small_is_compressed_where_it_is(many: Site) -> None:
    with _watched(many) as (served, watch), served.client() as client:
        answer = client.get("/api/v2/vega/time", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert ("compress", True) in watch.seen
    assert ("compress", False) not in watch.seen
