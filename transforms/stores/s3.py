"""A bucket prefix as a store, with S3's conditional writes (`If-None-Match`, `If-Match`).

Credentials, region and endpoint come from boto3's default chain (AWS_ACCESS_KEY_ID, AWS_PROFILE,
AWS_DEFAULT_REGION, AWS_ENDPOINT_URL, a machine's role) unless the options name them. Before the
first write the service is tried (see `transforms.stores.probing`). The bucket's policy may enforce
the conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from functools import cache
from http import HTTPStatus
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.session import get_session
from botocore.utils import parse_timestamp

from transforms.errors import ConfigError
from transforms.files import new_file
from transforms.objects import ObjectInfo
from transforms.stores.probing import KeptFacts, StoreFacts, probe
from transforms.stores.s3_answers import AnswerWatch
from transforms.stores.s3_errors import plain_errors, status_of
from transforms.stores.s3_reading import StoredObject, listed
from transforms.stores.s3_writing import NO_VERSION, ObjectWriter, Upload
from transforms.stores.store import (
    CHUNK_BYTES,
    SCRATCH,
    LostRaceError,
    PutResult,
    S3Options,
    Versioned,
    checked_key,
    conflict,
    content_sha256,
    content_size,
    object_sha256,
)

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import HeadObjectOutputTypeDef

_CONNECTIONS = 32
_CONNECT_SECONDS = 10
_READ_SECONDS = 60  # how long an answer is waited for, and a service that gives none tried again
_RACES = 10
_PROBES = 2
# S3's own bound; a service answers a longer one with an error.
_MOST_KEY_BYTES = 1024
# The most that S3 takes as one PUT.
_MOST_BYTES = 5 * 2**30
_LARGE_BYTES = 64 * 2**20
_FOREVER = "public, max-age=31536000, immutable"
_A_MINUTE = "public, max-age=60"


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
        self._facts: StoreFacts | None = None
        config = Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            retries={"mode": "standard", "total_max_attempts": self._options.attempts},
            max_pool_connections=_CONNECTIONS,
            # Some services send the whole object's checksum with a range, too: only asked for where
            # all of an object is.
            response_checksum_validation="when_required",
        )
        endpoint = self._options.endpoint
        try:
            with plain_errors(self.describe(), bucket, endpoint or "S3"):
                session = _session(self._options.region)
                self._client = session.client("s3", endpoint_url=endpoint, config=config)
                self._answers = AnswerWatch(self._client, _READ_SECONDS)
        except ValueError as error:
            raise ConfigError(f"{self.describe()} cannot be opened: {error}") from error

    def close(self) -> None:
        """Close the connections that are kept open for the next request."""
        self._client.close()

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose key starts with `prefix`, in the service's order, by pages."""
        with self._plain_errors(prefix):
            attempts = self._options.attempts
            for item in listed(self._client, self._bucket, self._prefix + prefix, attempts):
                key = item["Key"][len(self._prefix) :]
                # A console's folder marker is no object.
                if key and not key.endswith("/") and not key.startswith(f"{SCRATCH}/"):
                    modified = item["LastModified"].timestamp()
                    etag = item["ETag"].strip('"')  # some leave the quotes out here, and only here
                    yield ObjectInfo(key, item["Size"], f'"{etag}"', modified)

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
        condition = {"IfMatch": version} if version else {}
        with self._plain_errors(key):
            return self._object(key, condition).piece(start, length).data

    def get(self, key: str) -> Versioned:
        """The object's bytes and its version; see `transforms.stores.store.Store`."""
        with self._plain_errors(key):
            piece = self._object(key, {}).piece()
            return piece.data, piece.etag

    def fetch(self, key: str, path: Path) -> None:
        """Download the whole object to `path`, which stays as it was if that fails."""
        with self._plain_errors(key), new_file(path, durable=False) as copy:
            self._object(key, {}).copy(copy, CHUNK_BYTES)

    def digest(self, info: ObjectInfo, advance: Callable[[int], None]) -> str:
        """The SHA-256 of the bytes that arrive now; see `transforms.objects.ObjectReader`."""
        with self._plain_errors(info.key):
            stored = self._object(info.key, {"IfMatch": info.version})
            return stored.unchecked_digest(CHUNK_BYTES, lambda data: advance(len(data)))

    def describe(self, key: str = "") -> str:
        """The object's `s3://` address."""
        return f"s3://{self._bucket}/{self._prefix}{key}"

    def path(self, key: str) -> None:
        """None: an object is no local file."""

    def now(self) -> float:
        """The time by the service's clock, to a minute. Raises `ConfigError` where it has none."""
        if self._answers.time() is None:
            with self._plain_errors(""):
                self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, MaxKeys=1)
        told = self._answers.time()
        if told is None:
            raise ConfigError(
                f"the service of {self.describe()} answers without the time (Date): see what "
                "stands between, or use one that gives it"
            )
        return told

    def delete(self, key: str) -> None:
        """Remove the object; an absent one is no error."""
        with self._plain_errors(key):
            self._client.delete_object(Bucket=self._bucket, Key=self._key(key))

    def facts(self) -> StoreFacts:
        """What the service honours, tried unless this machine did so less than a day ago.

        Raises `ConfigError` where nothing may be written, with the request that is not honoured.
        """
        with self._probing:
            if self._facts is None:
                self._facts = self._tried()
            return self._facts

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
        writer = self._writer()
        # A PUT that meets an object is refused before its body is sent, but not by all services.
        look_first = upload.size > _LARGE_BYTES or not writer.facts.creates_once
        for attempt in range(_RACES):
            if (attempt or look_first) and (answer := self._head(key)):
                return self._compared(key, answer, upload)
            with self._plain_errors(key):
                if writer.write(upload, NO_VERSION):
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
        upload = self._upload(key, data, sha256, content_type, _A_MINUTE)
        with self._plain_errors(key):
            etag = self._writer().write(upload, expected_version or NO_VERSION)
        if etag is None:
            raise LostRaceError(
                f"{self.describe(key)} was changed by another writer: read it again"
            )
        return etag

    def _tried(self) -> StoreFacts:
        place, endpoint = self.describe(), self._client.meta.endpoint_url
        cache = self._options.facts and KeptFacts(self._options.facts, f"{place} at {endpoint}")
        single_writer = self._options.single_writer
        facts = cache.read() if cache else None
        tries = 0
        while facts is None or not facts.is_usable(single_writer=single_writer):
            # An answer that got lost looks like a condition that is not honoured: once is not seen.
            if facts is not None and tries == _PROBES:
                raise facts.refusal(place)
            with self._plain_errors(""):
                facts = probe(self._client, self._bucket, self._prefix)
            if cache:
                cache.write(facts)
            tries += 1
        return facts

    def _writer(self) -> ObjectWriter:
        return ObjectWriter(self._client, self.facts(), self._options.attempts)

    def _key(self, key: str) -> str:
        return self._prefix + checked_key(key)

    def _object(self, key: str, condition: Mapping[str, Any]) -> StoredObject:
        where = (self._client, self._bucket, self._key(key))
        return StoredObject(*where, self._options.attempts, self.describe(key), condition)

    def _plain_errors(self, key: str) -> AbstractContextManager[None]:
        return plain_errors(self.describe(key), self._bucket, self._client.meta.endpoint_url)

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

    def _upload(
        self, key: str, content: Path | bytes, sha256: str | None, content_type: str, caching: str
    ) -> Upload:
        size = content_size(content)
        if size > _MOST_BYTES:
            raise ConfigError(
                f"{self.describe(key)} would have {size:,} bytes, and an object of a bucket has "
                f"{_MOST_BYTES:,} at most: make smaller ZIPs (STRATA_BUNDLE), or use a folder"
            )
        sha256 = sha256 or content_sha256(content)
        headers = {
            "ContentType": content_type,
            "CacheControl": caching,
            "Metadata": {"sha256": sha256},
        }
        return Upload(self._bucket, self._key(key), content, size, sha256, headers)

    def _compared(self, key: str, answer: HeadObjectOutputTypeDef, upload: Upload) -> PutResult:
        """What is there is what was offered, or a `ConflictError`."""
        says = answer["Metadata"].get("sha256")
        # Where nobody verified the upload, what an object says of itself may not be so.
        believed = self.facts().verifies and answer["ContentLength"] == upload.size
        there = (says if believed else None) or object_sha256(self, key)
        if there == upload.sha256:
            return PutResult.IDENTICAL
        if says != upload.sha256:
            raise conflict(self.describe(key), there, upload.sha256)
        # These very bytes, which arrived damaged from a writer that did not live to see it.
        with self._plain_errors(key):
            if self._writer().write(upload, answer["ETag"]):
                return PutResult.CREATED
        raise LostRaceError(f"{self.describe(key)} was changed by another writer: try again")
