"""What an S3 service has to honour: tried with an object of its own, once a day by each machine.

Services that resemble S3 ignore conditions and checksums without a word. So nothing is believed
that was not seen. Each probe has a name of its own, so any number of machines may probe at once;
one that is killed leaves a few bytes in the hidden folder.
"""

from __future__ import annotations

import hashlib
import time
from base64 import b64encode
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from botocore.exceptions import ClientError

from transforms.errors import ConfigError
from transforms.files import new_file
from transforms.stores.s3_errors import NOT_UNDERSTOOD, status_of
from transforms.stores.store import SCRATCH, WEAK

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_DAY_SECONDS = 24 * 3600
_PROBES = 2
_OTHER_ETAG = '"00000000000000000000000000000000"'
_REFUSALS = (HTTPStatus.PRECONDITION_FAILED, HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND)


def check_service(client: S3Client, bucket: str, prefix: str, facts: Path | None) -> None:
    """Try the service below `prefix` (empty, or with a slash at its end), unless that is known.

    `facts` is the folder where this machine keeps for a day what it tried. Raises `ConfigError`
    where nothing may be written, and botocore's errors where it cannot be tried: no network, no
    rights.
    """
    address = f"s3://{bucket}/{prefix} at {client.meta.endpoint_url}"
    stamp = facts and facts.expanduser() / hashlib.sha256(address.encode()).hexdigest()[:32]
    if stamp and _is_of_today(stamp):
        return
    # Where there is no such bucket, this says so: some services make one for whoever writes.
    client.list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)
    ignored = ""
    for _ in range(_PROBES):
        # An answer that got lost looks like a condition that is not honoured: once is not seen.
        ignored = _Probe(client, bucket, f"{prefix}{SCRATCH}/probes/{uuid4().hex}").ignored()
        if not ignored:
            break
    if ignored:
        raise ConfigError(
            f"s3://{bucket}/{prefix} was tried, and its service does not honour {ignored}. Nothing "
            "was written: of two writers at once one would lose its work, and damage would not be "
            "noticed. Use a service that honours it, or a folder, or, if only one process ever "
            "writes, say so with STRATA_SINGLE_WRITER=1"
        )
    if stamp:
        with suppress(OSError), new_file(stamp, durable=False) as file:
            file.write(address.encode())


def _is_of_today(stamp: Path) -> bool:
    with suppress(OSError):
        return 0 <= time.time() - stamp.stat().st_mtime < _DAY_SECONDS
    return False


class _Probe:
    """One key, and the ETag of what lies there."""

    def __init__(self, client: S3Client, bucket: str, key: str) -> None:
        self._client = client
        self._bucket = bucket
        self._key = key
        self._etag = ""
        self._count = 0

    def ignored(self) -> str:
        """The first request of those that safe writing needs that is not honoured, if any."""
        try:
            if (self._put(IfNoneMatch="*"), self._put(IfNoneMatch="*")) != (True, False):
                if self._put() is None:
                    return "a PUT with a checksum (x-amz-checksum-sha256)"
                return "a PUT with If-None-Match: *"
            if self._etag.startswith(WEAK):
                return "the rules for ETags: those of its answers are weak (W/...)"
            if self._put(IfMatch=_OTHER_ETAG) is not False or not self._put(IfMatch=self._etag):
                return "a PUT with If-Match"
            wrong = b64encode(hashlib.sha256(b"other bytes").digest()).decode()
            return "the SHA-256 of a PUT" if self._put(ChecksumSHA256=wrong) else ""
        finally:
            with suppress(ClientError):  # who may not delete leaves it
                self._client.delete_object(Bucket=self._bucket, Key=self._key)

    def _put(self, **headers: str) -> bool | None:
        """Whether a PUT is done or refused; None where the service does not understand it."""
        self._count += 1  # other bytes each time: an ETag is often their hash
        content = f"probe {self._count}".encode()
        right = b64encode(hashlib.sha256(content).digest()).decode()
        put: dict[str, Any] = {"ChecksumSHA256": right, **headers}
        try:
            answer = self._client.put_object(
                Bucket=self._bucket, Key=self._key, Body=content, **put
            )
        except ClientError as error:
            status = status_of(error)
            if error.response["Error"]["Code"] != "NoSuchBucket" and status in _REFUSALS:
                return False
            if status in NOT_UNDERSTOOD:
                return None
            raise
        self._etag = answer["ETag"]
        return True
