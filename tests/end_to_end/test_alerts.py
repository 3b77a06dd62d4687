"""Each situation that needs a person raises its alert, by the very text that the product writes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from pipelines.running import record_look
from pipelines.site.segment_status import site_status
from pipelines.site.site import Site
from tests.api.server_kit import serving
from tests.api.server_kit import settings as server_settings
from tests.command_kit import run_strata
from tests.daemon_kit import daemon
from tests.mounts_kit import mounted
from tests.pipelines.kit import make_segment, site_settings
from tests.prometheus_kit import FOLDER, check_firing, promtool, samples
from tests.s3_kit import bucket_server
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


def environment(place: Path, **changes: str) -> dict[str, str]:
    settings = site_settings(place)
    return {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "STRATA_SOURCE": settings.source,
        "STRATA_WAREHOUSE": settings.warehouse,
        "STRATA_ARCHIVE": settings.archive,
        "STRATA_LAKE": "0",
        "STRATA_METRICS": str(place / "metrics"),
        "DAGSTER_HOME": str(place / "home"),
        **changes,
    }


def strata(place: Path, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return run_strata(*arguments, environment=environment(place, **changes), folder=place)


def written(place: Path) -> str:
    """What node_exporter would show: all text files of the folder."""
    return "".join(path.read_text() for path in sorted((place / "metrics").glob("*.prom")))


def look(place: Path) -> None:
    """Write what the sensor writes, which requests runs and does not wait for them."""
    settings = replace(site_settings(place), metrics=place / "metrics")
    record_look(Site(settings), site_status(Site(settings)), place / "home")


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "put back after the test")


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three segments, loaded and published."""
    folder = tmp_path_factory.mktemp("history")
    for number in range(3):
        make_segment(site_settings(folder), number)
    assert strata(folder, "run").returncode == 0
    return folder


