"""Reading everything again: the warehouse, the archive, and each against the other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain
from pathlib import Path

from exporters.archive.archive import Archive, chains
from exporters.archive.figures import size_text
from exporters.archive.lake_place import LAKE
from exporters.archive.sound_documents import INDEX
from exporters.signing_keys import PublicKey
from exporters.verifying.archive_check import ArchiveCheck
from exporters.verifying.expected import Expected
from exporters.verifying.listing import StoreListing, stranger_findings
from exporters.verifying.verify_documents import public_findings, signature_findings
from pipelines.site.segment_status import id_report
from pipelines.site.site import Site
from transforms.errors import ConfigError, IntegrityError
from transforms.lake.parquet_rows import loaded_state
from transforms.verifying.findings import PUBLISH, RESTORE, Finding, Problem, Remedy
from transforms.verifying.proofs import Proofs
from transforms.verifying.verification import Count, Counts, Kind, SoundParts, Verification
from transforms.warehouse.checks.warehouse_check import Holding, WarehouseCheck

_OTHER_SOURCE = Remedy((), "one of the two is of another history: get both from another source")
_RIGHT_PLACE = Remedy((), "name the place that is meant, or mount it")
_FIRST_TIME = Remedy(PUBLISH.commands, "only if this is the place that is meant, and is mounted")


@contextmanager
def proven_before(site: Site) -> Iterator[tuple[Proofs, SoundParts]]:
    """What an interrupted check of this machine has proven of the site, and what was sound."""
    with (
        closing(_proofs(site, "verify", "everything")) as proven,
        # Another release may write other documents.
        closing(_proofs(site, "sound", version("strata"))) as sound,
    ):
        yield proven, SoundParts(sound)


def _proofs(site: Site, purpose: str, about: str) -> Proofs:
    places = f"{site.warehouse.describe()}\n{site.store.describe()}\n{about}"
    cache = site.warehouse.cache
    # A place that is not there is not made by looking at it.
    path = cache / "proofs.sqlite" if cache.is_dir() else None
    return Proofs(path, f"{purpose} {hashlib.sha256(places.encode()).hexdigest()[:16]}")


def verify_site(
    site: Site,
    verification: Verification | None = None,
    public_key: PublicKey | None = None,
    *,
    archive_alone: bool = False,
) -> Iterator[Finding]:
    """Yield what is wrong; nothing, if all is well, and then everything was read.

    With `public_key`, each chain's documents must be signed by it; with `archive_alone`, there is
    no warehouse to look at.
    Memory stays bounded. Nothing is changed but what `verification` keeps of what was proven, which
    is forgotten at the end, and of what is sound. Errors of the machine pass through.
    """
    check = verification or Verification()
    count = 0
    findings = _findings(site, check, archive_alone=archive_alone)
    for finding in chain(findings, _unsigned(site, check, public_key)):
        count += 1
        yield finding
    if check.was_stopped:
        return
    if not count:
        for finding in _unread(site, check.counts):
            count += 1
            yield finding
    if not count:
        check.sound.keep()
    check.proven.clear()


def _findings(site: Site, check: Verification, *, archive_alone: bool) -> Iterator[Finding]:
    warehouse = WarehouseCheck(site.warehouse.backing, check)
    if not archive_alone:
        yield from warehouse.findings()
        yield from _ids(warehouse.holding)
    with ExitStack() as stack:
        cache = site.warehouse.cache
        scratch = site.scratch() if cache.is_dir() else None
        try:
            listing = stack.enter_context(closing(StoreListing(site.store, scratch)))
            chain_ids = _chains(site, warehouse.holding.chain_id, listing)
        except ConfigError as error:
            remedy = _FIRST_TIME if warehouse.holding.chain_id else _RIGHT_PLACE
            yield Finding(Problem.NOTHING, site.store.describe(), str(error), remedy)
            return
        yield from _archives(site, check, warehouse.holding, chain_ids, listing, scratch)


def _unsigned(site: Site, check: Verification, public_key: PublicKey | None) -> Iterator[Finding]:
    """What is not signed by the key, of the chains that there are."""
    if public_key is None or check.was_stopped:
        return
    try:
        chain_ids = _chains(site, "", None)
    except ConfigError:  # that there is no archive was found
        return
    for chain_id in chain_ids:
        yield from signature_findings(site.archive(chain_id), public_key, check.counts)


def _archives(
    site: Site,
    check: Verification,
    holding: Holding,
    chain_ids: list[str],
    listing: StoreListing,
    scratch: Path | None,
) -> Iterator[Finding]:
    """Check each chain of the archive, that of the warehouse against what is loaded."""
    own = holding.chain_id
    if own and own not in chain_ids:
        others = f"it holds {', '.join(chain_ids)}" if chain_ids else "it is empty"
        what = f"nothing of chain {own} is here; {others}: is this the right place?"
        yield Finding(Problem.NOTHING, site.store.describe(), what, _FIRST_TIME)
    elif not chain_ids:
        what = "there is no archive here: is this the right place?"
        yield Finding(Problem.NOTHING, site.store.describe(), what, _RIGHT_PLACE)
    for number, chain_id in enumerate(chain_ids):
        is_own = chain_id == own
        expected = Expected(holding) if is_own else Expected()
        archive = site.archive(chain_id)
        yield from ArchiveCheck(
            archive,
            check,
            listing,
            scratch,
            expected,
            can_publish=is_own,
            with_store=number == 0,
        ).findings()
        yield from public_findings(archive, check.counts, PUBLISH if is_own else RESTORE)
        if not check.was_stopped:
            yield from _lake(site, check, archive, listing, scratch, expected, is_own=is_own)
    if not check.was_stopped:
        yield from stranger_findings(site.store, listing, chain_ids)


def _lake(
    site: Site,
    check: Verification,
    archive: Archive,
    listing: StoreListing,
    scratch: Path | None,
    expected: Expected,
    *,
    is_own: bool,
) -> Iterator[Finding]:
    """Check the lake of a chain; it should be there where this place publishes to it."""
    is_wanted = is_own and site.settings.lake
    if not is_wanted and next(listing.left(archive.key(f"{LAKE}/")), None) is None:
        return
    # What reads Parquet takes its time to import, which whoever has no lake need not pay.
    from exporters.verifying.verify_lake import LakeCheck

    state = None
    if is_own:
        # That it cannot be read is found where the warehouse is checked.
        with suppress(IntegrityError, FileNotFoundError):
            state = loaded_state(site.warehouse.catalog())
    yield from LakeCheck(
        archive,
        check,
        listing,
        scratch,
        is_wanted=is_wanted,
        expected=expected,
        can_publish=is_own,
        state=state,
        memory_mb=site.settings.memory_mb,
    ).findings()


def _chains(site: Site, own: str, listing: StoreListing | None) -> list[str]:
    """The chains that the archive says it has, and the warehouse's, if anything of it is there.

    Where the list of chains cannot be read, that is every folder with an index. Raises
    `ConfigError` where there is no archive.
    """
    try:
        chain_ids = set(chains(site.store))
    except (IntegrityError, OSError):  # it is found where the documents are compared
        chain_ids = set()
    if not chain_ids and listing is not None:
        chain_ids = {name for name in listing.folders() if listing.find(f"{name}/{INDEX}")}
    if own and next(iter(site.store.list(f"{own}/")), None) is not None:
        chain_ids.add(own)
    return sorted(chain_ids)


def _ids(holding: Holding) -> Iterator[Finding]:
    """What contradicts the chain of the network's ids."""
    ids = holding.catalog.ids() if holding.catalog else ()
    for place, what in id_report(ids).findings():
        yield Finding(Problem.DISAGREEMENT, place, what, _OTHER_SOURCE)


