"""Bytes to and from a bucket: one conditional upload, one range. Raises botocore's errors."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import IncompleteReadError, ReadTimeoutError, ResponseStreamingError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef

_BROKEN_BODY = (IncompleteReadError, ReadTimeoutError, ResponseStreamingError)
_PART_BYTES = 16 * 2**20
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


def send(client: S3Client, upload: Upload, condition: Mapping[str, str], single_bytes: int) -> str:
    """Upload under a condition (`IfNoneMatch` or `IfMatch`) and return the ETag.

    Up to `single_bytes` it is one PUT, whose SHA-256 the service verifies; above, each part is
    verified by its own, and the condition is put to the completion.
    """
    if upload.size > single_bytes:
        return _send_parts(client, upload, condition)
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


def receive(
    client: S3Client, bucket: str, key: str, span: str, condition: Mapping[str, Any], attempts: int
) -> bytes:
    """Return the bytes of a `Range`, asked for again where the connection breaks in its middle."""
    while True:
        attempts -= 1
        answer = client.get_object(Bucket=bucket, Key=key, Range=span, **condition)
        try:
            return answer["Body"].read()
        except _BROKEN_BODY:  # botocore tries again only until the answer begins
            if attempts <= 0:
                raise


def _send_parts(client: S3Client, upload: Upload, condition: Mapping[str, Any]) -> str:
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
