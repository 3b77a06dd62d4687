"""Bytes and listings from a bucket, which arrive whole. Raises botocore's errors.

An object that we wrote says its SHA-256 in its metadata, and many services keep a checksum of their
own. Whoever reads a whole object, by whatever ranges, gets bytes that match, or `IntegrityError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, BinaryIO

from botocore.exceptions import (
    ClientError,
    FlexibleChecksumError,
    IncompleteReadError,
    ReadTimeoutError,
    ResponseStreamingError,
)
from botocore.parsers import ResponseParserError

from transforms.stores.s3_errors import damaged, status_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import (
        GetObjectOutputTypeDef,
        ListObjectsV2OutputTypeDef,
        ObjectTypeDef,
    )

_BROKEN_BODY = (IncompleteReadError, ReadTimeoutError, ResponseStreamingError)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes of an object; its size and, where it carries one, its SHA-256 in hex."""

    data: bytes
    size: int
    etag: str = ""
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object of a bucket, for its readers; `attempts` bounds how often bytes are asked for.

    `place` is its address for a person.
    """

    client: S3Client
    bucket: str
    key: str
    attempts: int
    place: str
    condition: Mapping[str, Any] = field(default_factory=dict)
    checked: bool = True

    def piece(self, start: int = 0, length: int | None = None) -> Piece:
        """Bytes from `start`: asked for again where they break off, or are a whole damaged object.

        Past the end there are none.
        """
        arrived: list[str] = []
        data: bytes | None = None
        for retries in reversed(range(self.attempts)):
            answer = self._answer(start, length)
            if answer is None:
                return Piece(b"", 0)
            try:
                piece = _piece(answer, start, length)
            except _BROKEN_BODY:  # botocore tries again only until the answer begins
                if not retries:
                    raise
                continue
            except FlexibleChecksumError as error:
                arrived.append(str(error))
                data = None
                continue
            digest = _whole_digest(piece, start) if self.checked else piece.sha256
            if digest == piece.sha256:
                return piece
            arrived.append(digest)
            data = piece.data
        raise damaged(self.place, arrived, data)

    def pieces(self, length: int) -> Iterator[Piece]:
        """The whole object, `length` bytes at a time, of one version; the last may be empty."""
        piece = self.piece(0, length)
        yield piece
        same = replace(self, condition={"IfMatch": piece.etag})
        start = len(piece.data)
        while piece.data and start < piece.size:
            piece = same.piece(start, length)
            yield piece
            start += len(piece.data)

    def copy(self, file: BinaryIO, length: int) -> None:
        """Write the whole object to a file, again from its beginning where it arrives damaged."""
        arrived: list[str] = []
        for _ in range(self.attempts):
            file.seek(0)
            file.truncate()
            digest, recorded = self._digest(length, file.write)
            if digest == recorded or not recorded:
                return
            arrived.append(digest)
        raise damaged(self.place, arrived)

    def unchecked_digest(
        self, length: int, take: Callable[[bytes], object] = lambda _data: None
    ) -> str:
        """The SHA-256 of the bytes that arrive, whatever the object says of itself."""
        return replace(self, checked=False)._digest(length, take)[0]

    def _digest(self, length: int, take: Callable[[bytes], object]) -> tuple[str, str]:
        """The SHA-256 of what arrives, and the one that the object carries (empty: it has none)."""
        digest, recorded = sha256(), ""
        for piece in self.pieces(length):
            digest.update(piece.data)
            take(piece.data)
            recorded = piece.sha256
        return digest.hexdigest(), recorded

    def _answer(self, start: int, length: int | None) -> GetObjectOutputTypeDef | None:
        """The service's answer, its body unread; None past the end."""
        request: dict[str, Any] = {"Bucket": self.bucket, "Key": self.key, **self.condition}
        if start == 0 and length is None:
            request["ChecksumMode"] = "ENABLED"  # botocore holds the body against the service's own
        else:
            end = "" if length is None else start + length - 1
            request["Range"] = f"bytes={start}-{end}"
        try:
            return self.client.get_object(**request)
        except ClientError as error:
            if status_of(error) == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                return None
            raise


def _piece(answer: GetObjectOutputTypeDef, start: int, length: int | None) -> Piece:
    data = answer["Body"].read()
    total = answer.get("ContentRange", "").rpartition("/")[2]
    recorded = answer["Metadata"].get("sha256", "")
    if total.isdecimal():
        return Piece(data, int(total), answer["ETag"], recorded)
    part = data[start:] if length is None else data[start : start + length]
    return Piece(part, len(data), answer["ETag"], recorded)


def _whole_digest(piece: Piece, start: int) -> str:
    """The SHA-256 of a piece that is all of an object; else what it says, as nobody can tell."""
    if start or not piece.sha256 or len(piece.data) != piece.size:
        return piece.sha256
    return sha256(piece.data).hexdigest()


def listed(client: S3Client, bucket: str, prefix: str, attempts: int) -> Iterator[ObjectTypeDef]:
    """Yield what lies below `prefix`, in the service's own order.

    A page that arrives damaged is asked for again.
    """
    where: dict[str, Any] = {"Bucket": bucket, "Prefix": prefix}
    while True:
        page = _page(client, where, attempts)
        yield from page.get("Contents", [])
        if not page["IsTruncated"]:
            return
        where["ContinuationToken"] = page["NextContinuationToken"]


def _page(client: S3Client, where: dict[str, Any], attempts: int) -> ListObjectsV2OutputTypeDef:
    for retries in reversed(range(attempts)):
        try:
            page = client.list_objects_v2(**where)
        except ResponseParserError:
            if not retries:
                raise
        except ValueError as error:  # a number or a time that is none
            if not retries:
                raise ResponseParserError(str(error)) from error
        else:
            if page["IsTruncated"] == bool(page.get("NextContinuationToken")):
                return page
    raise ResponseParserError("a listing does not say whether it goes on")
