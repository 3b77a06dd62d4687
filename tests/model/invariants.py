"""What must hold after each step: answers, files and archive beside the model, as sentences."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from tests.faults.wholeness import archive_problems
from tests.model.log_files import named_files, numbers_of, wrong_files
from tests.model.model import TABLES, Model, Segments
from tests.model.world import MACHINES, Answer, World
from tests.pipelines.kit import blocks
from tests.segments_kit import KIT_CHAIN
from transforms.tables.registry import HISTORY_TABLES

_COUNTS = " union all ".join(
    [
        *(f"select '{table}', '', count(*) from {table}" for table in TABLES),
        "select 'heights', '', count(distinct height) from blocks",
        "select 'price', price::bigint::varchar, count(*) from orders group by price",
    ]
)
_WHOLE = ("manifests", "data/blocks", "data/orders")
"""The folders that have each segment in a file; other tables may have no rows, and no file."""
_SCRATCH = ("scratch", "unfinished")


def cheap_problems(world: World, model: Model, machine: str) -> Iterator[str]:
    """What is wrong by status, the files of the warehouse and the names of the archive."""
    yield from _of_status(world.run(machine, "status"), model)
    yield from wrong_files(world.warehouse)
    yield from _of_names(named_files(world.warehouse), sorted(model.loaded))
    yield from _of_archive(world.archive, model.published)


def _of_names(names: Iterable[str], loaded: list[int]) -> Iterator[str]:
    """What is wrong with the segments that named files hold: each is in one file of a table."""
    held: dict[str, list[int]] = {folder: [] for folder in _WHOLE}
    for name in names:
        folder, _, file = name.rpartition("/")
        kind = folder if folder in _WHOLE else f"{folder}, {file.rpartition('.')[2]}"
        held.setdefault(kind, []).extend(numbers_of(name))
    for folder, numbers in held.items():
        if folder in _WHOLE and sorted(numbers) != loaded:
            yield f"files of {folder} hold the segments {sorted(numbers)}, the model {loaded}"
        elif len({*numbers}) != len(numbers) or not {*numbers} <= {*loaded}:
            yield f"files of {folder} hold the segments {sorted(numbers)} of {loaded}"


def count_problems(world: World, model: Model, machine: str) -> Iterator[str]:
    """What is wrong by SQL."""
    yield from _of_counts(world.run(machine, "sql", _COUNTS), model)


def texts(numbers: Iterable[int]) -> list[str]:
    """The blocks of segments, as commands write them."""
    return [str(span) for span in blocks(*sorted(numbers))]


def _of_status(answer: Answer, model: Model) -> Iterator[str]:
    if answer.code:
        yield f"status ended with {answer.code}: {answer.err}"
        return
    segments = answer.said["segments"]
    published = {n for n, segment in model.loaded.items() if model.published.get(n) == segment}
    for what, numbers in (("loaded", model.loaded.keys()), ("published", published)):
        if segments[what] != texts(numbers):
            yield f"status says {segments[what]} {what}, the model {texts(numbers)}"
    if answer.said["lost"]:
        yield f"status says that {answer.said['lost']} are lost"


def _of_counts(answer: Answer, model: Model) -> Iterator[str]:
    if answer.code:
        yield f"sql ended with {answer.code}: {answer.err}"
        return
    counts = {(what, price): count for what, price, count in answer.said["rows"]}
    expected: dict[tuple[str, str], int] = {}
    for segment in model.loaded.values():
        for table, rows in segment.rows.items():
            expected[table, ""] = expected.get((table, ""), 0) + rows
        expected["price", f"{segment.edition}{segment.number}"] = segment.rows["orders"]
    expected["heights", ""] = expected["blocks", ""]
    if counts != expected:
        yield f"sql counts {counts}, the model {expected}"


def _of_archive(archive: Path, published: Segments) -> Iterator[str]:
    chain = archive / KIT_CHAIN
    names = {
        f"{table}/{KIT_CHAIN}-{table}-{text}.zip"
        for table in HISTORY_TABLES
        for text in texts(published)
    }
    there = {path.relative_to(chain).as_posix() for path in chain.glob("*/*.zip")}
    hashed = {path.relative_to(chain).as_posix() for path in chain.glob("*/*.zip.sha256")}
    entries = {entry["path"] for entry in index_entries(chain)}
    for what, ours in (("ZIPs", there), ("entries", entries)):
        if ours != names:
            yield f"of {what} lack {sorted(names - ours)}, too many are {sorted(ours - names)}"
    if hashed != {f"{name}.sha256" for name in names}:
        yield f"files of hashes are {sorted(hashed)}"
    yield from archive_problems(archive)


def index_entries(chain: Path) -> list[dict[str, Any]]:
    """The entries of a chain's ZIPs in its shards."""
    shards = sorted((chain / "index").glob("*.json"))
    return [entry for shard in shards for entry in json.loads(shard.read_bytes())["zips"]]


def text_problems(world: World, model: Model) -> Iterator[str]:
    """What is wrong with the texts in the published ZIPs."""
    for number, segment in model.published.items():
        for table in TABLES:
            (text,) = texts([number])
            path = world.archive / KIT_CHAIN / table / f"{KIT_CHAIN}-{table}-{text}.zip"
            with ZipFile(path) as zip_file:
                csvs = [zip_file.read(name) for name in zip_file.namelist()]
            if csvs != [segment.csvs[table]]:
                yield f"{path.name} has another text than its segment"


def export_problems(
    world: World, model: Model, machine: str, table: str, numbers: list[int]
) -> Iterator[str]:
    """What is wrong with an export over a run of segments."""
    out = world.home / "out"
    hull = (blocks(numbers[0])[0].first, blocks(numbers[-1])[0].last)
    answer = world.run(machine, "export", table, *map(str, hull), "--out", str(out))
    if answer.code:
        yield f"export of {table} over {hull} ended with {answer.code}: {answer.err}"
        return
    path = Path(answer.said["path"])
    if hashlib.sha256(path.read_bytes()).hexdigest() != answer.said["sha256"]:
        yield f"{path.name} has not the hash that export says"
    with ZipFile(path) as zip_file:
        csvs = [zip_file.read(member["name"]) for member in answer.said["members"]]
    if csvs != model.export(table, numbers):
        yield f"the export of {table} over {hull} is not what the source has"


def scratch_problems(world: World, machine: str) -> Iterator[str]:
    """What a machine left unfinished, once a load of it has ended."""
    left = list(world.temporary.iterdir())
    for name in _SCRATCH:
        left += (path for path in world.cache(machine).glob(f"**/{name}/*"))
    if left:
        yield f"left unfinished: {sorted(map(str, left))}"


def verify_problems(world: World, model: Model) -> Iterator[str]:
    """What `strata verify` finds, but that something is published that is loaded no more."""
    answer = world.run(MACHINES[0], "verify")
    for finding in (answer.said or {"findings": [answer.err]})["findings"]:
        is_gone = finding["problem"] == "not loaded" and model.published.keys() - model.loaded
        if not is_gone:
            yield f"verify finds {finding}"
