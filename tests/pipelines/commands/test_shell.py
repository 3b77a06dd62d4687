"""`strata shell`: DuckDB's own program on the warehouse, at a terminal and in a pipe."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.duckdb15_kit import PROGRAM
from tests.transforms.warehouse_kit import history_segment, load_folder

_STRATA = Path(sys.executable).parent / "strata"
_SECONDS = 60.0
_CTRL_C, _CTRL_D = "\x03", "\x04"
_LONG = "select count(*) from range(1000000000) a, range(1000) b where a.range * b.range % 7 = 9;"
_QUESTIONS, _ANSWERS = "\x1b]11;?\x07\x1b[c", "\x1b]11;rgb:0000/0000/0000\x07\x1b[?6c"
"""What DuckDB's program asks a terminal first: its background, and what it is."""


@dataclass
class Terminal:
    """The other side of a program's terminal: what was typed and what came."""

    process: subprocess.Popen[bytes]
    descriptor: int
    unread: str = ""

    def type(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    def expect(self, text: str) -> str:
        """Wait for a text; returns all that came until then."""
        deadline = time.monotonic() + _SECONDS
        while text not in self.unread:
            left = deadline - time.monotonic()
            if left < 0 or not select.select([self.descriptor], [], [], left)[0]:
                pytest.fail(f"{text!r} did not come, but {self.unread!r}")
            self.unread += os.read(self.descriptor, 4096).decode(errors="replace")
        before, _, self.unread = self.unread.partition(text)
        return before

    def wait_until_busy(self) -> None:
        """Wait until the program has computed for half a second, as for a query that takes long."""
        begun = self._ticks()
        while self._ticks() - begun < os.sysconf("SC_CLK_TCK") / 2:
            time.sleep(0.01)

    def _ticks(self) -> int:
        return int(self._figures()[11])  # of user mode

    def _figures(self) -> list[str]:
        """Those of the kernel, of the program that has the terminal: the last of the children."""
        pid = str(self.process.pid)
        while children := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            pid = children[-1]
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()

    def leave(self) -> int:
        """Type Ctrl-D at the prompt; returns the exit code: 1 where a statement has failed."""
        self.type(_CTRL_D)
        return self.process.wait(_SECONDS)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shell")
    history_segment(folder / "source", last=10)
    load_folder(folder / "warehouse", folder / "source")
    return folder / "warehouse"


@contextmanager
def terminal(warehouse: Path, home: Path, *, zone: str = "America/New_York") -> Iterator[Terminal]:
    """`strata shell` at a terminal of its own, which has answered what the program asks it."""
    descriptor, other = pty.openpty()
    asked = [str(_STRATA), "shell", "--warehouse", str(warehouse)]
    # The first terminal that the leader of a session opens is the one whose Ctrl-C it hears.
    opened = 'tty=$1; shift; exec "$@" <"$tty" >"$tty" 2>&1'
    process = subprocess.Popen(
        ["/bin/sh", "-c", opened, "sh", os.ttyname(other), *asked],
        env={"HOME": str(home), "PATH": "", "TZ": zone, "TERM": "dumb"},
        start_new_session=True,
    )
    try:
        shell = Terminal(process, descriptor)
        shell.expect(_QUESTIONS)
        shell.type(_ANSWERS)
        shell.expect("current")
        yield shell
    finally:
        process.kill()
        process.wait()
        os.close(descriptor)
        os.close(other)


def strata(
    *arguments: object, home: Path, path: str = "", stdin: str = "", modules: str = ""
) -> subprocess.CompletedProcess[str]:
    """A command of Strata without a terminal; programs are those in `path`."""
    return subprocess.run(
        [str(_STRATA), *map(str, arguments)],
        input=stdin,
        env={"HOME": str(home), "PATH": path, "PYTHONPATH": modules},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_program_opens_the_warehouse_read_only_and_in_utc(
    warehouse: Path, tmp_path: Path
) -> None:
    with terminal(warehouse, tmp_path) as shell:
        shell.type("select current_setting('TimeZone') || '!';\n")
        shell.expect("UTC!")
        shell.type("create table mine as select 1;\n")
        shell.expect("read-only mode!")
        shell.type(".tables blocks\n")
        shell.expect("vega_time_date")
        shell.type(".mode csv\nselect 'of,' || count(*) from blocks;\n")
        shell.expect('"of,10"')
        assert shell.leave() == 1


def test_a_question_gets_its_answer(warehouse: Path, tmp_path: Path) -> None:
    asked = ("shell", "--warehouse", warehouse, "-csv", "-c", "select 1 as answer")
    done = strata(*asked, home=tmp_path)
    assert (done.stdout, done.stderr) == ("answer\n1\n", "")


def test_ctrl_c_ends_a_query_and_not_the_shell(warehouse: Path, tmp_path: Path) -> None:
    with terminal(warehouse, tmp_path) as shell:
        shell.type("select 'begun ' || 1;\n")
        shell.expect("begun 1")
        shell.type(f"{_LONG}\n")
        shell.expect("% 7 = 9;")
        shell.wait_until_busy()
        shell.type(_CTRL_C)
        shell.expect("current")
        shell.type("select 'still ' || 'there';\n")
        shell.expect("still there")
        assert shell.leave() == 1


def test_a_shell_keeps_its_snapshot_and_the_next_one_opens_the_newest(tmp_path: Path) -> None:
    source, warehouse = tmp_path / "source", tmp_path / "warehouse"
    history_segment(source, last=10)
    load_folder(warehouse, source)
    with terminal(warehouse, tmp_path) as shell:
        history_segment(source, first=11, last=20)
        load_folder(warehouse, source)
        shell.type("select 'of ' || count(*) || ' to ' || max(height) from blocks;\n")
        shell.expect("of 10 to 10")
        assert shell.leave() == 0
    asked = ("-csv", "-noheader", "-c", "select count(*), max(height) from blocks")
    assert strata("shell", "--warehouse", warehouse, *asked, home=tmp_path).stdout == "20,20\n"


def test_the_program_gets_what_follows_as_its_own_arguments(
    warehouse: Path, tmp_path: Path
) -> None:
    question = "select count(*) as blocks from blocks where height <= 10"
    shell = ("shell", "--warehouse", warehouse)
    for asked in (("-csv", "-c", question), ("-csv", question)):
        assert strata(*shell, *asked, home=tmp_path).stdout == "blocks\n10\n"
    piped = strata(*shell, "-csv", home=tmp_path, stdin=f".headers off\n{question};\nfrom nothing;")
    assert (piped.returncode, piped.stdout) == (1, "10\n")
    assert "Table with name nothing does not exist" in piped.stderr


def test_without_the_program_the_error_says_what_to_install_and_what_else_to_do(
    warehouse: Path, tmp_path: Path
) -> None:
    # As the package is where no wheel fits: without the program inside.
    (hidden := tmp_path / "hidden" / "duckdb_cli").mkdir(parents=True)
    (hidden / "__init__.py").touch()
    without = partial(strata, home=tmp_path, modules=str(hidden.parent))
    shell = ("shell", "--warehouse", warehouse, "-csv", "-c", "select 40 + 2 as answer")
    refused = without(*shell)
    assert refused.returncode == 2
    assert refused.stderr == (
        "strata: the program duckdb is not there: pip install duckdb-cli, which strata[pipeline] "
        "brings, or ask without it: strata sql 'select ...'\n"
    )
    elsewhere = without("sql", "select 40 + 2", "--warehouse", warehouse)
    assert "42" in elsewhere.stdout, elsewhere.stderr
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "duckdb").symlink_to(PROGRAM)
    assert without(*shell, path=str(tmp_path / "bin")).stdout == "answer\n42\n"


def test_nothing_loaded_is_a_sentence(tmp_path: Path) -> None:
    done = strata("shell", "--warehouse", tmp_path / "none", home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "load segments first" in done.stderr
