"""What should be true: plain dictionaries of segments by number. Nothing here knows the product.

A segment's number says its blocks (`tests.pipelines.kit`), its edition which text it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

TABLES = ("blocks", "orders", "trades", "balances")
"""The tables whose texts are compared; the others of a segment are headers only."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment file: its CSVs by table and its size in bytes. A sound one can be loaded."""

    number: int
    edition: int
    csvs: Mapping[str, bytes] = field(repr=False)
    size: int
    is_sound: bool = True

    @property
    def rows(self) -> dict[str, int]:
        """The number of rows of each table; no cell here spans lines."""
        return {table: csv.count(b"\n") - 1 for table, csv in self.csvs.items()}


Segments = dict[int, Segment]


@dataclass(slots=True)
class Model:
    """What the source has, what is loaded, what is published.

    `tried` is what loads may have written a file of, into the warehouse that is there now.
    """

    source: Segments = field(default_factory=dict)
    loaded: Segments = field(default_factory=dict)
    published: Segments = field(default_factory=dict)
    tried: Segments = field(default_factory=dict)

    @property
    def pending(self) -> Segments:
        """What a load takes now."""
        return {
            number: segment
            for number, segment in self.source.items()
            if segment.is_sound and number not in self.loaded
        }

    @property
    def refused(self) -> list[int]:
        """The numbers of files that a load cannot use, or that changed after they were loaded."""
        return [
            number
            for number, segment in self.source.items()
            if (number in self.loaded and segment.size != self.loaded[number].size)
            or (number not in self.loaded and not segment.is_sound)
        ]

    @property
    def differs(self) -> bool:
        """Whether something is published otherwise than it is loaded."""
        return any(self.loaded.get(n) not in (None, each) for n, each in self.published.items())

    def can_reload(self, numbers: Iterable[int]) -> bool:
        """Whether the source has what was loaded of these, as it was loaded."""
        return all(self.source.get(number) == self.tried.get(number) for number in numbers)

    def load(self) -> None:
        """A load came to its end."""
        self.tried |= self.pending
        self.loaded |= self.pending

    def publish(self) -> None:
        """A publication came to its end: what was published before stays as it is."""
        self.published = self.loaded | self.published

    def replace(self) -> None:
        """The same with --replace: what is loaded counts."""
        self.published |= self.loaded

    def copy(self) -> Model:
        """The same, to be kept while this one goes on."""
        return Model(*map(dict, (self.source, self.loaded, self.published, self.tried)))

    def runs(self) -> list[list[int]]:
        """The runs of loaded numbers without a gap, ascending."""
        numbered = enumerate(sorted(self.loaded))
        groups = groupby(numbered, key=lambda pair: pair[1] - pair[0])
        return [[number for _, number in group] for _, group in groups]

    def export(self, table: str, numbers: Sequence[int]) -> list[bytes]:
        """The CSVs of an export: of each run of equal columns the header once, then every body."""
        csvs: list[bytes] = []
        last = b""
        for number in numbers:
            header, feed, body = self.loaded[number].csvs[table].partition(b"\n")
            if not csvs or header != last:
                csvs.append(header + feed)
            csvs[-1] += body
            last = header
        return csvs
