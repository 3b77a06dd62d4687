"""Calls that get one message: asked at the same desk as those of REST."""

from __future__ import annotations

from functools import partial
from typing import Any

from api.core.errors import ApiError
from api.core.query_runner import Desk, block_headers
from api.core.snapshots import Reading
from api.core.workers import Cancellation
from api.rpc.call import Call
from api.rpc.decoding import parse
from api.rpc.front import Unary
from api.rpc.methods import Method


def answering(method: Method[Any], desk: Desk) -> Unary:
    """What answers the calls of a method."""
    return partial(_answer, method, desk)


async def _answer(method: Method[Any], desk: Desk, data: bytes, call: Call) -> bytes:
    verdict = desk.judge(call.client)
    call.tell(verdict.headers)
    if verdict.refusal is not None:
        call.tell(block_headers(desk.newest))
        raise verdict.refusal
    request = method.read(parse(method.asked, data))

    def question(reading: Reading, _: Cancellation) -> bytes:
        return method.answer(reading, request)

    try:
        body, newest = await desk.ask(question, call.seconds(desk.seconds))
    except ApiError:
        call.tell(block_headers(desk.newest))
        raise
    call.tell(block_headers(newest))
    return body
