"""A real S3 server (moto over HTTP) whose network and service can be made to fail."""

from __future__ import annotations

import logging
import socket
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import pytest
from boto3.session import Session
from moto.server import ThreadedMotoServer

from transforms.stores.s3 import S3Store
from transforms.stores.store import S3Options

logging.getLogger("werkzeug").setLevel(logging.ERROR)

_App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class _Door:
    """What stands between the network and moto."""

    def __init__(self, app: _App) -> None:
        self.app = app
        self.faults: list[tuple[str, str]] = []
        self.closed = False
        self.requests: list[str] = []
        self.on_request: Callable[[str], object] = lambda request: None
        self._lock = threading.Lock()

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        request = f"{method} {environ['PATH_INFO']}"
        self.requests.append(request)
        self.on_request(request)
        fault = self.faults.pop(0)[1] if self.faults and self.faults[0][0] == method else ""
        fault = "503 SlowDown" if self.closed else fault
        if fault[:3].isdigit():
            start_response(fault, [("Content-Type", "application/xml")])
            code = fault.split(" ", 1)[1]
            return [f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()]
        if fault == "store half":
            half = int(environ["CONTENT_LENGTH"]) // 2
            environ |= {"CONTENT_LENGTH": str(half)}
            environ["wsgi.input"] = BytesIO(environ["wsgi.input"].read(2 * half)[:half])
        # moto looks whether an object is there and then writes it; S3 does both in one step.
        with self._lock:
            answer = b"".join(self.app(environ, start_response))
        if fault == "lose the answer":
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        if fault == "flip a bit":
            answer = bytes([answer[0] ^ 1]) + answer[1:]
        return [answer[: len(answer) // 2]] if fault == "cut the body" else [answer]


class BucketServer:
    """One moto server; every test makes a bucket of its own in it."""

    def __init__(self) -> None:
        self._server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        self._server.start()
        self.url = "http://{}:{}".format(*self._server.get_host_and_port())
        assert self._server._server is not None
        self.door = _Door(self._server._server.app)
        self._server._server.app = self.door
        self.client = Session().client("s3", endpoint_url=self.url, region_name="us-east-1")

    def bucket(self) -> str:
        """Make an empty bucket and return its name."""
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        self.client.create_bucket(Bucket=name)
        return name

    def options(self, **changes: Any) -> S3Options:
        """How to reach this server; nothing is tried twice unless a test says so."""
        return S3Options(**{"endpoint": self.url, "region": "us-east-1", "attempts": 1, **changes})

    @contextmanager
    def store(self, prefix: str = "some/prefix", **changes: Any) -> Iterator[S3Store]:
        """A store in a bucket of its own."""
        store = S3Store(self.bucket(), prefix, self.options(**changes))
        yield store
        store.close()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Answer nothing but 503 for the length of a block."""
        self.door.closed = True
        try:
            yield
        finally:
            self.door.closed = False

    def empty(self, store: S3Store) -> None:
        """Delete everything in a store."""
        for left in list(store.list()):
            bucket, _, key = store.describe(left.key).removeprefix("s3://").partition("/")
            self.client.delete_object(Bucket=bucket, Key=key)

    def stop(self) -> None:
        """Kill the server: further requests find nobody."""
        server = self._server._server
        assert server is not None
        self.client.close()
        self._server.stop()
        server.server_close()


@contextmanager
def bucket_server() -> Iterator[BucketServer]:
    """A running server, and credentials in the environment where boto3 looks for them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        server = BucketServer()
        yield server
        server.stop()