def _unread(site: Site, counts: Counts) -> Iterator[Finding]:
    """The check of the check: nothing may be called sound that was not read."""
    place = f"{site.warehouse.describe()} and {site.store.describe()}"
    if not any(counts[kind].expected for kind in (Kind.ZIPS, Kind.VOLUMES)):
        what = "nothing is there"
        yield Finding(Problem.NOTHING, place, what, _RIGHT_PLACE)
    for kind, count in counts.unread():
        what = f"{count.read} of {count.chosen} {kind} were read, for no reason found"
        yield Finding(
            Problem.NOT_READ, place, what, Remedy((), "run it again; report it if it stays")
        )


def count_table(counts: Counts) -> tuple[tuple[str, ...], Iterator[tuple[str, ...]]]:
    """What was read of how much, as columns and rows for a person."""

    def cells(kind: Kind, count: Count) -> tuple[str, ...]:
        text = size_text if kind is Kind.BYTES else "{:,}".format
        return (kind.value, text(count.read), text(count.expected))

    return ("what", "read", "of"), (cells(kind, count) for kind, count in counts.rows())


def summary(check: Verification, findings: int) -> str:
    """What the check says, and no more than it looked at."""
    if check.is_quick:
        kinds = (Kind.ZIPS, Kind.VOLUMES, Kind.LAKE_FILES)
        counts = [(kind, check.counts[kind]) for kind in kinds if check.counts[kind].expected]
        looked = ", ".join(f"{count.read:,} of {count.expected:,} {kind}" for kind, count in counts)
        documents = f"chosen at random, and at all documents{_unchanged(check)}"
        return f"Looked at the hashes of {looked}, {documents}: {_counted(findings)}."
    if check.was_stopped:
        return f"Stopped before the end: {_counted(findings)} so far. The next call goes on."
    if findings:
        return f"{_counted(findings)[0].upper()}{_counted(findings)[1:]}."
    return _matching(check)


def _unchanged(check: Verification) -> str:
    """What a quick check relied on, as part of a sentence; empty if on nothing."""
    sound = check.sound
    if not sound.unchanged:
        return ""
    since = datetime.fromtimestamp(sound.since, UTC).strftime("%Y-%m-%d %H:%M UTC")
    count = f"{len(sound.unchanged):,} of {sound.total:,} shards"
    return f"; {count} and their ZIPs are listed as in the check of {since}"


def _matching(check: Verification) -> str:
    has_lake = check.counts[Kind.LAKE_FILES].expected > 0
    lake = ", lake" if has_lake else ""
    return f"Everything matches: archive, index{lake}, warehouse and recorded hashes of sources."


def _counted(findings: int) -> str:
    if not findings:
        return "nothing is wrong with these"
    return f"{findings:,} finding{'s' if findings > 1 else ''}"
