"""Clients that sent several requests ahead and leave while the first is answered."""

from __future__ import annotations

import logging
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from api.core.open_snapshots import Reading
from api.core.server_settings import Limits
from tests.api.server_kit import Served, serving, settings
from tests.api.site_kit import Site
from tests.waiting import wait_until

_LIST = b"GET /api/v2/withdrawals HTTP/1.1\r\nHost: x\r\n\r\n"
_FORM = b"POST /api/v2/withdrawals HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
_TIME = "/api/v2/vega/time"
_FOREVER = "select count(*) from range(100000000) a, range(100000000) b where a.range % 7 = b.range"
_RESET = struct.pack("ii", 1, 0)


class _Slow:
    """Makes every query of the server one that DuckDB never ends by itself."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.began = threading.Event()

        def check_interrupt(reading: Reading) -> None:
            self.began.set()
            reading.session.rows(_FOREVER)

        patch.setattr(Reading, "check_interrupt", check_interrupt)


@pytest.fixture(scope="module")
def patient(built_site: Site) -> Iterator[Served]:
    """A server that lets queries run for longer than any test."""
    with serving(settings(built_site.locations, Limits(query_seconds=900))) as found:
        yield found


def _leave(connection: socket.socket, *, reset: bool) -> None:
    if reset:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    connection.close()


def _wait_until_idle(served: Served) -> None:
    """Returns when no query runs or waits: one that is not interrupted would run for years."""
    wait_until(lambda: not served.service.queries.pending)


@pytest.mark.parametrize("reset", [True, False], ids=["reset", "closed"])
@pytest.mark.parametrize(
    "ahead",
    [[], [_LIST], [_LIST, _LIST], [_LIST] * 16, [_LIST, _FORM]],
    ids=["alone", "1", "2", "16", "a form"],
)
def test_who_leaves_stops_the_query_and_those_that_were_sent_ahead_are_never_begun(
    patient: Served, ahead: list[bytes], caplog: pytest.LogCaptureFixture, *, reset: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        slow = _Slow(patch)
        for at_once in (True, False):
            connection = socket.create_connection(("127.0.0.1", patient.port))
            connection.sendall(_LIST + (b"".join(ahead) if at_once else b""))
            assert slow.began.wait(30)
            if not at_once:
                connection.sendall(b"".join(ahead))
            _leave(connection, reset=reset)
            slow.began.clear()
            _wait_until_idle(patient)
            assert not slow.began.is_set()
    _assert_well(patient, caplog)


@pytest.mark.parametrize("ahead", [1, 15])
def test_who_leaves_while_answers_are_sent_leaves_no_traceback(
    patient: Served, ahead: int, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        connection = socket.create_connection(("127.0.0.1", patient.port))
        connection.sendall(_LIST * (1 + ahead))
        assert connection.recv(10)
        _leave(connection, reset=True)
    _assert_well(patient, caplog)


def _assert_well(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    """The next requests are answered, and the log says nothing."""
    with served.client() as client:
        assert client.get(_TIME).status_code == 200
        assert client.get("/api/v2/withdrawals").status_code == 200
    _wait_until_idle(served)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
