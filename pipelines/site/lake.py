"""Publishing loaded segments to the lake, whoever asked for it: Dagster or the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from exporters.archive.documents import refresh, sound_index
from exporters.archive.lake_place import RECEIPTS
from exporters.archive.sums import completeness
from exporters.lake.lake import Lake
from exporters.lake.loaded import history_receipts, rows_over
from exporters.lake.maintenance import merge_lake, sweep_lake, tables_there
from exporters.lake.publish import LakePublisher
from exporters.lake.reports import LakeReport, Refused
from exporters.lake.rewriting import correct, rewrites
from exporters.lake.state import publish_state
from exporters.lake.tables import LakeTable, Version
from exporters.lake.trying import versions
from exporters.publishing.replace import Correction
from pipelines.batches import plan_batches
from pipelines.site.published import is_held, published_entries
from pipelines.site.site import Site, no_progress
from pipelines.site.unfit import unfit
from transforms.blocks import BlockRange, contiguous_runs
from transforms.errors import BusyError, ConflictError, IntegrityError, RangeError
from transforms.lake.rows import lake_rows
from transforms.lake.state_rows import state_rows
from transforms.scratch import exclusive
from transforms.stores.store import LostRaceError
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.volumes import Progress


def check_place(site: Site) -> None:
    """Raise `ConfigError` where no lake can lie beside the archive, before anything is written."""
    site.store.access("x")


def site_lake(site: Site) -> Lake:
    """The lake of the chain that is loaded."""
    return Lake(site.archive(site.loaded_catalog().chain_id))


def publish_to_lake(
    site: Site, segments: Sequence[BlockRange], tables: Sequence[str] = HISTORY_TABLES
) -> LakeReport:
    """Put into the lake what it lacks of segments (loaded, ascending, at least one).

    Then the newest current state; small neighbouring files are merged. Segments that are not
    published as they are loaded, or fail a check that must hold before anything is, are in the
    report, and the others go on.
    """
    lake = site_lake(site)
    problems = {**_unpublished(site, lake, segments, tables), **unfit(site, segments, tables)}
    report = _unfit(problems)
    fit = [blocks for blocks in segments if blocks not in problems]
    if fit:
        with lake_rows(site.warehouse, history_receipts(site.warehouse, fit)) as rows:
            publisher = LakePublisher(lake, rows, fit, site.scratch())
            report = report.and_(publisher.publish(tables))
    report = report.and_(_publish_state(site, lake))
    name_lake(lake)
    return report.and_(_merged(site, lake))


def _unpublished(
    site: Site, lake: Lake, segments: Sequence[BlockRange], tables: Sequence[str]
) -> dict[BlockRange, tuple[str, ...]]:
    """The segments that the archive has not, or has otherwise: the lake has what the ZIPs have."""
    known = {
        (one.table, one.blocks): one for one in published_entries(lake.archive, segments, tables)
    }
    found: dict[BlockRange, tuple[str, ...]] = {}
    for receipt in history_receipts(site.warehouse, segments):
        if receipt.table in tables and not is_held(receipt, known):
            what = f"the archive has not this text of {receipt.table}: run strata publish first"
            found[receipt.blocks] = (*found.get(receipt.blocks, ()), what)
    return found


def _publish_state(site: Site, lake: Lake) -> LakeReport:
    with state_rows(site.warehouse) as state:
        return publish_state(lake, state, site.scratch()) if state else LakeReport()


def _merged(site: Site, lake: Lake) -> LakeReport:
    opened = partial(rows_over, lake, site.warehouse, site.scratch())
    # One process of a machine at a time; of several machines the slower one gives in.
    with suppress(BusyError), exclusive(site.warehouse.cache / ".lake.lock", wait_seconds=0):
        return LakeReport(merged=merge_lake(lake, opened, site.scratch()))
    return LakeReport()


def name_lake(lake: Lake) -> None:
    """Let index and page name the lake, if they do not yet."""
    if not sound_index(lake.archive).has_lake:
        refresh(lake.archive, ())


def lacking_segments(
    site: Site, tables: Sequence[str] = (*HISTORY_TABLES, RECEIPTS)
) -> list[BlockRange]:
    """The loaded segments that any of these tables lacks, ascending; reads the logs alone."""
    lake, loaded = site_lake(site), site.loaded_catalog().blocks
    lacking: set[BlockRange] = set()
    for table in tables:
        version = LakeTable(lake, table).version()
        lacking.update(version.lacks(loaded) if version else loaded)
    return sorted(lacking)


def sweep(site: Site) -> list[str]:
    """Remove what no version of the last week names; returns the paths."""
    return sweep_lake(site_lake(site))


def replace_in_lake(
    site: Site, segments: Sequence[BlockRange], tables: Sequence[str], correction: Correction
) -> LakeReport:
    """Put loaded segments into the lake anew where it has other rows, on the record.

    A file is written anew whole, with all segments that it holds; what is right stays. Receipts
    follow. Raises nothing for a table that cannot be corrected: it is in the report.
    """
    lake = site_lake(site)
    problems = unfit(site, segments, tables)
    wanted = [blocks for blocks in segments if blocks not in problems]
    report = LakeReport()
    for table in (*tables, RECEIPTS):
        if wanted and not report.refused:
            report = report.and_(_corrected(site, lake, table, wanted, correction))
    return report.and_(_unfit(problems))


def _unfit(problems: Mapping[BlockRange, Sequence[str]]) -> LakeReport:
    """The report of segments that fail a check."""
    refused = (Refused(f"segment {one}", "; ".join(why)) for one, why in sorted(problems.items()))
    return LakeReport(refused=tuple(refused), refused_segments=tuple(sorted(problems)))


def _corrected(
    site: Site, lake: Lake, table: str, wanted: Sequence[BlockRange], correction: Correction
) -> LakeReport:
    held, written, left = LakeTable(lake, table), 0, set(wanted)
    try:
        for version in versions(held):
            try:
                while version is not None and left:
                    right, count = _first_wrong(site, lake, version, left, correction)
                    written += count
                    left -= right
                    version = held.version()  # the next correction goes upon this one's
            except LostRaceError:
                continue
            return LakeReport(replaced=written)
    except (ConflictError, IntegrityError, RangeError) as error:
        return LakeReport(refused=(Refused(table, str(error)),))
    raise BusyError(f"others keep changing {lake.place(table)}: try again later")


def _first_wrong(
    site: Site, lake: Lake, version: Version, wanted: set[BlockRange], correction: Correction
) -> tuple[set[BlockRange], int]:
    """Correct the first of the wanted segments that are not right.

    Returns the segments that are right now, and how many files were written.
    """
    right: set[BlockRange] = set()
    for rewrite in rewrites(version, sorted(wanted), site.loaded_catalog().blocks):
        receipts = history_receipts(site.warehouse, rewrite.segments)
        with lake_rows(site.warehouse, receipts) as rows:
            count = correct(lake, version, rewrite, rows, correction, site.scratch())
        right.update(rewrite.segments)
        if count:
            return right, count
    return right, 0


@dataclass(frozen=True, slots=True)
class LakeTableStatus:
    """How far a table of the lake is: its version, files, rows, bytes and runs of blocks.

    `lacking` are the blocks that are loaded and not in it; for current state that is none.
    """

    table: str
    version: int
    files: int
    rows: int
    bytes: int
    blocks: tuple[BlockRange, ...]
    lacking: tuple[BlockRange, ...]


def lake_status(site: Site) -> list[LakeTableStatus]:
    """How far each table of the lake is, by the logs alone."""
    lake, loaded = site_lake(site), site.loaded_catalog().blocks
    return [
        _status(version, loaded)
        for table in tables_there(lake)
        if (version := LakeTable(lake, table).version()) is not None
    ]


def _status(version: Version, loaded: Sequence[BlockRange]) -> LakeTableStatus:
    is_history = version.table in (*HISTORY_TABLES, RECEIPTS)
    return LakeTableStatus(
        version.table,
        version.snapshot.version,
        len(version.files),
        sum(held.file.rows for held in version.files),
        sum(held.size for held in version.files),
        tuple(contiguous_runs(held.blocks for held in version.files)),
        tuple(contiguous_runs(version.lacks(loaded))) if is_history else (),
    )


def publish_missing(site: Site, advance: Progress = no_progress) -> LakeReport:
    """Put into the lake whatever it lacks of what is published, a batch at a time.

    `advance` is called with the bytes of the files that were just published.
    """
    published = completeness(sound_index(site_lake(site).archive).tables).complete
    missing = [
        blocks
        for blocks in lacking_segments(site)
        if any(run.first <= blocks.first and blocks.last <= run.last for run in published)
    ]
    keys = [blocks.key for blocks in missing]
    report = LakeReport()
    for batch in plan_batches(missing, keys, site.settings.batch):
        done = publish_to_lake(site, batch.segments)
        advance(done.bytes)
        report = report.and_(done)
    return report
