"""What the API sends for longer, in its benchmark: downloads, and the stream of provisions."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx2

from tests.benchmarks.market import BLOCKS, PROVISIONS

_ROUNDS = 3
_SEGMENTS = 10
_PROVISION_SEGMENTS = 50
"""Segments with provisions of their own; later ones change the same again."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Seconds until the first byte and until the last, and the bytes."""

    first: float
    whole: float
    size: int


def transfers(url: str, segments: int, *, exports: bool) -> Iterator[str]:
    """The rows of a table: a download, where the history has exports, and a stream's beginning."""
    yield "| transfer | ms to the first byte | ms in all | MB | MB/s |"
    yield "|---|---|---|---|---|"
    some, provisions = min(segments, _SEGMENTS), min(segments, _PROVISION_SEGMENTS) * PROVISIONS
    with httpx2.Client(base_url=url, timeout=600) as client:
        if exports:
            yield _row(f"orders of {some} segments, first time", [_downloaded(client, some)])
            yield _row("again", [_downloaded(client, some) for _ in range(_ROUNDS)])
        streams = [_streamed(client, provisions) for _ in range(_ROUNDS)]
        yield _row(f"stream, its first {provisions:,} provisions", streams)


def _row(what: str, found: list[Transfer]) -> str:
    def median(value: Callable[[Transfer], float]) -> float:
        return statistics.median(map(value, found))

    return (
        f"| {what} | {median(lambda one: one.first) * 1000:.1f} "
        f"| {median(lambda one: one.whole) * 1000:.1f} | {found[0].size / 1e6:.2f} "
        f"| {median(lambda one: one.size / one.whole) / 1e6:.1f} |"
    )


def _downloaded(client: httpx2.Client, segments: int) -> Transfer:
    path = f"/api/v2/networkhistory/export?table=5&fromBlock=1&toBlock={segments * BLOCKS}"
    started = time.perf_counter()
    with client.stream("GET", path) as answer:
        assert answer.status_code == 200, answer.read()
        pieces = answer.iter_raw()
        size = len(next(pieces))
        first = time.perf_counter() - started
        size += sum(map(len, pieces))
    return Transfer(first, time.perf_counter() - started, size)


def _streamed(client: httpx2.Client, provisions: int) -> Transfer:
    size = count = 0
    first = 0.0
    started = time.perf_counter()
    with client.stream("GET", "/api/v2/stream/liquidity-provisions") as answer:
        assert answer.status_code == 200, answer.read()
        for line in answer.iter_lines():
            first = first or time.perf_counter() - started
            size += len(line) + 1
            count += line.count('"commitmentAmount"')
            if count >= provisions:
                break
        whole = time.perf_counter() - started
    return Transfer(first, whole, size)
