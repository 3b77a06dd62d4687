"""The health service that gRPC's clients and balancers ask (grpc.health.v1)."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from api.core.api_errors import ApiError, Code
from api.core.descriptors import CORE, TRADING_DATA
from api.rpc.call import Call
from api.rpc.decoding import parse
from api.service import Service

NAME = "grpc.health.v1.Health"
_SERVED = ("", TRADING_DATA, CORE)


class UnknownServiceError(ApiError):
    """The health of something is asked that is not served here."""

    code = Code.NOT_FOUND


class HealthService:
    """Serving where a generation is open and no stop is near, as `/ready` says it."""

    def __init__(self, service: Service) -> None:
        self._health = service.health
        self._stopping = service.stopping
        self._seconds = service.settings.limits.poll_seconds

    async def check(self, data: bytes, _call: Call) -> bytes:
        """Answer for now."""
        service = parse(HealthCheckRequest, data).service
        if service not in _SERVED:
            raise UnknownServiceError(f"{service} is not served here")
        return self._answer(service)

    async def watch(self, data: bytes, call: Call) -> None:
        """Answer now and whenever it changes."""
        service = parse(HealthCheckRequest, data).service
        sent = b""
        while not (sent and self._stopping.is_set()):
            answer = self._answer(service)
            if answer != sent:
                await call.send(answer)
                sent = answer
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._seconds)
        await call.send(self._answer(service))

    def _answer(self, service: str) -> bytes:
        statuses = HealthCheckResponse.ServingStatus
        status = statuses.SERVING if self._health.is_ready else statuses.NOT_SERVING
        if service not in _SERVED:
            status = statuses.SERVICE_UNKNOWN
        answer: bytes = HealthCheckResponse(status=status).SerializeToString()
        return answer
