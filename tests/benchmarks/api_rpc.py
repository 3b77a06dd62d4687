"""Questions of the API's benchmark asked over gRPC; see `tests.benchmarks.api`."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from itertools import cycle
from typing import Any

import grpc

from tests.api.rpc.kit import declared
from tests.api.rpc.translation import method_of, translate
from tests.benchmarks.wrk import Answers

_LIMITS = (("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1))
_PREPARED = 1000


def ask_rpc(port: int, paths: Sequence[str], clients: int, seconds: float) -> Answers:
    """Ask over so many connections; see `_ask`."""
    return asyncio.run(_ask(port, paths, clients, seconds))


async def _ask(port: int, paths: Sequence[str], clients: int, seconds: float) -> Answers:
    """Ask over so many connections, each at once again when it is answered.

    Messages stay bytes: what a client makes of them is its own cost, as with the JSON of REST. On
    few processors this client, which is Python, takes its share of them, unlike wrk.
    """
    call_of = declared(method_of(paths[0].partition("?")[0]) or "")[0]
    messages = cycle([translate(path).SerializeToString() for path in paths[:_PREPARED]])
    took: list[float] = []
    size = 0

    async def client() -> None:
        nonlocal size
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", _LIMITS) as channel:
            call: Any = channel.unary_unary(call_of)
            while time.perf_counter() < end:
                started = time.perf_counter()
                answer = await call(next(messages), wait_for_ready=True)
                took.append(time.perf_counter() - started)
                size += len(answer)

    began = time.perf_counter()
    end = began + seconds
    await asyncio.gather(*(client() for _ in range(clients)))
    wall = time.perf_counter() - began
    *_, p99 = statistics.quantiles(took, n=100) if len(took) > 1 else took
    return Answers(len(took), 0, wall, size, statistics.median(took) * 1000, p99 * 1000)
