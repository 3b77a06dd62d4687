"""What lies in an archive and no document names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator

from exporters.archive.chain_list import CHAINS
from exporters.archive.sound_documents import HOME
from exporters.verifying.listing import StoreListing
from transforms.stores.store import SCRATCH, Store
from transforms.tables.registry import HISTORY_TABLES
from transforms.verifying.findings import Finding, Problem, move_away
from transforms.verifying.verification import YOUNG_SECONDS

_TABLES = "|".join(HISTORY_TABLES)
_OURS = re.compile(
    rf"[^/]+/(?:(?:{_TABLES})/[^/]+-\d+-\d+\.zip(?:\.sha256)?"
    r"|index/(?:blocks-)?\d+\.(?:json|html|sha256)|index\.(?:json|html)|revisions(?:\.copy)?\.json"
    r"|(?:latest|conditions)\.json|llms\.txt|strata\.(?:sql|duckdb)|feed\.xml|SHA256SUMS|(?:SHA256SUMS|index\.json)\.minisig)"
)


def stranger_findings(
    store: Store, listing: StoreListing, chains: Collection[str]
) -> Iterator[Finding]:
    """Yield what is left of a listing from which all that is named was crossed off.

    What a publisher at work may have put there, and not named yet, is none for an hour.
    """
    listing.cross_off((CHAINS, HOME))
    folders: Counter[str] = Counter()
    for info in listing.left():
        top, slash, _ = info.key.partition("/")
        is_young = listing.time - info.modified < YOUNG_SECONDS
        if top == SCRATCH or (is_young and _OURS.fullmatch(info.key)):
            continue
        if slash and top not in chains:
            folders[top] += 1
            continue
        place = store.describe(info.key)
        yield Finding(Problem.ORPHAN, place, "nothing in the archive names it", move_away(place))
    for folder, count in sorted(folders.items()):
        place = store.describe(folder)
        what = f"it is the folder of no chain of this archive, and holds {count} files"
        yield Finding(Problem.ORPHAN, place, what, move_away(place))
