"""What a bucket lists, page by page. Raises botocore's errors."""

from __future__ import annotations

from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from botocore.parsers import ResponseParserError

from transforms.errors import ConfigError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ListObjectsV2OutputTypeDef, ObjectTypeDef


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


def answer_time(answer: ListObjectsV2OutputTypeDef, place: str) -> float:
    """The time by the service's own clock, in Unix seconds, as an answer says it.

    Raises `ConfigError` where it does not.
    """
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError as error:
        raise ConfigError(
            f"the service of {place} answers without the time (Date: {date!r}): see what stands "
            "between, or use one that gives it"
        ) from error
