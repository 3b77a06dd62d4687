"""The role for Kubernetes allows what Dagster asks of the cluster, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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


def monitored(cluster: Cluster, folder: Path) -> dict[str, dict[str, Any]]:
    """What became of the runs of `monitor_jobs`, by Dagster's own launcher and monitoring."""
    packages = ROOT / ".venv" / "kubernetes"
    if not packages.exists():
        pytest.fail(f"{packages} is not there: run `make servers`")
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG.format(url=cluster.url))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.cluster.monitor_jobs", HOME, kubeconfig],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return told


def test_the_role_allows_all_that_dagster_asks_and_each_rule_is_used(tmp_path: Path) -> None:
    allowed = rights(DOCUMENTS, "strata-dagster", "strata")
    with kubernetes_server(Cluster(allowed)) as cluster:
        runs = monitored(cluster, tmp_path)

    assert cluster.refused == []
    assert cluster.used == allowed
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


def test_without_the_status_of_jobs_a_run_that_works_counts_as_failed(tmp_path: Path) -> None:
    status = Right("batch", "jobs/status", "get")
    with kubernetes_server(
        Cluster(rights(DOCUMENTS, "strata-dagster", "strata") - {status})
    ) as cluster:
        runs = monitored(cluster, tmp_path)

    assert {*cluster.refused} == {status}
    assert runs["works"]["status"] == "FAILURE"


def test_a_run_itself_may_do_nothing_with_the_cluster() -> None:
    launcher = yaml.safe_load((HOME / "dagster.yaml").read_text())["run_launcher"]["config"]

    assert launcher["job_namespace"] == "strata"
    assert rights(DOCUMENTS, launcher["service_account_name"], "strata") == set()
