"""Loads and readers as real processes: side by side, and out of space.

Loads that race and that are killed are in `tests/model` and `tests/end_to_end`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.segments_kit import table_rows
from tests.transforms.warehouse_kit import (
    Held,
    exact_tables,
    history_segment,
    load_folder,
    query,
    state_segment,
    verify,
)
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse

_PROJECT = Path(__file__).parents[3]

# What an analyst's own programme is: DuckDB and a path, nothing of ours.
_ANALYST = """
import sys, duckdb
con = duckdb.connect(sys.argv[1], read_only=True)
for line in sys.stdin:
    print(con.execute(line).fetchall(), flush=True)
"""


class _Load:
    """A loading process."""

    def __init__(self, root: Path, folder: Path, *options: str | Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.transforms.load_process", root, folder, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=_PROJECT,
        )

    def let_run(self) -> None:
        """Give it a moment; it must be still running after it."""
        with pytest.raises(subprocess.TimeoutExpired):
            self.process.wait(0.02)

    def report(self) -> dict[str, Any]:
        """Wait for its end; it must have gone well."""
        out, errors = self.process.communicate()
        assert self.process.returncode == 0, errors
        found: dict[str, Any] = json.loads(out)
        return found

    def failure(self) -> str:
        """Wait for its end; it must have failed. Gives the last line of what it said."""
        _, errors = self.process.communicate()
        assert self.process.returncode == 1, errors
        return str(errors.strip().splitlines()[-1])


class _Analyst:
    """A process that keeps one connection to the current catalog and asks when it is asked to."""

    def __init__(self, root: Path, cwd: Path = Path("/")) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _ANALYST, root / "current.duckdb"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=cwd,
        )

    def ask(self, sql: str) -> str:
        """The rows of a query, as text."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(sql + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def __enter__(self) -> _Analyst:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(input="")
        assert self._process.returncode == 0


@contextmanager
def _held_up(root: Path, folder: Path, fifo: Path) -> Iterator[_Load]:
    """A loading process that stands still in the middle of its work until the block ends."""
    os.mkfifo(fifo)
    load = _Load(root, folder, "--wait", fifo)
    gate = _opened_by_both(fifo, load)
    try:
        yield load
    finally:
        os.close(gate)


def _opened_by_both(fifo: Path, load: _Load) -> int:
    while True:
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody has opened the other end yet
            load.let_run()


def _segments(folder: Path, *firsts: int) -> list[Path]:
    """Segments of two blocks each, with state and some orders."""
    return [
        state_segment(
            folder,
            first=first,
            last=first + 1,
            tables={
                "orders": table_rows("orders", {"price": "9" * 50}, {}, first=first),
                "parties": table_rows("parties", *[{}] * first, first=first),
            },
        )
        for first in firsts
    ]


def _assert_whole(warehouse: Warehouse, segments: list[Path]) -> None:
    """The warehouse holds exactly these segments, each once, and all of it is provably right."""
    catalog = warehouse.catalog()
    held = [segment.name.file_name for segment in catalog.segments()]
    assert held == [segment.name for segment in segments]
    heights = "select count(*), count(distinct height) from blocks"
    assert query(warehouse, heights) == [(2 * len(segments), 2 * len(segments))]
    assert list(verify(warehouse)) == []
    for segment in segments:
        assert all(exact_tables(warehouse, segment).values())
    assert list(warehouse.snapshot().quarantine) == []
    assert list((warehouse.cache / "scratch").iterdir()) == []


def _named_files(root: Path) -> set[str]:
    """The folder and the blocks of each file that the newest snapshot names."""
    snapshot = open_warehouse(root).snapshot()
    return {key.partition(".")[0] for key in snapshot.named_keys()}


# --- side by side --------------------------------------------------------------------------------


def test_the_catalog_opens_from_any_folder_without_us(held: Held, tmp_path: Path) -> None:
    for folder in (Path("/"), tmp_path):
        with _Analyst(held.warehouse.cache, cwd=folder) as analyst:
            assert analyst.ask("select max(height), count(*) from blocks") == "[(30, 30)]"
            assert analyst.ask("select count(*) from exact.orders") == "[(7,)]"


