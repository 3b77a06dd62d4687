"""Which segments must not be published, whoever asks for it: Dagster or the command line."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from pipelines.site.audits import CHECKS, AuditFailure, Check, found_by, gather, kept_problems
from pipelines.site.site import Site
from transforms.block_range import BlockRange
from transforms.tables.registry import HISTORY_TABLES

_BLOCKING = [check for check in CHECKS if check.blocking]
_OF_SEGMENTS = [
    (check, table)
    for check in _BLOCKING
    if check.tables is not HISTORY_TABLES
    for table in check.tables
]
_OF_TABLES = [check for check in _BLOCKING if check.tables is HISTORY_TABLES]


def unfit(
    site: Site, segments: Sequence[BlockRange], tables: Collection[str] = HISTORY_TABLES
) -> Mapping[BlockRange, tuple[str, ...]]:
    """The segments (loaded, ascending) that fail a blocking check of these tables, and why.

    The checks of the heights are always among them: they are about the whole segment, and one that
    fails them is not held against its neighbours. What a run's checks found in the same segments,
    in this process, is not looked for again.
    """
    of_tables = [
        (check, table) for check in _OF_TABLES for table in check.tables if table in tables
    ]
    reasons: dict[BlockRange, tuple[str, ...]] = {}
    for some in _neighbours(segments, site.settings.batch):
        reasons |= _grouped(_problems(site, some, of_tables))
    return reasons


def _problems(
    site: Site, some: Sequence[BlockRange], of_tables: Sequence[tuple[Check, str]]
) -> Iterator[AuditFailure]:
    """The problems of segments that join; where some fail as a whole, then those of the others."""
    cache = kept_problems(site, some)
    if any((check.name, table) not in cache for check, table in [*_OF_SEGMENTS, *of_tables]):
        with gather(site, frozenset(some)) as evidence:
            wrong = [item for target in _OF_SEGMENTS for item in found_by(evidence, *target)]
            if not wrong:
                for target in of_tables:
                    found_by(evidence, *target)
    wrong = [item for check, table in _OF_SEGMENTS for item in cache[check.name, table]]
    if not wrong:
        yield from (item for check, table in of_tables for item in cache[check.name, table])
        return
    yield from wrong
    failing = {problem.blocks for problem in wrong}
    for rest in _neighbours([item for item in some if item not in failing], len(some)):
        yield from _problems(site, rest, of_tables)


def _grouped(problems: Iterator[AuditFailure]) -> dict[BlockRange, tuple[str, ...]]:
    reasons: dict[BlockRange, tuple[str, ...]] = {}
    for problem in problems:
        reasons[problem.blocks] = (*reasons.get(problem.blocks, ()), problem.what)
    return reasons


def _neighbours(segments: Sequence[BlockRange], most: int) -> Iterator[tuple[BlockRange, ...]]:
    """Segments that join, at most so many at once: one look opens the volumes of one stretch."""
    some: list[BlockRange] = []
    for blocks in segments:
        if some and (len(some) >= most or not some[-1].joins(blocks)):
            yield tuple(some)
            some = []
        some.append(blocks)
    if some:
        yield tuple(some)
