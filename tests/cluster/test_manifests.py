"""The manifests for Kubernetes: valid, complete, and what they name is there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.manifests_kit import check_manifests

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "dagster_home" / "kubernetes"
WHOLE = yaml.safe_load((HOME / "kustomization.yaml").read_text())
FILES = [HOME / name for name in WHOLE["resources"]]
OBJECTS: list[dict[str, Any]] = [
    one for file in FILES for one in yaml.safe_load_all(file.read_text())
]
PODS = {
    one["metadata"]["name"]: one["spec"]["template"]
    for one in OBJECTS
    if one["kind"] == "Deployment"
}
JOB = yaml.safe_load((HOME / "dagster.yaml").read_text())["run_launcher"]["config"]
PROGRAMS = Path(sys.executable).parent


def names(kind: str) -> set[str]:
    return {one["metadata"]["name"] for one in OBJECTS if one["kind"] == kind}


def containers(pod: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from pod["spec"].get("initContainers", ())
    yield from pod["spec"]["containers"]


def test_the_last_four_releases_know_every_field_of_them() -> None:
    check_manifests(*FILES)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("replicas: 2", "replicas: two"), ("minAvailable: 1", "minAvailabel: 1")],
)
def test_what_is_no_field_or_no_value_is_noticed(tmp_path: Path, text: str, wrong: str) -> None:
    manifest = tmp_path / "serve.yaml"
    manifest.write_text((HOME / "serve.yaml").read_text().replace(text, wrong))

    with pytest.raises(AssertionError, match="did not validate"):
        check_manifests(manifest)


def test_kustomize_makes_valid_objects_of_them(tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    made = tmp_path / "made.yaml"
    command = ["kubectl", "kustomize", str(HOME)]
    made.write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    check_manifests(made)

    images = {
        container["image"]
        for one in yaml.safe_load_all(made.read_text())
        if one["kind"] == "Deployment"
        for container in containers(one["spec"]["template"])
    }
    assert images == {JOB["job_image"]}


def test_every_manifest_of_the_folder_is_applied() -> None:
    others = {"kustomization.yaml", "dagster.yaml", "workspace.yaml"}
    assert {file.name for file in FILES} == {one.name for one in HOME.glob("*.yaml")} - others
    (image,) = WHOLE["images"]
    assert f"{image['newName']}:{image['newTag']}" == JOB["job_image"]


def test_accounts_config_maps_and_secrets_that_pods_name_are_there() -> None:
    maps = {one["name"] for one in WHOLE["configMapGenerator"]}
    for pod in PODS.values():
        assert pod["spec"]["serviceAccountName"] in names("ServiceAccount")
        for volume in pod["spec"]["volumes"]:
            assert volume.get("configMap", {}).get("name", "strata-dagster") in maps
        for container in containers(pod):
            named = [one.get("configMapRef") or one["secretRef"] for one in container["envFrom"]]
            assert [one["name"] for one in named] == ["strata-places", "strata"]
            assert "env" not in container
    assert {*JOB["env_config_maps"]} < maps
    assert JOB["instance_config_map"] in maps


def test_selectors_meet_their_pods_and_probes_their_ports() -> None:
    for one in OBJECTS:
        if one["kind"] in ("Service", "PodDisruptionBudget"):
            selector = one["spec"]["selector"]
            labels = PODS[one["metadata"]["name"]]["metadata"]["labels"]
            assert selector.get("matchLabels", selector) == labels
        if one["kind"] == "Service":
            (container,) = PODS[one["metadata"]["name"]]["spec"]["containers"]
            ports = {port["name"] for port in container["ports"]}
            assert {port["targetPort"] for port in one["spec"]["ports"]} == ports
    for pod in PODS.values():
        (container,) = pod["spec"]["containers"]
        ports = {port["name"] for port in container.get("ports", ())}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            if "httpGet" in container.get(probe, {}):
                assert container[probe]["httpGet"]["port"] in ports


def test_every_container_has_bounds_and_no_rights_that_it_does_not_need() -> None:
    assert names("PodDisruptionBudget") == {"strata-serve"}
    assert PODS.keys() == {"strata-user-code", "strata-daemon", "strata-webserver", "strata-serve"}
    for pod in PODS.values():
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        for container in containers(pod):
            assert container["resources"]["requests"].keys() == {
                "cpu",
                "memory",
                "ephemeral-storage",
            }
            assert "memory" in container["resources"]["limits"]
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
    for pod in PODS.values():
        (container,) = pod["spec"]["containers"]
        assert "livenessProbe" in container


@pytest.mark.parametrize("pod", PODS)
def test_what_a_container_starts_is_a_program_with_these_options(
    pod: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, which has imported most of what they import."""
    for container in containers(PODS[pod]):
        program, *arguments = container["command"]
        assert (PROGRAMS / program).exists()
        (entry,) = entry_points(group="console_scripts", name=program)
        monkeypatch.setattr(sys, "argv", [program, *arguments, "--help"])
        with pytest.raises(SystemExit) as done:
            entry.load()()
        out, errors = capsys.readouterr()
        assert done.value.code == 0, errors
        assert "Usage:" in out


def test_the_image_has_one_version_of_each_package() -> None:
    pins: dict[str, set[str]] = {}
    for name in ("constraints.txt", "constraints-cluster.txt", "constraints-kubernetes.txt"):
        for package, version in re.findall(r"^([\w.-]+)==(\S+)", (ROOT / name).read_text(), re.M):
            pins.setdefault(package, set()).add(version)
    assert {package: found for package, found in pins.items() if len(found) > 1} == {}
