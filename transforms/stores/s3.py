"""A bucket prefix as a store, with S3's conditional writes (`If-None-Match`, `If-Match`).

Credentials, region and endpoint come from boto3's default chain (AWS_ACCESS_KEY_ID, AWS_PROFILE,
AWS_DEFAULT_REGION, AWS_ENDPOINT_URL, a machine's role) unless the options name them. Give the
bucket a lifecycle rule for abandoned multipart uploads; its policy may enforce the conditions.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import ClientError

from transforms.errors import ConfigError, IntegrityError
from transforms.files import new_file
from transforms.objects import ObjectInfo
from transforms.stores.s3_errors import plain_errors, status_of
from transforms.stores.s3_transfer import Upload, receive, send
from transforms.stores.store import (
    CHUNK_BYTES,
    LostRaceError,
    PutResult,
    S3Options,
    checked_key,
    conflict,
    content_sha256,
    content_size,
    object_sha256,
)

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import HeadObjectOutputTypeDef

_CONNECTIONS = 32
_CONNECT_SECONDS, _READ_SECONDS = 10, 60
_RACES = 10
_FOREVER = "public, max-age=31536000, immutable"
_A_MINUTE = "public, max-age=60"
_LOST = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED)


class S3Store:
    """The objects of `bucket` whose keys begin with `prefix/`."""

    def __init__(self, bucket: str, prefix: str = "", options: S3Options | None = None) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._options = options or S3Options()
        config = Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            retries={"mode": "standard", "total_max_attempts": self._options.attempts},
            max_pool_connections=_CONNECTIONS,
        )
        endpoint = self._options.endpoint
        try:
            with plain_errors(self.describe(), bucket, endpoint or "S3"):
                session = Session(region_name=self._options.region)
                self._client = session.client("s3", endpoint_url=endpoint, config=config)
        except ValueError as error:
            raise ConfigError(f"{self.describe()} cannot be opened: {error}") from error

    def close(self) -> None:
        """Close the connections that are kept open for the next request."""
        self._client.close()

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose key starts with `prefix`, ascending, a page at a time."""
        with self._plain_errors(prefix):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix
            )
            for page in pages:
                for found in page.get("Contents", []):
                    key = found["Key"][len(self._prefix) :]
                    if key and not key.endswith("/"):  # a console's folder marker is no object
                        modified = found["LastModified"].timestamp()
                        yield ObjectInfo(key, found["Size"], found["ETag"], modified)

    def head(self, key: str) -> ObjectInfo | None:
        """Describe one object, or None where it is absent."""
        found = self._head(key)
        if found is None:
            return None
        modified = found["LastModified"].timestamp()
        return ObjectInfo(key, found["ContentLength"], found["ETag"], modified)

    def read(
        self, key: str, start: int = 0, length: int | None = None, *, version: str | None = None
    ) -> bytes:
        """Return `length` bytes from `start`; past the end there are none."""
        if length == 0:
            return b""
        return self._read(key, start, length, {"IfMatch": version} if version else {})

    def fetch(self, key: str, path: Path) -> None:
        """Download the whole object to `path`, which stays as it was if that fails."""
        held = self.head(key)
        if held is None:
            raise FileNotFoundError(errno.ENOENT, "There is no such object", self.describe(key))
        with new_file(path, durable=False) as copy:
            for start in range(0, held.size, CHUNK_BYTES):
                copy.write(self._read(key, start, CHUNK_BYTES, {"IfMatch": held.version}))

    def describe(self, key: str = "") -> str:
        """The object's `s3://` address."""
        return f"s3://{self._bucket}/{self._prefix}{key}"

    def path(self, key: str) -> None:
        """None: an object is no local file."""

    def delete(self, key: str) -> None:
        """Remove the object; an absent one is no error."""
        with self._plain_errors(key):
            self._client.delete_object(Bucket=self._bucket, Key=self._key(key))

    def put_if_absent(
        self,
        key: str,
        source: Path | bytes,
        *,
        content_type: str,
        sha256: str,
        immutable: bool,
        take: bool = False,  # noqa: ARG002 - bytes go over the network either way
    ) -> PutResult:
        """Create the object, or find the same bytes there; see `transforms.stores.store.Store`."""
        upload = self._upload(
            key, source, sha256, content_type, _FOREVER if immutable else _A_MINUTE
        )
        for attempt in range(_RACES):
            # A PUT that meets an object is refused before its body is sent; parts are not.
            if (attempt or upload.size > self._options.multipart_bytes) and (
                held := self._head(key)
            ):
                return self._compared(key, held, upload)
            if self._sent(key, upload, {"IfNoneMatch": "*"}):
                self._confirm(key, upload)
                return PutResult.CREATED
        raise LostRaceError(f"others keep writing {self.describe(key)}: try again later")

    def put_if_match(
        self,
        key: str,
        data: Path | bytes,
        expected_version: str | None,
        content_type: str,
        *,
        sha256: str | None = None,
    ) -> str:
        """Replace the object if it has `expected_version`; see `transforms.stores.store.Store`."""
        upload = self._upload(key, data, sha256 or content_sha256(data), content_type, _A_MINUTE)
        condition = {"IfMatch": expected_version} if expected_version else {"IfNoneMatch": "*"}
        etag = self._sent(key, upload, condition)
        if etag is None:
            raise LostRaceError(
                f"{self.describe(key)} was changed by another writer: read it again"
            )
        return etag

    def _key(self, key: str) -> str:
        return self._prefix + checked_key(key)

    def _plain_errors(self, key: str) -> AbstractContextManager[None]:
        return plain_errors(self.describe(key), self._bucket, self._client.meta.endpoint_url)

    def _head(self, key: str) -> HeadObjectOutputTypeDef | None:
        with self._plain_errors(key):
            try:
                return self._client.head_object(Bucket=self._bucket, Key=self._key(key))
            except ClientError as error:
                if status_of(error) == HTTPStatus.NOT_FOUND:
                    return None
                raise

    def _read(
        self, key: str, start: int, length: int | None, condition: Mapping[str, Any]
    ) -> bytes:
        span = f"bytes={start}-" if length is None else f"bytes={start}-{start + length - 1}"
        attempts = self._options.attempts
        with self._plain_errors(key):
            try:
                return receive(
                    self._client, self._bucket, self._key(key), span, condition, attempts
                )
            except ClientError as error:
                if status_of(error) == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    return b""
                raise

    def _upload(
        self, key: str, content: Path | bytes, sha256: str, content_type: str, caching: str
    ) -> Upload:
        headers = {
            "ContentType": content_type,
            "CacheControl": caching,
            "Metadata": {"sha256": sha256},
        }
        size = content_size(content)
        return Upload(self._bucket, self._key(key), content, size, sha256, headers)

    def _sent(self, key: str, upload: Upload, condition: Mapping[str, str]) -> str | None:
        """Upload and return the ETag, or None where the condition does not hold (any more)."""
        with self._plain_errors(key):
            try:
                return send(self._client, upload, condition, self._options.multipart_bytes)
            except ClientError as error:
                no_bucket = error.response["Error"]["Code"] == "NoSuchBucket"
                if status_of(error) in _LOST and not no_bucket:
                    return None
                raise

    def _confirm(self, key: str, upload: Upload) -> None:
        """Ask what was stored: not every S3-compatible service verifies what it is sent."""
        held = self._head(key)
        size = held["ContentLength"] if held else 0
        if size != upload.size:
            raise IntegrityError(
                f"{self.describe(key)} holds {size} bytes after an upload of {upload.size}: "
                "delete it and publish it again"
            )

    def _compared(self, key: str, held: HeadObjectOutputTypeDef, upload: Upload) -> PutResult:
        recorded = held["Metadata"].get("sha256") if held["ContentLength"] == upload.size else None
        there = recorded or object_sha256(self, key)
        if there != upload.sha256:
            raise conflict(self.describe(key), there, upload.sha256)
        return PutResult.IDENTICAL
