"""Fetching from an archive; see `strata.fetch` and `strata.mirror`."""

from __future__ import annotations

from pathlib import Path

from exporters.archive.chain_list import chains
from exporters.fetching.mirror import Mirrored, mirror
from exporters.fetching.places import choose_chain, opened_archive
from exporters.fetching.range_fetch import fetch_range

__all__ = ["Mirrored", "fetch_all", "fetch_table"]


def fetch_table(
    archive: str, table: str, first: int | None, last: int | None, out: Path, chain: str | None
) -> Path:
    """Fetch a range; returns the path of its ZIP."""
    with opened_archive(archive) as store:
        return fetch_range(choose_chain(store, chain), table, first, last, out).path


def fetch_all(archive: str, out: Path, chain: str | None) -> list[Mirrored]:
    """Mirror one chain, or all; returns what came of each."""
    with opened_archive(archive) as store:
        wanted = chains(store) if chain is None else (chain,)
        return [mirror(choose_chain(store, one), out) for one in wanted]
