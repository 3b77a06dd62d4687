"""Three machines, set up by the manual, with the servers that they share."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from boto3.session import Session

from tests.cluster.machines_kit import Machine, blocks, choose_ports, machines, wait_for
from tests.cluster.servers_kit import Broker, Database, postgres_server, valkey_server
from tests.cluster.services_kit import Service
from tests.end_to_end import machines_kit as alone
from tests.weed_kit import KEY, SECRET, OwnServer, credentials
from transforms.tables.registry import HISTORY_TABLES

MOST_SECONDS = 90
"""After so many seconds a run is taken for dead."""

_BUCKETS = ("segments", "strata")


@dataclass(frozen=True, slots=True)
class Work:
    """A run at work: its id, its process, and the worker that started that."""

    run: str
    process: int
    worker: Service

    def go_on(self) -> None:
        """Let its process, which was stopped, go on."""
        os.kill(self.process, signal.SIGCONT)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Machines 1 to 3, and what they share."""

    machines: list[Machine]
    database: Database
    broker: Broker
    weed: OwnServer
    ports: list[dict[str, int]]

    def upload(self, *segments: Path) -> None:
        """Put segments into the source, in this order."""
        client = self._client()
        for path in segments:
            client.upload_file(str(path), "segments", f"mainnet/{path.name}")
        client.close()

    def published(self) -> list[str]:
        """The names of what is published, as places in the archive."""
        client = self._client()
        asked = {"Bucket": "strata", "Prefix": "archive/"}
        pages = client.get_paginator("list_objects_v2").paginate(**asked)
        keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
        client.close()
        return [key.removeprefix("archive/") for key in keys if "/.strata-scratch/" not in key]

    def archive(self) -> dict[str, bytes]:
        """Everything that is published, by its place in the archive."""
        client = self._client()
        found = {
            name: client.get_object(Bucket="strata", Key=f"archive/{name}")["Body"].read()
            for name in self.published()
        }
        client.close()
        return found

    def runs(self, *statuses: str) -> list[str]:
        """The ids of Dagster's runs in any of these statuses."""
        wanted = ", ".join(f"'{status}'" for status in statuses)
        return self.database_sql(f"select run_id from runs where status in ({wanted})").split()

    def end_of(self, run: str) -> str:
        """How a run ended; empty where it has not."""
        ends = ("SUCCESS", "FAILURE", "CANCELED")
        return next((status for status in ends if run in self.runs(status)), "")

    def failure_of(self, run: str) -> str:
        """Wait for the end of a run; returns why it failed."""
        self.wait_for(lambda: self.end_of(run), 600)
        return self.database_sql(
            f"select event from event_logs where run_id = '{run}'"
            " and dagster_event_type = 'PIPELINE_FAILURE'"
        )

    def unfinished(self) -> list[str]:
        """The runs that are at work or wait."""
        return self.runs("QUEUED", "NOT_STARTED", "STARTING", "STARTED", "CANCELING")

    def is_complete(self, segments: int) -> bool:
        """Whether the archive has so many segments and no run is at work."""
        if self.unfinished():
            return False
        zips = sum(name.endswith(".zip") for name in self.published())
        return zips == segments * len(HISTORY_TABLES)

    def final_status(self) -> str:
        """Wait until nothing is to do any more; returns what `strata status --json` says then.

        Where several runs share a volume, only the last one's end lets the lake follow it: the next
        look of the sensor requests a run for that.
        """
        status = ""

        def is_done() -> bool:
            nonlocal status
            status = self.machines[0].strata("status", "--json").stdout
            return '"to_do": []' in status

        self.wait_for(is_done)
        return status

    def stopped_work(self, *machines: Machine) -> Work:
        """Stop the process of a run while it works on one of these machines."""
        stopped: list[Work] = []

        def is_stopped() -> bool:
            for run in self.runs("STARTED"):
                process = self.process_of(run)
                for worker in (machine.services["strata-worker"] for machine in machines):
                    if process not in worker.processes():
                        continue
                    work = Work(run, process, worker)
                    os.kill(process, signal.SIGSTOP)  # so that it does not end meanwhile
                    if run in self.runs("STARTED"):
                        stopped.append(work)
                        return True
                    work.go_on()
            return False

        self.wait_for(is_stopped)
        return stopped[0]

    def database_sql(self, statement: str) -> str:
        """What a statement answers in Dagster's database."""
        return self.database.sql(statement, "dagster")

    def process_of(self, run: str) -> int:
        """The process that works on a run, or 0."""
        told = self.database_sql(
            "select event from event_logs where event like '%Started process for run (pid: %'"
            f" and run_id = '{run}'"
        )
        found = re.search(r"Started process for run \(pid: (\d+)\)", told)
        return int(found[1]) if found else 0

    def ask_dagster(self, query: str, **variables: object) -> Any:
        """What Dagster's web interface answers to a query of GraphQL."""
        url = f"http://127.0.0.1:{self.ports[0]['web']}/graphql"
        asked = {"query": query, "variables": variables}
        return httpx2.post(url, json=asked, timeout=60).json()["data"]

    def get(self, path: str) -> httpx2.Response:
        """What the server on the third machine answers."""
        return httpx2.get(f"http://127.0.0.1:{self.ports[2]['http']}{path}", timeout=60)

    def wait_for(self, condition: Any, seconds: float = 300) -> None:
        """Return when something is so; fail with the logs where it never is."""
        wait_for(condition, self.logged, seconds)

    def logged(self) -> str:
        """What all services and PostgreSQL have logged."""
        return "\n".join([self.database.logged(), *(one.logged() for one in self.machines)])

    def _client(self) -> Any:
        return Session().client("s3", endpoint_url=self.weed.server.url)


