"""Bytes to a bucket: one conditional upload. Raises botocore's errors."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef

LOST = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED)
"""The answers to a write whose condition does not hold (any more)."""

_PART_BYTES = 64 * 2**20
_MOST_PARTS = 10_000


@dataclass(frozen=True, slots=True)
class Upload:
    """What goes up, and where: `sha256` is hex, `headers` are arguments of `put_object`."""

    bucket: str
    key: str
    content: Path | bytes
    size: int
    sha256: str
    headers: Mapping[str, Any]


def send_whole(client: S3Client, upload: Upload, condition: Mapping[str, str]) -> str:
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
        return client.put_object(Body=upload.content, **put)["ETag"]
    with upload.content.open("rb") as body:
        return client.put_object(Body=body, **put)["ETag"]


def send_parts(client: S3Client, upload: Upload, condition: Mapping[str, Any]) -> str:
    """Upload in parts, each with its own SHA-256; the condition is put to the completion."""
    begun = client.create_multipart_upload(
        Bucket=upload.bucket, Key=upload.key, ChecksumAlgorithm="SHA256", **upload.headers
    )
    target: dict[str, Any] = {
        "Bucket": upload.bucket,
        "Key": upload.key,
        "UploadId": begun["UploadId"],
    }
    with ExitStack() as undo:
        undo.callback(_abort, client, target)
        parts = [
            _send_part(client, target, number, part)
            for number, part in enumerate(_parts(upload), start=1)
        ]
        done = client.complete_multipart_upload(
            **target, MultipartUpload={"Parts": parts}, **condition
        )
        undo.pop_all()
        return done["ETag"]


def _parts(upload: Upload) -> Iterator[bytes]:
    size = max(_PART_BYTES, -(-upload.size // _MOST_PARTS))
    if isinstance(upload.content, bytes):
        for start in range(0, upload.size, size):
            yield upload.content[start : start + size]
        return
    with upload.content.open("rb") as file:
        while part := file.read(size):
            yield part


def _send_part(
    client: S3Client, target: Mapping[str, Any], number: int, part: bytes
) -> CompletedPartTypeDef:
    checksum = b64encode(sha256(part).digest()).decode()
    sent = client.upload_part(**target, PartNumber=number, Body=part, ChecksumSHA256=checksum)
    return {"PartNumber": number, "ETag": sent["ETag"], "ChecksumSHA256": checksum}


def _abort(client: S3Client, target: Mapping[str, Any]) -> None:
    # A completion whose answer got lost and that was sent again has no upload left to abort.
    with suppress(client.exceptions.NoSuchUpload):
        client.abort_multipart_upload(**target)
