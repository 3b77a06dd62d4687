"""ZIPs of an archive that no entry names, by what their own names say."""

from __future__ import annotations

from dataclasses import dataclass

from exporters.archive.archive import Archive
from exporters.zip_names import ZipName, parse_zip_name
from transforms.tables.registry import HISTORY_TABLES


@dataclass(frozen=True, slots=True)
class Unnamed:
    """A ZIP in the archive, by its path below the chain's folder, and what its name says."""

    path: str
    name: ZipName

    @classmethod
    def at(cls, archive: Archive, path: str) -> Unnamed | None:
        """The ZIP at a path; None where a ZIP of that name has no business there."""
        table, _, file = path.partition("/")
        name = parse_zip_name(file) if table in HISTORY_TABLES else None
        is_own = name is not None and (name.chain_id, name.table) == (archive.chain_id, table)
        return cls(path, name) if name is not None and is_own else None
