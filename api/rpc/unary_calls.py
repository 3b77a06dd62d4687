"""Calls that get one message: run like those of REST."""

from __future__ import annotations

from functools import partial
from typing import Any

from api.core.api_errors import ApiError
from api.core.query_runner import Headers, QueryRunner, block_headers
from api.core.snapshots import Reading
from api.core.workers import Cancellation
from api.rpc.call import Call
from api.rpc.decoding import parse
from api.rpc.handlers import Unary
from api.rpc.methods import Method


def answering(method: Method[Any], runner: QueryRunner) -> Unary:
    """What answers the calls of a method."""
    return partial(_answer, method, runner)


async def _answer(method: Method[Any], runner: QueryRunner, data: bytes, call: Call) -> bytes:
    admission = runner.admit(call.client)
    call.add_headers(admission.headers)
    if admission.refusal is not None:
        call.add_headers(block_headers(runner.newest))
        raise admission.refusal
    request = method.read(parse(method.request_type, data), call.given)
    fixed = method.answer
    if isinstance(fixed, bytes):
        call.add_headers(block_headers(runner.newest))
        return fixed

    def query(reading: Reading, _: Cancellation) -> tuple[bytes, Headers]:
        return fixed(reading, request), method.headers(reading, request)

    try:
        (body, more), newest = await runner.run(query, call.seconds(runner.seconds))
    except ApiError:
        call.add_headers(block_headers(runner.newest))
        raise
    call.add_headers((*more, *block_headers(newest)))
    return body
