"""One bit of a published or loaded file is another one: `strata verify` has to find it.

What it may miss is what nobody reads: an older snapshot of the log, a gap in a file of DuckDB, a
file of the lake that a correction replaced. So where it finds nothing, everything is read, and has
to be as before.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tests.faults.children import Ended, in_child, use
from tests.faults.commands import facts, run_strata
from tests.faults.orders import Order
from tests.faults.places import BLOCKS, OpenSnapshots, Place, write_captures
from tests.faults.results import DAMAGED, Result, ending_of
from tests.faults.scenarios import IN_BATCHES, LOAD, PUBLISH, REPLACE, correct
from tests.segments_kit import KIT_CHAIN
from transforms.errors import StrataError
from transforms.warehouse.warehouse_address import open_warehouse

_SETTINGS = IN_BATCHES
_VERIFY = ["verify", "--json"]
_SEGMENTS = 2
_NOT_KEPT = (
    "parts",
    "rendered",
    "scratch",
    "leases",
    "proofs.sqlite",
    "sound.json",
    ".merging",
    ".views",
)
"""What only a running process needs, or has a hash beside it that publishing compares."""


@dataclass(frozen=True, slots=True)
class _Bit:
    path: str
    at: int
    bit: int

    def __str__(self) -> str:
        return f"bit {self.bit} of byte {self.at} of {self.path}"

    def flip(self, home: Path) -> None:
        with (home / self.path).open("r+b") as file:
            file.seek(self.at)
            (old,) = file.read(1)
            file.seek(self.at)
            file.write(bytes([old ^ 1 << self.bit]))


class Flips:
    """The tries of one process, at one place."""

    def __init__(self, folder: Path, order: Order) -> None:
        self.place = Place(folder / "home", folder / "notes")
        self._snapshots = OpenSnapshots(self.place, folder / "states")
        self._order = order

    def results(self) -> Iterator[Result]:
        """Flip a bit of a file of each kind in turn, and verify."""
        self._restore()
        assert self._run(_VERIFY).code == 0, "an undamaged site is found damaged"
        self._restore()
        read = self._read()
        assert read, "an undamaged site cannot be read"
        kinds = self._files
        for number in self._order.numbers:
            dice = random.Random(f"{self._order.seed} flips {number}")
            kind = sorted(kinds)[number % len(kinds)]
            path = dice.choice(kinds[kind])
            self._restore()
            size = (self.place.home / path).stat().st_size
            bit = _Bit(path, dice.randrange(size), dice.randrange(8))
            bit.flip(self.place.home)
            yield self._result(number, kind, bit, self._run(_VERIFY), read)

    def _result(self, number: int, kind: str, bit: _Bit, ended: Ended, read: str) -> Result:
        problems, ending = [], ending_of(ended)
        if ended.hung or "Traceback" in ended.err + ended.out:
            problems.append("it hangs" if ended.hung else "it printed a traceback")
        elif ended.code == 0:
            ending = "not found: nobody reads it"
            is_read = kind.startswith("archive") and "/lake/" not in bit.path
            if is_read or self._read() != read:
                ending = "missed"
                problems.append("what is read has changed, and verify says that all is well")
        elif ended.code != DAMAGED or not _findings(ended):
            problems.append(f"it ended with {ending}, and {len(_findings(ended))} findings")
        output = f"{ended.out[-600:]}\n{ended.err[-3000:]}" if problems else ""
        return Result(self._order.campaign, number, kind, str(bit), ending, problems, output)

    def _restore(self) -> None:
        self._snapshots.restore("flips", _everything)

    @cached_property
    def _files(self) -> Mapping[str, list[str]]:
        """Every file that has bytes, by what it is."""
        home = self.place.home
        kinds: dict[str, list[str]] = {}
        for top in ("archive", "warehouse"):
            for path in sorted((home / top).rglob("*")):
                inside = path.relative_to(home / top)
                is_kept = not any(part.startswith((".", *_NOT_KEPT)) for part in inside.parts)
                if path.is_file() and path.stat().st_size and is_kept:
                    kinds.setdefault(f"{top}: {_kind(inside)}", []).append(f"{top}/{inside}")
        return kinds

    def _run(self, arguments: list[str]) -> Ended:
        def work() -> int:
            use(self.place.environment(_SETTINGS))
            return run_strata(arguments)

        return in_child(work, self.place.notes)

    def _read(self) -> str:
        """Hashes of what readers of the warehouse, and of the lake's logs, get; empty: an error."""

        def work() -> int:
            use(self.place.environment(_SETTINGS))
            try:
                print(everything_read(self.place.warehouse), lake_read(self.place.archive))
            except (StrataError, OSError, duckdb.Error, DeltaError):
                return 1
            return 0

        ended = in_child(work, self.place.notes)
        return ended.out if ended.code == 0 else ""


def _findings(ended: Ended) -> list[Any]:
    try:
        return list(json.loads(ended.out)["findings"])
    except ValueError:
        return []


def lake_read(archive: Path) -> str:
    """A hash of what the logs of Delta tables say to their readers: columns, files, statistics."""
    digest = hashlib.sha256()
    for log in sorted(archive.glob("*/lake/*/_delta_log")):
        table = DeltaTable(log.parent)
        actions = table.get_add_actions(flatten=True)
        names = [name for name in actions.schema.names if name != "modification_time"]
        said = {name: actions.column(name).to_pylist() for name in names}
        schema = json.dumps(json.loads(table.schema().to_json()), sort_keys=True)
        digest.update(f"{log} {schema} {said}".encode())
    return digest.hexdigest()


def everything_read(path: Path) -> str:
    """A hash of all rows of all tables, as `strata sql` shows them, and of what was loaded."""
    digest = hashlib.sha256(json.dumps(facts(str(path)), default=str).encode())
    warehouse = open_warehouse(path)
    with warehouse.connect() as con:
        copies = [refused.copy for refused in warehouse.snapshot().quarantine if refused.copy]
        for copy in copies:
            digest.update((path / copy.key).read_bytes())
        views = con.execute(
            "select schema_name, view_name from duckdb_views() where not internal order by all"
        ).fetchall()
        for schema, view in views:
            rows = con.execute(f'from "{schema}"."{view}" order by all').fetchall()
            digest.update(repr((schema, view, rows)).encode())
    return digest.hexdigest()


def _kind(path: Path) -> str:
    """What a file is: its folder where that says it, its name or ending where it does not."""
    top = path.parts[0]
    if top in ("log", "data", "index", "state", "manifests", "spam", "quarantine"):
        return top
    if "lake" in path.parts:
        return "lake's logs" if "_delta_log" in path.parts else "lake's rows"
    if path.suffix in (".zip", ".html") or path.name.endswith(".zip.sha256"):
        return ".zip.sha256" if path.name.endswith(".sha256") else path.suffix
    return f"index/*{path.suffix}" if path.parent.name == "index" else path.name


def _everything(place: Place) -> None:
    """A site with one of everything: a corrected file, captures, a refused segment."""
    correct(place, _SEGMENTS)
    write_captures(place.home / "source")
    first = _SEGMENTS * BLOCKS + 1
    refused = place.home / "source" / f"{KIT_CHAIN}-1-{first}-{first + BLOCKS - 1}.zip"
    refused.write_bytes(b"no ZIP" * 40)

    def work() -> int:
        use(place.environment(_SETTINGS))
        return max(run_strata(list(one)) for one in (LOAD, REPLACE, PUBLISH))

    ended = in_child(work, place.notes)
    assert ended.code == 1, f"{ended.code}\n{ended.out}\n{ended.err}"
