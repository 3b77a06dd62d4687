"""Reading everything again: the warehouse, the archive, and each against the other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from exporters.archive.archive import Archive, chains
from exporters.archive.figures import size_text
from exporters.archive.lake_place import LAKE
from exporters.archive.sound_documents import sound_index
from exporters.signing_keys import PublicKey
from exporters.verifying.archive_check import ArchiveCheck
from exporters.verifying.named_files import NamedFiles
from exporters.verifying.verify_documents import public_findings, signature_findings
from pipelines.site.last_checks import check_record
from pipelines.site.publication_state import corrected_segments
from pipelines.site.segment_status import id_report
from pipelines.site.site import Site
from transforms.errors import ConfigError, IntegrityError
from transforms.scratch import temporary_folder
from transforms.stores.store import Store
from transforms.verifying.findings import (
    PUBLISH,
    Finding,
    Problem,
    Remedy,
    replace_zips,
    restored,
    tally,
)
from transforms.verifying.verification import Kind, Verification
from transforms.warehouse.checks.warehouse_check import Holding, warehouse_findings
from transforms.warehouse.files.backing import Backing

_OTHER_SOURCE = Remedy((), "one of the two is of another history: get both from another source")
_RIGHT_PLACE = Remedy((), "name the place that is meant, or mount it")
_FIRST_TIME = Remedy(PUBLISH.commands, "only if this is the place that is meant, and is mounted")
_MOST = 1000
_REST = (
    "Of what was proven before, ZIPs and their hash files were not looked at, and other files were "
    "not read again: strata verify does that."
)


def verify_site(
    site: Site,
    verification: Verification | None = None,
    public_key: PublicKey | None = None,
    *,
    archive_alone: bool = False,
) -> Iterator[Finding]:
    """Yield what is wrong; nothing, if all is well, and then everything was read.

    With `public_key`, each chain's documents must be signed by it; with `archive_alone`, there is
    no warehouse to look at. Memory stays bounded. Nothing is changed but this machine's records of
    what was sound, upon which a quick check relies. A user who may not write to the cache works in
    `TMPDIR`, and keeps no records. Errors of the machine pass through.
    """
    check = verification or Verification()
    kept, about = check_record(site)
    check.rely_on(kept, about)
    # A place that is not there is not made by looking at it.
    has_cache, backing = kept.parent.is_dir(), site.warehouse.backing
    may_write = has_cache and os.access(kept.parent, os.W_OK)
    with ExitStack() as stack:
        if has_cache and not may_write:
            backing = replace(backing, cache=stack.enter_context(temporary_folder()))
        scratch = site.scratch() if may_write else None
        checks = _Checks(site, check, backing, scratch, public_key)
        count = yield from tally(checks.archive(None) if archive_alone else checks.both())
    if may_write:
        check.keep(kept, about, count)


def first_findings(findings: Iterator[Finding]) -> tuple[list[Finding], int]:
    """The first thousand, and how many there are: of an archive that is lost, millions."""
    first = [*islice(findings, _MOST)]
    return first, len(first) + sum(1 for _ in findings)


@dataclass(frozen=True, slots=True)
class _Checks:
    """The checks of a warehouse and of each chain of an archive, which yield what is wrong."""

    site: Site
    check: Verification
    backing: Backing
    scratch: Path | None
    public_key: PublicKey | None

    def both(self) -> Iterator[Finding]:
        """Check the warehouse, and the archive against it."""
        holding = yield from warehouse_findings(self.backing, self.check)
        if holding is not None:
            for place, what in id_report(holding.catalog.segment_rows()).findings():
                yield Finding(Problem.DISAGREEMENT, place, what, _OTHER_SOURCE)
            self.check.foreign_rows += holding.catalog.foreign_rows()
        yield from self.archive(holding)

    def archive(self, holding: Holding | None) -> Iterator[Finding]:
        """Check the archive, and one chain of it against what its warehouse holds."""
        own, store = holding.catalog.snapshot.chain_id if holding else "", self.site.store
        try:
            known = _known_chains(store)
            is_there = any(store.list(f"{own}/" if own else ""))
        except ConfigError as error:
            remedy = _FIRST_TIME if own else _RIGHT_PLACE
            yield Finding(Problem.MISSING, store.describe(), str(error), remedy)
            return
        chain_ids = sorted(known | {own} if own and is_there else known)
        if own and own not in chain_ids:
            others = f"it holds {', '.join(chain_ids)}" if chain_ids else "it is empty"
            what = f"nothing of chain {own} is here; {others}: is this the right place?"
            yield Finding(Problem.MISSING, store.describe(), what, _FIRST_TIME)
        elif not chain_ids:
            what = "there is no archive here: is this the right place?"
            yield Finding(Problem.MISSING, store.describe(), what, _RIGHT_PLACE)
        named, is_readable = NamedFiles(store), bool(chain_ids)
        for chain_id in chain_ids:
            held = holding if chain_id == own else None
            for finding in self._chain(self.site.archive(chain_id), named, held):
                is_readable &= finding.problem not in (Problem.MISSING, Problem.DAMAGED)
                yield finding
        # What is damaged, or not there, may name what nothing else does.
        if is_readable and not self.check.is_quick:
            yield from named.strangers(chain_ids)

    def _chain(
        self, archive: Archive, named: NamedFiles, held: Holding | None
    ) -> Iterator[Finding]:
        findings = self._findings(archive, named, held)
        yield from findings if held else restored(findings)
        if self.public_key is not None:
            yield from signature_findings(archive, self.public_key)

    def _findings(
        self, archive: Archive, named: NamedFiles, held: Holding | None
    ) -> Iterator[Finding]:
        yield from ArchiveCheck(archive, self.check, named, self.scratch, held).findings()
        yield from public_findings(archive)
        if held and self.check.is_quick:  # which reads no shard that it knows
            for blocks in corrected_segments(self.site, held.catalog, sound_index(archive)):
                what = f"segment {blocks} is published with other text than loaded"
                yield Finding(Problem.DISAGREEMENT, archive.place(""), what, replace_zips(blocks))
        # It should be there where this place publishes to it.
        is_wanted = held is not None and self.site.settings.lake
        if is_wanted or any(archive.store.list(archive.key(f"{LAKE}/"))):
            # What reads Parquet takes its time to import, which whoever has no lake need not pay.
            from exporters.verifying.verify_lake import LakeCheck

            yield from LakeCheck(archive, self.check, named, self.scratch, held).findings()


def _known_chains(store: Store) -> set[str]:
    """The chains that the archive names; none where that is damaged, which is found later."""
    with suppress(IntegrityError, OSError):
        return set(chains(store))
    return set()


def count_rows(check: Verification) -> Iterator[tuple[str, str, str]]:
    """What was read of how much, for a person: the kinds of which there is anything, in order."""
    for kind in Kind:
        if check.there[kind]:
            text = size_text if kind is Kind.BYTES else "{:,}".format
            yield kind.value, text(check.read[kind]), text(check.there[kind])


def _whole_check(check: Verification) -> str:
    if not check.whole:
        return "No such check is known here that found nothing wrong."
    at = datetime.fromisoformat(check.whole)
    days = (datetime.now(UTC) - at).days
    return f"It last found nothing wrong on {at:%Y-%m-%d at %H:%M} UTC, {days} days ago."


def summary(check: Verification, findings: int) -> str:
    """What the check says, and no more than it looked at."""
    counted = f"{findings:,} finding{'s' if findings != 1 else ''}"
    if check.is_quick:
        kinds = (kind for kind in (Kind.ZIPS, Kind.VOLUMES, Kind.LAKE_FILES) if check.there[kind])
        looked = ", ".join(
            f"{check.read[kind]:,} of {check.there[kind]:,} {kind}" for kind in kinds
        )
        found = counted if findings else "nothing is wrong with these"
        new = f"Looked at what no check has proven yet: the hashes of {looked}: {found}."
        return f"{new} {_REST} {_whole_check(check)}"
    if findings:
        return f"{counted}."
    lake = ", lake" if check.there[Kind.LAKE_FILES] else ""
    return f"Everything matches: archive, index{lake}, warehouse and recorded hashes of sources."
