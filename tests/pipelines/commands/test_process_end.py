"""How a process of `strata` ends: all is written, and the code is that of what happened."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = "from strata.cli import main; main()"
_STARTED = """
import atexit, threading, time
from pathlib import Path
threading.Thread(target=lambda: (time.sleep(0.3), Path("thread").write_text("done"))).start()
from strata.cli import main
import pipelines.cli
run = pipelines.cli._run
def running(arguments):
    atexit.register(Path("end").write_text, "done")
    return run(arguments)
pipelines.cli._run = running
main()
"""


def _strata(*arguments: str, shell: str = "", program: str = _PROGRAM) -> tuple[int, str, str]:
    """Run a command behind a shell's redirection; its code, and what it said."""
    command = [sys.executable, "-P", "-c", program, *arguments]
    done = subprocess.run(
        ["/bin/sh", "-c", f'"$0" "$@" {shell}', *command], capture_output=True, text=True
    )
    return done.returncode, done.stdout, done.stderr


def test_all_that_was_printed_is_there_and_the_code_is_kept() -> None:
    code, out, err = _strata("export", "--help")
    assert (code, err) == (0, "")
    assert out.startswith("Usage: strata export")
    assert out.endswith(".\n")
    assert _strata("no-such-command")[0] == 2


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_stop_nothing(tmp_path: Path, closed: str) -> None:
    target = tmp_path / "sample"
    code, _, err = _strata("sample", str(target), shell=closed)
    assert (code, err) == (0, "")
    assert len(list(target.glob("*.zip"))) == 8


def test_a_full_device_behind_the_output_is_said() -> None:
    code, _, err = _strata("--help", shell="> /dev/full")
    assert code not in {0, None}
    assert "No space left on device" in err


def test_threads_and_what_others_do_at_the_end_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[3])]))
    code, out, _ = _strata("--help", program=_STARTED)
    assert code == 0
    assert "Usage" in out
    assert Path("thread").read_text() == Path("end").read_text() == "done"
