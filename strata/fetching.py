"""Fetching from an archive; see `strata.fetch` and `strata.mirror`."""

from __future__ import annotations

from pathlib import Path

from exporters.archive.archive import chains
from exporters.fetching.fetch_folder import choose_chain, opened_archive
from exporters.fetching.mirror import Mirrored
from exporters.fetching.range_fetch import fetch_range
from exporters.fetching.range_plan import choose_blocks
from exporters.mirroring.whole_mirror import mirror_all
from transforms.bounds import lower_bound, upper_bound

__all__ = ["Mirrored", "fetch_all", "fetch_table"]


def fetch_table(
    archive: str,
    table: str,
    first: int | str | None,
    last: int | str | None,
    out: Path,
    chain: str | None,
) -> Path:
    """Fetch a range; returns the path of its ZIP."""
    start = None if first is None else lower_bound(str(first))
    end = None if last is None else upper_bound(str(last))
    with opened_archive(archive) as store:
        source = choose_chain(store, chain)
        blocks = choose_blocks(source, table, start, end)
        return fetch_range(source, table, blocks.first, blocks.last, out).path


def fetch_all(archive: str, out: Path, chain: str | None) -> list[Mirrored]:
    """Mirror one chain, or all; returns what came of each."""
    with opened_archive(archive) as store:
        chain_ids = chains(store) if chain is None else (chain,)
        return [mirror_all(choose_chain(store, chain_id), out) for chain_id in chain_ids]
