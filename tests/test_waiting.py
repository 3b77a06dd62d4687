"""How long tests wait depends on what else the machine does."""

from __future__ import annotations

import os

import pytest

from tests.waiting import patience


@pytest.mark.parametrize(("load", "times"), [(0.0, 1), (1.9, 1), (6.0, 3)])
def test_a_loaded_machine_gets_more_time(
    monkeypatch: pytest.MonkeyPatch, load: float, times: int
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)

    assert patience(10) == 10 * times
