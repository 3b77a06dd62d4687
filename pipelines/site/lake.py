"""Publishing loaded segments to the lake, whoever asked for it: Dagster or the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
from exporters.lake.rewriting import correct_table
from exporters.lake.state import correct_state, publish_state
from exporters.lake.tables import LakeTable, Version
from exporters.publishing.replace import Correction
from pipelines.batches import plan_batches
from pipelines.site.published import is_held, published_entries
from pipelines.site.site import Site, no_progress
from pipelines.site.unfit import unfit
from transforms.blocks import BlockRange, contiguous_runs
from transforms.errors import BusyError, ConflictError, IntegrityError, RangeError
from transforms.lake.rows import LakeRows, lake_rows
from transforms.lake.state_rows import state_rows
from transforms.scratch import exclusive
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
    receipts = history_receipts(site.warehouse, fit)
    if receipts:
        with lake_rows(site.warehouse, receipts) as rows:
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
    """Put loaded rows into the lake anew where it has other ones, on the record.

    `tables` are of history, of current state, or `receipts`, which follow what is corrected in
    segments (loaded, ascending). A file is written anew whole, with all segments that it holds;
    what is right stays. A table that cannot be corrected is in the report, and the others go on.
    """
    lake = site_lake(site)
    history = [table for table in tables if table in HISTORY_TABLES]
    states = [table for table in tables if table not in (*HISTORY_TABLES, RECEIPTS)]
    problems = unfit(site, segments, history)
    wanted = [blocks for blocks in segments if blocks not in problems]
    report = _unfit(problems)
    refused = len(report.refused)
    for table in history:
        report = report.and_(_corrected(site, lake, table, wanted, correction))
    # Receipts vouch for the rows of the other tables.
    if len(report.refused) == refused and (history or RECEIPTS in tables):
        report = report.and_(_corrected(site, lake, RECEIPTS, wanted, correction))
    report = report.and_(_corrected_states(site, lake, states, correction))
    refresh(lake.archive, ())  # the chain's page tells of what was replaced
    return report


def _corrected_states(
    site: Site, lake: Lake, tables: Sequence[str], correction: Correction
) -> LakeReport:
    report = LakeReport()
    with state_rows(site.warehouse) as state:
        for table in tables if state else ():
            assert state is not None
            work = partial(correct_state, lake, state, table, correction, site.scratch())
            report = report.and_(_tried(table, work))
    return report


def _unfit(problems: Mapping[BlockRange, Sequence[str]]) -> LakeReport:
    """The report of segments that fail a check."""
    refused = (Refused(f"segment {one}", "; ".join(why)) for one, why in sorted(problems.items()))
    return LakeReport(refused=tuple(refused), refused_segments=tuple(sorted(problems)))


def _corrected(
    site: Site, lake: Lake, table: str, wanted: Sequence[BlockRange], correction: Correction
) -> LakeReport:
    @contextmanager
    def rows_of(segments: Sequence[BlockRange]) -> Iterator[LakeRows]:
        with lake_rows(site.warehouse, history_receipts(site.warehouse, segments)) as rows:
            yield rows

    def work() -> int:
        loaded = site.loaded_catalog().blocks
        return correct_table(lake, table, wanted, loaded, rows_of, correction, site.scratch())

    return _tried(table, work)


def _tried(table: str, work: Callable[[], int]) -> LakeReport:
    """What came of correcting a table; that it cannot be is in the report."""
    try:
        return LakeReport(replaced=work())
    except (ConflictError, IntegrityError, RangeError) as error:
        return LakeReport(refused=(Refused(table, str(error)),))


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
    if not missing:  # of current state there may lack something all the same
        report = report.and_(_publish_state(site, site_lake(site)))
    return report
