"""Publishing loaded segments to the lake, whoever asked for it: Dagster or the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

from exporters.archive.documents import PUBLIC_SQL_READERS, refresh
from exporters.archive.lake_place import RECEIPTS
from exporters.archive.sound_documents import sound_index
from exporters.archive.sums import completeness
from exporters.lake.lake_files import Lake
from exporters.lake.publication.lake_merge import merge_lake
from exporters.lake.publication.lake_publication import LakePublisher
from exporters.lake.publication.loaded import rows_over
from exporters.lake.publication.public_documents import PublicDocuments
from exporters.lake.publication.rewriting import LoadedRows, correct_table
from exporters.lake.publication.state_tables import correct_state, publish_state
from exporters.lake.reports import LakeReport, Refused, each_alone
from exporters.lake.state_files import STATES, publish_states
from exporters.publishing.replace import Correction
from pipelines.batches import plan_batches
from pipelines.site.journal import journaled
from pipelines.site.lake_contents import (
    expected_tables,
    lacks,
    site_lake,
    sweep,
)
from pipelines.site.publication_state import is_held, published_parts
from pipelines.site.site import Site, at_one_look, no_progress
from transforms.block_range import BlockRange
from transforms.coverage import inside
from transforms.errors import BusyError, ConflictError, IntegrityError
from transforms.lake.parquet_rows import lake_rows
from transforms.lake.state_rows import StateRows, loaded_state, state_rows
from transforms.scratch import exclusive
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.load.load_settings import Progress


@at_one_look
def publish_to_lake(site: Site, segments: Sequence[BlockRange]) -> LakeReport:
    """Put into the lake what it lacks of segments (loaded, ascending, at least one).

    Then the newest current state; small neighbouring files are merged. Segments that are not
    published as they are loaded are in the report, and the others go on.
    """
    lake = site_lake(site)
    problems = _unpublished(site, lake, segments)
    report = _refusal(problems)
    published = [blocks for blocks in segments if blocks not in problems]
    if published:
        with lake_rows(site.warehouse, published) as rows:
            report = report.and_(LakePublisher(lake, rows, published, site.scratch()).publish())
    report = report.and_(_publish_state(site, lake, is_recent_enough=True))
    report = report.and_(_merged(site, lake))
    name_lake(site, lake)
    return report


def _unpublished(
    site: Site,
    lake: Lake,
    segments: Sequence[BlockRange],
    tables: Sequence[str] = HISTORY_TABLES,
) -> dict[BlockRange, tuple[str, ...]]:
    """The segments that the archive has not, or has otherwise: the lake has what the ZIPs have."""
    entries = published_parts(lake.archive, segments, tables)
    problems: dict[BlockRange, tuple[str, ...]] = {}
    zipped = frozenset(HISTORY_TABLES).intersection(tables)
    for receipt in site.receipts(segments):
        if receipt.table in zipped and not is_held(receipt, entries):
            what = f"the archive has not this text of {receipt.table}: run strata publish first"
            problems[receipt.blocks] = (*problems.get(receipt.blocks, ()), what)
    return problems


def _publish_state(site: Site, lake: Lake, *, is_recent_enough: bool) -> LakeReport:
    with state_rows(site.warehouse) as state:
        if state is None:
            return LakeReport()
        report = publish_state(lake, state, site.scratch(), is_recent_enough=is_recent_enough)
    return report.and_(each_alone(STATES, partial(_put_states, site, lake, is_recent_enough)))


def _put_states(site: Site, lake: Lake, is_recent_enough: bool) -> LakeReport:
    volumes, files = site.loaded_catalog().intact().states(), site.warehouse.backing.files
    publish_states(lake.archive, volumes, files, is_recent_enough=is_recent_enough)
    return LakeReport()


def _merged(site: Site, lake: Lake) -> LakeReport:
    opened = partial(rows_over, lake, site.warehouse, site.scratch())
    # One process of a machine at a time; of several machines the slower one gives in.
    with suppress(BusyError), exclusive(site.warehouse.cache / ".lake.lock", wait_seconds=0):
        volumes = site.loaded_catalog().history()
        return LakeReport(merged=merge_lake(lake, volumes, opened, site.scratch()))
    return LakeReport()


def name_lake(site: Site, lake: Lake, *, is_proven: bool = False) -> None:
    """Let the archive's documents say what the lake has.

    Index and page name it, if they do not yet; `strata.sql` and `strata.duckdb` have its files,
    where the archive's public address is known (see `PublicDocuments.write`).
    """
    with journaled(site.journal, ()):  # the two are named in SHA256SUMS
        is_written = False
        if site.settings.public_url:
            catalog, scratch = site.loaded_catalog(), site.scratch()
            loaded = loaded_state(site.warehouse.backing)
            state = loaded[1] if loaded else {}
            public = PublicDocuments(lake, site.settings.public_url, catalog, state, scratch)
            is_written = public.write(is_proven=is_proven)
        if not sound_index(lake.archive).has_lake:
            refresh(lake.archive, ())
        elif is_written:
            refresh(lake.archive, (), PUBLIC_SQL_READERS)


@at_one_look
def replace_in_lake(
    site: Site, segments: Sequence[BlockRange], tables: Sequence[str], correction: Correction
) -> LakeReport:
    """Put loaded rows into the lake anew where it has other ones, on the record.

    `tables` are of history, of current state, or `receipts`, which follow what is corrected in
    segments (loaded, ascending). A file is written anew whole, with all segments that it holds;
    what is right stays. A table that cannot be corrected is in the report, and the others go on.
    """
    lake = site_lake(site)
    loaded_states = site.loaded_catalog().states()[-1:]
    states = [table for table in tables for volume in loaded_states if table in volume.shapes]
    history = [table for table in tables if table not in (*states, RECEIPTS)]
    report = LakeReport()
    for table in history:
        report = report.and_(_corrected(site, lake, table, segments, correction))
    # Receipts vouch for the rows of the other tables.
    if not report.refused and (history or RECEIPTS in tables):
        report = report.and_(_corrected(site, lake, RECEIPTS, segments, correction))
    report = report.and_(_corrected_states(site, lake, states, correction))
    name_lake(site, lake)
    refresh(lake.archive, ())  # the chain's page tells of what was replaced
    return report


def _corrected_states(
    site: Site, lake: Lake, tables: Sequence[str], correction: Correction
) -> LakeReport:
    report = LakeReport()
    with state_rows(site.warehouse) as state:
        for table in tables if state else ():
            assert state is not None
            work = partial(_correct_state, site, lake, state, table, correction)
            report = report.and_(each_alone(table, work))
    return report


def _correct_state(
    site: Site, lake: Lake, state: StateRows, table: str, correction: Correction
) -> LakeReport:
    return LakeReport(replaced=correct_state(lake, state, table, correction, site.scratch()))


def _refusal(problems: Mapping[BlockRange, Sequence[str]]) -> LakeReport:
    """The report of segments that are not published as they are loaded."""
    refused = (
        Refused(f"segment {blocks}", "; ".join(why)) for blocks, why in sorted(problems.items())
    )
    return LakeReport(refused=tuple(refused), refused_segments=tuple(sorted(problems)))


def _corrected(
    site: Site, lake: Lake, table: str, segments: Sequence[BlockRange], correction: Correction
) -> LakeReport:
    def work() -> LakeReport:
        source = _loaded_rows(site, lake, table)
        return LakeReport(
            replaced=correct_table(lake, table, segments, source, correction, site.scratch())
        )

    return each_alone(table, work)


def _loaded_rows(site: Site, lake: Lake, table: str) -> LoadedRows:
    """What a table of history, or the receipts, may be written anew from."""
    catalog = site.loaded_catalog()
    tables = HISTORY_TABLES if table == RECEIPTS else (table,)

    def due(segments: Sequence[BlockRange]) -> list[BlockRange]:
        """Of the receipts only those of segments that every table has."""
        absent = set(_unpublished(site, lake, segments, tables))
        for other in expected_tables(catalog)[:-1] if table == RECEIPTS else ():
            absent.update(lacks(lake, other, catalog))
        return [blocks for blocks in segments if blocks not in absent]

    return LoadedRows(catalog.blocks, partial(lake_rows, site.warehouse), due)


@at_one_look
def publish_missing(site: Site, advance: Progress = no_progress) -> LakeReport:
    """Put into the lake whatever it lacks of what is published, a batch at a time.

    `advance` is called with the bytes of the files that were just published.
    """
    lake = site_lake(site)
    published = completeness(sound_index(lake.archive).tables).complete
    lacking, report = _lacking(site, lake)
    missing = [*inside(lacking, published)]
    keys = [blocks.key for blocks in missing]
    for batch in plan_batches(missing, keys, site.settings.batch):
        batch_report = publish_to_lake(site, batch.segments)
        advance(batch_report.bytes)
        report = report.and_(batch_report)
    report = report.and_(_publish_state(site, lake, is_recent_enough=False))
    if site.settings.public_url and sound_index(lake.archive).has_lake:
        name_lake(site, lake, is_proven=True)
    return report.and_(sweep(site))


def _lacking(site: Site, lake: Lake) -> tuple[list[BlockRange], LakeReport]:
    """The segments that any table lacks, and the tables of which that cannot be said."""
    catalog = site.loaded_catalog()
    lacking, report = set[BlockRange](), LakeReport()
    for table in expected_tables(catalog):
        try:
            lacking.update(lacks(lake, table, catalog))
        except (ConflictError, IntegrityError) as error:
            report = report.and_(LakeReport(refused=(Refused(table, str(error)),)))
    return sorted(lacking), report
