"""What an S3 service honours: tried with objects of its own, and kept by each machine for a day.

Services that resemble S3 ignore conditions and checksums without a word. So nothing is believed
that was not seen. Each probe has names of its own, so any number of machines may probe at once;
one that is killed leaves a few bytes in the hidden folder.
"""

from __future__ import annotations

import hashlib
import json
import time
from base64 import b64encode
from contextlib import suppress
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from botocore.exceptions import ClientError

from transforms.errors import ConfigError
from transforms.files import new_file
from transforms.stores.s3_errors import status_of
from transforms.stores.store import SCRATCH

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_DAY_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """What a service does with the requests that safe writing and reading depend on."""

    creates_once: bool
    """A PUT with `If-None-Match: *` is refused where there is an object."""
    replaces_matching: bool
    """A PUT with `If-Match` is refused for another ETag than the object's, and done for that."""
    unquoted: bool
    """`If-Match` wants the ETag of a PUT without its quotation marks."""
    verifies: bool
    """A body that does not hash to the SHA-256 announced with it is refused."""

    def creating(self) -> dict[str, str]:
        """The condition of a PUT that creates; nothing where it would not be honoured."""
        return {"IfNoneMatch": "*"} if self.creates_once else {}

    def replacing(self, etag: str) -> dict[str, str]:
        """The condition of a PUT that replaces; nothing where it would not be honoured."""
        if not self.replaces_matching:
            return {}
        return {"IfMatch": etag.strip('"') if self.unquoted else etag}

    def is_usable(self, *, single_writer: bool) -> bool:
        """Whether such a store may be written to; a single writer needs no conditions."""
        return single_writer or (self.creates_once and self.replaces_matching)

    def refusal(self, place: str) -> ConfigError:
        """Why nothing may be written to a store that is not usable, and what to do."""
        request = "a PUT with If-Match" if self.creates_once else "a PUT with If-None-Match: *"
        return ConfigError(
            f"{place} was tried, and its service does not honour {request}. Nothing was written: "
            "of two writers at once one would lose its work, and nobody would know. Use a service "
            "that honours it, or a folder; or, if never more than one process writes there, say so "
            "with STRATA_SINGLE_WRITER=1"
        )


class KeptFacts:
    """A file below `folder` with what was seen of the store at `address`."""

    def __init__(self, folder: Path, address: str) -> None:
        name = hashlib.sha256(address.encode()).hexdigest()[:32]
        self._path = folder.expanduser() / f"{name}.json"
        self._address = address

    def read(self) -> StoreFacts | None:
        """What was seen less than a day ago; None where nothing was."""
        with suppress(OSError, ValueError, TypeError, KeyError):
            record = json.loads(self._path.read_text())
            age = time.time() - record["time"]
            if record["address"] == self._address:
                return StoreFacts(**record["facts"]) if 0 <= age < _DAY_SECONDS else None
        return None

    def write(self, facts: StoreFacts) -> None:
        """Keep what was just seen; a folder that cannot be written to only costs another look."""
        record = {"address": self._address, "time": time.time(), "facts": asdict(facts)}
        with suppress(OSError), new_file(self._path, durable=False) as file:
            file.write(json.dumps(record, indent=1).encode())


_OTHER_ETAG = '"00000000000000000000000000000000"'
_REFUSALS = (HTTPStatus.PRECONDITION_FAILED, HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND)
_NOT_UNDERSTOOD = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.NOT_IMPLEMENTED,
)


def probe(client: S3Client, bucket: str, prefix: str) -> StoreFacts:
    """Try the service below `prefix` (empty, or with a slash at its end).

    Raises botocore's errors where that is not possible: no network, no rights.
    """
    # Where there is no such bucket, this says so: some services make one for whoever writes.
    client.list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)
    trial = _Probe(client, bucket, f"{prefix}{SCRATCH}/probes/{uuid4().hex}")
    try:
        return trial.facts()
    finally:
        trial.remove()


class _Probe:
    """Two keys, and the ETag of what lies at the first."""

    def __init__(self, client: S3Client, bucket: str, base: str) -> None:
        self._client = client
        self._bucket = bucket
        self._first, self._second = f"{base}-1", f"{base}-2"
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
            with suppress(ClientError):
                self._client.delete_object(Bucket=self._bucket, Key=key)

    def _creates_once(self) -> bool:
        created = self._put(self._first, IfNoneMatch="*")
        again = self._put(self._first, IfNoneMatch="*")
        if not created:
            self._put(self._first)
        return (created, again) == (True, False)

    def _replaces_matching(self) -> tuple[bool, bool]:
        """Whether `If-Match` is honoured, and whether it wants the ETag without its quotes."""
        if self._put(self._first, IfMatch=_OTHER_ETAG) is not False:
            return False, False
        if self._put(self._first, IfMatch=self._etag):
            return True, False
        wrong = self._put(self._first, IfMatch=_OTHER_ETAG.strip('"'))
        right = self._put(self._first, IfMatch=self._etag.strip('"'))
        honoured = (wrong, right) == (False, True)
        return honoured, honoured

    def _verifies(self) -> bool:
        wrong = b64encode(hashlib.sha256(b"other bytes").digest()).decode()
        return not self._put(self._second, ChecksumSHA256=wrong)

    def _put(self, key: str, **conditions: str) -> bool | None:
        """Whether a PUT is done or refused; None where the service does not understand it."""
        self._count += 1  # other bytes each time: an ETag is often their hash
        content = f"probe {self._count}".encode()
        right = b64encode(hashlib.sha256(content).digest()).decode()
        put: dict[str, Any] = {"ChecksumSHA256": right, **conditions}
        try:
            answer = self._client.put_object(Bucket=self._bucket, Key=key, Body=content, **put)
        except ClientError as error:
            status = status_of(error)
            if error.response["Error"]["Code"] == "NoSuchBucket":
                raise
            if status in _REFUSALS:
                return False
            if status in _NOT_UNDERSTOOD:
                return None
            raise
        self._etag = answer["ETag"]
        return True
