"""`strata status`: what the source, the warehouse and the archive hold, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import click

from exporters.archive.sound_documents import is_begun
from pipelines.commands.display import Screen
from pipelines.commands.failures import FINDINGS, OK
from pipelines.commands.options import screen_option, site_options
from pipelines.site.collecting import collection_sentence
from pipelines.site.last_checks import check_problems, last_checks
from pipelines.site.publication_state import changed_documents
from pipelines.site.segment_status import SiteStatus, site_status, with_unnamed
from pipelines.site.site import Site
from transforms.block_range import BlockRange, gaps_between
from transforms.coverage import union
from transforms.verifying.findings import foreign_sentence
from transforms.verifying.verification import COMPLETE, QUICK


@click.command("status")
@site_options("source", "warehouse", "archive")
@click.option(
    "--check",
    is_flag=True,
    help="One line; exit code 1 if something waits or is wrong, or there are no segments.",
)
@screen_option
def command(site: Site, check: bool, screen: Screen) -> int:
    """Show how far each segment has come, from the places themselves; nothing is changed.

    Without --check the exit code is 0 also where something is quarantined or missing.
    """
    with site.warehouse.one_look():
        status = with_unnamed(site, site_status(site))
        problems = [*_problems(status), *_unproven(site, status)]
        if check:
            screen.show("; ".join(_result(status, problems)))
        if screen.json or not check:
            _show_all(screen, site, status, problems)
    return FINDINGS if check and (problems or not status.known) else OK


def _problems(status: SiteStatus) -> Iterator[str]:
    """What waits, is refused or is lost."""
    counts = {
        "to load": len(status.survey.pending),
        "to publish": len(status.unpublished) - len(status.corrected),
        "to put into the lake": len(status.not_in_lake),
    }
    if tasks := ", ".join(f"{count:,} {what}" for what, count in counts.items() if count):
        yield f"segments {tasks}: strata run does that"
    if count := status.survey.uncompared:
        yield f"{count:,} files of the source changed after they were loaded: strata load compares"
    yield from status.problems
    for file, reason in [*status.refused.items()][:1]:
        yield (
            f"{len(status.refused):,} files cannot be used: replace or remove them in the source; "
            f"the first is {file}: {' '.join(reason.split())}"
        )
    if status.lake_problem:
        yield f"how far the lake is cannot be said: {status.lake_problem}"


def _unproven(site: Site, status: SiteStatus) -> Iterator[str]:
    """Yield sentences about changed documents of the archive, and about the last checks."""
    if status.complete_until is not None:
        archive = site.archive(status.chain_id)
        # A publication may be about to write them.
        changed = changed_documents(site, archive) and changed_documents(site, archive)
        if changed:
            what = f"{len(changed):,} documents are missing or differ from SHA256SUMS"
            yield f"{what}: strata publish; the first is {archive.place(changed[0])}"
    yield from check_problems(site)


def _result(status: SiteStatus, problems: Sequence[str]) -> Iterator[str]:
    """The problems, or that there are none, and a warning about rows of other blocks."""
    yield from problems or [_well(status)]
    if foreign := status.catalog.foreign_rows():
        yield foreign_sentence(foreign)


def _well(status: SiteStatus) -> str:
    gaps = f"; blocks {_joined(status.survey.gaps)} are missing" if status.survey.gaps else ""
    return f"nothing is left to do{gaps}" if status.known else "no segments yet"


def _show_all(screen: Screen, site: Site, status: SiteStatus, problems: Sequence[str]) -> None:
    places = {
        "source": site.source.describe(),
        "warehouse": site.warehouse.describe(),
        "archive": site.store.describe(),
    }
    segments = {"found": status.found, "loaded": status.loaded, "published": status.published}
    if site.settings.lake:
        segments["in_lake"] = status.in_lake
    runs = {step: union(blocks) for step, blocks in segments.items()}
    ids, collection = [*status.ids.findings()], collection_sentence(site)
    screen.show(status.chain_id or "no chain yet")
    _show_steps(screen, status, [*places.values(), f"lake/ in {places['archive']}"], segments, runs)
    screen.table("quarantined", ("file", "reason"), status.refused.items())
    screen.table("contradictions of the chain of ids", ("where", "what"), ids)
    screen.table("lost", ("what", "blocks"), status.lost.items())
    unnamed = [(volume.key, volume.blocks) for volume in status.unnamed]
    screen.table("not in the log: run strata repair", ("volume", "blocks"), unnamed)
    for sentence in (*_result(status, problems), *_sentences(site, status, collection)):
        screen.show(sentence)
    steps = {**segments, "to_do": status.to_do}
    screen.document(
        {
            **places,
            "chain_id": status.chain_id,
            "segments": {step: [*map(str, blocks)] for step, blocks in steps.items()},
            "gaps": {step: [*gaps_between(ranges)] for step, ranges in runs.items()},
            "complete_until": status.complete_until,
            "blocks_behind": status.survey.blocks_behind,
            "problems": problems,
            "quarantined": [{"file": file, "reason": why} for file, why in status.refused.items()],
            "lost": [*status.lost],
            "foreign_rows": status.catalog.foreign_rows(),
            "not_in_log": [volume.key for volume in status.unnamed],
            "lake_problem": status.lake_problem or None,
            "verified": last_checks(site),
            "ids": {
                "unbroken": [run.blocks for run in status.ids.chain.runs],
                "contradictions": [{"where": where, "what": what} for where, what in ids],
            },
            "collection": collection or None,
            "open_with": site.warehouse.current if status.loaded else None,
        }
    )


def _show_steps(
    screen: Screen,
    status: SiteStatus,
    places: Sequence[str],
    segments: Mapping[str, Sequence[BlockRange]],
    runs: Mapping[str, tuple[BlockRange, ...]],
) -> None:
    """How far segments have come."""
    rows = (
        (
            what.replace("_", " "),
            len(segments[what]),
            len(status.known) - len(segments[what]) if what != "found" else "",
            _joined(runs[what]),
            _joined(gaps_between(runs[what])),
            status.survey.behind(runs[what]) if what != "found" else "",
            place,
        )
        for what, place in zip(segments, places, strict=False)
    )
    screen.table("", ("", "segments", "missing", "blocks", "gaps", "behind", "place"), rows)


def _sentences(site: Site, status: SiteStatus, collection: str) -> Iterator[str]:
    until = status.complete_until
    yield f"complete until block {until}" if until is not None else "nothing is complete yet"
    if not is_begun(site.store):
        yield f"there is no archive at {site.store.describe()}: strata publish makes one"
    for kind in (COMPLETE, QUICK):
        check = last_checks(site).get(kind)
        result = f"{check.at}, {check.findings:,} findings" if check else "none"
        yield f"last {kind} strata verify on this machine: {result}"
    if id_runs := status.ids.chain.runs:
        unbroken = _joined(run.blocks for run in id_runs)
        yield f"chain of the network's ids unbroken over {unbroken}"
    if collection:
        yield collection
    if status.loaded:
        made = "which strata sql 'from blocks limit 5' makes new where it is not"
        yield f"open with duckdb -readonly {site.warehouse.current}, {made}"


def _joined(ranges: Iterable[BlockRange]) -> str:
    return ", ".join(map(str, ranges)) or "none"