def as_made(_machine: Machine, _database: Database) -> None:
    """Nothing is adjusted."""


@contextmanager
def cluster(
    folder: Path, adjust: Callable[[Machine, Database], None] = as_made
) -> Iterator[Cluster]:
    """Everything that the manual says of several machines, but for the server, is done.

    `adjust` changes the configuration of each machine before anything is started there.
    """
    with ExitStack() as held:
        database = held.enter_context(postgres_server())
        weed = OwnServer(folder / "weed")
        held.enter_context(credentials(weed.server.url))
        weed.start()
        held.callback(weed.stop)
        made = held.enter_context(machines(folder, "machine-1", "machine-2", "machine-3"))
        servers, setup, start, workers, _ = blocks("Several machines")
        _prepare(made[0], database)
        assert made[0].run(servers.commands)[-1] == "systemctl restart postgresql redis-server"
        database.sql("select pg_reload_conf()")
        settings = made[0].place("/etc/redis/redis.conf")
        broker = held.enter_context(valkey_server(folder / "valkey", settings))
        built = Cluster(made, database, broker, weed, [])
        client = built._client()
        for bucket in _BUCKETS:
            client.create_bucket(Bucket=bucket)
        client.close()
        for name in setup.machines:
            machine = _named(made, name)
            machine.run(setup.commands)
            built.ports.append(choose_ports(machine))
            _configure(machine, database.port, broker.port, weed.server.url)
            adjust(machine, database)
        for name in start.machines:
            _named(made, name).run(start.commands)
        for name in workers.machines:
            _named(made, name).run(workers.commands)
        yield built


def serve(built: Cluster) -> None:
    """The last step of the manual: the server."""
    *_, last = blocks("Several machines")
    for name in last.machines:
        _named(built.machines, name).serve(last.commands)


def _named(made: list[Machine], name: str) -> Machine:
    (found,) = (one for one in made if one.folder.name == name)
    return found


def _prepare(machine: Machine, database: Database) -> None:
    """What Debian's packages of PostgreSQL and Redis lay out."""
    machine.commands = database.bin
    machine.variables = {
        "PGHOST": str(database.folder),
        "PGPORT": str(database.port),
        "PGUSER": "postgres",
    }
    main = machine.place("/etc/postgresql/18/main")
    main.mkdir(parents=True)
    (main / "pg_hba.conf").symlink_to(database.data / "pg_hba.conf")
    machine.place("/etc/redis").mkdir()
    machine.place("/etc/redis/redis.conf").write_text("")


def _configure(machine: Machine, database: int, broker: int, bucket: str) -> None:
    """What the manual leaves to be edited, and shorter times."""
    changes = {
        "machine-1:5432": f"127.0.0.1:{database}",
        "machine-1:6379": f"127.0.0.1:{broker}",
        "AWS_ACCESS_KEY_ID=change-me": f"AWS_ACCESS_KEY_ID={KEY}",
        "AWS_SECRET_ACCESS_KEY=change-me": f"AWS_SECRET_ACCESS_KEY={SECRET}",
        "# AWS_ENDPOINT_URL=https://s3.example.com": f"AWS_ENDPOINT_URL={bucket}",
    }
    machine.edit("/etc/strata/strata.env", changes)
    machine.configure(STRATA_POLL_SECONDS="2", STRATA_BATCH="5")
    machine.edit(
        "/var/lib/strata/dagster/dagster.yaml",
        {
            "max_runtime_seconds: 3600": f"max_runtime_seconds: {MOST_SECONDS}",
            "poll_interval_seconds: 30": "poll_interval_seconds: 2",
        },
    )


def archive_of_one_machine(source: Path, folder: Path, *, code: int) -> dict[str, bytes]:
    """What one machine, whose run leaves with a code, publishes of a source, by place."""
    archive = folder / "archive"
    places = {
        "STRATA_SOURCE": str(source),
        "STRATA_WAREHOUSE": str(folder / "warehouse"),
        "STRATA_ARCHIVE": str(archive),
    }
    assert alone.Machine(folder / "machine", places).run("run").returncode == code
    return {
        str(path.relative_to(archive)): path.read_bytes()
        for path in archive.rglob("*")
        if path.is_file() and path.parent.name != ".strata-scratch"
    }


def without_lake(objects: dict[str, bytes]) -> dict[str, bytes]:
    """All but the lake, whose logs and files depend on when and in which runs it was published."""
    return {key: data for key, data in objects.items() if "/lake/" not in key}
