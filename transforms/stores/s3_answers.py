"""What the answers of an S3 service tell: its clock, and when one that gives none is given up.

Each attempt of each step would wait by itself otherwise, and a command would go on for hours.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from threading import Lock
from typing import TYPE_CHECKING, Any

from transforms.moments import Moment
from transforms.stores.s3_errors import SilenceError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_KNOWN_SECONDS = 60.0  # an hour is the least that anybody measures by it


class AnswerWatch:
    """Sees all answers to a client, each attempt by itself; safe among threads.

    It lets no request out for `seconds` where none was answered for so long. That begins where the
    first request ends without an answer; any answer ends it, errors included.
    """

    def __init__(self, client: S3Client, seconds: float) -> None:
        self._seconds = seconds
        self._lock = Lock()
        self._silent_since: float | None = None
        self._last_silence = 0.0
        self._answer: tuple[float, Moment] | None = None
        client.meta.events.register("before-send.s3", lambda **_request: self._check())
        client.meta.events.register("response-received.s3", self._note)

    def time(self) -> float | None:
        """Unix seconds by the service's clock, to a minute; None where no answer told it lately."""
        if self._answer is None:
            return None
        told, moment = self._answer
        passed = moment.passed()
        return told + passed if passed < _KNOWN_SECONDS else None

    def _check(self) -> None:
        """Raise `SilenceError`, which botocore passes on and does not try again, while it lasts."""
        with self._lock:
            now, since = time.monotonic(), self._silent_since
            if since is None or now - since < self._seconds:
                return
            if now - self._last_silence < self._seconds:
                raise SilenceError(f"nothing was answered for {now - since:.0f} seconds")
            self._silent_since = None  # it may be back: as patient as in the beginning

    def _note(
        self, exception: Exception | None, response_dict: Mapping[str, Any] | None, **_more: object
    ) -> None:
        if isinstance(exception, SilenceError):
            return
        with self._lock:
            if exception is None:
                self._silent_since = None
            else:
                self._last_silence = time.monotonic()
                self._silent_since = self._silent_since or self._last_silence
        if response_dict is not None:
            with suppress(ValueError):
                date = parsedate_to_datetime(response_dict["headers"].get("date", ""))
                self._answer = (date.timestamp(), Moment.now())
