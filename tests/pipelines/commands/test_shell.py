"""`strata shell` at a terminal: in DuckDB's own program, and in the prompt where there is none."""

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
from pathlib import Path

import pytest

from pipelines.commands.prompt import completer
from tests.duckdb15_kit import duckdb15_program
from tests.transforms.warehouse_kit import history_segment, load_folder
from transforms.duck import attached, working_connection

_STRATA = Path(sys.executable).parent / "strata"
_SECONDS = 60.0
_PROMPT = "strata> "
_TAB, _UP, _CTRL_C, _CTRL_D = "\t", "\x1b[A", "\x03", "\x04"
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

    def ask(self, line: str) -> None:
        """Wait for the prompt and type a line."""
        self.expect(_PROMPT)
        self.type(f"{line}\n")

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

    def wait_until_idle(self) -> None:
        """Wait until the program waits: a Ctrl-C that comes before is heard with the next key."""
        while self._figures()[0] != "S":
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
        """Type Ctrl-D at the prompt; returns the exit code."""
        self.expect(_PROMPT)
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
    """`strata shell` at a terminal of its own; programs are those in `home/bin`."""
    descriptor, other = pty.openpty()
    asked = [str(_STRATA), "shell", "--warehouse", str(warehouse)]
    # The first terminal that the leader of a session opens is the one whose Ctrl-C it hears.
    opened = 'tty=$1; shift; exec "$@" <"$tty" >"$tty" 2>&1'
    process = subprocess.Popen(
        ["/bin/sh", "-c", opened, "sh", os.ttyname(other), *asked],
        env={"HOME": str(home), "PATH": str(home / "bin"), "TZ": zone, "TERM": "dumb"},
        start_new_session=True,
    )
    try:
        yield Terminal(process, descriptor)
    finally:
        process.kill()
        process.wait()
        os.close(descriptor)
        os.close(other)


def with_program(home: Path) -> Path:
    """A home in which DuckDB 1.5 is on the PATH."""
    (home / "bin").mkdir()
    (home / "bin" / "duckdb").symlink_to(duckdb15_program())
    return home


def test_the_prompt_completes_names_asks_and_tells_what_is_wrong(
    warehouse: Path, tmp_path: Path
) -> None:
    with terminal(warehouse, tmp_path) as shell:
        shell.expect("Ctrl-D leaves.")
        shell.ask("select 'of ' || count(*) as found")
        shell.expect("...> ")
        shell.type(f"from checkp{_TAB} right join blocks on heigh{_TAB} = block_height;\n")
        shell.expect("of 10")
        shell.ask("select nothing from orders;")
        shell.expect('the query cannot be run: Binder Error: Referenced column "nothing" not found')
        shell.ask("create table mine as select 1;")
        shell.expect("the warehouse is only read")
        shell.ask("select current_setting('TimeZone') || '!';")
        shell.expect("UTC!")
        assert shell.leave() == 0


def test_the_prompt_remembers_what_was_typed_before(warehouse: Path, tmp_path: Path) -> None:
    with terminal(warehouse, tmp_path) as shell:
        shell.ask("select 40 + 2 as a_sum;")
        shell.expect("42")
        assert shell.leave() == 0
    with terminal(warehouse, tmp_path) as shell:
        shell.expect(_PROMPT)
        shell.type(_UP)
        shell.expect("select 40 + 2 as a_sum;")
        shell.type("\n")
        shell.expect("42")
        assert shell.leave() == 0


def test_ctrl_c_ends_a_query_and_not_the_prompt(warehouse: Path, tmp_path: Path) -> None:
    with terminal(warehouse, tmp_path) as shell:
        shell.ask(_LONG)
        shell.wait_until_busy()
        shell.type(_CTRL_C)
        shell.expect("interrupted")
        shell.expect(_PROMPT)
        shell.type("select 'given up")
        shell.expect("given up")
        shell.wait_until_idle()
        shell.type(_CTRL_C)
        shell.ask("select 'still ' || 'there';")
        shell.expect("still there")
        shell.ask("exit")
        assert shell.process.wait(_SECONDS) == 0


