"""Ctrl-C and SIGTERM end every command at once with one line, and the next run completes."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from pipelines.instance import open_instance
from tests.command_kit import run_strata
from tests.pipelines.kit import make_segment, site_settings

STRATA = Path(sys.executable).parent / "strata"
WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
LONG = "select max(md5(range::varchar)) from range(10000000000) group by range % 100000"


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`source` alone, and `loaded`, and `published`: the same history, further each time."""
    folder = tmp_path_factory.mktemp("sites")
    for name, commands in (("source", ()), ("loaded", ("load",)), ("done", ("load", "publish"))):
        place = folder / name
        settings = site_settings(place)
        for number in range(3):
            make_segment(settings, number)
        for command in commands:
            assert run_strata(command, environment=environment(place)).returncode == 0
    return folder


def environment(place: Path) -> dict[str, str]:
    return {
        **os.environ,
        "STRATA_SOURCE": str(place / "source"),
        "STRATA_WAREHOUSE": str(place / "warehouse"),
        "STRATA_ARCHIVE": str(place / "archive"),
        "DAGSTER_HOME": str(place / "home"),
    }


def started(place: Path, *arguments: str) -> subprocess.Popen[str]:
    """A command that hears signals already: before that it is Python that starts."""
    process = subprocess.Popen(
        [STRATA, *arguments],
        env=environment(place),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None:
        status = Path(f"/proc/{process.pid}/status").read_text()
        caught = int(status.partition("SigCgt:")[2].split()[0], 16)
        if caught >> (signal.SIGTERM - 1) & 1:
            break
        time.sleep(0.005)
    return process


COMMANDS = [
    ("source", ("load",), 2.0),
    ("source", ("run",), 6.0),
    ("loaded", ("publish",), 2.0),
    ("done", ("verify",), 2.0),
    ("done", ("compact",), 1.0),
    ("done", ("export", "orders", "1", "30", "--out", "OUT"), 1.0),
    ("done", ("publish", "--replace", "a test"), 2.0),
    ("done", ("repair",), 1.0),
]


SIGNALS = (signal.SIGINT, signal.SIGTERM)
_WRITING = 3


def _cases() -> Iterator[ParameterSet]:
    """Each command with both signals in `make crash-test`, else a few that write.

    One handler hears both for all commands; Dagster, which has handlers of its own, gets both.
    """
    for at, case in enumerate(COMMANDS):
        for number in SIGNALS:
            is_short = case[1] == ("run",) or (at < _WRITING and number is SIGNALS[at % 2])
            marks = () if is_short else (pytest.mark.crash,)
            yield pytest.param(*case, number, marks=marks, id=f"{' '.join(case[1])} {number.name}")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize(("site", "command", "seconds", "number"), list(_cases()))
def test_a_signal_at_any_moment_ends_it_with_one_line(
    sites: Path,
    tmp_path: Path,
    site: str,
    command: tuple[str, ...],
    seconds: float,
    number: signal.Signals,
) -> None:
    place = Path(shutil.copytree(sites / site, tmp_path / "site"))
    arguments = [str(tmp_path) if one == "OUT" else one for one in command]
    process = started(place, *arguments)
    time.sleep(random.Random(f"{command} {number}").uniform(0, seconds))  # any moment will do
    process.send_signal(number)
    _, said = process.communicate(timeout=60)

    if command == ("run",):  # which says first what it loads
        said = re.sub(
            r"\ALoading [^\n]*, through Dagster\n(?:blocks [^\n]* done [^\n]*\n)*", "", said
        )
    ended = (process.returncode, said)
    if ended[0] != 0 and ended != (-number, ""):  # done before, or Python had not even begun
        assert ended == (128 + number, f"strata: {WORDS[number]}: run it again to go on\n")
    if command == ("run",):
        with open_instance(place / "home") as instance:
            assert not [run.status for run in instance.get_runs() if not run.is_finished]
    again = run_strata(*arguments, environment=environment(place))
    assert again.returncode == 0, again.stderr


ENDING = """
import atexit, os, signal
from pipelines.cli import main
atexit.register(os.kill, os.getpid(), signal.{name})
main()
"""


def test_a_signal_after_the_end_leaves_done_what_is_done(sites: Path) -> None:
    ending = _run_script(ENDING, signal.SIGTERM, sites, "status")

    assert (ending.returncode, ending.stderr) == (0, "")
    assert "30" in ending.stdout


IMPORTING = """
import enum, os, signal
from pipelines.cli import main

create = enum.EnumType._create_


def signalled(cls, class_name, *arguments, **options):
    if class_name == "ExplainType":  # which DuckDB makes, in C++, when it is imported
        os.kill(os.getpid(), signal.{name})
    return create(cls, class_name, *arguments, **options)


enum.EnumType._create_ = signalled
main()
"""


def test_a_signal_while_modules_are_imported_ends_it_with_one_line(sites: Path) -> None:
    number = signal.SIGINT
    importing = _run_script(IMPORTING, number, sites, "verify")

    assert importing.returncode == 128 + number
    assert importing.stderr == f"strata: {WORDS[number]}: run it again to go on\n"


FINALIZING = """
import os, signal, sys, time, weakref
from dagster._utils.interrupts import raise_interrupts_as
from dagster._core.errors import DagsterExecutionInterruptedError
from pipelines.commands import status
from pipelines.cli import main


def signalled(*arguments):
    try:
        with raise_interrupts_as(DagsterExecutionInterruptedError):  # as during a run
            reference = weakref.ref(type("Value", (), {{}})(), signal_itself)
            while True:
                time.sleep(0.01)
    except DagsterExecutionInterruptedError:
        print("noted", flush=True)


def signal_itself(reference):
    os.kill(os.getpid(), signal.{name})


status.site_status = signalled
main()
"""


def test_a_signal_whose_handler_raises_in_a_destructor_comes_again(sites: Path) -> None:
    finalizing = _run_script(FINALIZING, signal.SIGINT, sites, "status")

    assert (finalizing.returncode, finalizing.stdout) == (130, "noted\n")
    assert finalizing.stderr == "strata: interrupted: run it again to go on\n"


def _run_script(
    script: str, number: signal.Signals, sites: Path, command: str
) -> subprocess.CompletedProcess[str]:
    """Run a command by a script that sends the signal itself."""
    return subprocess.run(
        [sys.executable, "-c", script.format(name=number.name), command],
        env=environment(sites / "done"),
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_a_running_query_is_stopped(sites: Path) -> None:
    process = started(sites / "done", "sql", LONG)
    while _processor_seconds(process.pid) < 2.0:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)

    assert process.returncode == 130
    assert said == "strata: interrupted: run it again to go on\n"


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
