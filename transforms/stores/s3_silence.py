"""When a service that answers nothing is given up, by what became of all requests to it.

Each attempt of each step would wait by itself otherwise, and a command would go on for hours.
"""

from __future__ import annotations

import time
from threading import Lock
from typing import TYPE_CHECKING

from transforms.stores.s3_errors import SilenceError

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