def test_a_load_and_an_analyst_do_not_notice_each_other(tmp_path: Path) -> None:
    root, folder = tmp_path / "w", tmp_path / "s"
    segments = _segments(folder, 1)
    load_folder(root, folder)
    segments += _segments(folder, 3)
    asked = "select (select max(height) from blocks), (select count(*) from parties)"
    with _Analyst(root) as early:
        assert early.ask(asked) == "[(2, 1)]"
        with _held_up(root, folder, tmp_path / "fifo") as load, _Analyst(root) as during:
            assert during.ask(asked) == "[(2, 1)]"
            assert early.ask(asked) == "[(2, 1)]"
        assert load.report()["loaded"] == ["3-4"]
        assert early.ask(asked) == "[(2, 1)]"
        with _Analyst(root) as late:
            assert late.ask(asked) == "[(4, 3)]"
            open_warehouse(root).sweep()
            assert early.ask(asked) == "[(2, 1)]"
    _assert_whole(open_warehouse(root), segments)


def test_a_reader_sees_a_catalog_at_every_moment(tmp_path: Path) -> None:
    """The pointer is swapped, never removed: whoever opens it finds one snapshot or the next."""
    _segments(tmp_path / "s", 1)
    load_folder(tmp_path / "w", tmp_path / "s")
    _segments(tmp_path / "s", 3, 5, 7)
    load = _Load(tmp_path / "w", tmp_path / "s", "--each")
    seen: list[int] = []
    has_ended = False
    while not has_ended:  # once more after it has ended
        has_ended = load.process.poll() is not None
        with duckdb.connect((tmp_path / "w" / "current.duckdb").resolve(), read_only=True) as con:
            seen += [row[0] for row in con.execute("select max(height) from blocks").fetchall()]
    load.report()
    assert seen == sorted(seen)
    assert len(set(seen)) > 1


# --- out of space --------------------------------------------------------------------------------


def _great_segment(folder: Path) -> Path:
    rows = [{"reference": f"{number * 7919 % 65_521:x}" * 20} for number in range(4000)]
    orders = table_rows("orders", *rows, first=3)
    return history_segment(folder, first=3, last=4, tables={"orders": orders})


def test_a_load_that_may_not_write_fails_and_leaves_all_as_it_was(tmp_path: Path) -> None:
    root, folder = tmp_path / "w", tmp_path / "s"
    segments = [history_segment(folder, last=2)]
    load_folder(root, folder)
    before = _named_files(root)
    segments.append(_great_segment(folder))
    for largest in (10_000, 200_000):
        message = _Load(root, folder, "--largest", str(largest)).failure()
        assert "too large" in message.lower()
        assert _named_files(root) == before
        assert query(open_warehouse(root), "select max(height) from blocks") == [(2,)]
    load_folder(root, folder)
    _assert_whole(open_warehouse(root), segments)


def _failure(root: Path, folder: Path) -> str:
    """What a load dies of; empty where it lives."""
    try:
        load_folder(root, folder)
    except (OSError, duckdb.Error) as error:
        return str(error)
    return ""


def test_a_full_disk_leaves_all_as_it_was(tmp_path: Path) -> None:
    disk, folder = tmp_path / "disk", tmp_path / "s"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4096k", "strata-test", disk], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("no file system may be mounted here")
    try:
        segments = [history_segment(folder, last=2)]
        load_folder(disk / "w", folder)
        before = _named_files(disk)
        segments.append(_great_segment(folder))
        failures = 0
        for kilobytes in (*range(1536, 10240, 512), 65536):
            resize = f"remount,size={kilobytes}k"
            subprocess.run(["mount", "-o", resize, "strata-test", disk], check=True)
            message = _failure(disk / "w", folder)
            if not message:
                break
            failures += 1
            assert "No space left" in message
            assert _named_files(disk) == before
        assert failures >= 3
        _assert_whole(open_warehouse(disk / "w"), segments)
    finally:
        subprocess.run(["umount", disk], check=True)
