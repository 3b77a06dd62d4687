"""Proving the files of a run of segments: each data file by its hash and by its receipts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.duck import Connection, quote_files, working_connection
from transforms.lookups.index_file import open_index
from transforms.lookups.lookup_tables import prove_lookups
from transforms.objects import StoredFile
from transforms.tables.file_columns import OWN_TYPES, duck_type, file_columns
from transforms.tables.registry import TableSchema, fold_case
from transforms.verifying.counts import Kind
from transforms.verifying.findings import (
    REPAIR,
    REPAIR_AND_LOAD,
    Finding,
    Problem,
    Remedy,
    move_away,
)
from transforms.verifying.proofs import Proof
from transforms.verifying.verification import Verification
from transforms.warehouse.checks.file_check import NOT_READ, file_findings, proof_of, replacement
from transforms.warehouse.checks.file_reader import FileReader, file_reader
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.load.rendering import rendering_problem, table_digests
from transforms.warehouse.load.volumes import volume_sources
from transforms.warehouse.manifests.data_files import file_sql, rows_sql
from transforms.warehouse.manifests.receipts import Receipt, receipts_digest
from transforms.warehouse.manifests.shapes import Shape, Volume


class RunCheck:
    """The check of one run of segments, and of the index file of any volume.

    `receipts` are those of its manifest, by table, then by block; None where that is not sound.
    """

    def __init__(
        self,
        backing: Backing,
        verification: Verification,
        volume: Volume,
        receipts: Sequence[Receipt] | None,
    ) -> None:
        self._backing = backing
        self._verification = verification
        self._volume = volume
        self._receipts = receipts
        self._rendered: set[BlockRange] = set()
        self._unproven: set[BlockRange] = set()
        self.was_read = True
        """Whether all files in scope could be read."""
        self._numbers = {"now": 0, "earlier": 0}

    @property
    def was_earlier(self) -> bool:
        """Whether all of them were proven earlier."""
        return self._numbers["earlier"] > 0 and not self._numbers["now"]

    def findings(self) -> Iterator[Finding]:
        """Read and render the tables in scope, and the index file; yields what is wrong."""
        verification, counts = self._verification, self._verification.counts
        sound = True
        with self._reader() as reader:
            for table, shape in sorted(self._volume.shapes.items()):
                if verification.scope.has_table(table):
                    findings = [*self._table(reader, table, shape)]
                    sound = sound and not findings
                    yield from findings
                    if not verification.is_quick:
                        verification.report(Kind.TABLES)
            yield from self._index(reader, is_sound=sound)
        if not verification.is_quick and self._receipts is not None:
            count = len(self._rendered - self._unproven)
            counts.read(Kind.SEGMENTS, count, is_earlier=self.was_earlier)

    @contextmanager
    def _reader(self) -> Iterator[_Reader]:
        limit = self._backing.rendering_limit
        with file_reader(
            self._backing, lambda scratch: working_connection(scratch, memory_limit=limit)
        ) as reader:
            yield _Reader(self._backing, reader)

    def _table(self, reader: _Reader, table: str, shape: Shape) -> Iterator[Finding]:
        verification, counts = self._verification, self._verification.counts
        receipts = [r for r in self._receipts or () if r.table == table]
        chosen = [r for r in receipts if verification.scope.reaches(r.blocks)]
        segments = {receipt.blocks for receipt in chosen}
        self._rendered |= segments
        file = self._volume.data.get(table)
        if file is None:
            counts.read(Kind.TABLES)
            if any(receipt.rows for receipt in receipts):
                what = f"it has rows of {table}, and no data file for them"
                yield self._finding(self._volume.file, Problem.DISAGREEMENT, what)
            return
        proof = self._proof(file)
        if verification.proven.has(proof):
            self._keep_rendered(file, receipts, chosen)
            self._numbers["earlier"] += 1
            counts.read(Kind.TABLES, is_earlier=True)
            counts.read(Kind.BYTES, file.size, is_earlier=True)
            return
        findings = [*file_findings(self._backing, file, REPAIR_AND_LOAD)]
        self._numbers["now"] += 1
        if any(finding.problem in NOT_READ for finding in findings):
            self.was_read = False
            self._unproven |= segments
            yield from findings
            return
        counts.read(Kind.BYTES, file.size)
        if not (verification.is_quick or findings or self._receipts is None):
            problem = reader.problem(file, shape, receipts, chosen)
            if problem:
                findings = [self._finding(file, Problem.DAMAGED, f"{table}: {problem}")]
            else:
                verification.proven.keep(proof)
                self._keep_rendered(file, receipts, chosen)
        if findings:
            self._unproven |= segments
        if not verification.is_quick:
            counts.read(Kind.TABLES)
        yield from findings

    def _keep_rendered(
        self, file: StoredFile, receipts: Sequence[Receipt], chosen: Sequence[Receipt]
    ) -> None:
        """Let the check of the lake know a sound file: the lake may have the same bytes."""
        if len(chosen) == len(receipts):
            self._verification.rendered[file.sha256] = receipts_digest(receipts)

    def _proof(self, file: StoredFile) -> Proof:
        return proof_of(self._backing, file, f"{file.sha256} {self._volume.file.sha256}")

    def index_findings(self, *, is_sound: bool) -> Iterator[Finding]:
        """Prove the index file alone, also of a current state; yields what is wrong."""
        with self._reader() as reader:
            yield from self._index(reader, is_sound=is_sound)

    def _index(self, reader: _Reader, *, is_sound: bool) -> Iterator[Finding]:
        """The index file, whose bytes are proven, and what it has where the rows are sound."""
        file = self._volume.index
        if file is None or not self._verification.scope.is_whole:
            return
        proof = self._proof(file)
        if self._verification.proven.has(proof):
            return
        findings = [*file_findings(self._backing, file, REPAIR)]
        yield from findings
        if findings or not is_sound or self._verification.is_quick:
            return
        if problem := reader.index_problem(file, self._volume):
            remedy = Remedy((*move_away(proof.place).commands, *REPAIR.commands))
            yield Finding(Problem.DAMAGED, proof.place, problem, remedy)
        else:
            self._verification.proven.keep(proof)

    def _finding(self, file: StoredFile, problem: Problem, what: str) -> Finding:
        place = self._backing.store.describe(file.key)
        return Finding(problem, place, what, replacement(place))


class _Reader:
    """Reads the files of a run, and says what is wrong with them, "" if nothing."""

    def __init__(self, backing: Backing, reader: FileReader) -> None:
        self._backing = backing
        self._reader = reader

    def problem(
        self,
        file: StoredFile,
        shape: Shape,
        receipts: Sequence[Receipt],
        chosen: Sequence[Receipt],
    ) -> str:
        """Read a data file; `receipts` are all of its segments, `chosen` are rendered."""
        path = self._backing.files.path(file)

        def source(schema: TableSchema) -> str:
            return rows_sql(schema.table, schema.columns, [path])

        def read(con: Connection) -> str:
            return (
                _columns_problem(con, path, receipts[0].table, shape)
                or _rows_problem(con, path, receipts)
                or rendering_problem(table_digests(con, source, chosen, self._reader.scratch))
            )

        with self._backing.files.hold([file]):
            return self._reader.problem(path, read)

    def index_problem(self, file: StoredFile, volume: Volume) -> str:
        """Read an index file, and the tables that it is made from."""
        files = self._backing.files

        def read(con: Connection) -> str:
            with (
                closing(open_index(files.path(file))) as index,
                volume_sources(con, files, volume) as sources,
            ):
                return prove_lookups(con, index, sources)

        with files.hold([file, *volume.table_files]):
            return self._reader.problem(files.path(file), read)


def _columns_problem(con: Connection, path: Path, table: str, shape: Shape) -> str:
    """How a file's columns are not those of its segments."""
    relation = con.sql(f"select * from {file_sql(quote_files([path]))}")  # noqa: S608 - quoted
    there = {
        fold_case(name): str(kind)
        for name, kind in zip(relation.columns, relation.types, strict=True)
    }
    columns = file_columns(table, shape.column_list())
    expected = {fold_case(c.name): duck_type(c.type) for c in columns} | OWN_TYPES
    if there == expected:
        return ""
    return (
        f"it has other columns than its table: {sorted(set(there.items()) ^ set(expected.items()))}"
    )


def _rows_problem(con: Connection, path: Path, receipts: Sequence[Receipt]) -> str:
    """How a file has other rows than its receipts say, by their number."""
    rows = sum(receipt.rows for receipt in receipts)
    ((there,),) = con.execute(f"select count(*) from {file_sql(quote_files([path]))}").fetchall()  # noqa: S608
    return "" if there == rows else f"it has {there} rows, its segments have {rows}"
