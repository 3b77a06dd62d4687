"""What `docs/operations.md` says of one machine, done word for word."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from pipelines.settings import Settings
from tests.cluster.machines_kit import Machine, blocks, choose_ports, machines, wait_for
from tests.pipelines.kit import make_segment
from tests.segments_kit import KIT_CHAIN


@pytest.mark.cluster
def test_the_manual_sets_up_a_machine_that_loads_publishes_serves_and_stops(
    tmp_path: Path,
) -> None:
    setup, copy, start, serve = blocks("One machine")
    with machines(tmp_path, "machine") as (machine,):
        machine.run(setup.commands)
        machine.run(copy.commands)
        ports = choose_ports(machine)
        machine.configure(STRATA_POLL_SECONDS="1")
        source = Settings(source=str(machine.place("/var/lib/strata/segments")))
        for number in range(3):
            make_segment(source, number)

        machine.run(start.commands)
        wait_for(lambda: run_statuses(machine) == {"SUCCESS"}, machine.logged)
        machine.serve(serve.commands)
        index = f"http://127.0.0.1:{ports['http']}/archive/{KIT_CHAIN}/index.json"
        told = httpx2.get(index).json()
        page = httpx2.get(f"http://127.0.0.1:{ports['web']}/server_info")
        verified = machine.strata("verify")
        _stop_at_work(machine, Settings(source=str(tmp_path / "made")), Path(source.source))
        for name in ("strata-webserver", "strata-serve"):
            machine.stop(name)

        assert told["complete_until"] == 30
        assert page.status_code == 200
        assert verified.returncode == 0, verified.stdout
        assert [one.main.returncode for one in machine.services.values()] == [0, 0, 0, 0]
        assert "FAILURE" in run_statuses(machine)
        assert "STARTED" not in run_statuses(machine)
        called = [call.partition(" --")[0] for call in machine.noted]
        assert called == [
            *("useradd", "systemctl daemon-reload"),
            *("systemctl enable", "systemctl enable"),
        ]


def _stop_at_work(machine: Machine, made: Settings, source: Path) -> None:
    """Stop the daemon while a run loads segments that came all at once, until that ends a run.

    Python drops what the handler of a signal raises inside of a callback of the garbage collector:
    one run of five then goes on to its end, and the service waits for it.
    """
    for first in range(3, 103, 20):
        for number in range(first, first + 20):
            make_segment(made, number)
        for path in Path(made.source).iterdir():
            path.rename(source / path.name)
        wait_for(lambda: "STARTED" in run_statuses(machine), machine.logged)
        machine.stop("strata-daemon")
        if "FAILURE" in run_statuses(machine):
            return
        machine.start("strata-daemon")


def run_statuses(machine: Machine) -> set[str]:
    """The statuses of Dagster's runs."""
    database = machine.place("/var/lib/strata/dagster/history/runs.db")
    with closing(sqlite3.connect(database, timeout=30)) as con:
        return {status for (status,) in con.execute("select status from runs")}
