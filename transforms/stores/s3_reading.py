"""Bytes from a bucket, which arrive whole. Raises botocore's errors.

An object that we wrote says its SHA-256 in its metadata: who reads a whole object gets bytes that
match, or an `IntegrityError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, BinaryIO

from botocore.exceptions import (
    ClientError,
    IncompleteReadError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from transforms.errors import IntegrityError
from transforms.stores.s3_errors import status_of
from transforms.stores.store import CHUNK_BYTES, DamagedObjectError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import GetObjectOutputTypeDef

_BROKEN_BODY = (IncompleteReadError, ReadTimeoutError, ResponseStreamingError)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object of a bucket, for its readers; `attempts` bounds how often it is asked for.

    `place` is its address for a person.
    """

    client: S3Client
    bucket: str
    key: str
    attempts: int
    place: str
    condition: Mapping[str, Any] = field(default_factory=dict)

    def read(self, start: int = 0, length: int | None = None) -> tuple[bytes, str]:
        """Bytes from `start`, past the end none, and the ETag.

        They are asked for again where they break off, or are a whole damaged object.
        """
        data = b""
        for retries in reversed(range(self.attempts)):
            answer = self._answer(start, length)
            if answer is None:
                return b"", ""
            try:
                data = answer["Body"].read()
            except _BROKEN_BODY:  # botocore tries again only until the answer begins
                if not retries:
                    raise
                continue
            size = answer.get("ContentRange", "").rpartition("/")[2]
            if not size.isdecimal():  # all of it, which a service without ranges always sends
                size, data = str(len(data)), data[start:][:length]
            recorded = answer["Metadata"].get("sha256")
            is_part = len(data) < int(size)
            if is_part or not recorded or sha256(data).hexdigest() == recorded:
                return data, answer["ETag"]
        raise DamagedObjectError(self._damage(), data)

    def copy(self, file: BinaryIO) -> None:
        """Write the whole object to a file, again from its beginning where it arrives damaged."""
        for retries in reversed(range(self.attempts)):
            file.seek(0)
            file.truncate()
            digest = sha256()
            answer = self.client.get_object(Bucket=self.bucket, Key=self.key)
            try:
                for data in answer["Body"].iter_chunks(CHUNK_BYTES):
                    digest.update(data)
                    file.write(data)
            except _BROKEN_BODY:
                if not retries:
                    raise
                continue
            recorded = answer["Metadata"].get("sha256")
            if not recorded or digest.hexdigest() == recorded:
                return
        raise IntegrityError(self._damage())

    def _answer(self, start: int, length: int | None) -> GetObjectOutputTypeDef | None:
        """The service's answer, its body unread; None past the end."""
        request: dict[str, Any] = {"Bucket": self.bucket, "Key": self.key, **self.condition}
        if start or length is not None:
            end = "" if length is None else start + length - 1
            request["Range"] = f"bytes={start}-{end}"
        try:
            return self.client.get_object(**request)
        except ClientError as error:
            if status_of(error) == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                return None
            raise

    def _damage(self) -> str:
        return (
            f"{self.place} did not match the SHA-256 that it carries, {self.attempts} times: it "
            "lies damaged in the store, or is damaged on the way. Read it again later; if it stays "
            "so, put it back from a backup, or have it made and written anew"
        )
