"""The rate limit for endpoints that are no calls: downloads, streams, pages, the description.

Calls count their requests themselves (`api.http.calls`); all of a client's take from one bucket.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.core.api_errors import ApiError
from api.core.query_runner import QueryRunner
from api.http.answers import Answer, RawHeaders, encoded, failure
from api.http.connection import client_key

Refuse = Callable[[ApiError, RawHeaders], Answer]


class Limited:
    """An endpoint whose requests take from their client's bucket, named for log and counters."""

    def __init__(
        self, name: str, endpoint: ASGIApp, runner: QueryRunner, refuse: Refuse = failure
    ) -> None:
        self._name = name
        self._endpoint = endpoint
        self._runner = runner
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        admission = self._runner.admit(client_key(scope))
        headers = encoded(admission.headers)
        if admission.refusal is not None:
            scope["operation"] = self._name
            await self._refuse(admission.refusal, headers)(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *headers]
            await send(message)

        await self._endpoint(scope, receive, counted)
