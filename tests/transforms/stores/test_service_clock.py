"""The clock of an S3 service: what its answers say is asked for only where there were none."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.s3_kit import BucketServer, bucket_server
from transforms.stores.s3 import S3Store


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as server:
        yield server


def test_the_time_is_asked_for_where_nothing_was_answered_yet(server: BucketServer) -> None:
    store = S3Store(server.bucket(), "", server.options())
    requests = server.door.requests
    before = len(requests)
    assert abs(store.now() - time.time()) < 5
    assert len(requests) == before + 1
    assert abs(store.now() - time.time()) < 5
    assert len(requests) == before + 1


def test_any_answer_tells_the_time_and_this_machines_clock_does_not_count(
    server: BucketServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = S3Store(server.bucket(), "", server.options())
    now = time.time
    monkeypatch.setattr("transforms.stores.s3.time.time", lambda: now() + 4000)
    assert store.head("absent") is None
    requests = len(server.door.requests)
    assert abs(store.now() - now()) < 5
    assert len(server.door.requests) == requests
