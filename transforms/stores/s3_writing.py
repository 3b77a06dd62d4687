"""One object written under a condition, confirmed by its SHA-256. Raises botocore's errors."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from transforms.errors import ConfigError, IntegrityError
from transforms.stores.facts import StoreFacts
from transforms.stores.s3_claims import claimed
from transforms.stores.s3_errors import is_damage, status_of
from transforms.stores.s3_reading import StoredObject
from transforms.stores.s3_transfer import LOST, Upload, send_parts, send_whole
from transforms.stores.store import CHUNK_BYTES, S3Options, content_sha256

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

NO_VERSION = ""
"""The version that an object has to have that is to be created."""


@dataclass(frozen=True, slots=True)
class ObjectWriter:
    """Writes objects as a service allows; see `StoreFacts`.

    The options say how often bytes that arrive damaged are sent, and what goes up in parts.
    """

    client: S3Client
    prefix: str
    facts: StoreFacts
    options: S3Options

    def write(self, upload: Upload, version: str) -> str | None:
        """Write an object that has `version` (`NO_VERSION`: is absent) and return its new one.

        None where it has another one by now. Raises `IntegrityError` where its bytes arrive damaged
        each time, `BusyError` where somebody else is about to write it in parts.
        """
        if upload.size > self.options.multipart_bytes:
            return self._in_turn(upload, version)
        return self._confirmed(upload, version, in_parts=False)

    def _in_turn(self, upload: Upload, version: str) -> str | None:
        """Upload in parts, which nobody verifies as a whole and two could complete at once."""
        if not (self.facts.completes_conditionally or self.options.single_writer):
            raise ConfigError(
                f"s3://{upload.bucket}/{upload.key} has {upload.size} bytes, and above "
                f"{self.options.multipart_bytes} an object goes up in parts. This service does not "
                "complete them under a condition, so another writer could overwrite it: make "
                "smaller ZIPs (STRATA_WINDOW), or use another service"
            )
        with claimed(self.client, self.prefix, upload, self.facts.creating()):
            if self._version(upload) != version:
                return None
            return self._confirmed(upload, version, in_parts=True)

    def _sent(self, upload: Upload, version: str, *, in_parts: bool) -> str | None:
        condition = self.facts.replacing(version) if version else self.facts.creating()
        if not condition and self._version(upload) != version:
            return None
        if in_parts and not self.facts.completes_conditionally:
            condition = {}
        for left in reversed(range(self.options.attempts)):
            try:
                if in_parts:
                    return send_parts(self.client, upload, condition)
                return send_whole(self.client, upload, condition)
            except ClientError as error:
                if is_damage(error):
                    _check_content(upload)
                    if left:
                        continue
                no_bucket = error.response["Error"]["Code"] == "NoSuchBucket"
                if status_of(error) in LOST and not no_bucket:
                    return None
                raise
        raise AssertionError("the last attempt returns or raises")

    def _confirmed(self, upload: Upload, version: str, *, in_parts: bool) -> str | None:
        """Send, read back what nobody verified, and send it again while it is not what was sent."""
        held = version
        for _ in range(self.options.attempts):
            etag = self._sent(upload, held, in_parts=in_parts)
            if etag is None or (self.facts.verifies and not in_parts):
                return etag
            held = etag or self._version(upload)  # some say no ETag where they complete parts
            if self._arrived(upload, held):
                return held
        _check_content(upload)
        if not version:  # else it may be all that is left of what it replaced
            self.client.delete_object(Bucket=upload.bucket, Key=upload.key)
        raise IntegrityError(
            f"s3://{upload.bucket}/{upload.key} was written {self.options.attempts} times, and "
            f"what lay there did not hash to {upload.sha256}: it is damaged on the way, and the "
            "service does not see it. Try again later; if it stays so, look for what damages it: a "
            "proxy, a network card, the service itself"
        )

    def _arrived(self, upload: Upload, etag: str) -> bool:
        stored = StoredObject(
            self.client, upload.bucket, upload.key, self.options.attempts, {"IfMatch": etag}
        )
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
    found = content_sha256(upload.content)
    if found != upload.sha256:
        what = upload.content if isinstance(upload.content, Path) else "the content"
        raise IntegrityError(
            f"{what} hashes to {found}, not to {upload.sha256} as announced: it was not stored"
        )