def test_the_program_of_duckdb_opens_the_warehouse_in_utc(warehouse: Path, tmp_path: Path) -> None:
    with terminal(warehouse, with_program(tmp_path)) as shell:
        shell.expect(_QUESTIONS)
        shell.type(_ANSWERS)
        shell.expect("current")
        shell.type("select current_setting('TimeZone') || '!', version();\n")
        shell.expect("UTC!")
        shell.expect("v1.5.")
        shell.type("create table mine as select 1;\n")
        shell.expect("read-only mode!")
        shell.type("select 'of ' || count(*) from blocks;\n")
        shell.expect("of 10")
        shell.type(".exit\n")
        shell.process.wait(_SECONDS)


def test_ctrl_c_ends_a_query_of_the_program_and_not_the_shell(
    warehouse: Path, tmp_path: Path
) -> None:
    with terminal(warehouse, with_program(tmp_path)) as shell:
        shell.expect(_QUESTIONS)
        shell.type(_ANSWERS)
        shell.expect("current")
        shell.type("select 'begun ' || 1;\n")
        shell.expect("begun 1")
        shell.type(f"{_LONG}\n")
        shell.expect("% 7 = 9;")
        shell.wait_until_busy()
        shell.type(_CTRL_C)
        shell.expect("current")
        shell.type("select 'still ' || 'there';\n")
        shell.expect("still there")
        shell.type(".exit\n")
        shell.process.wait(_SECONDS)


def test_where_the_program_is_too_old_the_shell_says_so_and_asks_itself(
    warehouse: Path, tmp_path: Path
) -> None:
    history_segment(tmp_path / "source", last=10)
    load_folder(tmp_path / "warehouse", tmp_path / "source")
    views = tmp_path / "warehouse" / "current.duckdb"
    views.rename(tmp_path / "made.duckdb")
    with (
        working_connection(tmp_path) as con,
        attached(con, tmp_path / "made.duckdb", "made", "(read_only)"),
        attached(con, views, "new", "(storage_version 'v2.0.0')"),
    ):
        con.execute("copy from database made to new")
    with terminal(tmp_path / "warehouse", with_program(tmp_path)) as shell:
        shell.expect(f"{tmp_path}/bin/duckdb cannot open {views}: ")
        shell.expect("Trying to read a database file with version number")
        shell.ask("select 'of ' || count(*) from blocks;")
        shell.expect("of 10")
        assert shell.leave() == 0


def test_statements_may_come_from_a_pipe(warehouse: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [_STRATA, "shell", "--warehouse", warehouse],
        input="select count(*)\n as blocks from blocks;\n\nselec;\nselect max(height) from blocks",
        env={"HOME": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["blocks", "10", "max(height)", "10"]
    assert done.stderr.startswith("the query cannot be run")


def test_nothing_loaded_is_a_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [_STRATA, "shell", "--warehouse", tmp_path / "none"],
        env={"HOME": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "load segments first" in done.stderr


def test_blocks_that_nothing_holds_are_a_sentence(warehouse: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [_STRATA, "shell", "--warehouse", warehouse, "--blocks", "98-99"],
        env={"HOME": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "holds nothing of blocks 98-99" in done.stderr


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ord", ["orders", "orders_live"]),
        ("exact.o", ["exact.orders"]),
        ("o.ve", ["o.vega_time", "o.vega_time_date"]),
        ("nothing", []),
    ],
)
def test_a_name_is_completed(text: str, found: list[str]) -> None:
    views, columns = ["exact.orders", "orders", "orders_live"], ["vega_time", "vega_time_date"]
    complete = completer([*((name, False) for name in views), *((name, True) for name in columns)])
    assert [complete(text, state) for state in range(len(found) + 1)] == [*found, None]
