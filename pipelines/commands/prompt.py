"""A prompt for SQL where there is no program of DuckDB: the standard library's line editing.

Each statement, up to its semicolon, is what `strata sql` would be asked.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import click

from pipelines.commands.asking import show_rows
from pipelines.commands.display import Screen
from pipelines.commands.failures import known_errors, sentence
from transforms.interrupts import interrupt_running
from transforms.warehouse.queries import query_rows
from transforms.warehouse.shapes import Extent
from transforms.warehouse.warehouse import Warehouse

_HISTORY = Path("~/.strata_history")
_HISTORY_LINES = 1000
_REPEAT_SECONDS = 0.05
_FIRST, _NEXT = "strata> ", "   ...> "
_LEAVING = re.compile(r"\s*\.?(exit|quit)\s*;?\s*", re.IGNORECASE)
_GREETING = (
    "SQL over {place}, read-only, times in UTC. A statement ends with a semicolon: show tables; "
    "describe orders; Tab completes names, Ctrl-D leaves."
)
_NAMES = """
    select if(schema_name = 'main', view_name, schema_name || '.' || view_name) as name, false
    from duckdb_views() where not internal
    union select keyword_name, false
    from duckdb_keywords() where keyword_category = 'reserved'
    union select function_name, false
    from duckdb_functions() where not internal and schema_name = 'main'
    union select column_name, true from duckdb_columns() where not internal
    order by all
"""


def run_prompt(warehouse: Warehouse, extent: Extent | None, screen: Screen) -> None:
    """Ask for statements and show their rows until the end of the input.

    Raises `ConfigError` where nothing is loaded; what is wrong with a statement is shown.
    """
    with query_rows(warehouse, _NAMES, extent) as (_, rows):
        names = [(str(name), bool(is_column)) for name, is_column in rows]
    if sys.stdin.isatty():
        screen.message(_GREETING.format(place=warehouse.describe()))
    with _editing(names):
        for statement in _statements():
            try:
                _interruptible(partial(show_rows, warehouse, statement, extent, screen))
            except KeyboardInterrupt:
                screen.message("interrupted")
            except known_errors() as error:
                screen.message(sentence(error))


def _interruptible(work: Callable[[], None]) -> None:
    """Do something in a thread, as DuckDB lets Python hear of Ctrl-C only when it returns.

    Raises what it raises, and `KeyboardInterrupt` once a Ctrl-C has ended it.
    """
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work)
        try:
            done.result()
        except KeyboardInterrupt:
            while not done.done():  # what had not begun yet needs another call
                interrupt_running()
                wait([done], _REPEAT_SECONDS)
            raise


def _statements() -> Iterator[str]:
    """The statements of the input, each with its semicolon but for the last."""
    first, following = (_FIRST, _NEXT) if sys.stdin.isatty() else ("", "")
    lines: list[str] = []
    while True:
        try:
            line = input(following if lines else first)
        except KeyboardInterrupt:  # what was typed is given up
            click.echo()
            lines.clear()
            continue
        except EOFError:
            break
        if not lines and _LEAVING.fullmatch(line):
            return
        if line.strip() or lines:
            lines.append(line)
        if line.rstrip().endswith(";"):
            yield "\n".join(lines)
            lines.clear()
    if first:
        click.echo()
    if lines:
        yield "\n".join(lines)


def completer(names: Sequence[tuple[str, bool]]) -> Callable[[str, int], str | None]:
    """What gives readline the names that begin as a text does, one after another.

    `names` are those of views, macros and keywords (False) and of columns (True), which are
    completed behind the alias of a table, too.
    """
    plain = [name for name, _ in names]

    def complete(text: str, state: int) -> str | None:
        before, dot, _ = text.rpartition(".")
        offered = [name for name in plain if name.lower().startswith(text.lower())]
        if dot and not offered:
            behind = (f"{before}.{name}" for name, is_column in names if is_column)
            offered = [name for name in behind if name.lower().startswith(text.lower())]
        return offered[state] if state < len(offered) else None

    return complete


@contextmanager
def _editing(names: Sequence[tuple[str, bool]]) -> Iterator[None]:
    """Editing of lines, with history and completion, where Python has it."""
    try:
        import readline
    except ImportError:
        yield
        return
    history = _HISTORY.expanduser()
    readline.set_completer(completer(names))
    readline.set_completer_delims(" \t\n\"'`,;:()[]{}<>=+-*/%!|&~^")
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    readline.set_history_length(_HISTORY_LINES)
    with suppress(OSError):
        readline.read_history_file(history)
    try:
        yield
    finally:
        with suppress(OSError):
            readline.write_history_file(history)
