"""What publishing one more segment costs beside an archive of 100 segments, and one of 75,000.

Run it: `python -m tests.benchmarks.publishing`. The segment is a real one, loaded and waiting; what
is published is its 15 tables. Calls are those of the store: in a bucket each is a request.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from exporters.archive.documents import refresh
from exporters.archive.stored_shards import stored_shards
from exporters.zip_names import zip_name
from pipelines.settings import Settings
from pipelines.site.completing import complete_archive
from pipelines.site.publishing import publish_segments
from pipelines.site.site import Site
from tests.benchmarks.history import CHAIN, VERSION, ZIP_BYTES, blocks_of, make_history
from tests.benchmarks.measure import Cost, measured
from tests.segments_kit import build_segment
from transforms.objects import ObjectInfo
from transforms.stores.folder_store import FolderStore
from transforms.tables.registry import HISTORY_TABLES

SIZES = (100, 75_000)
LIMIT = 1.3
_REPEATS = 5
_CALLS = ("head", "read", "list", "put_if_absent", "put_if_match", "fetch")


@dataclass(frozen=True, slots=True)
class Row:
    """Segments of the archive; processor seconds and store calls of publishing one; a look."""

    segments: int
    seconds: float
    calls: int
    look: Cost


def row(folder: Path, segments: int) -> Row:
    """Make an archive of so many segments and publish `_REPEATS` more, one after the other."""
    made = make_history(folder, segments)
    settings = Settings(
        source=str(folder / "source"), warehouse=str(made.warehouse), archive=str(made.archive)
    )
    site = Site(settings)
    refresh(site.archive(CHAIN), stored_shards(site.archive(CHAIN)))
    for number in range(segments, segments + _REPEATS + 1):
        blocks = blocks_of(number)
        build_segment(
            folder / "source",
            chain_id=CHAIN,
            version=VERSION,
            first=blocks.first,
            last=blocks.last,
        )
    survey = site.warehouse.survey(site.source)
    report = site.warehouse.load(site.source, survey.pending, site.stage)
    assert not report.failures, report.failures
    costs = [measured(publish_one, settings, segments + at).cpu for at in range(_REPEATS)]
    with counted() as calls:
        publish_one(settings, segments + _REPEATS)
    look = measured(look_at, settings, segments)
    return Row(segments, sorted(costs)[_REPEATS // 2], sum(calls.values()), look)


def publish_one(settings: Settings, number: int) -> None:
    """Publish one loaded segment."""
    report = publish_segments(Site(settings), [blocks_of(number)]).report
    assert (report.created, report.failed) == (15, ()), report


def look_at(settings: Settings, segments: int) -> None:
    """Look at everything that the archive should have, as `strata run` does where nothing is new.

    Only the ZIPs of one table are really there: of the others the listing is made up.
    """
    site = Site(settings)
    listed = FolderStore.list

    def listing(self: FolderStore, prefix: str = "") -> Iterator[ObjectInfo]:
        table = prefix.removeprefix(f"{CHAIN}/").rstrip("/")
        there = {info.key: info for info in listed(self, prefix)}
        if table in HISTORY_TABLES:
            for number in range(segments):
                key = f"{prefix}{zip_name(CHAIN, table, blocks_of(number))}"
                yield there.pop(key) if key in there else ObjectInfo(key, ZIP_BYTES, "")
                yield ObjectInfo(f"{key}.sha256", 1, "")
        yield from there.values()

    with patch.object(FolderStore, "list", listing):
        found = complete_archive(site, site.archive(CHAIN), contents=False)
    assert (found.looked_at, found.is_nothing) == (15 * (segments + _REPEATS + 1), True), found


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count the calls of the store."""
    calls: Counter[str] = Counter()

    def counting(name: str) -> Callable[..., object]:
        method = getattr(FolderStore, name)

        def call(self: FolderStore, *arguments: object, **named: object) -> object:
            calls[name] += 1
            return method(self, *arguments, **named)

        return call

    with ExitStack() as patched:
        for name in _CALLS:
            patched.enter_context(patch.object(FolderStore, name, counting(name)))
        yield calls


def main() -> None:
    """Print the measurements as a table."""
    rows = []
    for segments in SIZES:
        with tempfile.TemporaryDirectory(prefix="publishing-benchmark-") as folder:
            rows.append(row(Path(folder), segments))
    print(
        f"{'segments in the archive':<30} {'processor s':>12} {'calls':>7} {'look at all, s':>15}"
    )
    for one in rows:
        print(f"{one.segments:<30,} {one.seconds:12.3f} {one.calls:7} {one.look.cpu:15.2f}")
    small, large = rows
    print(
        f"ratio (limit {LIMIT}) {large.seconds / small.seconds:28.2f} "
        f"{large.calls / small.calls:7.2f}"
    )
    print(f"peak memory of the look: {large.look.peak / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
