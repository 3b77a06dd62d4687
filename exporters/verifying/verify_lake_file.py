"""Reading one file of the lake back: its hash, types, rows, statistics, and every CSV in it."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from exporters.lake.lake_file_check import FileCheck
from exporters.lake.tables import HeldFile, Version
from exporters.verifying.listing import StoreListing, listed_object
from exporters.verifying.local_copy import local_copy
from transforms.duck import Connection
from transforms.errors import IntegrityError
from transforms.machine_errors import MemoryLimitError
from transforms.objects import ObjectInfo
from transforms.stores.store import content_sha256
from transforms.verifying.counts import Kind
from transforms.verifying.findings import Finding, Problem, Remedy, unreadable
from transforms.verifying.proofs import Proof
from transforms.verifying.verification import YOUNG_SECONDS, Verification
from transforms.warehouse.manifests.receipts import Receipt, receipts_digest


@dataclass(frozen=True, slots=True)
class LakeFileReader:
    """Reads files of a lake; one at a time is copied into `scratch`, where the store is a bucket.

    `opened` reads all of them. What was read is counted.
    """

    verification: Verification
    listing: StoreListing | None
    scratch: Path
    opened: Connection

    def present(self, version: Version, file: HeldFile, remedy: Remedy) -> Iterator[Finding]:
        """What a sample leaves out is there, at least, with all its bytes."""
        place = version.lake.place(version.table, file.file.name)
        info = self._info(version, file)
        if info is None:
            yield _missing(place, remedy)
        elif info.size != file.size:
            what = f"it has {info.size} bytes, not {file.size}"
            yield Finding(Problem.ALTERED, place, what, remedy)

    def findings(
        self, version: Version, file: HeldFile, receipts: Sequence[Receipt] | None, remedy: Remedy
    ) -> Iterator[Finding]:
        """Yield what is wrong with a file, unless it was proven by this check's earlier part."""
        counts, proven = self.verification.counts, self.verification.proven
        counts.expect(Kind.LAKE_CSVS, len(receipts or ()))
        place = version.lake.place(version.table, file.file.name)
        info = self._info(version, file)
        state, recorded = info.version if info else "", _recorded(version, file, receipts)
        is_whole = not self.verification.is_quick
        if is_whole and proven.find(place, state, recorded):
            self._count(file, is_earlier=True)
            counts.read(Kind.LAKE_CSVS, len(receipts or ()), is_earlier=True)
            return
        findings = list(self.read(version, file, receipts, remedy))
        yield from findings
        if is_whole and not findings:
            proven.keep(Proof(place, state, recorded))

    def read(
        self,
        version: Version,
        file: HeldFile,
        receipts: Sequence[Receipt] | None,
        remedy: Remedy,
        keep: Path | None = None,
    ) -> Iterator[Finding]:
        """Yield what is wrong with a file; one with nothing wrong is copied to `keep`."""
        lake, name = version.lake, file.file.name
        place = lake.place(version.table, name)
        try:
            store, key = lake.archive.store, lake.key(version.table, name)
            with local_copy(store, key, self.scratch, "file.parquet") as copy:
                problems = list(self._content(version, file, receipts, copy))
                if keep is not None and not problems:
                    shutil.copyfile(copy, keep)
        except FileNotFoundError:
            yield _missing(place, remedy)
            return
        except IntegrityError as error:
            problems = [(Problem.ALTERED, str(error))]
        except MemoryLimitError:  # nothing is wrong with the file
            raise
        except OSError as error:
            yield Finding(Problem.UNREADABLE, place, unreadable(error, place), remedy)
            return
        self._count(file)
        for problem, what in problems:
            yield Finding(problem, place, what, remedy)

    def _content(
        self,
        version: Version,
        file: HeldFile,
        receipts: Sequence[Receipt] | None,
        copy: Path,
    ) -> Iterator[tuple[Problem, str]]:
        sha256 = content_sha256(copy)
        if not file.name.is_of(sha256):
            yield Problem.ALTERED, f"it hashes to {sha256}, which is not what its name says"
            return
        if self.verification.is_quick:
            return

        def rendered() -> None:
            self.verification.counts.read(Kind.LAKE_CSVS)

        digest = self.verification.rendered.get(sha256)
        is_rendered = receipts is not None and digest == receipts_digest(receipts)
        check = FileCheck(
            version, file, copy, self.scratch, receipts, rendered, self.opened, is_rendered
        )
        for what in check.problems():
            yield Problem.BAD_LAKE_FILE, what

    def _count(self, file: HeldFile, *, is_earlier: bool = False) -> None:
        counts = self.verification.counts
        counts.read(Kind.LAKE_FILES, is_earlier=is_earlier)
        counts.read(Kind.BYTES, file.size, is_earlier=is_earlier)
        self.verification.report(Kind.LAKE_FILES)

    def is_young(self, version: Version, file: HeldFile) -> bool:
        """Whether a publisher may just have put a file there."""
        info = self._info(version, file)
        now = version.lake.archive.store.now()
        return info is not None and now - info.modified < YOUNG_SECONDS

    def _info(self, version: Version, file: HeldFile) -> ObjectInfo | None:
        key = version.lake.key(version.table, file.file.name)
        return listed_object(version.lake.archive.store, self.listing, key)


def _missing(place: str, remedy: Remedy) -> Finding:
    return Finding(Problem.MISSING, place, "its table names it, and it is not there", remedy)


def _recorded(version: Version, file: HeldFile, receipts: Sequence[Receipt] | None) -> str:
    """All that a file is held against."""
    digest = hashlib.sha256(f"{file.file!r} {version.content.columns!r} ".encode())
    digest.update(version.stored.statistics.get(file.file.name, "").encode())
    if receipts is None:
        digest.update(b"unknown")
    for receipt in receipts or ():
        text = f"{receipt.segment!r} {receipt.schema!r} {receipt.rows} {receipt.sha256}"
        digest.update(text.encode())
    return digest.hexdigest()
