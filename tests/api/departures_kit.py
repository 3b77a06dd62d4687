"""Clients of the read API that stay for the whole answer, or leave at some moment before its end.

A question is everything that a client says; its answer, all that the server says to it, without
what is never the same twice.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from websockets.asyncio.client import connect

from tests.api.rpc.kit import declared

_RESET = struct.pack("ii", 1, 0)
_VARYING = re.compile(rb"(?:date|x-request-id): [^\r]*\r\n")
STREAM = "/api/v2/stream/liquidity-provisions"
Answer = tuple[object, ...]


@dataclass(frozen=True)
class Doors:
    """Where a server is reached."""

    port: int
    grpc_port: int


@dataclass(frozen=True)
class HttpQuestion:
    """A request over HTTP on a connection of its own."""

    target: str
    method: str = "GET"
    headers: str = ""

    async def ask(self, doors: Doors) -> Answer:
        """The whole answer; a client that is cancelled resets its connection."""
        async with _connected(doors.port) as (reader, writer):
            head = f"{self.method} {self.target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            writer.write(f"{head}{self.headers}\r\n".encode())
            return tuple(_VARYING.sub(b"", await reader.read(-1)).split(b"\r\n\r\n", 1))


@dataclass(frozen=True)
class StreamQuestion:
    """The stream's snapshot over HTTP: its first `lines` lines."""

    query: str
    lines: int

    async def ask(self, doors: Doors) -> Answer:
        """See `HttpQuestion.ask`."""
        async with _connected(doors.port) as (reader, writer):
            writer.write(f"GET {STREAM}?{self.query} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            status = head.split(b"\r\n", 1)[0]
            return status, *[await _chunk(reader) for _ in range(self.lines)]


@dataclass(frozen=True)
class SocketQuestion:
    """The stream's snapshot over WebSocket: its first `frames` frames."""

    query: str
    frames: int

    async def ask(self, doors: Doors) -> Answer:
        """See `HttpQuestion.ask`."""
        url = f"ws://127.0.0.1:{doors.port}{STREAM}?{self.query}"
        async with connect(url, open_timeout=60, max_size=None, compression=None) as connection:
            try:
                return tuple([await connection.recv() for _ in range(self.frames)])
            finally:
                connection.transport.abort()


@dataclass(frozen=True)
class RpcQuestion:
    """A call; of a stream without end its first `messages` messages."""

    method: str
    fields: tuple[tuple[str, Any], ...] = ()
    messages: int | None = 1

    async def ask(self, channel: grpc.aio.Channel) -> Answer:
        """The code and the messages; a client that is cancelled cancels its call."""
        path, asked, _ = declared(self.method)
        unary: Any = channel.unary_unary(path)
        stream: Any = channel.unary_stream(path)
        request = asked(**dict(self.fields)).SerializeToString()
        try:
            if self.messages == 1:
                return "OK", await unary(request, timeout=60)
            call = stream(request, timeout=60)
            found = []
            async for message in call:
                found.append(message)
                if len(found) == self.messages:
                    break
            call.cancel()
            return "OK", *found
        except grpc.aio.AioRpcError as error:
            return error.code().name, re.sub("request [0-9a-f]+", "", error.details() or "")


Question = HttpQuestion | StreamQuestion | SocketQuestion | RpcQuestion


@dataclass(frozen=True)
class Clients:
    """Any number of clients of one server; those of gRPC share some connections."""

    doors: Doors
    channels: list[grpc.aio.Channel]

    async def ask(self, question: Question, number: int = 0) -> Answer:
        """Ask as a client that stays."""
        if isinstance(question, RpcQuestion):
            return await question.ask(self.channels[number % len(self.channels)])
        return await question.ask(self.doors)

    async def leave(self, question: Question, seconds: float, number: int = 0) -> bool:
        """Ask as a client that leaves after some time; whether it left before the end."""
        asking = asyncio.create_task(self.ask(question, number))
        await asyncio.wait({asking}, timeout=seconds)
        left = asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        return left


@asynccontextmanager
async def clients(doors: Doors, connections: int = 4) -> AsyncIterator[Clients]:
    """Clients for the length of a block."""
    options = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1))
    address = f"127.0.0.1:{doors.grpc_port}"
    channels = [grpc.aio.insecure_channel(address, options) for _ in range(connections)]
    try:
        yield Clients(doors, channels)
    finally:
        for channel in channels:
            await channel.close()


@asynccontextmanager
async def _connected(
    port: int,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
    try:
        yield reader, writer
    finally:
        # Whoever leaves early does so as a process that is killed: with a reset.
        opened: socket.socket = writer.get_extra_info("socket")
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        writer.transport.abort()


async def _chunk(reader: asyncio.StreamReader) -> bytes:
    size = int(await reader.readuntil(b"\r\n"), 16)
    return (await reader.readexactly(size + 2))[:-2]
