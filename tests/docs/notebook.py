"""docs/notebook.ipynb run by Jupyter's kernel, whose outputs `make docs` saves in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[2]
KERNEL = ROOT / ".venv" / "kernel"
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
RUN = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
if sys.argv[3:]:
    notebook.cells.append(nbformat.v4.new_code_cell(sys.argv[3]))
client = nbclient.NotebookClient(notebook, timeout=240, allow_errors=True, record_timing=False)
client.execute()
nbformat.write(notebook, sys.argv[2])
"""
"""Runs the notebook of the first argument into the second, with a last cell of the third."""


def code_cells(path: Path) -> list[dict[str, Any]]:
    """The cells of a notebook that have code."""
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def _save_outputs() -> None:
    strata = Path(sys.executable).with_name("strata")
    with TemporaryDirectory() as home:
        subprocess.run([strata, "run"], cwd=home, check=True)
        result = Path(home, "result.ipynb")
        packages = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{KERNEL}"}
        run = [sys.executable, "-c", RUN, str(NOTEBOOK), str(result)]
        subprocess.run(run, cwd=home, env=packages, check=True)
        executed = iter(code_cells(result))
    notebook = json.loads(NOTEBOOK.read_text())
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            ran = next(executed)
            cell.update(outputs=ran["outputs"], execution_count=ran["execution_count"])
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    _save_outputs()
