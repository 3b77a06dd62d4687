"""The chain of the network's ids over what an archive was made of, by its own index alone."""

from __future__ import annotations

from collections.abc import Iterable

from exporters.archive.entries import Entry, Json, range_json, range_of
from transforms.segments.id_chain import IdChain, IdRun, id_chain


def entries_chain(entries: Iterable[Entry]) -> IdChain:
    """How far the chain of ids is unbroken over the segments of these ZIPs, of any tables.

    A segment whose ZIPs name different ids contradicts itself.
    """
    runs = {segment.id_run for entry in entries for segment in entry.segments}
    return id_chain(sorted(runs, key=lambda run: (run.first, run.segment_id, run.previous_id)))


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


def id_run_of(run: Json) -> IdRun:
    """The run that `id_run_json` wrote."""
    return IdRun(range_of(run["first"]), range_of(run["last"]), run["id"], run["previous_id"])
