"""Trying what an S3 service honours, with objects of a few bytes of its own.

Services that resemble S3 ignore conditions and checksums without a word. So nothing is believed
that was not seen. Each probe has names of its own, so any number of machines may probe at once;
one that is killed leaves a few bytes in the hidden folder, which a later probe removes.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from botocore.exceptions import ClientError

from transforms.stores.facts import StoreFacts
from transforms.stores.s3_errors import status_of
from transforms.stores.s3_reading import answer_time
from transforms.stores.store import SCRATCH

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_FOLDER = f"{SCRATCH}/probes/"
_ABANDONED_SECONDS = 24 * 3600
_OTHER_ETAG = '"00000000000000000000000000000000"'
_REFUSALS = (HTTPStatus.PRECONDITION_FAILED, HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND)
_NOT_UNDERSTOOD = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.NOT_IMPLEMENTED,
)


class _Answer(Enum):
    DONE = auto()
    REFUSED = auto()
    NOT_UNDERSTOOD = auto()


def probe(client: S3Client, bucket: str, prefix: str) -> StoreFacts:
    """Try the service below `prefix` (empty, or with a slash at its end).

    Raises botocore's errors where that is not possible: no network, no rights.
    """
    trial = _Probe(client, bucket, f"{prefix}{_FOLDER}")
    try:
        trial.remove_abandoned()
        return trial.facts()
    finally:
        trial.remove()


class _Probe:
    """Two keys, and the ETag of what lies at the first."""

    def __init__(self, client: S3Client, bucket: str, folder: str) -> None:
        self._client = client
        self._bucket = bucket
        self._folder = folder
        self._base = f"{folder}{uuid4().hex}"
        self._first, self._second = f"{self._base}-1", f"{self._base}-2"
        self._etag = ""
        self._count = 0

    def facts(self) -> StoreFacts:
        creates_once = self._creates_once()
        matching, unquoted = self._replaces_matching()
        return StoreFacts(
            creates_once=creates_once,
            replaces_matching=matching,
            unquoted=unquoted,
            verifies=self._verifies(),
        )

    def remove(self) -> None:
        """Delete both objects; who may not delete leaves them."""
        for key in (self._first, self._second):
            self._delete(key)

    def remove_abandoned(self) -> None:
        """Delete what killed probes left."""
        listing = self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._folder)
        oldest = answer_time(listing, self._folder) - _ABANDONED_SECONDS
        for item in listing.get("Contents", []):
            if item["LastModified"].timestamp() < oldest:
                self._delete(item["Key"])

    def _delete(self, key: str) -> None:
        with suppress(ClientError):
            self._client.delete_object(Bucket=self._bucket, Key=key)

    def _creates_once(self) -> bool:
        created = self._put(self._first, IfNoneMatch="*")
        again = self._put(self._first, IfNoneMatch="*")
        if created is not _Answer.DONE:
            self._put(self._first)
        return (created, again) == (_Answer.DONE, _Answer.REFUSED)

    def _replaces_matching(self) -> tuple[bool, bool]:
        """Whether `If-Match` is honoured, and whether it wants the ETag without its quotes."""
        if self._put(self._first, IfMatch=_OTHER_ETAG) is not _Answer.REFUSED:
            return False, False
        if self._put(self._first, IfMatch=self._etag) is _Answer.DONE:
            return True, False
        wrong = self._put(self._first, IfMatch=_OTHER_ETAG.strip('"'))
        right = self._put(self._first, IfMatch=self._etag.strip('"'))
        honoured = (wrong, right) == (_Answer.REFUSED, _Answer.DONE)
        return honoured, honoured

    def _verifies(self) -> bool:
        wrong = b64encode(hashlib.sha256(b"other bytes").digest()).decode()
        return self._put(self._second, ChecksumSHA256=wrong) is not _Answer.DONE

    def _put(self, key: str, **conditions: str) -> _Answer:
        self._count += 1  # other bytes each time: an ETag is often their hash
        content = f"probe {self._count}".encode()
        right = b64encode(hashlib.sha256(content).digest()).decode()
        put: dict[str, Any] = {"ChecksumSHA256": right, **conditions}

        def send() -> None:
            self._etag = self._client.put_object(Bucket=self._bucket, Key=key, Body=content, **put)[
                "ETag"
            ]

        return _answer(send)


def _answer(send: Callable[[], None]) -> _Answer:
    try:
        send()
    except ClientError as error:
        if error.response["Error"]["Code"] == "NoSuchBucket":
            raise
        if status_of(error) in _REFUSALS:
            return _Answer.REFUSED
        if status_of(error) in _NOT_UNDERSTOOD:
            return _Answer.NOT_UNDERSTOOD
        raise
    return _Answer.DONE
