"""Who may upload an object in parts: a small object that is created once decides.

The completion of a multipart upload takes a condition, but services that honour it may look first
and write then. So writers of one key take turns: who is to complete creates the key's claim first,
by a PUT, which is atomic. Writers of the same bytes share one, so a killed writer's rerun goes on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from transforms.errors import BusyError
from transforms.stores.s3_errors import status_of
from transforms.stores.s3_transfer import LOST, Upload, send_whole
from transforms.stores.store import SCRATCH

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@contextmanager
def claimed(
    client: S3Client, prefix: str, upload: Upload, creating: Mapping[str, str]
) -> Iterator[None]:
    """Let nobody else upload other bytes to the same key in parts until the block ends.

    `prefix` is that of the store, `creating` the condition of a PUT that creates. Raises
    `BusyError` where somebody else is at it.
    """
    name = hashlib.sha256(upload.key.encode()).hexdigest()
    key = f"{prefix}{SCRATCH}/claims/{name}"
    mine = upload.sha256.encode()
    if not _created(client, upload.bucket, key, mine, creating):
        held = _read(client, upload.bucket, key)
        if held != mine:
            raise BusyError(
                f"s3://{upload.bucket}/{upload.key} is being uploaded by another writer, with "
                "other bytes: try again later; if that writer was killed and does not come back, "
                f"delete s3://{upload.bucket}/{key}"
            )
    try:
        yield
    finally:
        client.delete_object(Bucket=upload.bucket, Key=key)


def _created(
    client: S3Client, bucket: str, key: str, data: bytes, creating: Mapping[str, str]
) -> bool:
    digest = hashlib.sha256(data).hexdigest()
    try:
        send_whole(client, Upload(bucket, key, data, len(data), digest, {}), creating)
    except ClientError as error:
        if status_of(error) in LOST:
            return False
        raise
    return True


def _read(client: S3Client, bucket: str, key: str) -> bytes:
    try:
        return client.get_object(Bucket=bucket, Key=key)["Body"].read()
    except client.exceptions.NoSuchKey:
        return b""  # its writer has just finished
