"""A process that has imported all of `strata` and forks a child for each command it is asked for.

Each line of its input is a command as JSON, with the arguments of `_be_strata`; for each it prints
a line with the exit code, the output and the errors. One that hangs is killed after a while, and
its errors say where it hung.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path

from pipelines.cli import main as strata
from tests.faults.children import in_child, run_main
from tests.faults.commands import import_everything
from tests.known_views import take_known_views


def main() -> None:
    """Answer until the input ends."""
    # The threads that others started sleep, and hold nothing that a child needs.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    import_everything()
    take_known_views()
    with tempfile.TemporaryDirectory(prefix="strata-commands-") as folder:
        for line in sys.stdin:
            command = json.loads(line)
            ended = in_child(partial(_be_strata, **command), Path(folder))
            print(json.dumps([ended.code, ended.out, ended.err]), flush=True)


def _be_strata(
    arguments: list[str], environment: dict[str, str], folder: str, open_files: int
) -> int:
    """Become what a new process would be, but for its imports."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # what was chosen before is another one's
    os.chdir(folder)
    if open_files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))
    sys.argv = ["strata", *arguments]
    return run_main(lambda _: strata(), arguments)


if __name__ == "__main__":
    main()
