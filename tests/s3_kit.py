"""A real S3 server (SeaweedFS) behind a proxy that makes its network and service fail."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.fault_proxy import FaultProxy
from tests.weed_kit import WeedServer, s3_client, shared_server
from transforms.stores.s3 import S3Store
from transforms.stores.store import S3Options


class BucketServer:
    """The server of the test session, by way of a proxy of its own: `door`.

    `client` goes past the proxy, for what a test arranges and looks up.
    """

    def __init__(self, server: WeedServer) -> None:
        self._server = server
        self.door = FaultProxy(server.url)
        self.url = self.door.url
        self.client = s3_client(server.url)

    def bucket(self) -> str:
        """Make an empty bucket and return its name."""
        return self._server.bucket()

    def options(self, **changes: Any) -> S3Options:
        """How to reach this server; nothing is tried twice unless a test says so."""
        return S3Options(**{"endpoint": self.url, "region": "us-east-1", "attempts": 1, **changes})

    @contextmanager
    def store(self, prefix: str = "some/prefix", **changes: Any) -> Iterator[S3Store]:
        """A store in a bucket of its own, which was tried already."""
        store = S3Store(self.bucket(), prefix, self.options(**changes))
        store.try_service()
        self.door.requests.clear()
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
            bucket, key = bucket_and_key(store, left.key)
            self.client.delete_object(Bucket=bucket, Key=key)

    def stop(self) -> None:
        """Let nobody be found at the address any more."""
        self.client.close()
        self.door.stop()


def bucket_and_key(store: S3Store, key: str) -> tuple[str, str]:
    """The bucket and the whole key of an object of a store."""
    bucket, _, whole = store.describe(key).removeprefix("s3://").partition("/")
    return bucket, whole


@contextmanager
def bucket_server() -> Iterator[BucketServer]:
    """A running server, and credentials in the environment where boto3 looks for them.

    The user's own folder is another one meanwhile: what this machine knows of stores lies there.
    """
    with (
        shared_server() as running,
        tempfile.TemporaryDirectory() as home,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.delenv("AWS_ENDPOINT_URL")
        patch.setenv("HOME", home)
        server = BucketServer(running)
        yield server
        server.stop()
