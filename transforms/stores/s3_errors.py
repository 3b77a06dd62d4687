"""What goes wrong with a bucket, as sentences for whoever must act."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from botocore import exceptions, parsers

from transforms.errors import BusyError, ConfigError

_REFUSED = {"AccessDenied", "ExpiredToken", "InvalidToken", "InvalidAccessKeyId"}
_SETTINGS = (
    exceptions.ConfigNotFound,
    exceptions.ConfigParseError,
    exceptions.InvalidConfigError,
    exceptions.NoRegionError,
    exceptions.ParamValidationError,
    exceptions.ProfileNotFound,
)
DAMAGED = {
    "BadDigest",
    "IncompleteBody",
    "InvalidDigest",
    "XAmzContentChecksumMismatch",
    "XAmzContentSHA256Mismatch",
}
"""How a service says that a body did not arrive as it was sent."""


_NO_ANSWER = (
    exceptions.ConnectionError,
    exceptions.HTTPClientError,
    exceptions.IncompleteReadError,
)


def status_of(error: exceptions.ClientError) -> int:
    """The HTTP status of an error that the service answered with."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def refuses(error: exceptions.ClientError) -> bool:
    """Whether credentials may be the reason; the answer to HEAD tells an expired token by 400."""
    code = error.response.get("Error", {}).get("Code", "")
    no_right = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
    return code in {*_REFUSED, "400"} or status_of(error) in no_right


@contextmanager
def plain_errors(place: str, bucket: str, endpoint: str) -> Iterator[None]:
    """Turn botocore's errors about `place`, an `s3://` address, into Strata's or the machine's.

    Raises `ConfigError` (bucket, credentials, settings), `FileNotFoundError`, `BusyError` (replaced
    while it was read), `ConnectionError` (no answer, an overloaded service, bytes damaged on the
    way) or `OSError`.
    """
    try:
        yield
    except exceptions.ClientError as error:
        raise _answered(error, place, bucket, endpoint) from error
    except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError) as error:
        raise ConfigError(
            f"no complete credentials for {place}: set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give the machine a role"
        ) from error
    except _NO_ANSWER as error:
        raise ConnectionError(
            f"no answer from {endpoint} for {place} ({error}): check the network and the endpoint "
            "(AWS_ENDPOINT_URL), then run it again"
        ) from error
    except _SETTINGS as error:
        raise ConfigError(f"{place} cannot be opened: {error}") from error
    except parsers.ResponseParserError as error:
        raise ConnectionError(
            f"{endpoint} answered for {place} what cannot be read, so it was damaged on the way "
            f"({error}): try it again; if it stays so, see what stands between"
        ) from error
    except exceptions.BotoCoreError as error:
        raise OSError(errno.EIO, f"{place} could not be used: {error}") from error


def _answered(error: exceptions.ClientError, place: str, bucket: str, endpoint: str) -> Exception:
    code, status = error.response.get("Error", {}).get("Code", ""), status_of(error)
    if code == "NoSuchBucket":
        return ConfigError(
            f"there is no bucket {bucket!r} at {endpoint}: create it, or correct the address "
            f"{place} or the endpoint (AWS_ENDPOINT_URL)"
        )
    if refuses(error):
        return ConfigError(
            f"{endpoint} refused access to {place} ({code}): check the credentials and the "
            "policy of the bucket; listing, reading and writing objects are all needed, and in a "
            "warehouse deleting them, too"
        )
    if code in DAMAGED:
        return ConnectionError(
            f"{place} was not written, as its bytes arrived damaged ({code}): run it again; if it "
            "stays so, look for what damages them: a proxy, a network card, this machine's memory"
        )
    if status == HTTPStatus.NOT_FOUND:
        return FileNotFoundError(errno.ENOENT, "There is no such object", place)
    if status == HTTPStatus.PRECONDITION_FAILED:
        return BusyError(f"{place} was replaced while it was read: read it again")
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ConnectionError(f"{endpoint} is overloaded or failing ({error}): try {place} later")
    return OSError(errno.EIO, f"{endpoint} refused a request for {place}: {error}")
