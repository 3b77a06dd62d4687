"""Reading everything again: the warehouse, the archive, and each against the other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, closing
from importlib.metadata import version
from itertools import chain, islice

from exporters.archive.archive import Archive, chains
from exporters.archive.figures import size_text
from exporters.archive.lake_place import LAKE
from exporters.signing_keys import PublicKey
from exporters.verifying.archive_check import ArchiveCheck
from exporters.verifying.listing import StoreListing, stranger_findings
from exporters.verifying.verify_documents import public_findings, signature_findings
from pipelines.site.segment_status import id_report
from pipelines.site.site import Site
from transforms.errors import ConfigError, IntegrityError
from transforms.verifying.findings import PUBLISH, RESTORE, Finding, Problem, Remedy
from transforms.verifying.proofs import Proofs
from transforms.verifying.verification import Kind, Verification
from transforms.warehouse.checks.warehouse_check import Holding, WarehouseCheck

_OTHER_SOURCE = Remedy((), "one of the two is of another history: get both from another source")
_RIGHT_PLACE = Remedy((), "name the place that is meant, or mount it")
_FIRST_TIME = Remedy(PUBLISH.commands, "only if this is the place that is meant, and is mounted")
_MOST = 1000


def sound_before(site: Site) -> Proofs:
    """What checks of this machine found sound of the site."""
    # Another release may write other documents.
    about = "\n".join((site.warehouse.describe(), site.store.describe(), version("strata")))
    cache = site.warehouse.cache
    # A place that is not there is not made by looking at it.
    path = cache / "proofs.sqlite" if cache.is_dir() else None
    return Proofs(path, f"sound {hashlib.sha256(about.encode()).hexdigest()[:16]}")


def verify_site(
    site: Site,
    verification: Verification | None = None,
    public_key: PublicKey | None = None,
    *,
    archive_alone: bool = False,
) -> Iterator[Finding]:
    """Yield what is wrong; nothing, if all is well, and then everything was read.

    With `public_key`, each chain's documents must be signed by it; with `archive_alone`, there is
    no warehouse to look at. Memory stays bounded. Nothing is changed but what `verification` keeps
    of what is sound. Errors of the machine pass through.
    """
    check = verification or Verification()
    holding = Holding()
    is_sound = True
    loaded = iter(()) if archive_alone else _warehouse(site, check, holding)
    for finding in chain(loaded, _archive(site, check, holding, public_key)):
        is_sound = False
        yield finding
    if is_sound:
        check.keep_sound()


def first_findings(findings: Iterator[Finding]) -> tuple[list[Finding], int]:
    """The first thousand, and how many there are: of an archive that is lost, millions."""
    first = [*islice(findings, _MOST)]
    return first, len(first) + sum(1 for _ in findings)


def _warehouse(site: Site, check: Verification, holding: Holding) -> Iterator[Finding]:
    """Check the warehouse, and say what it holds."""
    yield from WarehouseCheck(site.warehouse.backing, check, holding).findings()
    ids = holding.catalog.segment_lists() if holding.catalog else ()
    for place, what in id_report(ids).findings():
        yield Finding(Problem.DISAGREEMENT, place, what, _OTHER_SOURCE)


def _archive(
    site: Site, check: Verification, holding: Holding, public_key: PublicKey | None
) -> Iterator[Finding]:
    """Check each chain of the archive, that of the warehouse against what is loaded."""
    own, place = holding.chain_id, site.store.describe()
    scratch = site.scratch() if site.warehouse.cache.is_dir() else None
    with ExitStack() as stack:
        try:
            listing = stack.enter_context(closing(StoreListing(site.store, scratch)))
        except ConfigError as error:
            yield Finding(Problem.NOTHING, place, str(error), _FIRST_TIME if own else _RIGHT_PLACE)
            return
        try:
            known = set(chains(site.store))
        except (IntegrityError, OSError):  # it is found where the documents are compared
            known = set()
        is_there = bool(own) and listing.sizes(f"{own}/", "")[0] > 0
        chain_ids = sorted(known | {own}) if is_there else sorted(known)
        if own and own not in chain_ids:
            others = f"it holds {', '.join(chain_ids)}" if chain_ids else "it is empty"
            what = f"nothing of chain {own} is here; {others}: is this the right place?"
            yield Finding(Problem.NOTHING, place, what, _FIRST_TIME)
        elif not chain_ids:
            what = "there is no archive here: is this the right place?"
            yield Finding(Problem.NOTHING, place, what, _RIGHT_PLACE)
        for chain_id in chain_ids:
            archive = site.archive(chain_id)
            held = holding if chain_id == own else None
            yield from ArchiveCheck(archive, check, listing, scratch, held).findings()
            yield from public_findings(archive, check, listing, PUBLISH if held else RESTORE)
            yield from _lake(site, check, archive, listing, held)
            if public_key is not None:
                yield from signature_findings(archive, public_key)
        if known:  # else nobody says which folders are those of chains
            yield from stranger_findings(site.store, listing, chain_ids)


def _lake(
    site: Site,
    check: Verification,
    archive: Archive,
    listing: StoreListing,
    holding: Holding | None,
) -> Iterator[Finding]:
    """Check the lake of a chain; it should be there where this place publishes to it."""
    is_wanted = holding is not None and site.settings.lake
    if not is_wanted and next(listing.left(archive.key(f"{LAKE}/")), None) is None:
        return
    # What reads Parquet takes its time to import, which whoever has no lake need not pay.
    from exporters.verifying.verify_lake import LakeCheck

    yield from LakeCheck(archive, check, listing, is_wanted, holding).findings()


def count_rows(check: Verification) -> Iterator[tuple[str, str, str]]:
    """What was read of how much, for a person: the kinds of which there is anything, in order."""
    for kind in Kind:
        if check.there[kind]:
            text = size_text if kind is Kind.BYTES else "{:,}".format
            yield kind.value, text(check.read[kind]), text(check.there[kind])


def summary(check: Verification, findings: int) -> str:
    """What the check says, and no more than it looked at."""
    counted = f"{findings:,} finding{'s' if findings != 1 else ''}"
    if check.is_quick:
        kinds = (kind for kind in (Kind.ZIPS, Kind.VOLUMES, Kind.LAKE_FILES) if check.there[kind])
        looked = ", ".join(
            f"{check.read[kind]:,} of {check.there[kind]:,} {kind}" for kind in kinds
        )
        documents = "chosen at random, and at all documents"
        if check.unchanged:
            shards = f"{check.unchanged:,} shards"
            documents += f" but those of {shards}, which are listed as a sound check found them"
        found = counted if findings else "nothing is wrong with these"
        return f"Looked at the hashes of {looked}, {documents}: {found}."
    if findings:
        return f"{counted}."
    lake = ", lake" if check.there[Kind.LAKE_FILES] else ""
    return f"Everything matches: archive, index{lake}, warehouse and recorded hashes of sources."
