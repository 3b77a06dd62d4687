"""The chain of the network's ids over what an archive was made of, by its own index alone."""

from __future__ import annotations

from collections.abc import Iterable

from exporters.archive.entries import Entry, Json, range_json, range_of
from transforms.blocks import BlockRange
from transforms.segments.id_chain import IdChain, IdRun, id_chain


def entries_chain(entries: Iterable[Entry]) -> IdChain:
    """How far the chain of ids is unbroken over the segments of these ZIPs, of any tables.

    A segment whose ZIPs name different ids, or of which one has none, counts as unknown.
    """
    runs: dict[BlockRange, IdRun] = {}
    for entry in entries:
        for segment in entry.segments:
            run = segment.id_run
            known = runs.setdefault(segment.blocks, run)
            if known != run:
                runs[segment.blocks] = IdRun(segment.blocks, segment.blocks, "", "")
    return id_chain(runs[blocks] for blocks in sorted(runs))


def joined_chain(shards: Iterable[Iterable[IdRun]]) -> IdChain:
    """The chain over the runs of several shards, ascending."""
    return id_chain(run for runs in shards for run in runs)


def id_run_json(run: IdRun) -> Json:
    """A run of segments with its ends, from which it can be joined to those beside it."""
    return {
        "first": range_json(run.first),
        "last": range_json(run.last),
        "id": run.segment_id,
        "previous_id": run.previous_id,
    }


def id_run_of(found: Json) -> IdRun:
    """The run that `id_run_json` wrote."""
    return IdRun(
        range_of(found["first"]), range_of(found["last"]), found["id"], found["previous_id"]
    )
