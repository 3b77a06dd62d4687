"""Prints the Job of a run, as `K8sRunLauncher` sends it to Kubernetes; needs no cluster.

Arguments: the folder of `dagster.yaml`, and a kubeconfig, whose cluster is never asked.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import dagster as dg
import yaml
from dagster._core.instance.config import dagster_instance_config
from dagster._serdes import ConfigurableClassData
from dagster_k8s import K8sRunLauncher
from dagster_k8s.container_context import K8sContainerContext
from dagster_k8s.job import construct_dagster_k8s_job
from kubernetes.client import ApiClient


def main(folder: Path, kubeconfig: Path) -> None:
    """Check the whole file, make its launcher, and print the Job of one run."""
    config, _ = dagster_instance_config(str(folder))
    given = config["run_launcher"]
    reached = {"load_incluster_config": False, "kubeconfig_file": str(kubeconfig)}
    data = ConfigurableClassData(
        given["module"], given["class"], yaml.safe_dump({**given["config"], **reached})
    )
    launcher = data.rehydrate(as_type=K8sRunLauncher)
    run = dg.DagsterRun(job_name="load_and_publish")
    context = K8sContainerContext.create_for_run(run, launcher, include_run_tags=True)
    job = construct_dagster_k8s_job(
        context.get_k8s_job_config(None, launcher),
        args=["dagster", "api", "execute_run"],
        job_name=f"dagster-run-{run.run_id}",
        user_defined_k8s_config=context.run_k8s_config,
    )
    monitored = config["run_monitoring"]
    print(json.dumps({"job": ApiClient().sanitize_for_serialization(job), **monitored}))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
