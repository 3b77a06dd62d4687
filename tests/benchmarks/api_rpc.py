"""The questions of the API's benchmark asked over gRPC, beside REST; see `tests.benchmarks.api`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import grpc

from tests.api.rpc.kit import declared
from tests.api.rpc.translation import method_of, translate

_LIMITS = (("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1))


async def ask_rpc(
    port: int, path: Callable[[int], str], clients: int, seconds: float
) -> tuple[list[float], int, float]:
    """Ask over so many connections, each at once again when it is answered.

    Returns the seconds of each answer, the bytes of all, and the time it took. Messages stay bytes:
    what a client makes of them is its own cost, as with the JSON of REST. On few processors
    the client, which is Python too, takes its share of them.
    """
    numbers = iter(range(10**9))
    took: list[float] = []
    size = 0

    async def client() -> None:
        nonlocal size
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", _LIMITS) as channel:
            while time.perf_counter() < end:
                request = f"/api/v2{path(next(numbers))}"
                call: Any = channel.unary_unary(declared(method_of(request) or "")[0])
                message = translate(request).SerializeToString()
                started = time.perf_counter()
                answer = await call(message, wait_for_ready=True)
                took.append(time.perf_counter() - started)
                size += len(answer)

    began = time.perf_counter()
    end = began + seconds
    await asyncio.gather(*(client() for _ in range(clients)))
    return took, size, time.perf_counter() - began
