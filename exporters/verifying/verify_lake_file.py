"""Reading one file of the lake back: its hash, types, rows, statistics, and every CSV in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from exporters.lake.lake_file_check import file_problems
from exporters.lake.log.table_version import ActiveFile
from exporters.lake.tables import Version
from exporters.verifying.listing import local_copy
from exporters.verifying.named_objects import NamedObjects
from transforms.duck import Connection
from transforms.errors import IntegrityError
from transforms.machine_errors import MemoryLimitError
from transforms.stores.store import content_sha256
from transforms.verifying.findings import Finding, Problem, Remedy, unreadable
from transforms.verifying.verification import YOUNG_SECONDS, Kind
from transforms.warehouse.manifests.receipts import Receipt, receipts_digest


@dataclass(frozen=True, slots=True)
class LakeFileReader:
    """Reads files of a lake; one at a time is copied into `scratch`, where the store is a bucket.

    `opened` reads all of them. What was read is counted.
    """

    objects: NamedObjects
    scratch: Path
    opened: Connection

    def present(self, version: Version, file: ActiveFile, remedy: Remedy) -> Iterator[Finding]:
        """A file that is not read is there, at least, with all its bytes."""
        key = version.lake.key(version.table, file.name)
        yield from self.objects.present(key, file.bytes, "its table", remedy, remedy)

    def findings(
        self, version: Version, file: ActiveFile, receipts: Sequence[Receipt] | None, remedy: Remedy
    ) -> Iterator[Finding]:
        """Yield what is wrong with a file, unless it was proven by this check's earlier part."""
        counts, csvs = self.objects.verification.counts, len(receipts or ())
        counts.expect(Kind.LAKE_CSVS, csvs)
        facts = f"{file.bytes} {file.statistics} {version.content.columns}"
        facts += receipts_digest(receipts) if receipts is not None else "unknown"
        key = version.lake.key(version.table, file.name)
        findings = self.objects.unproven(
            [key], facts, lambda: [*self.read(version, file, receipts, remedy)]
        )
        if findings is None:
            self._count(file)
        yield from findings or ()
        if not findings:
            counts.read(Kind.LAKE_CSVS, csvs)

    def read(
        self,
        version: Version,
        file: ActiveFile,
        receipts: Sequence[Receipt] | None,
        remedy: Remedy,
        keep: Path | None = None,
    ) -> Iterator[Finding]:
        """Yield what is wrong with a file; one with nothing wrong is copied to `keep`."""
        store, key = version.lake.archive.store, version.lake.key(version.table, file.name)
        place = store.describe(key)
        try:
            with local_copy(store, key, self.scratch, "file.parquet") as copy:
                problems = list(self._content(version, file, receipts, copy))
                if keep is not None and not problems:
                    shutil.copyfile(copy, keep)
        except FileNotFoundError:
            what = "its table names it, and it is not there"
            yield Finding(Problem.MISSING, place, what, remedy)
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
        self, version: Version, file: ActiveFile, receipts: Sequence[Receipt] | None, copy: Path
    ) -> Iterator[tuple[Problem, str]]:
        sha256 = content_sha256(copy)
        if not file.is_of(sha256):
            yield Problem.ALTERED, f"it hashes to {sha256}, which is not what its name says"
        elif not self.objects.verification.is_quick:
            # The warehouse has a file of the same bytes, which rendered what they say.
            rendered = self.objects.verification.rendered.get(sha256)
            if receipts is not None and rendered == receipts_digest(receipts):
                receipts = None
            opened = self.opened
            for what in file_problems(version, file, copy, self.scratch, receipts, opened):
                yield Problem.BAD_LAKE_FILE, what

    def _count(self, file: ActiveFile) -> None:
        check = self.objects.verification
        check.counts.read(Kind.LAKE_FILES)
        check.counts.read(Kind.BYTES, file.bytes)
        check.report(Kind.LAKE_FILES)

    def is_young(self, version: Version, file: ActiveFile) -> bool:
        """Whether a publisher may just have put a file there."""
        info = self.objects.find(version.lake.key(version.table, file.name))
        now = version.lake.archive.store.now()
        return info is not None and now - info.modified < YOUNG_SECONDS
