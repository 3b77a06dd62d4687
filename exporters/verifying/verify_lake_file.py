"""Reading one file of the lake back: its hash, and what its table's log says of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from exporters.archive.lake_place import MANIFESTS, STATE_MANIFEST
from exporters.lake.log.table_version import ActiveFile
from exporters.lake.manifest_files import manifest_statistics, segment_blocks
from exporters.lake.tables import Version
from exporters.verifying.named_objects import Content, NamedObject, NamedObjects
from transforms.block_range import contiguous_runs
from transforms.duck import Connection, quote_files
from transforms.errors import IntegrityError
from transforms.lake.parquet_files import readable_file
from transforms.lake.statistics import Statistics, fitted, read_statistics
from transforms.tables.file_columns import FileColumn
from transforms.verifying.findings import Finding, Problem
from transforms.verifying.verification import Kind
from transforms.warehouse.checks.file_check import file_types, types_problem
from transforms.warehouse.manifests.data_files import file_sql

_NOT_READ = {Problem.MISSING, Problem.UNREADABLE}


@dataclass(frozen=True, slots=True)
class LakeFileReader:
    """Reads files of a lake; one at a time is copied into `scratch`, where the store is a bucket.

    `opened` reads all of them. What was read is counted.
    """

    objects: NamedObjects
    scratch: Path
    opened: Connection

    def expect(self, item: NamedObject, total: int) -> bool:
        """Count a file; gives whether it is one of those of `total` that are read."""
        check = self.objects.verification
        is_chosen = check.chooses(Kind.LAKE_FILES, total)
        check.counts.expect(Kind.LAKE_FILES, is_chosen=is_chosen)
        check.counts.expect(Kind.BYTES, item.size, is_chosen=is_chosen)
        return is_chosen

    def findings(
        self, item: NamedObject, content: Content, facts: str = "", *, is_chosen: bool = True
    ) -> list[Finding]:
        """What is wrong with a file.

        One that is held against `facts` may be proven by this check's earlier part; one that is not
        chosen is there, at least, with all its bytes.
        """
        if not is_chosen:
            return [*self.objects.present(item)]
        read = partial(self.objects.read, item, self.scratch, content)
        findings = self.objects.unproven([item.key], facts, read) if facts else read()
        if not {finding.problem for finding in findings} & _NOT_READ:
            check = self.objects.verification
            check.counts.read(Kind.LAKE_FILES)
            check.counts.read(Kind.BYTES, item.size)
            check.report(Kind.LAKE_FILES)
        return findings

    def log_problems(self, version: Version, file: ActiveFile, copy: Path) -> Iterator[str]:
        """How the log has a file, of which this is a copy, otherwise than it is."""
        try:
            yield from self._log_problems(version, file, copy)
        except IntegrityError as error:
            yield str(error)

    def _log_problems(self, version: Version, file: ActiveFile, copy: Path) -> Iterator[str]:
        if version.table in (MANIFESTS, STATE_MANIFEST):
            yield from _statistics_problems(version, file, manifest_statistics(copy))
            if [*contiguous_runs(segment_blocks(copy))] != [file.blocks]:
                yield "its segments are not those of its name"
            return
        con = self.opened
        with readable_file(copy, self.scratch):
            types, described = version.content.columns, version.content.statistics_of
            names = (name for name in file_types(con, copy) if name in types and name[0] != "_")
            columns = [FileColumn(name, types[name], name in described) for name in names]
            if problem := types_problem(con, copy, columns):
                yield problem
                return
            statistics = read_statistics(con, file_sql(quote_files([copy])), columns)
        yield from _statistics_problems(version, file, statistics)


def _statistics_problems(
    version: Version, file: ActiveFile, statistics: Statistics
) -> Iterator[str]:
    """Hold rows and statistics against the log: by a wrong one readers pass over rows."""
    expected = json.loads(fitted(statistics.text, version.content.statistics_of))
    try:
        logged = dict(json.loads(file.statistics))
    except (ValueError, TypeError):
        logged = {}
    if not statistics.rows:  # it may be older than columns that were described since
        known = logged.get("nullCount", {})
        nulls = expected["nullCount"]
        expected["nullCount"] = {name: nulls[name] for name in nulls if name in known}
    for part, values in expected.items():
        if logged.get(part) != values:
            yield f"its table's log says {part} {logged.get(part)}, it has {values}"
            return
    if more := logged.keys() - expected.keys() - {"tightBounds"}:
        yield f"its table's log has statistics that Strata does not write: {sorted(more)}"
