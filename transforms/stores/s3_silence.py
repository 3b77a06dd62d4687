"""What the answers of an S3 service tell: its clock, and when one that gives none is given up.

Each attempt of each step would wait by itself otherwise, and a command would go on for hours.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from threading import Lock
from typing import TYPE_CHECKING, Any

from transforms.moments import Moment
from transforms.stores.s3_errors import SilenceError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class Silence:
    """Lets no request out for `seconds` where none was answered for so long; safe among threads.

    It begins where the first request ends without an answer. Any answer ends it, errors included.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = Lock()
        self._began: float | None = None
        self._last = 0.0

    def watch(self, client: S3Client) -> None:
        """See all requests of a client, each attempt by itself."""
        client.meta.events.register("before-send.s3", lambda **_request: self.check())
        client.meta.events.register("response-received.s3", self._note)

    def check(self) -> None:
        """Raise `SilenceError`, which botocore passes on and does not try again, while it lasts."""
        with self._lock:
            now = time.monotonic()
            if self._began is None or now - self._began < self._seconds:
                return
            if now - self._last < self._seconds:
                raise SilenceError(f"nothing was answered for {now - self._began:.0f} seconds")
            self._began = None  # it may be back: as patient as in the beginning

    def _note(self, exception: Exception | None, **_answer: object) -> None:
        if isinstance(exception, SilenceError):
            return
        with self._lock:
            if exception is None:
                self._began = None
                return
            self._last = time.monotonic()
            if self._began is None:
                self._began = self._last


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
