"""From an empty cluster to the first published ZIP, by the manifests: only Kubernetes is played.

Its API answers those whom the role allows what they ask. Dagster's daemon creates Jobs there, and
the test starts them, as Kubernetes would.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from pipelines.site.site import Site
from tests.cluster.kubernetes_kit import Cluster, kubernetes_server, rights
from tests.cluster.machines_kit import wait_for
from tests.cluster.pods_kit import Pods
from tests.cluster.servers_kit import postgres_server
from tests.cluster.services_kit import read_environment
from tests.cluster.test_kubernetes import DOCUMENTS, KUBECONFIG
from tests.cluster.test_manifests import HOME, PODS
from tests.pipelines.kit import make_segment, site_settings
from tests.ports import free_ports
from transforms.tables.registry import HISTORY_TABLES

CODE = "host: strata-user-code, port: 4000"
pytestmark = pytest.mark.cluster
DAGSTER = ("strata-user-code", "strata-daemon")


def test_the_manifests_lead_from_an_empty_cluster_to_a_published_zip(tmp_path: Path) -> None:
    site = Site(site_settings(tmp_path))
    with _cluster(tmp_path, site) as (cluster, pods, url):
        pods.start("strata-serve", PODS["strata-serve"]["spec"])
        wait_for(lambda: _status(f"{url}/health") == 200, lambda: pods.logged("strata-serve"))
        before = _status(f"{url}/ready")
        for name in DAGSTER:
            pods.start(name, PODS[name]["spec"])

        def logged() -> str:
            return "\n".join(pods.logged(name) for name in pods.running)

        make_segment(site.settings, 0)
        wait_for(lambda: cluster.jobs, logged)
        (name,) = cluster.jobs
        pods.start(name, cluster.jobs[name]["spec"]["template"]["spec"])
        ended = pods.running[name].wait(120)
        wait_for(lambda: _status(f"{url}/ready") == 200, logged)
        (daemon,) = PODS["strata-daemon"]["spec"]["containers"]
        alive = pods.run("strata-daemon", daemon["livenessProbe"]["exec"]["command"])
        published = [*Path(site.settings.archive).rglob("*.zip")]

        assert ended == 0, pods.logged(name)
        assert len(published) == len(HISTORY_TABLES), pods.logged(name)
        assert before == 503
        assert alive == 0, pods.logged("strata-daemon")
        assert cluster.refused == []


@contextmanager
def _cluster(folder: Path, site: Site) -> Iterator[tuple[Cluster, Pods, str]]:
    """A cluster with the role and a database, its pods, and the address of the server."""
    allowed = rights(DOCUMENTS, PODS["strata-daemon"]["spec"]["serviceAccountName"], "strata")
    code, http, grpc = free_ports(3)
    with postgres_server() as database, kubernetes_server(Cluster(allowed)) as cluster:
        database.sql("create user strata password 'change-me'")
        database.sql("create database dagster owner strata")
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(KUBECONFIG.format(url=cluster.url))
        variables = read_environment(HOME / "strata.env") | {
            "STRATA_SOURCE": site.settings.source,
            "STRATA_WAREHOUSE": site.settings.warehouse,
            "STRATA_ARCHIVE": site.settings.archive,
            "STRATA_POLL_SECONDS": "1",
            "STRATA_LAKE": "0",
            "STRATA_API_PORT": str(http),
            "STRATA_API_GRPC_PORT": str(grpc),
            "STRATA_DAGSTER_POSTGRES_URL": (
                f"postgresql+psycopg2://strata:change-me@127.0.0.1:{database.port}/dagster"
            ),
        }
        pods = Pods(folder / "pods", _files(kubeconfig, code), variables, {"4000": str(code)})
        try:
            yield cluster, pods, f"http://127.0.0.1:{http}"
        finally:
            pods.kill()


def _files(kubeconfig: Path, code: int) -> dict[str, str]:
    """The config map, with what is elsewhere here: the API of the cluster, and the user code."""
    config: dict[str, Any] = yaml.safe_load((HOME / "dagster.yaml").read_text())
    reached = {"load_incluster_config": False, "kubeconfig_file": str(kubeconfig)}
    config["run_launcher"]["config"] |= reached
    workspace = (HOME / "workspace.yaml").read_text()
    assert CODE in workspace
    return {
        "dagster.yaml": yaml.safe_dump(config),
        "workspace.yaml": workspace.replace(CODE, f"host: 127.0.0.1, port: {code}"),
    }


def _status(url: str) -> int:
    """The status of an answer; 0 where there is none."""
    try:
        return httpx2.get(url).status_code
    except httpx2.TransportError:
        return 0
