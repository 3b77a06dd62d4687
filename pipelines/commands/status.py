"""`strata status`: what the source, the warehouse and the archive hold, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from exporters.archive.sound_documents import is_begun
from pipelines.commands.display import Screen
from pipelines.commands.failures import FINDINGS, OK
from pipelines.commands.options import (
    archive_option,
    json_option,
    open_site,
    source_option,
    warehouse_option,
)
from pipelines.site.collecting import CollectionState, collection_state
from pipelines.site.segment_status import SiteStatus, site_status
from pipelines.site.site import Site
from pipelines.site.textfiles import measured_status
from transforms.block_range import BlockRange, contiguous_runs, gaps_between
from transforms.errors import ConfigError, MissingFileError
from transforms.warehouse.manifests.shapes import Volume

_SINGLE_WRITER = (
    "one writer only (STRATA_SINGLE_WRITER): where a bucket's service ignores conditions, nothing "
    "keeps two writers apart"
)


@click.command("status")
@source_option
@warehouse_option
@archive_option
@click.option(
    "--check", is_flag=True, help="One line, and exit code 1 where something waits or is refused."
)
@click.option("--metrics", is_flag=True, help="Also write strata.prom to STRATA_METRICS.")
@json_option
def command(
    source: str | None,
    warehouse: str | None,
    archive: str | None,
    check: bool,
    metrics: bool,
    as_json: bool,
) -> int:
    """Show how far each segment has come, from the places themselves; nothing is changed.

    Without --check the exit code is 0 also where something is quarantined or missing.
    """
    screen = Screen(as_json)
    site = open_site(source, warehouse, archive)
    if metrics and site.settings.metrics is None:
        raise ConfigError("--metrics: name a folder in STRATA_METRICS")
    with site.warehouse.one_look():
        status = measured_status(site) if metrics else site_status(site)
        lost = status.catalog.lost if status.catalog else ()
        captures = _captures_problem(site, status)
        if check:
            screen.show(_judged(status, lost, captures))
        if as_json or not check:
            _show_all(screen, site, status, lost, captures)
    return FINDINGS if check and not _is_well(status, lost, captures) else OK


def _captures_problem(site: Site, status: SiteStatus) -> str:
    """What is wrong with spam captures, and what to do; empty: nothing."""
    if status.catalog is None or status.catalog.snapshot.captures is None:
        return ""
    from transforms.duck_errors import Error  # of use only where there are captures
    from transforms.warehouse.capture_file import refused_captures

    try:
        lines = len(refused_captures(site.warehouse))
    except MissingFileError as error:
        return str(error)
    except Error:
        return "the spam captures cannot be read: strata verify says what to do"
    if not lines:
        return ""
    return f"{lines:,} lines of spam captures are refused: strata captures lists them"


def _is_well(status: SiteStatus, lost: Sequence[Volume], captures: str) -> bool:
    return not (status.to_do or status.refused or status.lake_problem or lost or captures)


def _judged(status: SiteStatus, lost: Sequence[Volume], captures: str) -> str:
    """Whether all is well, else what is not, on one line."""
    if _is_well(status, lost, captures):
        return _left_to_do(status)
    sentences = [_left_to_do(status)] if status.to_do or status.refused else []
    for file, reason in list(status.refused.items())[:1]:
        sentences.append(f"the first is {file}: {' '.join(reason.split())}")
    if lost:
        sentences.append(f"{len(lost):,} volumes are lost: strata repair, then strata load")
    if status.lake_problem:
        sentences.append(f"how far the lake is cannot be said: {status.lake_problem}")
    return "; ".join(filter(None, (*sentences, captures)))


def _show_all(
    screen: Screen, site: Site, status: SiteStatus, lost: Sequence[Volume], captures: str
) -> None:
    places = {
        "source": site.source.describe(),
        "warehouse": site.warehouse.describe(),
        "archive": site.store.describe(),
    }
    segments = {"found": status.found, "loaded": status.loaded, "published": status.published}
    if site.settings.lake:
        segments["in_lake"] = status.in_lake
    runs = {step: (*contiguous_runs(blocks),) for step, blocks in segments.items()}
    ids, collection = [*status.ids.findings()], collection_state(site)
    _show_steps(screen, status, [*places.values(), f"lake/ in {places['archive']}"], segments, runs)
    screen.table("contradictions of the chain of ids", ("where", "what"), ids)
    rows = ((volume.key, volume.blocks) for volume in lost)
    screen.table("lost volumes: run strata repair, then strata load", ("volume", "blocks"), rows)
    for sentence in _sentences(site, status, collection, captures):
        screen.show(sentence)
    opened, steps = site.warehouse.shown(), {**segments, "to_do": status.to_do}
    screen.document(
        {
            **places,
            **_facts(status),
            "segments": {step: [*map(str, blocks)] for step, blocks in steps.items()},
            "gaps": {step: [*gaps_between(ranges)] for step, ranges in runs.items()},
            "ids": {
                "unbroken": [run.blocks for run in status.ids.chain.runs],
                "contradictions": [{"where": where, "what": what} for where, what in ids],
            },
            "collection": {**collection.figures, "problem": collection.problem or None},
            "single_writer": site.settings.single_writer,
            "open_with": opened and opened.path,
            "lost": [volume.key for volume in lost],
            "captures_problem": captures or None,
        }
    )


def _sentences(
    site: Site, status: SiteStatus, collection: CollectionState, captures: str
) -> Iterator[str]:
    if not is_begun(site.store):
        yield f"there is no archive at {site.store.describe()}: strata publish makes one"
    if unbroken := ", ".join(str(run.blocks) for run in status.ids.chain.runs):
        yield f"chain of the network's ids unbroken over {unbroken}"
    if collection.problem:
        yield f"what is left to collect cannot be said: {collection.problem}"
    elif waiting := collection.figures.get("segments_to_collect"):
        left = collection.figures["collect_blocks_left"]
        yield (
            f"{waiting:,} segments to collect; the data node drops the oldest after {left:,} more "
            "blocks: strata collect"
        )
    if captures:
        yield captures
    if site.settings.single_writer:
        yield _SINGLE_WRITER
    if opened := site.warehouse.shown():
        note = "" if opened.is_new else ", once strata sql 'from blocks limit 5' has made it new"
        yield f"open with duckdb -readonly {opened.path}{note}"


def _show_steps(
    screen: Screen,
    status: SiteStatus,
    places: Sequence[str],
    segments: Mapping[str, Sequence[BlockRange]],
    runs: Mapping[str, tuple[BlockRange, ...]],
) -> None:
    """How far segments have come."""
    screen.show(status.chain_id or "no chain yet")
    screen.table(
        "",
        ("", "segments", "missing", "blocks", "gaps", "behind", "place"),
        (
            (
                what.replace("_", " "),
                len(segments[what]),
                max(len(status.known) - len(segments[what]), 0) if what != "found" else "",
                _joined(runs[what]),
                _joined(gaps_between(runs[what])),
                status.survey.behind(runs[what]) if what != "found" else "",
                place,
            )
            for what, place in zip(segments, places, strict=False)
        ),
    )
    screen.show(_left_to_do(status))
    screen.table("quarantined", ("file", "reason"), status.refused.items())
    until = status.complete_until
    screen.show(f"complete until block {until}" if until is not None else "nothing is complete yet")
    if status.lake_problem:
        screen.show(f"how far the lake is cannot be said: {status.lake_problem}")
    if status.not_in_lake:
        blocks = _joined(contiguous_runs(status.not_in_lake))
        screen.show(f"loaded and not in the lake: {blocks}")


def _left_to_do(status: SiteStatus) -> str:
    """All of it in one line."""
    counts = {
        "to load": len(status.survey.pending),
        "to publish": len(status.unpublished),
        "to put into the lake": len(status.not_in_lake),
    }
    tasks = [f"{count:,} {what}" for what, count in counts.items() if count]
    sentences = [f"segments {', '.join(tasks)}: strata run does that"] if tasks else []
    if status.refused:
        sentences.append(
            f"{len(status.refused):,} files cannot be used: replace or remove them in the source"
        )
    if not sentences:
        sentences.append("nothing is left to do" if status.known else "no segments yet")
    return "; ".join(sentences)


def _facts(status: SiteStatus) -> dict[str, Any]:
    return {
        "chain_id": status.chain_id,
        "quarantined": [
            {"file": file, "reason": reason} for file, reason in status.refused.items()
        ],
        "complete_until": status.complete_until,
        "blocks_behind": status.blocks_behind,
        "not_in_lake": [*contiguous_runs(status.not_in_lake)],
        "lake_problem": status.lake_problem or None,
    }


def _joined(ranges: Iterable[BlockRange]) -> str:
    return ", ".join(map(str, ranges)) or "none"
