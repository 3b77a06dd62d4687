"""One object written under a condition, confirmed by its SHA-256. Raises botocore's errors."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from transforms.errors import IntegrityError
from transforms.stores.probing import StoreFacts
from transforms.stores.s3_errors import is_damage, status_of
from transforms.stores.s3_reading import StoredObject
from transforms.stores.store import CHUNK_BYTES, content_sha256

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

NO_VERSION = ""
"""The version that an object has to have that is to be created."""


# The answers to a write whose condition does not hold (any more).
_LOST = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED)


@dataclass(frozen=True, slots=True)
class Upload:
    """What goes up, and where: `sha256` is hex, `headers` are arguments of `put_object`."""

    bucket: str
    key: str
    content: Path | bytes
    size: int
    sha256: str
    headers: Mapping[str, Any]

    @property
    def place(self) -> str:
        """The object's address."""
        return f"s3://{self.bucket}/{self.key}"


@dataclass(frozen=True, slots=True)
class ObjectWriter:
    """Writes objects as a service allows; see `StoreFacts`.

    `attempts` says how often bytes that arrive damaged are sent.
    """

    client: S3Client
    facts: StoreFacts
    attempts: int

    def write(self, upload: Upload, version: str) -> str | None:
        """Write an object that has `version` (`NO_VERSION`: is absent) and return its new one.

        None where it has another one by now. What the service does not verify is read back, and
        sent again while it is not what was sent. Raises `IntegrityError` where its bytes arrive
        damaged each time.
        """
        stored_version = version
        for _ in range(self.attempts):
            etag = self._sent(upload, stored_version)
            if etag is None or self.facts.verifies or self._arrived(upload, etag):
                return etag
            stored_version = etag
        _check_content(upload)
        if not version:  # else it may be all that is left of what it replaced
            self.client.delete_object(Bucket=upload.bucket, Key=upload.key)
        raise IntegrityError(
            f"{upload.place} was written {self.attempts} times, and what lay there did not hash to "
            f"{upload.sha256}: it is damaged on the way, and the service does not see it. Try "
            "again later; if it stays so, look for what damages it: a proxy, a network card, the "
            "service itself"
        )

    def _sent(self, upload: Upload, version: str) -> str | None:
        condition = self.facts.replacing(version) if version else self.facts.creating()
        if not condition and self._version(upload) != version:
            return None
        for retries in reversed(range(self.attempts)):
            try:
                return self._put(upload, condition)
            except ClientError as error:
                if is_damage(error):
                    _check_content(upload)
                    if retries:
                        continue
                no_bucket = error.response["Error"]["Code"] == "NoSuchBucket"
                if status_of(error) in _LOST and not no_bucket:
                    return None
                raise
        raise AssertionError("the last attempt returns or raises")

    def _put(self, upload: Upload, condition: Mapping[str, str]) -> str:
        """Upload as one PUT under a condition (`IfNoneMatch` or `IfMatch`) and return the ETag.

        The service, where it does so at all, holds the body against its SHA-256.
        """
        put: dict[str, Any] = {
            "Bucket": upload.bucket,
            "Key": upload.key,
            "ChecksumSHA256": b64encode(bytes.fromhex(upload.sha256)).decode(),
            **upload.headers,
            **condition,
        }
        if isinstance(upload.content, bytes):
            return self.client.put_object(Body=upload.content, **put)["ETag"]
        with upload.content.open("rb") as body:
            return self.client.put_object(Body=body, **put)["ETag"]

    def _arrived(self, upload: Upload, etag: str) -> bool:
        where = (self.client, upload.bucket, upload.key)
        stored = StoredObject(*where, self.attempts, upload.place, {"IfMatch": etag})
        return stored.unchecked_digest(CHUNK_BYTES) == upload.sha256

    def _version(self, upload: Upload) -> str:
        try:
            return self.client.head_object(Bucket=upload.bucket, Key=upload.key)["ETag"]
        except ClientError as error:
            if status_of(error) == HTTPStatus.NOT_FOUND:
                return NO_VERSION
            raise


def _check_content(upload: Upload) -> None:
    """Raise `IntegrityError` where the damage was there before anything was sent."""
    digest = content_sha256(upload.content)
    if digest != upload.sha256:
        what = upload.content if isinstance(upload.content, Path) else "the content"
        raise IntegrityError(
            f"{what} hashes to {digest}, not to {upload.sha256} as announced: it was not stored"
        )
