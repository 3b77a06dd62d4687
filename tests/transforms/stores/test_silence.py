"""A service that answers nothing is given up after a time that no number of steps adds to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, repeat
from pathlib import Path
from threading import Event

import pytest

from tests.fault_proxy import PASS, STALL, Request
from tests.s3_kit import BucketServer, bucket_server
from tests.transforms.stores.test_s3_store import asked, put
from tests.waiting import wait_until
from transforms.stores.s3 import S3Store

SECONDS = 2

Step = Callable[[S3Store, Path], object]


def _read(store: S3Store, _folder: Path) -> object:
    return store.read("x")


def _put(store: S3Store, _folder: Path) -> object:
    return put(store, "z", b"3")


STEPS: tuple[Step, ...] = (
    _read,
    _put,
    lambda store, _: store.head("x"),
    lambda store, folder: store.fetch("x", folder / "copy"),
    lambda store, _: store.put_if_match("x", b"3", None, ""),
    lambda store, _: list(store.list()),
    lambda store, _: store.delete("x"),
)


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as server:
        yield server


@pytest.fixture
def store(server: BucketServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Store]:
    """A store with two objects, and more attempts than a silent one gets."""
    monkeypatch.setattr("transforms.stores.s3._READ_SECONDS", SECONDS)
    with server.store(attempts=5) as store:
        put(store, "x", b"1")
        put(store, "y", b"2")
        server.door.requests.clear()
        yield store
    server.door.released.set()  # what still waits at the door
    server.door.released = Event()


@pytest.mark.parametrize(
    ("first", "most_requests"),
    [
        (_read, 2),
        (_put, 2),
    ],
)
def test_of_all_steps_only_the_first_waits_for_a_silent_service(
    server: BucketServer,
    store: S3Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: Step,
    most_requests: int,
) -> None:
    monkeypatch.setattr(server.door, "on_request", lambda _: STALL)
    for step in (first, *STEPS):
        with pytest.raises(ConnectionError, match=r"no answer from .* then run it again"):
            step(store, tmp_path)
    assert len(server.door.requests) == most_requests


def test_a_service_that_is_back_is_used_again(
    server: BucketServer, store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(server.door, "on_request", lambda _: STALL)
        with pytest.raises(ConnectionError):
            store.read("x")
    assert not _is_there(store)  # it is not asked
    wait_until(lambda: _is_there(store))
    assert store.read("x") == b"1"


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


def test_an_error_is_an_answer_too(
    server: BucketServer, store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    actions = iter((STALL, "500 InternalError", STALL, "500 InternalError", PASS))
    monkeypatch.setattr(server.door, "on_request", lambda _: next(actions))
    assert store.read("x") == b"1"


def test_what_is_never_answered_among_others_that_are_is_asked_for_by_botocore_alone(
    server: BucketServer, store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stalled(request: Request) -> str:
        if request.path.endswith("/y"):
            return PASS
        store.head("y")
        return STALL

    monkeypatch.setattr(server.door, "on_request", stalled)
    with pytest.raises(ConnectionError):
        store.read("x")
    assert asked(server, "GET") == ["x"] * 5


def _is_there(store: S3Store) -> bool:
    try:
        return store.head("x") is not None
    except ConnectionError:
        return False
