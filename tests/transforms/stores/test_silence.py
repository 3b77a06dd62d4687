"""A service that answers nothing is asked again, and given up after a bounded time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, repeat
from pathlib import Path
from threading import Event

import pytest

from tests.fault_proxy import PASS, STALL
from tests.s3_kit import BucketServer, bucket_server
from tests.transforms.stores.test_s3_store import put
from transforms.stores import s3
from transforms.stores.s3 import S3Store
from transforms.stores.store import S3Options

Step = Callable[[S3Store, Path], object]


def _read(store: S3Store, _folder: Path) -> object:
    return store.read("x")


def _put(store: S3Store, _folder: Path) -> object:
    return put(store, "z", b"3")


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as server:
        yield server


@pytest.fixture
def store(server: BucketServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Store]:
    """A store with an object, and as many attempts as all have, but less patience."""
    monkeypatch.setattr("transforms.stores.s3._READ_SECONDS", 1)
    with server.store(attempts=S3Options().attempts) as store:
        put(store, "x", b"1")
        server.door.requests.clear()
        yield store
    server.door.released.set()  # what still waits at the door
    server.door.released = Event()


@pytest.mark.parametrize("step", [_read, _put])
def test_a_silent_service_is_given_up(
    server: BucketServer,
    store: S3Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: Step,
) -> None:
    monkeypatch.setattr(server.door, "on_request", lambda _: STALL)
    with pytest.raises(ConnectionError, match=r"no answer from .* then run it again"):
        step(store, tmp_path)
    assert len(server.door.requests) == S3Options().attempts


@pytest.mark.parametrize("step", [_read, _put])
def test_a_request_that_alone_is_not_answered_is_sent_again(
    server: BucketServer,
    store: S3Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: Step,
) -> None:
    actions = chain((STALL,), repeat(PASS))
    monkeypatch.setattr(server.door, "on_request", lambda _: next(actions))
    step(store, tmp_path)


def test_what_a_silent_service_costs_stays_within_five_minutes() -> None:
    assert S3Options().attempts * (s3._READ_SECONDS + s3._CONNECT_SECONDS) <= 300
