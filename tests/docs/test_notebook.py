"""`strata[notebook]` is enough for the README's Python, and with matplotlib for the notebook."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from shlex import split
from typing import Any

import pytest

from tests.docs.notebook import KERNEL, NOTEBOOK, RUN, code_cells
from tests.docs.readme import shown_commands
from tests.wheel_kit import ROOT, bare_environment, make_environment, packages

COLORED = """
import base64, io, json, sys
from PIL import Image
for cell in json.load(open(sys.argv[1]))["cells"]:
    for output in cell.get("outputs", ()):
        if picture := output.get("data", {}).get("image/png"):
            image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("HSV")
            colors = image.getcolors(1 << 24)
            print(sum(count for count, (_, saturation, _) in colors if saturation > 100))
"""
"""Prints of each picture of a notebook how many pixels have a color."""
FACTS = """
assert statuses["len"].sum() == 3106
assert volume.schema["volume"] == pl.Decimal(38, 18)
assert rows and all(amount is None and len(raw["amount"]) > 38 for _, amount, raw in rows)
print("right")
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel with what the extra `notebook` requires, and nothing else."""
    return make_environment(tmp_path_factory.mktemp("notebook"), "notebook")


def run(environment: Path, home: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run its Python in a folder with the sample, without settings of whoever runs the tests."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    return subprocess.run(
        [str(environment / "bin/python"), *map(str, arguments)],
        cwd=home,
        env={**kept, "HOME": str(environment), "TZ": "America/New_York"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_readmes_python_runs_with_the_extra_alone(environment: Path, home: Path) -> None:
    shown = [command for block in shown_commands() for command in block]
    (line,) = [one.command for one in shown if one.command.startswith("python -c 'import strata")]

    done = run(environment, home, *split(line)[1:])

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("shape: (3_106, ")


def test_the_readmes_lake_is_read_with_the_packages_that_it_names_alone(
    home: Path, tmp_path: Path
) -> None:
    readme = (ROOT / "README.md").read_text()
    (needed,) = re.findall(r"Polars needs `pip install ([\w ]+)`, and nothing of Strata", readme)
    place = bare_environment(tmp_path / "polars", *needed.split())
    (line,) = re.findall(r"^\$ (python -c 'import polars.*)$", readme, re.MULTILINE)
    strata = Path(sys.executable).with_name("strata")
    subprocess.run([strata, "publish"], cwd=home, check=True, capture_output=True)

    done = run(place, home, *split(line)[1:])

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("shape: (1_468, ")


def test_python_rows_have_their_times_with_the_extra_alone(environment: Path, home: Path) -> None:
    query = "select min(vega_time) from blocks"
    code = f"import strata; h = strata.open(); print(h.sql('{query}').relation().fetchall())"

    done = run(environment, home, "-c", code)

    assert (done.returncode, done.stderr) == (0, "")
    assert "datetime.datetime(2023, 6, 1, 0, 0" in done.stdout


@pytest.fixture(scope="module")
def executed(environment: Path, home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The notebook after a kernel ran it in the wheel's environment, and a last cell of facts."""
    if not (KERNEL / "matplotlib").is_dir():
        pytest.fail("Jupyter's kernel or matplotlib is not there: run `make kernel`")
    (packages(environment) / "kernel.pth").write_text(f"{KERNEL}\n")  # behind its own packages
    result = tmp_path_factory.mktemp("executed") / "result.ipynb"
    done = run(environment, home, "-c", RUN, NOTEBOOK, result, FACTS)
    assert done.returncode == 0, done.stderr
    return result


def test_every_cell_of_the_notebook_runs_in_a_kernel(executed: Path) -> None:
    cells = code_cells(executed)
    kinds = [output["output_type"] for cell in cells for output in cell["outputs"]]
    assert {*kinds} == {"display_data", "execute_result", "stream"}, [c["outputs"] for c in cells]
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    *shown, closing, facts = [
        [output["output_type"] for output in cell["outputs"]] for cell in cells
    ]
    assert all(shown)
    assert (closing, facts) == ([], ["stream"])
    assert "".join(cells[-1]["outputs"][0]["text"]) == "right\n"


def test_the_notebook_is_shipped_with_the_outputs_that_it_gives(executed: Path) -> None:
    """Pictures apart, whose bytes differ by the machine's fonts."""
    saved, fresh = (code_cells(path) for path in (NOTEBOOK, executed))
    assert [*map(_texts, saved)] == [*map(_texts, fresh[:-1])], "run make docs"


def _texts(cell: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {kind: text for kind, text in output["data"].items() if kind != "image/png"}
        for output in cell["outputs"]
    ]


def test_both_charts_have_lines_and_points_saved_and_fresh(
    environment: Path, home: Path, executed: Path
) -> None:
    for notebook in (NOTEBOOK, executed):
        counted = run(environment, home, "-c", COLORED, notebook)
        assert (counted.returncode, counted.stderr) == (0, "")
        pixels = [*map(int, counted.stdout.split())]
        assert len(pixels) == 2
        assert min(pixels) > 1000, pixels
