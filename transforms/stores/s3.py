"""A bucket prefix as a store, with S3's conditional writes (`If-None-Match`, `If-Match`).

Credentials, region and endpoint come from boto3's default chain (AWS_ACCESS_KEY_ID, AWS_PROFILE,
AWS_DEFAULT_REGION, AWS_ENDPOINT_URL, a machine's role) unless the options name them. Before the
first write the service is tried (see `transforms.stores.probing`). The bucket's policy may enforce
the conditions.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cache
from http import HTTPStatus
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError
from botocore.session import get_session
from botocore.utils import parse_timestamp

from transforms.errors import ConfigError, IntegrityError
from transforms.files import new_file
from transforms.objects import ObjectInfo
from transforms.stores.probing import check_service
from transforms.stores.proxies import proxy_of
from transforms.stores.s3_errors import DAMAGED, plain_errors, refuses, status_of
from transforms.stores.s3_reading import StoredObject
from transforms.stores.store import (
    SCRATCH,
    WEAK,
    LostRaceError,
    PutResult,
    S3Options,
    Versioned,
    checked_key,
    conflict,
    content_sha256,
    content_size,
    not_as_announced,
    object_sha256,
)

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import HeadObjectOutputTypeDef, ObjectTypeDef

_CONNECTIONS = 32
_CONNECT_SECONDS = 10
_READ_SECONDS = 45  # for an answer, at each attempt: a silent service ends a command in minutes
_RACES = 10
_RENEWAL_SECONDS = 1.0
# S3's own bound; a service answers a longer one with an error.
_MOST_KEY_BYTES = 1024
# The most that S3 takes as one PUT.
_MOST_BYTES = 5 * 2**30
_FOREVER = "public, max-age=31536000, immutable"
_CHECKED = "public, no-cache"
# The answers to a write whose condition does not hold (any more).
_LOST = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED)


def _session(region: str | None) -> Session:
    """A session with credentials of its own.

    All share the descriptions of services that botocore reads: a tenth of a second for each client.
    A listing has a time for each object, which Python reads a hundred times faster than botocore.
    """
    session = get_session()
    session.register_component("data_loader", _data_loader())
    parsers = session.get_component("response_parser_factory")
    parsers.set_parser_defaults(timestamp_parser=_timestamp)
    return Session(botocore_session=session, region_name=region)


def _timestamp(value: str) -> datetime:
    """A time with its zone: of ISO 8601, as a listing has it, or any other that botocore reads."""
    with suppress(ValueError):
        time = datetime.fromisoformat(value)
        if time.tzinfo is not None:
            return time
    return parse_timestamp(value)


@cache
def _data_loader() -> Any:  # noqa: ANN401 - botocore says no more of its components
    return get_session().get_component("data_loader")


class S3Store:
    """The objects of `bucket` whose keys begin with `prefix/`."""

    def __init__(self, bucket: str, prefix: str = "", options: S3Options | None = None) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._options = options or S3Options()
        self._probing = Lock()
        self._is_tried = False
        self._ahead: float | None = None  # of this machine's clock, in seconds
        self._config = Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            retries={"mode": "standard", "total_max_attempts": self._options.attempts},
            max_pool_connections=_CONNECTIONS,
            # Some services send the whole object's checksum with a range, too.
            response_checksum_validation="when_required",
        )
        self._client = self._opened_client()

    def _opened_client(self) -> S3Client:
        """A client with the credentials that there are now. Raises `ConfigError`."""
        self._opened_at, endpoint = time.monotonic(), self._options.endpoint
        try:
            with plain_errors(self.describe(), self._bucket, endpoint or "S3"):
                session = _session(self._options.region)
                client = session.client("s3", endpoint_url=endpoint, config=self._config)
                client.meta.events.register("response-received.s3", self._note_time)
                address = urlsplit(client.meta.endpoint_url)
                proxy_of(address.scheme, address.netloc)
                return client
        except ValueError as error:
            raise ConfigError(f"{self.describe()} cannot be opened: {error}") from error

    def close(self) -> None:
        """Close the connections that are kept open for the next request."""
        self._client.close()

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose key starts with `prefix`, in the service's order, by pages."""
        previous = ""
        with self._plain_errors(prefix):
            for item in self._listed(prefix):
                if item["Key"] == previous:  # some services repeat a page's last object
                    continue
                previous = item["Key"]
                key = item["Key"][len(self._prefix) :]
                # A console's folder marker is no object.
                if not key or key.endswith("/") or key.startswith(f"{SCRATCH}/"):
                    continue
                etag = item.get("ETag", "")
                if not etag:  # some services tell it of single objects only
                    if info := self.head(key):
                        yield info
                    continue
                if not etag.startswith(WEAK):  # some leave the quotes out here, and only here
                    etag = '"' + etag.strip('"') + '"'
                yield ObjectInfo(key, item["Size"], etag, item["LastModified"].timestamp())

    def head(self, key: str) -> ObjectInfo | None:
        """Describe one object, or None where it is absent."""
        answer = self._head(key)
        if answer is None:
            return None
        modified = answer["LastModified"].timestamp()
        sha256 = answer["Metadata"].get("sha256", "")
        return ObjectInfo(key, answer["ContentLength"], answer["ETag"], modified, sha256)

    def read(
        self, key: str, start: int = 0, length: int | None = None, *, version: str | None = None
    ) -> bytes:
        """Return `length` bytes from `start`; past the end there are none."""
        if length == 0:
            return b""
        if version and version.startswith(WEAK):
            raise ConfigError(
                f"{self.describe(key)} has a weak ETag ({version}), by which no part of it can be "
                "read: switch off what changes answers on the way, as a proxy that compresses does"
            )
        condition = {"IfMatch": version} if version else {}
        with self._plain_errors(key):
            return self._object(key, condition).read(start, length)[0]

    def get(self, key: str) -> Versioned:
        """The object's bytes and its version; see `transforms.stores.store.Store`."""
        with self._plain_errors(key):
            return self._object(key, {}).read()

    def fetch(self, key: str, path: Path) -> None:
        """Download the whole object to `path`, which stays as it was if that fails."""
        with self._plain_errors(key), new_file(path, durable=False) as copy:
            self._object(key, {}).copy(copy)

    def describe(self, key: str = "") -> str:
        """The object's `s3://` address."""
        return f"s3://{self._bucket}/{self._prefix}{key}"

    def path(self, key: str) -> None:
        """None: an object is no local file."""

    def now(self) -> float:
        """The time by the service's clock, which its answers tell to a second."""
        if self._ahead is None:
            with self._plain_errors(""):
                self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, MaxKeys=1)
        return time.time() + (self._ahead or 0.0)

    def delete(self, key: str) -> None:
        """Remove the object; an absent one is no error."""
        with self._plain_errors(key):
            self._client.delete_object(Bucket=self._bucket, Key=self._key(key))

    def try_service(self) -> None:
        """Raise `ConfigError` where nothing may be written; see `transforms.stores.probing`."""
        with self._probing, self._plain_errors(""):
            if not (self._is_tried or self._options.single_writer):
                check_service(self._client, self._bucket, self._prefix, self._options.facts)
                self._is_tried = True

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
        caching = _FOREVER if immutable else _CHECKED
        for _ in range(_RACES):
            if self._put(key, source, sha256, content_type, caching, {"IfNoneMatch": "*"}):
                return PutResult.CREATED
            if answer := self._head(key):
                there = answer["Metadata"].get("sha256") or object_sha256(self, key)
                if there != sha256:
                    raise conflict(self.describe(key), there, sha256)
                return PutResult.IDENTICAL
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
        condition = {"IfMatch": expected_version} if expected_version else {"IfNoneMatch": "*"}
        sha256 = sha256 or content_sha256(data)
        etag = self._put(key, data, sha256, content_type, _CHECKED, condition)
        if etag is None:
            raise LostRaceError(
                f"{self.describe(key)} was changed by another writer: read it again"
            )
        return etag

    def _key(self, key: str) -> str:
        return self._prefix + checked_key(key)

    def _object(self, key: str, condition: Mapping[str, Any]) -> StoredObject:
        where = (self._client, self._bucket, self._key(key))
        return StoredObject(*where, self._options.attempts, self.describe(key), condition)

    @contextmanager
    def _plain_errors(self, key: str) -> Iterator[None]:
        """Raise plain errors; after a refusal the next request reads the credentials again."""
        try:
            with plain_errors(self.describe(key), self._bucket, self._client.meta.endpoint_url):
                yield
        except Exception as error:
            is_refused = isinstance(error.__cause__, ClientError) and refuses(error.__cause__)
            if is_refused and time.monotonic() - self._opened_at > _RENEWAL_SECONDS:
                self._client = self._opened_client()
            raise

    def _head(self, key: str) -> HeadObjectOutputTypeDef | None:
        if len(self._key(key).encode()) > _MOST_KEY_BYTES:
            return None
        with self._plain_errors(key):
            try:
                return self._client.head_object(Bucket=self._bucket, Key=self._key(key))
            except ClientError as error:
                if status_of(error) == HTTPStatus.NOT_FOUND:
                    return None
                raise

    def _listed(self, prefix: str) -> Iterator[ObjectTypeDef]:
        where: dict[str, Any] = {"Bucket": self._bucket, "Prefix": self._prefix + prefix}
        while True:
            try:
                page = self._client.list_objects_v2(**where)
            except ValueError as error:  # a number or a time that is none
                raise ResponseParserError(str(error)) from error
            yield from page.get("Contents", [])
            token = page.get("NextContinuationToken")
            if page["IsTruncated"] != bool(token):
                raise ResponseParserError("a listing does not say whether it goes on")
            if not token:
                return
            where["ContinuationToken"] = token

    def _put(
        self,
        key: str,
        content: Path | bytes,
        sha256: str,
        content_type: str,
        caching: str,
        condition: Mapping[str, str],
    ) -> str | None:
        """Write an object as one PUT, and return its ETag; None where the condition does not hold.

        The service holds the body against its SHA-256. For a single writer, whose service may do
        neither, this looks before the PUT and reads back after it.
        """
        self._check_size(key, content_size(content))
        self.try_service()
        put: dict[str, Any] = {
            "Bucket": self._bucket,
            "Key": self._key(key),
            "ContentType": content_type,
            "CacheControl": caching,
            "Metadata": {"sha256": sha256},
            "ChecksumSHA256": b64encode(bytes.fromhex(sha256)).decode(),
        }
        if not self._options.single_writer:
            put |= condition
        elif not self._has_condition(key, condition):
            return None
        etag = self._sent(key, put, content, sha256)
        if etag and self._options.single_writer:
            self._check_written(key, sha256)
        return etag

    def _sent(
        self, key: str, put: Mapping[str, Any], content: Path | bytes, sha256: str
    ) -> str | None:
        """The ETag of what was written; None where the condition of the PUT does not hold."""
        opened = nullcontext(content) if isinstance(content, bytes) else content.open("rb")
        with self._plain_errors(key), opened as body:
            try:
                return self._client.put_object(Body=body, **put)["ETag"]
            except ClientError as error:
                code = error.response["Error"]["Code"]
                if code in DAMAGED and (digest := content_sha256(content)) != sha256:
                    raise not_as_announced(content, digest, sha256) from error
                if status_of(error) in _LOST and code != "NoSuchBucket":
                    return None
                raise

    def _check_size(self, key: str, size: int) -> None:
        if size > _MOST_BYTES:
            raise ConfigError(
                f"{self.describe(key)} would have {size:,} bytes, and an object of a bucket has "
                f"{_MOST_BYTES:,} at most: use a folder"
            )

    def _check_written(self, key: str, sha256: str) -> None:
        """Remove what was written and is damaged. Raises `IntegrityError` then."""
        if (there := object_sha256(self, key)) != sha256:
            self.delete(key)
            raise IntegrityError(
                f"{self.describe(key)} was written, and read back it hashes to {there}, not to "
                f"{sha256}: it was damaged on the way, and removed; try again"
            )

    def _has_condition(self, key: str, condition: Mapping[str, str]) -> bool:
        """Whether a condition of a PUT holds, for a service that ignores it."""
        there = self._head(key)
        return (there["ETag"] if there else None) == condition.get("IfMatch")

    def _note_time(self, response_dict: Mapping[str, Any] | None, **_more: object) -> None:
        """Note by how much the service's clock is ahead, which each of its answers tells."""
        date = str(response_dict["headers"].get("date", "")) if response_dict else ""
        with suppress(ValueError):  # there was no answer, or it tells no time
            self._ahead = parsedate_to_datetime(date).timestamp() - time.time()
