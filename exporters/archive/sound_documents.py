"""What follows from the published entries as it lies there, which may be damaged, or gone."""

from __future__ import annotations

import hashlib
import logging

from exporters.archive.archive import CHAINS, Archive
from exporters.archive.document_store import DocumentStore
from exporters.archive.hash_lists import ENDING, SIGNATURES, SUMS, parse_sums
from exporters.archive.index import ArchiveIndex
from exporters.archive.public_sql import PUBLIC_DATABASE, PUBLIC_SQL, public_address
from exporters.archive.revisions import REVISIONS, Revision, revisions
from exporters.archive.stored_shards import rebuilt_index
from transforms.errors import IntegrityError, OtherFormatError
from transforms.stores.store import Store, versioned

HOME = "index.html"
PAGE = "index.html"
INDEX = "index.json"
CONDITIONS = "conditions.json"
LATEST = "latest.json"
SCHEMA = "schema.json"
SCHEMA_PAGE = "schema.html"

LISTED = (INDEX, SCHEMA, CONDITIONS, LATEST, REVISIONS, PUBLIC_SQL, PUBLIC_DATABASE)
"""What `SHA256SUMS` lists besides shards and their hash lists, where it is there."""

OF_CHAIN = (INDEX, SCHEMA, SCHEMA_PAGE, CONDITIONS, LATEST, PAGE, SUMS)
_log = logging.getLogger(__name__)


def chain_keys(archive: Archive) -> list[str]:
    """The keys of the documents that follow from all shards together, besides pages of shards."""
    signatures = SIGNATURES if archive.signer is not None else ()
    names = (*OF_CHAIN, *(f"{name}{ENDING}" for name in signatures))
    return [*map(archive.key, names), CHAINS, HOME]


def is_complete(archive: Archive) -> bool:
    """Whether every document of the chain is there, and those of `SHA256SUMS` as it says.

    None is computed: this is for whoever knows that no shard has changed.
    """
    store = DocumentStore(archive.store)
    keys = chain_keys(archive)
    others = (PUBLIC_SQL, REVISIONS)
    store.read_first([*keys, *map(archive.key, others)])
    if not all(versioned(store, key) for key in keys):
        return False
    hashes = parse_sums(store.read(archive.key(SUMS)))
    for path in {*hashes, INDEX, *others}.intersection((*OF_CHAIN, *others)):
        document = versioned(store, archive.key(path))
        if hashes.get(path) != (document and hashlib.sha256(document[0]).hexdigest()):
            return False
    return True


def sound_index(archive: Archive) -> ArchiveIndex:
    """The index; where it is damaged or gone, what it would be, from the shards.

    Raises `OtherFormatError`, as what another release wrote is not to be replaced.
    """
    try:
        index = archive.index()
    except OtherFormatError:
        raise
    except IntegrityError as error:
        _log.warning("%s", error)
        index = ArchiveIndex(archive.chain_id)
    if index.shards or not is_begun(archive.store):
        return index
    return rebuilt_index(archive)


def sound_revisions(archive: Archive) -> tuple[Revision, ...] | None:
    """The replaced files; None where the list of revisions is damaged."""
    try:
        return revisions(archive)
    except IntegrityError as error:
        _log.warning("%s", error)
        return None


def sound_address(archive: Archive) -> str:
    """Where anybody reads the chain's folder; empty where nobody knows."""
    try:
        return public_address(archive.read(PUBLIC_SQL), archive.place(PUBLIC_SQL))
    except IntegrityError as error:
        _log.warning("%s; who publishes to the lake makes it again", error)
        return ""


def is_begun(store: Store) -> bool:
    """Whether anybody has made the place yet: a folder is made by the first publication."""
    root = store.path(CHAINS)
    return root is None or root.parent.exists()
