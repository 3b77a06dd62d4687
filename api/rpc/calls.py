"""What answers the calls: those with one message, the export in pieces, and the provisions.

It shares everything with REST. A client that reads slowly makes its call wait, and nothing pile up:
the next piece is read, the next batch taken, when the one before has left. One that takes nothing
for too long gets an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import partial

from api.core.api_errors import ApiError, Code
from api.core.descriptors import Request, message_class
from api.core.telemetry import log
from api.core.workers import blocks
from api.operations import EXPORT, STREAM
from api.queries.liquidity import ProvisionFilter
from api.queries.operation import Answers, Operation
from api.queries.pagination import Record
from api.rpc.call import Call, Unary
from api.rpc.wire import encoded, read_request, write_record
from api.service import Service
from transforms.errors import IntegrityError

_ZIP = "application/zip"
_BODY = message_class("google.api.HttpBody")


class StalledCallError(ApiError):
    """The client took nothing for too long."""

    code = Code.ABORTED


class Calls:
    """The methods of a process."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._stall_seconds = service.settings.limits.stall_seconds

    def unary(self, operation: Operation) -> Unary:
        """What answers the calls of an operation with one message."""
        runner = self._service.calls
        answers = Answers(operation, runner, write_record)

        async def answer(data: bytes, call: Call) -> bytes:
            try:
                self._admit(call)
                request = read_request(operation, data, call.given)
                body, headers = await answers.of(request, seconds=call.seconds_left)
            except ApiError:
                call.add_headers(answers.block_headers())
                raise
            call.add_headers(headers)
            return body

        return answer

    async def export(self, data: bytes, call: Call) -> None:
        """Send the ZIP of a range in messages of about 1 MiB (spec 4.1).

        What goes wrong before the first one, and what goes wrong later, ends the call with an
        error: a client never takes a part of a ZIP for the whole.
        """
        self._admit(call)
        request = read_request(EXPORT, data, call.given)
        try:
            async with self._slot(call):
                await self._send_export(request, call)
        except IntegrityError:
            self._service.metrics.damaged.inc()
            raise

    async def _send_export(self, request: Request, call: Call) -> None:
        runner = self._service.downloads
        query = partial(self._service.exports.lay_out, request)
        layout, _ = await runner.run(query, seconds=call.seconds_left)
        parts = blocks(self._service.reading, layout.block, 0, layout.size)
        # The first block before the metadata: what is wrong by then comes before the file's name.
        message = _body(await anext(parts))
        call.take_room(message)
        call.add_headers([("content-disposition", f"attachment;filename={layout.name}")])
        await call.send_headers()
        await self._send(call, message)
        async for part in parts:
            await self._send(call, _body(part))

    async def observe(self, data: bytes, call: Call) -> None:
        """Send the provisions that are there, then those that change (spec 4.4; decision 24)."""
        self._admit(call)
        criteria = ProvisionFilter.of(read_request(STREAM, data, call.given))
        async with self._slot(call):
            # Sent at once: a reader should know that it is connected before anything happens.
            await call.send_headers()
            async with aclosing(self._service.feed.batches(criteria, _observed)) as batches:
                async for batch in batches:
                    # Messages one after the other are one message with the lists of all.
                    await self._send(call, b"".join(batch))

    def _admit(self, call: Call) -> None:
        """Count the call. Raises what refuses it where its client asks too often."""
        admission = self._service.calls.admit(call.client)
        call.add_headers(admission.headers)
        if admission.refusal is not None:
            raise admission.refusal

    @asynccontextmanager
    async def _slot(self, call: Call) -> AsyncIterator[None]:
        """Take one of the client's slots for the length of a block.

        A call that stalled keeps it until the client takes what is on its way, or leaves.
        """
        with self._service.slots.taken(call.client):
            try:
                yield
            except StalledCallError as error:
                await call.fail(error)

    async def _send(self, call: Call, message: bytes) -> None:
        try:
            async with asyncio.timeout(self._stall_seconds):
                await call.send(message)
        except TimeoutError:
            log.warning("a client took nothing for %g seconds", self._stall_seconds)
            reason = f"nothing was taken for {self._stall_seconds:g} seconds"
            raise StalledCallError(f"{reason}: connect again") from None


def _body(block: bytes) -> bytes:
    return encoded(_BODY, {"content_type": _ZIP, "data": block})


def _observed(record: Record) -> bytes:
    """A provision as the only one of a message."""
    return write_record(STREAM.method.output_type, ([record],))
