"""`python -m tests.model`: seed faults into copies of the product; the machine must find each.

Exit code 1 where it does not find one. `--only TEXT` takes those with the text in their name.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.model.mutants import MUTANTS, ROOT, Mutant, mutated
from tests.model.walking import NOTICED

_PACKAGES = ("api", "exporters", "pipelines", "strata", "tests", "transforms", "pyproject.toml")


def main() -> None:
    """Try one mutant after the other."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--steps", type=int, default=300, help="of each mutant, at the most")
    parser.add_argument("--seed", type=int, default=20261123, help="what steps are drawn from")
    parser.add_argument("--only", default="", metavar="TEXT", help="mutants with it in their name")
    given = parser.parse_args()
    mutants = [mutant for mutant in MUTANTS if given.only in mutant.name]
    missed = [mutant for mutant in mutants if not _is_noticed(mutant, given.steps, given.seed)]
    print(f"{len(mutants) - len(missed)} of {len(mutants)} noticed")
    sys.exit(1 if missed else 0)


def _is_noticed(mutant: Mutant, steps: int, start: int) -> bool:
    """Whether the machine fails on a copy of the product with the fault."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="strata-mutant-") as name:
        folder = Path(name)
        _copy_product(folder)
        for file, text in mutated(mutant).items():
            (folder / file).write_text(text)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "tests.model.walking", str(steps), str(start)],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    is_noticed = done.returncode == NOTICED
    seconds = time.monotonic() - started
    (last, *_) = [*(done.stdout or done.stderr).splitlines()[-1:], f"{steps} steps"]
    word = "noticed" if is_noticed else "MISSED"
    print(f"{word} after {seconds:.0f} s: {mutant.name}: {last}", flush=True)
    return is_noticed


def _copy_product(folder: Path) -> None:
    """Copy what the machine imports, from where nothing else is found first."""
    for package in _PACKAGES:
        source = ROOT / package
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, folder / package, ignore=ignored)
        else:
            shutil.copy(source, folder)


if __name__ == "__main__":
    main()
