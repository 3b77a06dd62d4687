"""What goes wrong with a bucket, as sentences for whoever must act."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
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


NOT_UNDERSTOOD = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.NOT_IMPLEMENTED,
)
"""How a service answers a request with a header that it does not know."""

_MOST_SKEW = 900.0  # seconds, by which a clock may be off: S3 refuses signatures of other times
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
        raise _unanswered(error, place, endpoint) from error
    except _SETTINGS as error:
        raise ConfigError(f"{place} cannot be opened: {error}") from error
    except (parsers.ResponseParserError, KeyError) as error:
        missing = isinstance(error, KeyError)
        what = f"without {error.args[0]}" if missing else f"what cannot be read ({error})"
        raise ConnectionError(
            f"{endpoint} answered for {place} {what}, so it was damaged on the way: try it again; "
            "if it stays so, see what stands between"
        ) from error
    except exceptions.BotoCoreError as error:
        raise OSError(errno.EPROTO, f"{place} could not be used: {error}") from error


def _unanswered(error: Exception, place: str, endpoint: str) -> Exception:
    if "certificate" in str(error).lower():
        return ConfigError(
            f"the certificate of {endpoint} is not accepted ({error}): correct the endpoint "
            "(AWS_ENDPOINT_URL); if you trust a certificate of your own, name its file in "
            "AWS_CA_BUNDLE"
        )
    return ConnectionError(
        f"no answer from {endpoint} for {place} ({error}): check the network, the endpoint "
        "(AWS_ENDPOINT_URL) and the proxy (HTTPS_PROXY, HTTP_PROXY, NO_PROXY), then run it again"
    )


def _skew(error: exceptions.ClientError) -> float:
    """The seconds by which the service's clock is ahead of ours; 0 if it tells no time."""
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    with suppress(ValueError):
        return parsedate_to_datetime(headers.get("date", "")).timestamp() - time.time()
    return 0.0


def _is_about_checksum(error: exceptions.ClientError, status: int) -> bool:
    """Whether a service refuses a PUT because it does not know a header."""
    text = str(error)
    is_vague = "(Invalid" in text or "NotImplemented" in text or "BadRequest" in text
    return status in NOT_UNDERSTOOD and (
        status != HTTPStatus.BAD_REQUEST or is_vague or "checksum" in text.lower()
    )


def _answered(error: exceptions.ClientError, place: str, bucket: str, endpoint: str) -> Exception:
    code, status = error.response.get("Error", {}).get("Code", ""), status_of(error)
    if code == "NoSuchBucket":
        return ConfigError(
            f"there is no bucket {bucket!r} at {endpoint}: create it, or correct the address "
            f"{place} or the endpoint (AWS_ENDPOINT_URL)"
        )
    skew = _skew(error)
    if code == "RequestTimeTooSkewed" or (
        status == HTTPStatus.FORBIDDEN and code not in _REFUSED and abs(skew) > _MOST_SKEW
    ):
        shift = f"{abs(skew):,.0f} seconds {'behind' if skew > 0 else 'ahead'}" if skew else "wrong"
        return OSError(
            errno.EPROTO,
            f"{endpoint} refused a request for {place}: this machine's clock is {shift}. Set the "
            "clock, then run it again",
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
    if error.operation_name == "PutObject" and _is_about_checksum(error, status):
        return ConfigError(
            f"{endpoint} refused to write {place} ({error}): a service must know the header "
            "x-amz-checksum-sha256, by which it compares what arrives. Use another one, or a folder"
        )
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ConnectionError(f"{endpoint} is overloaded or failing ({error}): try {place} later")
    return OSError(errno.EPROTO, f"{endpoint} refused a request for {place}: {error}")