@pytest.fixture
def place(history: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(history, tmp_path / "place")
    return tmp_path / "place"


def test_where_all_is_well_no_alert_fires_until_nobody_looks(place: Path) -> None:
    check = strata(place, "status", "--check")

    assert (check.returncode, check.stdout) == (0, "nothing is left to do\n")
    text, now = written(place), time.time()
    check_firing(place, text, now, {5: [], 120: []})
    check_firing(place, text, now, {25: [], 40: ["StrataStopped"]}, looking=False)


def test_where_prometheus_gets_nothing(tmp_path: Path) -> None:
    check_firing(tmp_path, "", time.time(), {20: [], 40: ["StrataSilent"]})


def test_what_promtool_is_given_can_fail(place: Path) -> None:
    with pytest.raises(AssertionError, match="StrataStopped"):
        check_firing(place, written(place), time.time(), {5: ["StrataStopped"]})
    renamed = written(place).replace("strata_last_look", "strata_latest_look")
    with pytest.raises(AssertionError, match="StrataStopped"):
        check_firing(place, renamed, time.time(), {40: ["StrataStopped"]}, looking=False)


def test_a_stopped_daemon_which_logs_nothing_of_what_is_well(tmp_path: Path) -> None:
    for number in range(6):
        make_segment(site_settings(tmp_path), number)
    variables = environment(tmp_path, STRATA_POLL_SECONDS="1", STRATA_BATCH="100")
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_bytes((ROOT / "dagster_home" / "dagster.yaml").read_bytes())
    log = tmp_path / "log"
    with daemon(tmp_path, variables, log) as (_, work):
        wait_until(lambda: 'last_run_failed{job="load_and_publish"} 0.0' in written(tmp_path))
        # With a server of its own it would start another one each minute, and log that.
        assert Path(f"/proc/{work.pid}/task/{work.pid}/children").read_text() == ""
    text, now = written(tmp_path), time.time()

    assert log.read_text() == ""
    figures = {sample.name: sample.value for sample in samples(text) if not sample.labels}
    assert figures["strata_block_height"] == 60
    check_firing(tmp_path, text, now, {20: [], 40: ["StrataStopped"]}, looking=False)


def test_a_removed_bucket(tmp_path: Path) -> None:
    with bucket_server() as server:
        bucket = server.bucket()
        for number in range(2):
            path = make_segment(site_settings(tmp_path), number)
            server.client.upload_file(str(path), bucket, path.name)
        variables = {
            "STRATA_SOURCE": f"s3://{bucket}",
            "AWS_ENDPOINT_URL": server.url,
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        assert strata(tmp_path, "run", **variables).returncode == 0
        check_firing(tmp_path, written(tmp_path), time.time(), {120: []})
        for item in server.client.list_objects_v2(Bucket=bucket)["Contents"]:
            server.client.delete_object(Bucket=bucket, Key=item["Key"])
        server.client.delete_bucket(Bucket=bucket)

        failed = strata(tmp_path, "run", **variables)

    assert failed.returncode != 0
    assert bucket in failed.stderr
    expected = {3: [], 10: ["StrataUnreachable"], 120: ["StrataUnreachable"]}
    check_firing(tmp_path, written(tmp_path), time.time(), expected)


def test_a_source_that_was_loaded_from_and_is_empty(place: Path) -> None:
    source = Path(site_settings(place).source)
    source.rename(source.with_name("not mounted"))
    source.mkdir()

    for command in (["status", "--check"], ["load"], ["run"]):
        done = strata(place, *command)
        assert done.returncode == 1, command
        sentence = f"{source} contains no segments, and some were loaded from it: mount it, or "
        assert sentence in done.stdout + done.stderr
    facts = json.loads(strata(place, "status", "--json").stdout)
    assert facts["segments"]["found"] == []
    assert (
        facts["segments"]["loaded"] == facts["segments"]["published"] == ["1-10", "11-20", "21-30"]
    )
    check_firing(place, written(place), time.time(), {3: [], 10: ["StrataUnreachable"]})
    with serving(server_settings(site_settings(place))) as served, served.client() as client:
        wait_until(lambda: "strata_look_success 0.0" in client.get("/metrics").text)


def test_a_source_that_keeps_only_new_segments_is_counted_as_it_is(place: Path) -> None:
    for number in range(2):
        make_segment(site_settings(place), number).unlink()
    check = strata(place, "status", "--check", "--json")
    assert check.returncode == 0
    assert json.loads(check.stdout)["segments"]["found"] == ["21-30"]


def test_a_new_site_without_segments(tmp_path: Path) -> None:
    check = strata(tmp_path, "status", "--check")
    assert (check.returncode, check.stdout) == (1, "no segments yet\n")
    assert strata(tmp_path, "status").returncode == 0
    assert strata(tmp_path, "run").returncode == 0


def test_a_newest_block_that_grows_old(place: Path) -> None:
    (newest,) = (s.value for s in samples(written(place)) if s.name.startswith("strata_block_time"))
    assert newest == datetime(2023, 1, 1, 0, 0, 30, tzinfo=UTC).timestamp()
    expected = {30: [], 120: ["StrataOld"]}
    check_firing(place, written(place), newest + 5 * 3600, expected, ages=True)


def test_a_quarantined_segment(place: Path) -> None:
    damaged = make_segment(site_settings(place), 3)
    damaged.write_bytes(damaged.read_bytes()[:-100])

    assert strata(place, "run").returncode == 1

    check = strata(place, "status", "--check")
    assert check.returncode == 1
    (line,) = check.stdout.splitlines()
    assert line.startswith("1 files cannot be used: replace or remove them in the source; ")
    assert f"the first is {damaged.name}: " in line
    later = ["StrataBehind", "StrataQuarantine", "StrataRunFails"]
    check_firing(place, written(place), time.time(), {3: [], 10: ["StrataQuarantine"], 90: later})


def test_a_full_disk(place: Path) -> None:
    warehouse = place / "warehouse"
    full = mounted(
        f"mount -t tmpfs -o size=8m none '{warehouse}' && "
        f"(dd if=/dev/zero of='{warehouse}/ballast' bs=1M 2>/dev/null || true)"
    )
    command = [*full, str(BIN / "strata"), "run"]
    failed = subprocess.run(command, env=environment(place), capture_output=True, text=True)

    assert failed.returncode == 7
    assert "No space left on device" in failed.stderr
    text = written(place)
    check_firing(
        place,
        "\n".join(line for line in text.splitlines() if "_disk_" in line and "warehouse" in line)
        + "\n",
        time.time(),
        {3: [], 10: ["StrataDisk"]},
        disks=True,
    )


def test_blocks_that_wait_a_gap_and_a_lost_file(place: Path) -> None:
    make_segment(site_settings(place), 3)
    look(place)
    check = strata(place, "status", "--check", "--json")
    assert (check.returncode, json.loads(check.stdout)["blocks_behind"]) == (1, 10)
    check_firing(place, written(place), time.time(), {45: [], 90: ["StrataBehind"]})

    make_segment(site_settings(place), 5)
    assert strata(place, "run").returncode == 0
    check = strata(place, "status", "--check")
    assert check.returncode == 0
    assert check.stdout == "nothing is left to do; blocks 41-50 are missing\n"
    check_firing(place, written(place), time.time(), {10: [], 90: ["StrataGap"]})

    next((place / "warehouse" / "data").glob("*/*.parquet")).unlink()
    look(place)
    check = strata(place, "status", "--check")
    assert check.returncode == 1
    assert (
        "which had been loaded and were lost: run strata repair, then strata load" in check.stdout
    )
    (lost,) = (one.value for one in samples(written(place)) if one.name == "strata_lost_files")
    assert lost == 1
    check_firing(place, written(place), time.time(), {1: ["StrataDamage"]})


def test_the_server_tells_the_same_of_the_site(place: Path) -> None:
    damaged = make_segment(site_settings(place), 3)
    damaged.write_bytes(damaged.read_bytes()[:-100])
    make_segment(site_settings(place), 5)
    look(place)
    ours = {(one.name, *one.labels.values()): one.value for one in samples(written(place))}
    with serving(server_settings(site_settings(place))) as served, served.client() as client:
        wait_until(lambda: client.get("/ready").json()["blocksBehind"] is not None)
        theirs = {
            (one.name, *one.labels.values()): one.value
            for one in samples(client.get("/metrics").text)
        }
    shared = ours.keys() & theirs.keys()
    assert {key[0].removeprefix("strata_") for key in shared} == {
        *("look_success", "block_height", "block_timestamp_seconds", "blocks_behind", "gaps"),
        *("quarantined_files", "lost_files", "waiting_segments"),
    }
    assert {key: ours[key] for key in shared} == {key: theirs[key] for key in shared}
    assert theirs[("strata_waiting_segments", "load")] == 2


def test_a_server_names_gaps(place: Path) -> None:
    make_segment(site_settings(place), 5)
    assert strata(place, "load").returncode == 0
    with serving(server_settings(site_settings(place))) as served, served.client() as client:
        wait_until(lambda: client.get("/ready").json()["missing"] is not None)
        ready = client.get("/ready").json()
    assert ready["missing"] == ["31-50"]
    assert ready["segmentsWaiting"] == 0


def test_the_dashboard_and_the_rules_name_what_is_written(place: Path, tmp_path: Path) -> None:
    with serving(server_settings(site_settings(place))) as served, served.client() as client:
        client.get("/")
        text = written(place) + client.get("/metrics").text
    names = {sample.name for sample in samples(text)}
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    shown = [one["expr"] for panel in dashboard["panels"] for one in panel["targets"]]
    rules = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"][0]["rules"]
    used = set(re.findall(r"strata_\w+", " ".join([*shown, *(rule["expr"] for rule in rules)])))
    assert used <= names
    records = [{"record": f"panel_{at}", "expr": expr} for at, expr in enumerate(shown)]
    queries = tmp_path / "queries.yml"
    queries.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": records}]}))
    done = promtool("check", "rules", FOLDER / "alerts.yml", queries)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_folder_that_cannot_be_written_stops_no_run(place: Path) -> None:
    (place / "file").write_text("")
    make_segment(site_settings(place), 3)
    done = strata(place, "run", STRATA_METRICS=str(place / "file" / "metrics"))
    assert done.returncode == 0, done.stderr
    assert "strata.prom was not written, for Prometheus" in done.stderr
