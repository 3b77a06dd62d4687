"""The chain of the network's ids, as status, verify and the archive show it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from exporters.archive.sums import entries_chain
from pipelines.settings import Settings
from pipelines.site.loading import load_segments
from pipelines.site.publishing import publish_segments
from pipelines.site.segment_status import IdReport, id_report, site_status
from pipelines.site.site import Site
from pipelines.site.site_check import verify_site
from tests.cid_kit import cid_of
from tests.pipelines.kit import blocks, load, make_segment
from transforms.segments.cid import CidHasher
from transforms.verifying.findings import Problem

_OTHER = CidHasher().cid()


def _chain(settings: Settings, *broken: int, count: int = 3) -> list[str]:
    """Segments of which each was made after the one before, but for those that are broken."""
    ids: list[str] = []
    for number in range(count):
        previous = _OTHER if number in broken else (ids[-1] if ids else "")
        ids.append(cid_of(make_segment(settings, number, previous_id=previous)))
    return ids


def _report(site: Site) -> IdReport:
    return id_report(site.loaded_catalog().segment_rows())


def _findings(site: Site) -> list[tuple[str, str]]:
    """What `strata verify` finds wrong with the ids; that nothing is published is another thing."""
    found = (one for one in verify_site(site) if one.problem is Problem.DISAGREEMENT)
    return [(one.place, one.what) for one in found]


def test_an_unbroken_chain_is_shown_and_published(settings: Settings, site: Site) -> None:
    ids = _chain(settings)
    load(site)
    assert [str(run.blocks) for run in _report(site).chain.runs] == ["1-30"]
    assert _findings(site) == []
    publish_segments(site, blocks(0, 1, 2), ("orders", "blocks"))
    archive = site.archive(site.loaded_catalog().snapshot.chain_id)
    (number,) = archive.index().shards
    entries = archive.shard(number).entries
    assert [str(run.blocks) for run in entries_chain(entries).runs] == ["1-30"]
    sources = [entry.segment for entry in entries if entry.table == "orders"]
    assert [source.segment_id for source in sources] == ids
    assert [source.previous_id for source in sources] == ["", *ids[:2]]


def test_a_broken_chain_is_a_finding_and_in_the_status(settings: Settings, site: Site) -> None:
    ids = _chain(settings, 1)
    load(site)
    sentence = (
        f"segment 1-10 has the id {ids[0]}, but segment 11-20 (id {ids[1]}) was made after "
        f"{_OTHER}: one of the two is of another history; get both from another source"
    )
    assert _findings(site) == [("segment 11-20", sentence)]
    report = site_status(site).ids
    assert [str(run.blocks) for run in report.chain.runs] == ["1-10", "11-30"]
    assert [*report.findings()] == [("segment 11-20", sentence)]


def test_the_word_of_an_index_that_is_wrong_is_a_finding(settings: Settings, site: Site) -> None:
    ids = _chain(settings, count=1)
    rows = [{"File": "kit-chain-1-1-10.zip", "HistorySegmentID": _OTHER}]
    Path(settings.source, "index.json").write_text(json.dumps(rows))
    load(site)
    ((place, what),) = _findings(site)
    assert place == "kit-chain-1-1-10.zip"
    assert what.startswith(f"kit-chain-1-1-10.zip has the id {ids[0]} by its bytes, but")


def test_the_setting_refuses_what_contradicts_the_chain(settings: Settings) -> None:
    _chain(settings, 1)
    site = Site(replace(settings, require_id_chain=True))
    load_segments(site, blocks(0, 1, 2))
    assert [file.key for file in site.warehouse.snapshot().quarantine] == ["kit-chain-1-11-20.zip"]
