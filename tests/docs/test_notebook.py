"""`pip install 'strata[notebook]'` is enough for the Python of the README and for the notebook."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from shlex import split
from typing import Any

import pytest

from tests.docs.readme import shown_commands
from tests.wheel_kit import ROOT, bare_environment, make_environment, packages

KERNEL = ROOT / ".venv" / "kernel"
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
RUN = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
notebook.cells.append(nbformat.v4.new_code_cell(sys.argv[3]))
nbclient.NotebookClient(notebook, timeout=240, allow_errors=True).execute()
nbformat.write(notebook, sys.argv[2])
"""
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
    subprocess.run([strata, "lake", "publish"], cwd=home, check=True, capture_output=True)

    done = run(place, home, *split(line)[1:])

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("shape: (1_468, ")


def test_python_rows_have_their_times_with_the_extra_alone(environment: Path, home: Path) -> None:
    query = "select min(vega_time) from blocks"
    code = f"import strata; h = strata.open(); print(h.sql('{query}').relation().fetchall())"

    done = run(environment, home, "-c", code)

    assert (done.returncode, done.stderr) == (0, "")
    assert "datetime.datetime(2023, 6, 1, 0, 0" in done.stdout


def test_every_cell_of_the_notebook_runs_in_a_kernel(
    environment: Path, home: Path, tmp_path: Path
) -> None:
    if not KERNEL.is_dir():
        pytest.fail("Jupyter's kernel is not there: run `make kernel`")
    (packages(environment) / "kernel.pth").write_text(f"{KERNEL}\n")  # behind its own packages
    result = tmp_path / "result.ipynb"

    done = run(environment, home, "-c", RUN, NOTEBOOK, result, FACTS)

    assert done.returncode == 0, done.stderr
    cells = code_cells(result)
    kinds = [output["output_type"] for cell in cells for output in cell["outputs"]]
    assert {*kinds} == {"execute_result", "stream"}, [cell["outputs"] for cell in cells]
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    *shown, closing, facts = [
        [output["output_type"] for output in cell["outputs"]] for cell in cells
    ]
    assert all(shown)
    assert (closing, facts) == ([], ["stream"])
    assert "".join(cells[-1]["outputs"][0]["text"]) == "right\n"


def test_the_notebook_is_shipped_without_outputs() -> None:
    for cell in code_cells(NOTEBOOK):
        assert (cell["outputs"], cell["execution_count"]) == ([], None)


def code_cells(path: Path) -> list[dict[str, Any]]:
    """The cells of a notebook that have code."""
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
