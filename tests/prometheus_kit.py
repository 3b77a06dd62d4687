"""Prometheus' own tool, and which alerts fire on the text that the product wrote.

`make promtool` installs it; without it the calling test is skipped, or fails in the gate.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

FOLDER = Path(__file__).parents[1] / "dagster_home" / "prometheus"
_PROGRAM = Path(__file__).parents[1] / ".venv" / "prometheus" / "promtool"
_RULES = FOLDER / "alerts.yml"
_HOURS = 3
_LOOK = "strata_last_look_timestamp_seconds"


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the tool, whatever becomes of it."""
    if not _PROGRAM.exists():
        advice = f"{_PROGRAM} is not there: run `make promtool`"
        if os.environ.get("STRATA_TEST_REQUIRE_SHARED"):
            pytest.fail(advice)
        pytest.skip(advice)
    return subprocess.run(
        [str(_PROGRAM), *map(str, arguments)], capture_output=True, text=True, check=False
    )


def samples(text: str) -> list[Sample]:
    """All samples of a text in Prometheus' format."""
    return [one for family in text_string_to_metric_families(text) for one in family.samples]


def check_firing(
    folder: Path,
    text: str,
    read_at: float,
    expected: Mapping[int, Collection[str]],
    *,
    looking: bool = True,
    disks: bool = False,
    ages: bool = False,
) -> None:
    """Fail unless exactly these alerts fire, so many minutes after `text` was read (Unix seconds).

    All figures stay what they are meanwhile, but while somebody is `looking` that time goes on.
    `disks` says whether what is left on this machine's disks counts, `ages` the age of blocks.
    """
    test = {
        "interval": "1m",
        "input_series": [*_series(text, read_at, looking=looking, disks=disks, ages=ages)],
        "promql_expr_test": [
            {
                "expr": 'group by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{minutes}m",
                "exp_samples": [
                    {"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(names)
                ],
            }
            for minutes, names in expected.items()
        ],
    }
    path = folder / "alerts_test.yml"
    rules = {"rule_files": [str(_RULES)], "evaluation_interval": "1m", "tests": [test]}
    path.write_text(yaml.safe_dump(rules))
    done = promtool("test", "rules", path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{text}"


def _series(
    text: str, read_at: float, *, looking: bool, disks: bool, ages: bool
) -> Iterator[dict[str, str]]:
    """The product's samples as promtool wants them; its clock starts at 0 when they were read."""
    for sample in samples(text):
        if sample.name.startswith("strata_disk_") and not disks:
            continue
        if sample.name.startswith("strata_block_timestamp") and not ages:
            continue
        is_time = sample.name.endswith("_timestamp_seconds")
        value = sample.value - read_at if is_time else sample.value
        step = 60 if looking and sample.name == _LOOK else 0
        labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
        yield {"series": f"{sample.name}{{{labels}}}", "values": f"{value:f}+{step}x{_HOURS * 60}"}
