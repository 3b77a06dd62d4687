"""The role for Kubernetes allows what Dagster asks of the cluster, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.kubernetes_kit import Cluster, Right, kubernetes_server, rights

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "dagster_home" / "kubernetes"
DOCUMENTS = [*yaml.safe_load_all((HOME / "role.yaml").read_text())]
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: here, user: dagster}}}}]
clusters: [{{name: here, cluster: {{server: "{url}"}}}}]
users: [{{name: dagster, user: {{}}}}]
"""


ALLOWED = rights(DOCUMENTS, "strata-dagster", "strata")
STATUS = Right("batch", "jobs/status", "get")
Runs = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[Cluster, Runs]]]:
    """A cluster with the role, one whose role lacks the status of jobs, and their runs."""
    folder = tmp_path_factory.mktemp("clusters")
    with (
        kubernetes_server(Cluster(ALLOWED)) as whole,
        kubernetes_server(Cluster(ALLOWED - {STATUS})) as without_status,
    ):
        clusters = [whole, without_status]
        yield list(zip(clusters, _runs(clusters, folder), strict=True))


def _runs(clusters: list[Cluster], folder: Path) -> list[Runs]:
    """What became of the runs of `monitor_jobs`, by Dagster's own launcher and monitoring."""
    packages = ROOT / ".venv" / "kubernetes"
    if not packages.exists():
        pytest.fail(f"{packages} is not there: run `make servers`")
    kubeconfigs = [folder / f"kubeconfig-{number}" for number in range(len(clusters))]
    for kubeconfig, cluster in zip(kubeconfigs, clusters, strict=True):
        kubeconfig.write_text(KUBECONFIG.format(url=cluster.url))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.cluster.monitor_jobs", HOME, *kubeconfigs],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()[-len(clusters) :]]


def test_the_role_allows_all_that_dagster_asks_and_each_rule_is_used(
    monitored: list[tuple[Cluster, Runs]],
) -> None:
    cluster, runs = monitored[0]
    assert cluster.refused == []
    assert cluster.used == ALLOWED
    assert {name: run["status"] for name, run in runs.items()} == {
        "works": "CANCELING",
        "fails": "FAILURE",
        "vanishes": "FAILURE",
        "hangs": "FAILURE",
    }
    assert runs["works"]["ended"] is True
    assert "Evicted" in runs["fails"]["log"]
    assert "Evicted" in runs["vanishes"]["log"]
    assert "Killed" in runs["hangs"]["log"]


def test_without_the_status_of_jobs_a_run_that_works_counts_as_failed(
    monitored: list[tuple[Cluster, Runs]],
) -> None:
    cluster, runs = monitored[1]
    assert {*cluster.refused} == {STATUS}
    assert runs["works"]["status"] == "FAILURE"


def test_a_run_itself_may_do_nothing_with_the_cluster() -> None:
    launcher = yaml.safe_load((HOME / "dagster.yaml").read_text())["run_launcher"]["config"]

    assert launcher["job_namespace"] == "strata"
    assert rights(DOCUMENTS, launcher["service_account_name"], "strata") == set()
