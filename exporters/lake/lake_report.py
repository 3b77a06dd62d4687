"""What became of the lake: what was put there, and what could not be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LakeReport:
    """How many files were put there, their bytes; of tables and segments that were not, why."""

    files: int = 0
    bytes: int = 0
    refused: Mapping[str, str] = field(default_factory=dict)

    def __add__(self, other: LakeReport) -> LakeReport:
        """Both together."""
        refused = {**self.refused, **other.refused}
        return LakeReport(self.files + other.files, self.bytes + other.bytes, refused)
