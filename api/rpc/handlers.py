"""What happens to every call, whatever it asks: its token, its errors, its line in the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import grpc
from grpc.aio import AbortError

from api.core.api_errors import ApiError, Code, FailedError, Reason
from api.core.clients import NEEDED, Keyring, Unread, bearer_token
from api.core.server_settings import ServeSettings
from api.core.telemetry import Metrics, log
from api.rpc.call import Call, Callers, Context

_Asked = TypeVar("_Asked")
_Result = TypeVar("_Result")
Unary = Callable[[bytes, Call], Awaitable[bytes]]
"""Answers a request with a message."""
Streaming = Callable[[_Asked, Call], Awaitable[None]]
"""Answers a request, or several, by sending messages."""
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


class UnauthenticatedError(ApiError):
    """The call brings none of the tokens."""

    code = Code.UNAUTHENTICATED

    def __init__(self) -> None:
        super().__init__(NEEDED)


class UnknownCallError(ApiError):
    """There is no such method here."""

    code = Code.UNIMPLEMENTED

    def __init__(self, path: str) -> None:
        super().__init__(f"unknown method {path}")


class OversizedMetadataError(ApiError):
    """A client sent more metadata than it may, having ignored that it was told how much."""

    code = Code.RESOURCE_EXHAUSTED

    def __init__(self) -> None:
        super().__init__("the metadata size exceeds the limit: send less of it")


class Handlers:
    """Makes handlers of what answers calls; messages pass as they are, in bytes."""

    def __init__(self, settings: ServeSettings, metrics: Metrics, unread: Unread) -> None:
        self._keyring = Keyring(settings.access.tokens)
        self._callers = Callers(settings.listen.proxies)
        self._metrics = metrics
        self._unread = unread

    def unary(self, name: str, path: str, answer: Unary, *, public: bool = False) -> Handler:
        """A handler of calls that get one message; `public` ones need no token."""

        async def handle(request: bytes, context: Context) -> bytes:
            call = Call(context, path, self._callers, self._unread)

            async def work() -> bytes:
                body = call.count(await answer(request, call))
                await call.send_headers()
                return body

            return await self._attend(name, call, work, public=public)

        return grpc.unary_unary_rpc_method_handler(handle)

    def streaming(
        self, name: str, path: str, answer: Streaming[bytes], *, public: bool = False
    ) -> Handler:
        """A handler of calls that get many messages; `public` ones need no token."""

        async def handle(request: bytes, context: Context) -> None:
            call = Call(context, path, self._callers, self._unread)
            await self._attend(name, call, lambda: answer(request, call), public=public)

        return grpc.unary_stream_rpc_method_handler(handle)

    def bidirectional(
        self, name: str, path: str, answer: Streaming[AsyncIterator[bytes]]
    ) -> Handler:
        """A handler of calls where both sides send many messages."""

        async def handle(requests: AsyncIterator[bytes], context: Context) -> None:
            call = Call(context, path, self._callers, self._unread)
            await self._attend(name, call, lambda: answer(requests, call))

        return grpc.stream_stream_rpc_method_handler(handle)

    def unknown(self, path: str) -> Handler:
        """A handler of calls to a method that there is not."""
        return self._refused(path, lambda: UnknownCallError(path))

    def oversized(self, path: str) -> Handler:
        """A handler of calls with more metadata than may be."""
        return self._refused(path, OversizedMetadataError)

    def _refused(self, path: str, error: Callable[[], ApiError]) -> Handler:
        async def refuse(_requests: AsyncIterator[bytes], _call: Call) -> None:
            raise error()

        return self.bidirectional("other", path, refuse)

    async def _attend(
        self,
        name: str,
        call: Call,
        work: Callable[[], Awaitable[_Result]],
        *,
        public: bool = False,
    ) -> _Result:
        """Do the work for a call; an error ends the call as its table says (spec 7.1)."""
        try:
            self._check(call, public=public)
            return await work()
        except AbortError:
            raise
        except ApiError as error:
            await call.fail(error)
        except asyncio.CancelledError:
            call.left()
            raise
        except Exception:
            # The log has the traceback under the id that the answer gives.
            log.exception("a call failed unexpectedly")
            await call.fail(FailedError(Reason.UNEXPECTED, f"request {call.id}"))
        finally:
            call.finish(name, self._metrics)

    def _check(self, call: Call, *, public: bool) -> None:
        if not (public or self._keyring.opens(bearer_token(call.given("authorization")))):
            raise UnauthenticatedError
