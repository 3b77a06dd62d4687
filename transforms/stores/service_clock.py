"""The clock of an S3 service, as its answers tell it."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from transforms.moments import Moment

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_KNOWN_SECONDS = 60.0  # an hour is the least that anybody measures by it


class ServiceClock:
    """The time of the last answer of a service, by its own clock; safe among threads."""

    def __init__(self) -> None:
        self._answer: tuple[float, Moment] | None = None

    def watch(self, client: S3Client) -> None:
        """See all answers to a client."""
        client.meta.events.register("response-received.s3", self._note)

    def time(self) -> float | None:
        """Unix seconds; None where nothing was answered lately, or not with the time."""
        if self._answer is None:
            return None
        time, moment = self._answer
        passed = moment.passed()
        return time + passed if passed < _KNOWN_SECONDS else None

    def _note(self, response_dict: Mapping[str, Any] | None = None, **_answer: object) -> None:
        if response_dict is None:
            return
        try:
            date = parsedate_to_datetime(response_dict["headers"].get("date", ""))
        except ValueError:
            return
        self._answer = (date.timestamp(), Moment.now())
